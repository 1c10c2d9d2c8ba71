/**
 * The public API as text: for each door of the package everything that it exports, with the types that those name and
 * nobody exports. A change of the API shows in the diff of these files. `bun test/api/report.ts --write` writes them
 * after a change, from the declarations that the compiler makes.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { existsSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { compileLibrary } from '../../server/release/package.ts'

/** Meaning of a name: a declaration of ours, or an export of a package. */
type Target = { readonly file: string; readonly name: string } | { readonly from: string; readonly name: string }

type Module = {
  /** The text of each declaration by its name; a function with overloads has several. */
  readonly declared: ReadonlyMap<string, readonly string[]>
  readonly imported: ReadonlyMap<string, Target>
  readonly exported: ReadonlyMap<string, Target>
  /** Modules of which everything is exported. */
  readonly passedOn: readonly string[]
}

/** The reports by the path of their file in this folder. `types` is the folder with the declarations. */
function apiReports(types: string): ReadonlyMap<string, string> {
  const modules = new Map<string, Module>()
  const moduleOf = (file: string): Module => {
    const known = modules.get(file) ?? parse(file)
    modules.set(file, known)
    return known
  }
  const doors = Object.entries(manifest.exports).map(
    ([door, path]) => [`farebox${door.slice(1)}`, join(types, path.replace(/\.ts$/, '.d.ts'))] as const,
  )
  const isPublic = new Set<string>()
  /** A declaration is printed once, at the first door that exports or names it. */
  const printed = new Map<string, string>()
  for (const [, file] of doors) for (const target of exportsOf(file).values()) isPublic.add(keyOf(target))

  const reports = new Map<string, string>()
  for (const [door, file] of doors) {
    const path = fileOf(door)
    const text = [`# ${door}`, ...reportOf(door, file)].join('\n')
    reports.set(path, [...(reports.has(path) ? [reports.get(path)] : []), `${text}\n`].join('\n'))
  }
  return reports

  function exportsOf(file: string): ReadonlyMap<string, Target> {
    const { exported, passedOn } = moduleOf(file)
    const all = new Map<string, Target>()
    for (const other of passedOn) for (const [name, target] of exportsOf(other)) all.set(name, target)
    for (const [name, target] of exported) all.set(name, declarationOf(target))
    return all
  }

  /** Follows what is passed on to where it is declared. */
  function declarationOf(target: Target): Target {
    if ('from' in target) return target
    const { declared, imported, exported, passedOn } = moduleOf(target.file)
    if (declared.has(target.name)) return target
    const next = [imported, exported].map((names) => names.get(target.name))
    for (const other of next) if (other && keyOf(other) !== keyOf(target)) return declarationOf(other)
    for (const other of passedOn) {
      const found = exportsOf(other).get(target.name)
      if (found) return found
    }
    throw new Error(`${target.file} does not export ${target.name}`)
  }

  function reportOf(door: string, file: string): readonly string[] {
    const exported = exportsOf(file)
    const named = new Map<string, Target>()
    const lines = sorted(exported).map(([name, target]) => {
      const first = printed.get(keyOf(target))
      if (first !== undefined && !('from' in target)) return `${name} as ${first}`
      printed.set(keyOf(target), `${target.name} of ${door}`)
      return described(name, target, named)
    })
    const hidden: string[] = []
    for (const [key, target] of named) {
      // A map is iterated with what is added meanwhile.
      if (isPublic.has(key) || printed.has(key)) continue
      printed.set(key, `${target.name} of ${door}`)
      hidden.push(described(target.name, target, named))
    }
    return [...lines, ...(hidden.length > 0 ? ['## Named, not exported', ...hidden.sort()] : [])]
  }

  /** The declaration under its public name. Adds what it names to `named`. */
  function described(name: string, target: Target, named: Map<string, Target>): string {
    if ('from' in target) return `${name}: ${target.name} of ${target.from}`
    const texts = moduleOf(target.file).declared.get(target.name) ?? []
    for (const text of texts) for (const used of namesIn(text, target.file)) named.set(keyOf(used), used)
    return (name === target.name ? [] : [`${name} is`]).concat(texts.map(filled)).join('\n')
  }

  function namesIn(text: string, file: string): readonly Target[] {
    const { declared, imported } = moduleOf(file)
    const inline = [...text.matchAll(/import\("(\.[^"]+)"\)\.(\w+)/g)].map(([, path = '', name = '']) =>
      declarationOf({ file: resolved(file, path), name }),
    )
    const words = new Set(text.replace(/'[^'\n]*'|"[^"\n]*"/g, '').match(/[A-Za-z_$][\w$]*/g))
    return [...words].reduce<Target[]>((found, name) => {
      if (declared.has(name)) found.push({ file, name })
      const target = imported.get(name)
      if (target && !('from' in target)) found.push(declarationOf(target))
      return found
    }, inline)
  }
}

const sorted = <Value>(map: ReadonlyMap<string, Value>): readonly (readonly [string, Value])[] =>
  [...map].sort(([one], [other]) => (one < other ? -1 : 1))

const keyOf = (target: Target): string => `${'from' in target ? target.from : target.file} ${target.name}`

/** The providers share a file, because there are many and each exports little. */
const fileOf = (door: string): string =>
  door.startsWith('farebox/providers/')
    ? 'providers.txt'
    : `${door.replace(/^farebox\/adapters\//, 'adapters/').replace('farebox/', '')}.txt`

// ── reading declarations ────────────────────────────────────────────────────────────────────────────────────────────

function resolved(file: string, specifier: string): string {
  return join(dirname(file), specifier.replace(/\.[jt]s$/, '.d.ts'))
}

function parse(file: string): Module {
  const declared = new Map<string, string[]>()
  const imported = new Map<string, Target>()
  const exported = new Map<string, Target>()
  const passedOn: string[] = []
  for (const statement of statementsOf(readFileSync(file, 'utf8'))) {
    const [, what = '', star, list = '', from] =
      /^(import|export) (?:type )?(?:(\*)|\{([^}]*)\})(?: from ['"]([^'"]+)['"])?;?$/.exec(statement) ?? []
    const targetOf = (name: string): Target => {
      if (from === undefined) return { file, name }
      return from.startsWith('.') ? { file: resolved(file, from), name } : { from, name }
    }
    if (star && from) passedOn.push(resolved(file, from))
    else if (what)
      for (const item of list.split(',').map((text) => text.trim().replace(/^type /, ''))) {
        const [name = '', local = name] = item.split(' as ')
        if (name) (what === 'import' ? imported : exported).set(local, targetOf(name))
      }
    else {
      const [, isExported, rest = '', name] =
        /^(export )?(?:declare )?((?:abstract )?(?:function|const|type|interface|class|let) ([\w$]+)[^]*)$/.exec(
          statement,
        ) ?? []
      if (!name) continue
      declared.set(name, [...(declared.get(name) ?? []), rest.replace(/;$/, '')])
      if (isExported) exported.set(name, { file, name })
    }
  }
  return { declared, imported, exported, passedOn }
}

/** The statements of a file of declarations, without comments: each begins at the beginning of a line. */
function statementsOf(text: string): readonly string[] {
  const plain = text
    .replace(/\/\*[^]*?\*\//g, '')
    .replace(/^[ \t]*\n/gm, '')
    .replace(/^\/\/.*\n?/gm, '')
  return plain
    .split(/\n(?=(?:export|import|declare|type|interface|const|function)\b)/)
    .map((statement) => statement.trim())
}

/** A declaration in lines of up to 120 columns, broken behind a member where one ends: `type A = { b: C; d: E; }`. */
function filled(declaration: string): string {
  const lines: string[] = []
  let rest = declaration.replace(/\n */g, ' ')
  while (rest.length > 120) {
    const within = rest.slice(0, 120)
    const end = within.lastIndexOf('; ') + 1 || within.lastIndexOf(', ') + 1 || within.lastIndexOf(' ')
    if (end <= 4) break
    lines.push(rest.slice(0, end))
    rest = `    ${rest.slice(end).trimStart()}`
  }
  return [...lines, rest].join('\n')
}

// ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Compiles the library and reads its declarations. */
export async function currentReports(): Promise<ReadonlyMap<string, string>> {
  const out = await mkdtemp(join(tmpdir(), 'farebox-api-'))
  try {
    await compileLibrary(out, ['--emitDeclarationOnly'])
    return apiReports(out)
  } finally {
    await rm(out, { recursive: true, force: true })
  }
}

/** The report that is checked in; empty when there is none. */
export async function checkedIn(path: string): Promise<string> {
  const file = join(import.meta.dirname, path)
  return existsSync(file) ? await readFile(file, 'utf8') : ''
}

if (import.meta.main) {
  if (process.argv[2] !== '--write') throw new Error('usage: bun test/api/report.ts --write')
  for (const [path, text] of await currentReports()) {
    await mkdir(dirname(join(import.meta.dirname, path)), { recursive: true })
    await writeFile(join(import.meta.dirname, path), text)
  }
}
