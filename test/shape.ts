/**
 * The shape of the sources in numbers: functions by length, members of the widest types, circles of imports, and how
 * often the settings of the configuration are spelled. `bun test/shape.ts` prints them; `--longest=40` lists more
 * functions. `bun test/shape.ts server adapters/http` lists the functions of these folders above 100 lines,
 * `--above=60` those above 60.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { circles, folderOrFile, folders, graphOf, pathsIn, wrongArrows } from './graph.ts'

const ROOT = join(import.meta.dirname, '..')
const ROOMS = ['core', 'adapters', 'server'] as const

/** A function and its lines, from its head to its closing brace. */
type Measured = { readonly path: string; readonly line: number; readonly name: string; readonly lines: number }

/** Every function below these folders, longest first. The linter's own rule counts; one line is within its limit. */
function functionsIn(rooms: readonly string[]): readonly Measured[] {
  const folder = mkdtempSync(join(tmpdir(), 'shape-'))
  try {
    const config = join(folder, 'rules.json')
    const rules = { 'max-lines-per-function': ['error', { max: 1 }] }
    writeFileSync(config, JSON.stringify({ plugins: [], categories: { correctness: 'off' }, rules }))
    const args = ['node_modules/oxlint/bin/oxlint', '-c', config, '--format=json', ...rooms]
    // The linter ends before a pipe has taken all of its answer.
    const answer = join(folder, 'functions.json')
    spawnSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', openSync(answer, 'w'), 'inherit'] })
    const { diagnostics } = JSON.parse(readFileSync(answer, 'utf8')) as { diagnostics: readonly Diagnostic[] }
    return diagnostics.map(measured).toSorted((a, b) => b.lines - a.lines || a.path.localeCompare(b.path))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

type Diagnostic = {
  readonly message: string
  readonly filename: string
  readonly labels: readonly { readonly span: { readonly line: number } }[]
}

function measured({ message, filename, labels }: Diagnostic): Measured {
  const [, name = 'anonymous'] = /`([^`]+)`/.exec(message) ?? []
  const [, lines = '0'] = /too many lines \((\d+)\)/.exec(message) ?? []
  return { path: filename, line: labels[0]?.span.line ?? 0, name, lines: Number(lines) }
}

/** How many members an exported type or interface has, at its outermost level. Undefined where it is not found. */
function membersOf(path: string, name: string): number | undefined {
  const text = readFileSync(join(ROOT, path), 'utf8').replaceAll(/\/\*[^]*?\*\/|\/\/.*$/gm, '')
  const head = new RegExp(String.raw`\b(?:type ${name}\b[^{=]*=|interface ${name}\b[^{]*)\s*\{`).exec(text)
  if (!head) return undefined
  let [depth, members] = [1, 0]
  for (const line of text.slice(head.index + head[0].length).split('\n')) {
    if (depth === 1 && /^\s*(?:readonly )?\w+\??[(:<]/.test(line)) members++
    depth += line.split(/[({[]/).length - line.split(/[)}\]]/).length
    if (depth < 1) return members
  }
  return members
}

/** Types that grow when nobody looks. */
const WIDE = [
  ['core/ports/storage/calls.ts', 'CallStorage'],
  ['core/ports/storage/ledger_reads.ts', 'LedgerReads'],
  ['core/ports/storage/records.ts', 'RecordStorage'],
  ['core/ports/storage/coordination.ts', 'Coordination'],
  ['core/ports/storage/retention.ts', 'RetentionStorage'],
  ['core/ports/chain.ts', 'Chain'],
  ['core/engine.ts', 'Engine'],
  ['core/lifecycle/setup.ts', 'Setup'],
] as const

/** Settings that stand for the others: one of each kind. */
const SETTINGS = ['port', 'new_wallet_calls', 'public_origin', 'relayer_key_env'] as const

/** The lines of the sources that spell a setting, in snake case or in camel case. */
function spellingsOf(setting: string): number {
  const camel = setting.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
  const word = new RegExp(String.raw`\b(?:${setting}|${camel})\b`)
  const paths = pathsIn(ROOMS).filter((path) => /\.tsx?$/.test(path))
  return paths.flatMap((path) => readFileSync(join(ROOT, path), 'utf8').split('\n')).filter((line) => word.test(line))
    .length
}

function printed(longest: number): string {
  const all = functionsIn(ROOMS)
  const above = (limit: number, prefix = '') =>
    all.filter(({ path, lines }) => lines > limit && path.startsWith(prefix)).length
  const median = all[Math.floor(all.length / 2)]?.lines ?? 0
  const graph = graphOf(pathsIn(ROOMS))
  const byLaw = folders(graph, folderOrFile(graph))
  const rows = [
    `functions of more than one line: ${all.length}, median ${median}, above 60 lines ${above(60)}, above 100 ${above(100)}`,
    `above 60 in core/call ${above(60, 'core/call/')}, in core/payment ${above(60, 'core/payment/')}`,
    ...all.slice(0, longest).map(({ path, line, name, lines }) => `  ${lines} ${name} (${path}:${line})`),
    ...WIDE.map(([path, name]) => `members of ${name}: ${membersOf(path, name) ?? 'none of this name'}`),
    `circles of files ${circles(graph).length}, wrong arrows ${wrongArrows(graph).length}`,
    `circles of folders: ${circles(byLaw).length}; with the files beside folders taken together: ${circles(folders(graph)).length}`,
    ...SETTINGS.map((setting) => `lines that spell ${setting}: ${spellingsOf(setting)}`),
  ]
  return rows.join('\n')
}

function listed(folders: readonly string[], above: number): string {
  const files = folders.flatMap((folder) => pathsIn([folder])).filter((path) => /\.tsx?$/.test(path))
  const count = files.reduce((sum, path) => sum + readFileSync(join(ROOT, path), 'utf8').split('\n').length - 1, 0)
  const longer = functionsIn(folders).filter((each) => each.lines > above)
  return [
    ...longer.map((each) => `${each.lines} ${each.name} (${each.path}:${each.line})`),
    `${longer.length} functions above ${above} lines; ${files.length} files of ${count} lines`,
  ].join('\n')
}

if (import.meta.main) {
  const options = { longest: { type: 'string', default: '12' }, above: { type: 'string', default: '100' } } as const
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  const text = positionals.length > 0 ? listed(positionals, Number(values.above)) : printed(Number(values.longest))
  process.stdout.write(`${text}\n`)
}
