/** The package, used by a program that embeds it, under Node and Bun. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { type Installed, installPackage } from './packed.ts'

const TSC = join(import.meta.dirname, '../../node_modules/typescript/bin/tsc')

const tsconfig = {
  compilerOptions: { target: 'ES2023', module: 'NodeNext', strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false, types: ['node'] },
  files: ['visitor.ts'],
}

let installed: Installed

beforeAll(async () => {
  installed = await installPackage()
  await copyFile(join(import.meta.dirname, 'visitor.ts'), join(installed.dir, 'visitor.ts'))
  await writeFile(join(installed.dir, 'tsconfig.json'), JSON.stringify(tsconfig))
}, 30_000)

afterAll(() => installed.remove())

test('the package holds core, the portable adapters and their types, and nothing that needs Bun', () => {
  expect(installed.files).toContain('core/mod.d.ts')
  expect(installed.files).toContain('adapters/chains/evm.js')
  expect(installed.files).toContain('LICENSE')
  expect(installed.files.filter((path) => /sqlite|sketch|schema|^server|^test/.test(path))).toEqual([])
})

test('the package asks for seven dependencies, at the versions that were tested', async () => {
  const described = JSON.parse(await readFile(join(installed.dir, 'dist/package.json'), 'utf8')) as Record<string, unknown>
  const names = ['@noble/hashes', '@sinclair/typebox', '@solana-program/token', '@solana/kit', 'gpt-tokenizer', 'image-size', 'viem'] as const
  expect(described.dependencies).toEqual(Object.fromEntries(names.map((name) => [name, manifest.dependencies[name]])))
  expect(described).toMatchObject({ name: 'farebox', version: manifest.version, license: 'Apache-2.0' })
  expect(described).not.toHaveProperty('devDependencies')
  expect(described).not.toHaveProperty('private')
})

test('a program type-checks against the packed types, and runs under Node and Bun: challenge, identify, call', async () => {
  const { run } = installed
  await run([process.execPath, TSC, '-p', '.'])
  const seen = { challenge: 402, paid: 200, payment: 'settled' }
  const [node, bun] = await Promise.all([run(['node', 'visitor.js']), run([process.execPath, '--no-install', 'visitor.js'])])
  expect(JSON.parse(node)).toEqual({ runtime: 'node', ...seen })
  expect(JSON.parse(bun)).toEqual({ runtime: 'bun', ...seen })
}, 30_000)
