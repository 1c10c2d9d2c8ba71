/** Durable storage under every runtime that an embedding program may have, by the laws that Bun's tests run. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type PostgresServer, postgresServer } from '../adapters/storage/postgres/postgres_server.ts'
import { objectLaws } from '../conformance/objects.ts'
import { storageLaws } from '../conformance/storage.ts'
import { PROGRAMS, PROGRAMS_DIR } from '../programs/mod.ts'
import { compileBetterSqlite } from './better_sqlite3.ts'
import { deno, node, node22, type Runtime } from './runtimes.ts'

let dir: string
let program: string
let database: PostgresServer

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'farebox-laws-'))
  program = await bundle(join(import.meta.dirname, 'law_program.ts'))
  ;[database] = await Promise.all([postgresServer(), compileBetterSqlite()])
}, 600_000)

afterAll(async () => {
  await database?.stop()
  await rm(dir, { recursive: true, force: true })
})

/** `bun:test` becomes the `expect` of Jest, whose matchers are the same. */
async function bundle(entry: string): Promise<string> {
  const { success, logs, outputs } = await Bun.build({
    entrypoints: [entry],
    target: 'node',
    format: 'esm',
    outdir: dir,
    naming: '[name].mjs',
    external: ['bun', 'pg-native'],
    plugins: [
      {
        name: 'bun:test elsewhere',
        setup(builder) {
          builder.onResolve({ filter: /^bun:test$/ }, () => ({ path: join(import.meta.dirname, 'expect_shim.ts') }))
          builder.onResolve({ filter: /^expect$/ }, () => ({ path: createRequire(PROGRAMS).resolve('expect') }))
        },
      },
    ],
    throw: false,
  })
  const [output] = outputs
  if (!success || !output) throw new Error(`the laws do not compile:\n${logs.map(String).join('\n')}`)
  return output.path
}

type Line = { readonly suite: string; readonly law: string; readonly error?: string }

/** In the folder of `test/programs`, where better-sqlite3 is, as in the folder of an embedding program. */
async function laws({ command }: Runtime, suites: readonly string[]): Promise<readonly Line[]> {
  const child = Bun.spawn([...command, program, ...suites], { cwd: PROGRAMS_DIR, stdout: 'pipe', stderr: 'pipe' })
  const [output, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw new Error(`the laws ended with ${code}:\n${output.slice(-2_000)}${errors}`)
  return output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)
}

const [OF_STORAGE, OF_OBJECTS] = [storageLaws.length + 2, objectLaws.length]

for (const [runtime, library] of [
  [node, 'better-sqlite3'],
  [node22, 'node:sqlite'],
  [deno, 'node:sqlite'],
] as const) {
  test(`${runtime.name}: SQLite by ${library} and objects on disk keep every law`, async () => {
    const lines = await laws(runtime, ['sqlite', 'disk'])
    expect(lines.filter(({ error }) => error !== undefined)).toEqual([])
    expect(lines.length).toBe(OF_STORAGE + OF_OBJECTS)
  }, 300_000)
}

for (const runtime of [node, node22, deno]) {
  test(`${runtime.name}: Postgres keeps every law`, async () => {
    const lines = await laws(runtime, [await database.fresh()])
    expect(lines.filter(({ error }) => error !== undefined)).toEqual([])
    expect(lines.length).toBe(OF_STORAGE)
  }, 300_000)
}
