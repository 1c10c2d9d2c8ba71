/** Where each setting stands in a configuration file: the TOML parser reports no positions of what it has read. */

/** Both count from 1. */
export type Position = { readonly line: number; readonly column: number }
export type Positions = ReadonlyMap<string, Position>

/**
 * Positions by path, such as `port`, `gateways.0.pay_to` or `trusted_proxies.1`. A table has the position of its first
 * header. The text must be valid TOML.
 */
export function positionsIn(toml: string): Positions {
  const found = new Map<string, Position>()
  /** How many tables each list of tables has so far. */
  const counts = new Map<string, number>()
  let at = 0
  let table = ''
  for (skipBlanks(); at < toml.length; skipBlanks()) {
    if (toml[at] === '[') header()
    else pair(table)
  }
  return found

  function header(): void {
    const start = at
    const isList = toml[at + 1] === '['
    at += isList ? 2 : 1
    const names = keyPath()
    at += isList ? 2 : 1
    const [last = ''] = names.slice(-1)
    const parent = names.slice(0, -1).reduce((path, name) => element(dotted(path, name), start), '')
    const path = dotted(parent, last)
    note(path, start)
    table = path
    if (!isList) return
    const count = counts.get(path) ?? 0
    counts.set(path, count + 1)
    table = `${path}.${count}`
    note(table, start)
  }

  /** A name in a header means the last table of its list. */
  function element(path: string, start: number): string {
    note(path, start)
    const count = counts.get(path)
    return count === undefined ? path : `${path}.${count - 1}`
  }

  function pair(inside: string): void {
    const start = at
    const path = keyPath().reduce((before, name) => {
      const next = dotted(before, name)
      note(next, start)
      return next
    }, inside)
    at += 1 // the equals sign
    value(path)
  }

  function keyPath(): readonly string[] {
    const names: string[] = []
    for (;;) {
      skipBlanks()
      const quote = toml[at]
      const name = quote === '"' || quote === "'" ? quoted(quote) : bare(/[\w-]/)
      names.push(name)
      skipBlanks()
      if (toml[at] !== '.') return names
      at += 1
    }
  }

  function value(path: string): void {
    skipBlanks()
    const first = toml[at] ?? ''
    if (first === '[') return list(path)
    if (first === '{') return inlineTable(path)
    if (first === '"' || first === "'") return void quoted(first)
    bare(/[^,\]}#\n]/)
  }

  function list(path: string): void {
    at += 1
    for (let index = 0; ; index++) {
      skipBlanks()
      if (toml[at] === ',') at += 1
      skipBlanks()
      if (toml[at] === ']' || at >= toml.length) break
      note(`${path}.${index}`, at)
      value(`${path}.${index}`)
    }
    at += 1
  }

  function inlineTable(path: string): void {
    at += 1
    for (;;) {
      skipBlanks()
      if (toml[at] === ',') at += 1
      skipBlanks()
      if (toml[at] === '}' || at >= toml.length) break
      pair(path)
    }
    at += 1
  }

  /** Text in quotes, which may be three. Escapes are not resolved: names of settings have none. */
  function quoted(quote: string): string {
    const mark = toml.startsWith(quote.repeat(3), at) ? quote.repeat(3) : quote
    const start = at + mark.length
    for (at = start; at < toml.length && !toml.startsWith(mark, at); at++) if (quote === '"' && toml[at] === '\\') at++
    const text = toml.slice(start, at)
    at += mark.length
    // A text in three quotes may end with quotes of its own.
    while (mark.length === 3 && toml[at] === quote) at += 1
    return text
  }

  function bare(allowed: RegExp): string {
    const start = at
    while (at < toml.length && allowed.test(toml[at] ?? '')) at += 1
    if (at === start) at += 1
    return toml.slice(start, at)
  }

  function skipBlanks(): void {
    for (;;) {
      while (at < toml.length && /\s/.test(toml[at] ?? '')) at += 1
      if (toml[at] !== '#') return
      while (at < toml.length && toml[at] !== '\n') at += 1
    }
  }

  function note(path: string, offset: number): void {
    if (found.has(path)) return
    const before = toml.slice(0, offset)
    found.set(path, { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') })
  }
}

const dotted = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`)

/** Lists of rows that messages name by id. */
const ROWS = ['images', 'chat', 'videos', 'audio'] as const

/**
 * The position of what a message is about: the setting at its beginning, else the table that should have it. Undefined
 * for a message about the environment.
 */
export function positionOf(
  message: string,
  { positions, file }: { readonly positions: Positions; readonly file: Readonly<Record<string, unknown>> },
): Position | undefined {
  const [, name = ''] = /^([^:]+?):? /.exec(message) ?? []
  const [, list = '', id = '', rest = ''] = /^(\w+) (\S+?)(\.[a-z_.]+)?: /.exec(message) ?? []
  const rows: unknown = (ROWS as readonly string[]).includes(list) ? file[list] : undefined
  const row = Array.isArray(rows) ? rows.findIndex((each) => (each as { id?: unknown } | null)?.id === id) : -1
  let path = row >= 0 ? `${list}.${row}${rest}` : name.replace(/:$/, '')
  while (path !== '') {
    const found = positions.get(path)
    if (found) return found
    path = path.slice(0, Math.max(0, path.lastIndexOf('.')))
  }
  return undefined
}
