/**
 * `bun run mutants`: makes each mistake of `mutants.ts` in a copy of the sources and runs the tests that have to fail:
 * the files that the mutant names, or the quick tests of the money rules. `bun run mutants owed poll` takes those whose
 * name contains one of these; `--full` runs the tests in full. Ends with the mutants that live.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { apply } from './apply.ts'
import { type Mutant, mutants } from './mutants.ts'

const ROOT = join(import.meta.dirname, '../..')
const PARTS = [
  'core',
  'adapters',
  'server',
  'test',
  'package.json',
  'tsconfig.json',
  'bunfig.toml',
  'README.md',
  '.oxlintrc.json',
]
/** From the fastest to the slowest: a mutant is dead with the first that fails. */
const STEPS: readonly (readonly string[])[] = [
  ['test/core/payment', 'test/core/call', 'test/core/gateways_test.ts'],
  ['test/adapters/storage/storage_test.ts', 'test/core/products/wallet', 'test/core/x402', 'test/core/http'],
  ['test/core/products/endpoints_test.ts', 'test/core/gateway_laws_test.ts', 'test/core/products'],
  ['test/simulation/channels', 'test/simulation/simulation_test.ts'],
]
/** A mutant may make work go on for ever. */
const LIMIT_MS = 600_000

const filters = process.argv.slice(2).filter((argument) => argument !== '--full')
const isFull = process.argv.includes('--full')
const copy = mkdtempSync(join(tmpdir(), 'farebox-mutants-'))

const stepsOf = ({ by }: Pick<Mutant, 'by'>): readonly (readonly string[])[] => (by ? [by] : STEPS)

/** A file that runs in full only is run in full. */
async function isRed(files: readonly string[]): Promise<boolean> {
  const needsFull = files.some((file) => file.endsWith('_full_test.ts'))
  const child = Bun.spawn(
    [
      process.execPath,
      'test',
      '--bail',
      '--no-isolate',
      '--timeout=60000',
      ...(needsFull ? [] : ['--path-ignore-patterns=**/*_full_test.ts']),
      ...files,
    ],
    {
      cwd: copy,
      env: { ...process.env, FAREBOX_TESTS: isFull || needsFull ? 'full' : '' },
      stdout: 'ignore',
      stderr: 'ignore',
      timeout: LIMIT_MS,
    },
  )
  return (await child.exited) !== 0
}

async function killerOf(steps: readonly (readonly string[])[]): Promise<string | undefined> {
  for (const files of steps) if (await isRed(files)) return files[0]
  return undefined
}

async function judged(mutant: Mutant): Promise<string> {
  const applied = apply(mutant, copy)
  if (typeof applied === 'string') return applied
  const path = join(copy, applied.path)
  const before = readFileSync(path, 'utf8')
  writeFileSync(path, applied.text)
  const killer = await killerOf(stepsOf(mutant))
  writeFileSync(path, before)
  return killer ? `killed by ${killer}` : 'ALIVE'
}

try {
  for (const part of PARTS) cpSync(join(ROOT, part), join(copy, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  const chosen = mutants.filter(({ name }) => filters.length === 0 || filters.some((filter) => name.includes(filter)))
  const steps = new Map(chosen.flatMap(stepsOf).map((files) => [files.join(), files]))
  const killer = await killerOf([...steps.values()])
  if (killer) throw new Error(`the tests fail without a mutant: ${killer}`)
  const alive: string[] = []
  for (const mutant of chosen) {
    const started = performance.now()
    const verdict = await judged(mutant)
    if (!verdict.startsWith('killed')) alive.push(mutant.name)
    console.log(`${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s  ${mutant.name}: ${verdict}`)
  }
  console.log(`${chosen.length - alive.length} of ${chosen.length} mutants killed`)
  process.exitCode = alive.length === 0 ? 0 : 1
} finally {
  rmSync(copy, { recursive: true, force: true })
}
