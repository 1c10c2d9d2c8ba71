/** Where each setting stands in a configuration file: the TOML parser reports no positions of what it has read. */

/** Both count from 1. */
export type Position = { readonly line: number; readonly column: number }
type Positions = ReadonlyMap<string, Position>

/** A reading of a file in progress. */
type Reading = {
  readonly toml: string
  readonly found: Map<string, Position>
  /** How many tables each list of tables has so far. */
  readonly counts: Map<string, number>
  /** Offset of the next character. */
  at: number
  /** Path of the table that the next pair belongs to. */
  table: string
}

/**
 * Positions by path, such as `port`, `gateways.0.pay_to` or `trusted_proxies.1`. A table has the position of its first
 * header. The text must be valid TOML.
 */
export function positionsIn(toml: string): Positions {
  const reading: Reading = { toml, found: new Map(), counts: new Map(), at: 0, table: '' }
  for (skipBlanks(reading); reading.at < toml.length; skipBlanks(reading)) {
    if (toml[reading.at] === '[') readHeader(reading)
    else readPair(reading, reading.table)
  }
  return reading.found
}

function readHeader(reading: Reading): void {
  const { toml, counts, at: start } = reading
  const isList = toml[start + 1] === '['
  reading.at += isList ? 2 : 1
  const names = readKeyPath(reading)
  reading.at += isList ? 2 : 1
  const [last = ''] = names.slice(-1)
  const parent = names.slice(0, -1).reduce((path, name) => noteElement(reading, dotted(path, name), start), '')
  const path = dotted(parent, last)
  note(reading, path, start)
  reading.table = path
  if (!isList) return
  const count = counts.get(path) ?? 0
  counts.set(path, count + 1)
  reading.table = `${path}.${count}`
  note(reading, reading.table, start)
}

/** A name in a header means the last table of its list. */
function noteElement(reading: Reading, path: string, start: number): string {
  note(reading, path, start)
  const count = reading.counts.get(path)
  return count === undefined ? path : `${path}.${count - 1}`
}

function readPair(reading: Reading, inside: string): void {
  const start = reading.at
  const path = readKeyPath(reading).reduce((before, name) => {
    const next = dotted(before, name)
    note(reading, next, start)
    return next
  }, inside)
  reading.at += 1 // the equals sign
  readValue(reading, path)
}

function readKeyPath(reading: Reading): readonly string[] {
  const { toml } = reading
  const names: string[] = []
  for (;;) {
    skipBlanks(reading)
    const quote = toml[reading.at]
    const name = quote === '"' || quote === "'" ? readQuoted(reading, quote) : readBare(reading, /[\w-]/)
    names.push(name)
    skipBlanks(reading)
    if (toml[reading.at] !== '.') return names
    reading.at += 1
  }
}

function readValue(reading: Reading, path: string): void {
  skipBlanks(reading)
  const first = reading.toml[reading.at] ?? ''
  if (first === '[') return readList(reading, path)
  if (first === '{') return readInlineTable(reading, path)
  if (first === '"' || first === "'") return void readQuoted(reading, first)
  readBare(reading, /[^,\]}#\n]/)
}

function readList(reading: Reading, path: string): void {
  const { toml } = reading
  reading.at += 1
  for (let index = 0; ; index++) {
    skipComma(reading)
    if (toml[reading.at] === ']' || reading.at >= toml.length) break
    note(reading, `${path}.${index}`, reading.at)
    readValue(reading, `${path}.${index}`)
  }
  reading.at += 1
}

function readInlineTable(reading: Reading, path: string): void {
  const { toml } = reading
  reading.at += 1
  for (;;) {
    skipComma(reading)
    if (toml[reading.at] === '}' || reading.at >= toml.length) break
    readPair(reading, path)
  }
  reading.at += 1
}

/** Text in quotes, which may be three. Escapes are not resolved: names of settings have none. */
function readQuoted(reading: Reading, quote: string): string {
  const { toml } = reading
  const mark = toml.startsWith(quote.repeat(3), reading.at) ? quote.repeat(3) : quote
  const start = reading.at + mark.length
  let end = start
  for (; end < toml.length && !toml.startsWith(mark, end); end++) if (quote === '"' && toml[end] === '\\') end++
  reading.at = end + mark.length
  // A text in three quotes may end with quotes of its own.
  while (mark.length === 3 && toml[reading.at] === quote) reading.at += 1
  return toml.slice(start, end)
}

function readBare(reading: Reading, allowed: RegExp): string {
  const { toml, at: start } = reading
  while (reading.at < toml.length && allowed.test(toml[reading.at] ?? '')) reading.at += 1
  if (reading.at === start) reading.at += 1
  return toml.slice(start, reading.at)
}

function skipComma(reading: Reading): void {
  skipBlanks(reading)
  if (reading.toml[reading.at] === ',') reading.at += 1
  skipBlanks(reading)
}

function skipBlanks(reading: Reading): void {
  const { toml } = reading
  for (;;) {
    while (reading.at < toml.length && /\s/.test(toml[reading.at] ?? '')) reading.at += 1
    if (toml[reading.at] !== '#') return
    while (reading.at < toml.length && toml[reading.at] !== '\n') reading.at += 1
  }
}

function note({ toml, found }: Reading, path: string, offset: number): void {
  if (found.has(path)) return
  const before = toml.slice(0, offset)
  found.set(path, { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') })
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
