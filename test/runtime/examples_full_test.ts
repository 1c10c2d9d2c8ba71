/** Every value that core and adapters export has an example in its comment, which compiles and runs. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import * as adapters from '../../adapters/mod.ts'
import * as core from '../../core/mod.ts'

const ROOT = join(import.meta.dirname, '../..')
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** Declarations that the examples take as given. */
const GIVEN = `
const clock = systemClock
const log = consoleLog
const key = 'a key'
const baseUrl = 'https://vendor.example/v1'
const relayerKey = '0x${'22'.repeat(32)}'
const payTo = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const feeRecipient = payTo
const feePayerKey = 'a key in base58'
const signal = AbortSignal.abort()
const url = 'https://media.example/a.png'
const text = 'hello'
const bytes = new Uint8Array([137, 80])
const request = new Request('http://localhost/')
const storage = memoryStorage()
const objects = memoryObjects()
const chain = memoryChain()
const images = () => undefined
const ports = localPorts({ chain, images })
const exa = { ...EXA_SEARCH, key, maker: 'Exa', timeoutMs: SEARCH_TIMEOUT_MS, clock, log }
const xai = { ...XAI_SEARCH, key, maker: 'xAI', timeoutMs: SEARCH_TIMEOUT_MS, clock, log }
const base = { network: 'eip155:84532', rpcUrl: baseUrl, asset: payTo, payTo, relayerKey, domain: { name: 'USDC', version: '2' } }
const solana = { network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1', rpcUrl: baseUrl, mint: payTo, payTo, feePayerKeys: [key] }
const nano = { apiUrl: baseUrl, networks: ['eip155:84532'], payTo, alert: consoleLog.alert }
`

/** They ask the network, or need keys that are real: they are compiled only. */
const COMPILED_ONLY = new Set([
  'batchedChain',
  'evmChain',
  'solanaChain',
  'solanaFacilitator',
  'multiChain',
  'mediaFetcher',
  'mediaStreamer',
])

const doors = ['core/mod.ts', 'adapters/mod.ts'] as const
const values = [
  ...Object.keys(core).map((name) => [name, doors[0]]),
  ...Object.keys(adapters).map((name) => [name, doors[1]]),
]
  .filter(([name]) => name !== 'Type')
  .map(([name = '', door = '']) => ({ name, door }))

/** The files that a door leads to, through other doors. */
function filesBehind(door: string, seen = new Set<string>()): readonly string[] {
  if (seen.has(door) || !existsSync(join(ROOT, door))) return []
  seen.add(door)
  const text = readFileSync(join(ROOT, door), 'utf8')
  for (const [, path = ''] of text.matchAll(/^(?:export|\}) [^'`;]*from '(\.[^']+)'/gm))
    filesBehind(join(dirname(door), path), seen)
  return [...seen]
}

const sources = new Map(
  doors.map((door) => [door as string, filesBehind(door).map((path) => readFileSync(join(ROOT, path), 'utf8'))]),
)

function exampleOf({ name, door }: { name: string; door: string }): string | undefined {
  const declared = new RegExp(
    `(/\\*\\*(?:(?!\\*/)[^])*\\*/)\\nexport (?:async )?(?:function|const|class) ${name.replace('$', '\\$')}\\b`,
  )
  for (const text of sources.get(door) ?? []) {
    const [, comment] = declared.exec(text) ?? []
    const [, example] = comment?.split('@example') ?? []
    if (example)
      return example
        .replace(/\*\/$/, '')
        .replace(/^ ?\* ?/gm, '')
        .trim()
  }
  return undefined
}

const examples = values.map((value) => ({ ...value, code: exampleOf(value) }))

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'farebox-examples-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

test('every value that core and adapters export has an example', () => {
  expect(examples.flatMap(({ name, door, code }) => (code === undefined ? [`${door}: ${name}`] : []))).toEqual([])
})

describe('the examples', () => {
  test('compile under strict, without a cast', async () => {
    const names = (module: object) => Object.keys(module).join(', ')
    const shared = Object.keys(core).filter((name) => name in adapters)
    expect(shared).toEqual([])
    const functions = examples.map(({ name, code = '' }) => {
      expect({ name, casts: / as (?!const)/.test(code) }).toEqual({ name, casts: false })
      const isRun = !COMPILED_ONLY.has(name)
      return `${isRun ? 'examples' : 'compiled'}[${JSON.stringify(name)}] = async () => {${GIVEN}{\n${code}\n}\n}`
    })
    const program = [
      `import { createServer } from 'node:http'`,
      `import { ${names(core)} } from ${JSON.stringify(join(ROOT, 'core/mod.ts'))}`,
      `import { ${names(adapters)} } from ${JSON.stringify(join(ROOT, 'adapters/mod.ts'))}`,
      `const examples: Record<string, () => Promise<void>> = {}`,
      `const compiled: Record<string, () => Promise<void>> = {}`,
      ...functions,
      `for (const [name, run] of Object.entries(examples)) {`,
      `  await run().catch((error: Error) => { console.log(name + ': ' + error.message) })`,
      `}`,
      `console.log('done ' + Object.keys(examples).length)`,
      `process.exit(0)`,
    ].join('\n')
    await writeFile(join(dir, 'examples.ts'), program)
    const { compilerOptions } = JSON.parse(readFileSync(join(ROOT, 'tsconfig.json'), 'utf8')) as {
      compilerOptions: object
    }
    const options = {
      ...compilerOptions,
      noUnusedLocals: false,
      rewriteRelativeImportExtensions: false,
      typeRoots: [join(ROOT, 'node_modules/@types'), join(ROOT, 'node_modules')],
      types: ['bun-types'],
    }
    await writeFile(
      join(dir, 'tsconfig.json'),
      JSON.stringify({
        compilerOptions: options,
        files: [
          'examples.ts',
          ...['secp256k1', 'hash_wasm'].map((name) => join(ROOT, `adapters/chains/evm/node/${name}.d.ts`)),
        ],
      }),
    )
    expect(await output([process.execPath, TSC, '-p', dir, '--noEmit'])).toBe('')
  }, 120_000)

  test('run', async () => {
    const count = examples.filter(({ name }) => !COMPILED_ONLY.has(name)).length
    expect(await output([process.execPath, 'examples.ts'])).toBe(`done ${count}\n`)
  }, 120_000)
})

async function output(command: readonly string[]): Promise<string> {
  const child = Bun.spawn([...command], { cwd: dir, stdout: 'pipe', stderr: 'ignore' })
  const text = await new Response(child.stdout).text()
  await child.exited
  return text
}
