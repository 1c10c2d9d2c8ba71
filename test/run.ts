/**
 * `bun run test`: types, lint, format and the quick tests. `bun run test:full`: every test (test/README.md says which
 * are which) and 60,000 simulated histories. Both take parts of paths: `bun run test core server/app` runs the test
 * files whose path contains one of these. Ends with the time of each step and the line `N passed, N failed`; a step
 * that is not a test run counts as one.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Changed, changedSince, EVERYTHING, readStamps, stampsNow, writeStamps } from './changed.ts'
import { pathsIn } from './graph.ts'
import { FULL, isFull } from './scope.ts'

type Step = { readonly name: string; readonly command: readonly string[] }
type Count = { readonly passed: number; readonly failed: number; readonly skipped: number }
type Ended = Count & { readonly name: string; readonly ms: number }

const ROOT = join(import.meta.dirname, '..')
const tool = (path: string, ...args: readonly string[]) => [process.execPath, join(ROOT, 'node_modules', path), ...args]

/**
 * Not of the checkout: what the compiler knows about files that have not changed, and how long each test file takes
 * here.
 */
const CACHE = join(ROOT, 'node_modules/.cache/farebox')
/** When each file was last found in order. */
const STAMPS = join(CACHE, 'checked.json')
/** Above so many files it is quicker to check all of them from what the compiler remembers. */
const LARGEST_CLOSURE = 400
const typed = (project: string, name = project === '.' ? 'all' : project.replaceAll('/', '_')): readonly string[] =>
  tool(
    'typescript/bin/tsc',
    '-p',
    project,
    '--checkers',
    '2',
    '--incremental',
    '--tsBuildInfoFile',
    join(CACHE, `${name}.tsbuildinfo`),
  )

const LINT = tool('oxlint/bin/oxlint', '--deny-warnings', '--format=unix')
const FORMAT = tool('oxfmt/bin/oxfmt', '--check')

const types: Step = { name: 'types', command: typed('.') }
const checks: readonly Step[] = [
  { name: 'types of core, without Bun', command: typed('core') },
  { name: 'types of the web pages', command: typed('server/web/pages') },
  ...(isFull ? [{ name: 'types of the package, without Bun', command: typed('adapters') }] : []),
  { name: 'lint', command: LINT },
  { name: 'format', command: FORMAT },
]

/** The same checks of what has changed since they last passed, and types of what imports it. */
function checksOf({ files, importers }: Changed): readonly Step[] {
  const isPage = (path: string): boolean => path.startsWith('server/web/pages/')
  const scripts = files.filter((path) => /\.tsx?$/.test(path))
  const typedFiles = (project: string, paths: readonly string[]): readonly string[] => {
    if (paths.length > LARGEST_CLOSURE) return typed(project)
    const config = join(CACHE, `changed_${project === '.' ? 'all' : project}.json`)
    const ambient = pathsIn([project]).filter((path) => path.endsWith('.d.ts') && !isPage(path))
    const listed = [...ambient, ...paths].map((path) => join(ROOT, path))
    writeFileSync(config, JSON.stringify({ extends: join(ROOT, project, 'tsconfig.json'), include: [], files: listed }))
    return tool('typescript/bin/tsc', '-p', config, '--checkers', '2')
  }
  const all = importers.filter((path) => /\.tsx?$/.test(path) && !isPage(path))
  const core = all.filter((path) => path.startsWith('core/'))
  return [
    ...(all.length > 0 ? [{ name: 'types of what changed', command: typedFiles('.', all) }] : []),
    ...(core.length > 0 ? [{ name: 'types of core, without Bun', command: typedFiles('core', core) }] : []),
    ...(importers.some(isPage) ? [{ name: 'types of the web pages', command: typed('server/web/pages') }] : []),
    ...(scripts.length > 0 ? [{ name: 'lint', command: [...LINT, ...scripts] }] : []),
    ...(files.length > 0
      ? [{ name: 'format', command: [...FORMAT, '--no-error-on-unmatched-pattern', ...files] }]
      : []),
  ]
}

const filters = process.argv.slice(2).filter((argument) => argument !== FULL)
const isComplete = isFull || filters.some((filter) => filter.includes('_full'))

/**
 * Two workers, each of which keeps the modules that it has loaded. The slowest files start first. The timeout is for a
 * test that hangs: no test measures time, and a busy machine may take ten times as long as an idle one.
 */
const tests: Step = {
  name: isFull ? 'every test' : 'quick tests',
  command: [
    process.execPath,
    'test',
    '--parallel=2',
    '--no-isolate',
    '--timeout=120000',
    `--timings=${join(CACHE, `timings${isFull ? '_full' : ''}.json`)}`,
    '--timings=test/slowest.json',
    '--update-timings',
    ...(isComplete ? [] : ['--path-ignore-patterns=**/*_full_test.ts']),
    ...filters,
  ],
}

/** Parts that only full tests run: Deno, Postgres and public clients, and coding agents (`test/programs`). */
const installations: readonly Step[] = ['test/programs', 'test/programs/agents'].map((folder) => ({
  name: `install ${folder}`,
  command: [process.execPath, 'install', '--frozen-lockfile', '--cwd', folder],
}))

/** Compiled before any test: two workers that compile in one folder delete each other's files. */
const compilation: Step = {
  name: 'better-sqlite3 from source',
  command: [process.execPath, 'test/runtime/better_sqlite3.ts'],
}

/** As many as a developer waits for, one half per core. CI plays 400,000 (`bun run model`). */
const histories: Step = {
  name: '60,000 histories',
  command: [process.execPath, 'test/simulation/run.ts', '--seed=7', '--runs=60000'],
}

/** Its output is passed on as it comes, or at its end in one piece, so that steps may run side by side. */
async function run({ name, command }: Step, isAlone: boolean): Promise<Ended> {
  const started = performance.now()
  if (isAlone) console.log(`── ${name}`)
  const env = {
    ...process.env,
    ...(isFull && { FAREBOX_TESTS: FULL }),
    ...(process.stdout.isTTY && { FORCE_COLOR: '1' }),
  }
  const child = Bun.spawn([...command], { cwd: ROOT, env, stdout: 'pipe', stderr: 'pipe' })
  const [code, out, errors] = await Promise.all([
    child.exited,
    pass(child.stdout, isAlone && process.stdout),
    pass(child.stderr, isAlone && process.stderr),
  ])
  if (!isAlone) console.log(`── ${name}\n${out}${errors}`.trimEnd())
  const count = command === tests.command ? read(Bun.stripANSI(out + errors)) : { passed: 0, failed: 0, skipped: 0 }
  return { name, ms: performance.now() - started, ...judge(count, code) }
}

/** Keeps text, and hands it on as it comes where there is somebody to read it. */
async function pass(from: ReadableStream<Uint8Array>, to: NodeJS.WriteStream | false): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of from) {
    if (to) to.write(chunk)
    text += decoder.decode(chunk, { stream: true })
  }
  return text
}

/** The summary of `bun test`: ` 12 pass`, ` 0 fail`; errors between tests are among those that fail. */
function read(text: string): Count {
  const last = (word: string) =>
    Number(
      text
        .match(new RegExp(`^ *\\d+ ${word}$`, 'gm'))
        ?.at(-1)
        ?.match(/\d+/)?.[0] ?? 0,
    )
  return { passed: last('pass'), failed: last('fail'), skipped: last('skip') }
}

/** A step that counts nothing counts as one; one that ends badly has failed at least once. */
function judge(count: Count, code: number): Count {
  if (code !== 0) return { ...count, failed: Math.max(1, count.failed) }
  return count.passed + count.failed === 0 ? { ...count, passed: 1 } : count
}

/** Two at a time, as there are cores: the first takes as long as the others together. */
async function inPairs([first, ...others]: readonly Step[]): Promise<readonly Ended[]> {
  const rest = async (): Promise<readonly Ended[]> => {
    const done: Ended[] = []
    for (const step of others) done.push(await run(step, false))
    return done
  }
  if (!first) return []
  const [ended, more] = await Promise.all([run(first, false), rest()])
  return [ended, ...more]
}

const programs: Ended[] = []
if (isFull) for (const step of [...installations, compilation]) programs.push(await run(step, false))
const stamps = stampsNow()
const changed = filters.length > 0 ? changedSince(readStamps(STAMPS), stamps) : EVERYTHING
const checked = await inPairs(changed.everything ? [types, ...checks] : checksOf(changed))
if (checked.every(({ failed }) => failed === 0)) writeStamps(STAMPS, stamps)
const ended = [...programs, ...checked, await run(tests, true)]
if (isFull && filters.length === 0) ended.push(await run(histories, true))

console.log('')
for (const { name, ms, failed } of ended)
  console.log(`${failed === 0 ? 'ok  ' : 'FAIL'} ${(ms / 1000).toFixed(1).padStart(5)} s  ${name}`)
const total = (key: keyof Count): number => ended.reduce((sum, step) => sum + step[key], 0)
if (total('skipped') > 0) console.log(`${total('skipped')} skipped`)
console.log(`${total('passed')} passed, ${total('failed')} failed`)
process.exitCode = total('failed') === 0 ? 0 : 1
