/**
 * Adding a product is one file and one line: the guide's own example, put into a copy of this repository, is sold and
 * held to every law there.
 */
import { afterAll, expect, test } from 'bun:test'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FULL } from '../scope.ts'
import { blocks, guideText } from './readme.ts'

const ROOT = join(import.meta.dirname, '../..')
const copy = await mkdtemp(join(tmpdir(), 'farebox-copy-'))
afterAll(() => rm(copy, { recursive: true, force: true }))

/** Everything that is checked in, and the packages as they are installed. */
async function copied(): Promise<void> {
  const parts = [
    'core',
    'adapters',
    'server',
    'test',
    'package.json',
    'tsconfig.json',
    'bunfig.toml',
    'README.md',
    'LICENSE',
    'bun.lock',
    '.oxlintrc.json',
    '.gitignore',
  ]
  await Promise.all(parts.map((part) => cp(join(ROOT, part), join(copy, part), { recursive: true })))
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
}

async function run(...args: readonly string[]): Promise<{ code: number; output: string }> {
  const child = Bun.spawn([process.execPath, ...args], {
    cwd: copy,
    env: { ...process.env, FAREBOX_TESTS: FULL },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()])
  return { code, output: out + err }
}

const count = (output: string, word: string): number =>
  Number(new RegExp(`^ *(\\d+) ${word}$`, 'm').exec(output)?.[1] ?? 0)

test('one file and one line: the laws of endpoints, gateways and documents run on it, and the house stands', async () => {
  await copied()
  const [source = ''] = blocks(await guideText('adding_a_product'), '## Example', 'ts')
  await mkdir(join(copy, 'core/products/poems'))
  await writeFile(join(copy, 'core/products/poems/haiku.ts'), `/** Poems, by the line. */\n${source}`)
  const door = await readFile(join(copy, 'core/products/mod.ts'), 'utf8')
  await writeFile(
    join(copy, 'core/products/mod.ts'),
    door
      .replace('export const', "import { poems } from './poems/haiku.ts'\n\nexport const")
      .replace('  ...calls,\n', '  ...poems,\n  ...calls,\n'),
  )

  const laws = await run(
    'test',
    '--no-isolate',
    '-t',
    'haiku',
    'test/core/products/endpoints_test.ts',
    'test/core/gateway_laws_test.ts',
    'test/core/discovery/openapi_test.ts',
    'test/core/products/site/discovery_test.ts',
  )
  expect([laws.code, count(laws.output, 'fail')]).toEqual([0, 0])
  // 27 laws inline and as a job, once more on each of three gateways, and its place in the documents.
  expect(count(laws.output, 'pass')).toBeGreaterThan(130)
  expect(await run('test', 'test/architecture_test.ts')).toMatchObject({ code: 0 })
}, 300_000)
