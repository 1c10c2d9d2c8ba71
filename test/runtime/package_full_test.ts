/** The package, used by a program that embeds it, under Node and Bun. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'
import manifest from '../../package.json' with { type: 'json' }
import { type Devnet, startDevnet } from '../../server/devnet/mod.ts'
import { read } from '../kit.ts'
import { PROGRAMS } from '../programs/mod.ts'
import { doorSizes } from './door_sizes.ts'
import { type Installed, installPackage } from './package.ts'
import { blocks, guideText, readme } from './readme.ts'

const TSC = join(import.meta.dirname, '../../node_modules/typescript/bin/tsc')

const tsconfig = {
  compilerOptions: {
    target: 'ES2023',
    module: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    types: ['node'],
  },
  files: ['visitor.ts'],
}

let installed: Installed
let devnet: Devnet

beforeAll(async () => {
  ;[installed, devnet] = await Promise.all([installPackage(), startDevnet()])
  await copyFile(join(import.meta.dirname, 'visitor.ts'), join(installed.dir, 'visitor.ts'))
  await writeFile(join(installed.dir, 'tsconfig.json'), JSON.stringify(tsconfig))
}, 300_000)

afterAll(() => Promise.all([installed.remove(), devnet.stop()]))

test('the package holds core, the portable adapters with types and their sources, the server, and no tests', () => {
  expect(installed.files).toContain('core/mod.d.ts')
  expect(installed.files).toContain('core/mod.d.ts.map')
  expect(installed.files).toContain('src/core/mod.ts')
  expect(installed.files).toContain('adapters/chains/evm/mod.js')
  expect(installed.files).toContain('server/launcher.js')
  expect(installed.files).toContain('server/THIRD_PARTY_LICENSES.txt')
  expect(installed.files).toContain('LICENSE')
  expect(
    installed.files.filter((path) => /demo\/(?:drawing|images|film|videos|audio)|^test|^server\/.*\.ts$/.test(path)),
  ).toEqual([])
})

test('everything that the README links to is in the package', () => {
  const linked = [...readme.matchAll(/\]\(([\w./]+)\)/g)].map(([, path = '']) => path)
  expect(linked.length).toBeGreaterThan(10)
  expect(linked.filter((path) => !installed.files.includes(path))).toEqual([])
})

test('the package asks for the versions that were tested, and for what the server starts only optionally', async () => {
  const described = JSON.parse(await readFile(join(installed.dir, 'dist/package.json'), 'utf8')) as Record<
    string,
    Record<string, string>
  >
  const names = [
    '@aws-sdk/client-s3',
    '@noble/hashes',
    '@sinclair/typebox',
    '@solana-program/token',
    '@solana/kit',
    'gpt-tokenizer',
    'image-size',
    'jose',
    'pg',
    'viem',
  ] as const
  expect(described.dependencies).toEqual(Object.fromEntries(names.map((name) => [name, manifest.dependencies[name]])))
  const optional = Object.keys(described.optionalDependencies ?? {})
  expect(optional.filter((name) => !name.startsWith('@oven/bun-'))).toEqual([
    '@foundry-rs/anvil',
    'e2b',
    'hash-wasm',
    'litesvm',
    'modal',
    'pyodide',
    'secp256k1',
  ])
  expect(described).toMatchObject({ name: 'farebox', version: manifest.version, license: 'Apache-2.0' })
  expect(described).toMatchObject({ sideEffects: false, publishConfig: { access: 'public', provenance: true } })
  expect(described).not.toHaveProperty('devDependencies')
  expect(described).not.toHaveProperty('private')
})

test('the doors are those of the root package.json, and each has been compiled', () => {
  const doors = Object.values(manifest.exports).map((path) => path.slice('./'.length).replace(/\.ts$/, ''))
  expect(doors.length).toBeGreaterThan(30)
  for (const door of doors)
    expect(installed.files).toEqual(
      expect.arrayContaining([`${door}.js`, `${door}.d.ts`, `${door}.d.ts.map`, `src/${door}.ts`]),
    )
})

test('publint and attw find nothing wrong with the tarball', async () => {
  const tool = (name: string) => fileURLToPath(new URL(`node_modules/${name}`, PROGRAMS))
  const { run, tarball } = installed
  expect(await run(['node', tool('publint/src/cli.js'), tarball, '--strict'])).toContain('All good!')
  const cli = tool('@arethetypeswrong/cli/dist/index.js')
  expect(await run(['node', cli, tarball, '--profile', 'esm-only', '--format', 'ascii'])).not.toMatch(/^.*🐛/m)
}, 120_000)

/** Drizzle declares types of databases that are not installed, and a check of libraries finds their absence. */
const BEHIND_DRIZZLE = ['farebox/adapters/sqlite', 'farebox/adapters/postgres']

test('the types of every door compile under strict, with those of the libraries behind them', async () => {
  const doors = Object.keys(manifest.exports).map((door) => `farebox${door.slice(1)}`)
  for (const skipLibCheck of [true, false]) {
    const checked = doors.filter((door) => BEHIND_DRIZZLE.includes(door) === skipLibCheck)
    const text = checked.map((door, index) => `export * as door${index} from '${door}'\n`).join('')
    await writeFile(join(installed.dir, 'doors.ts'), text)
    const compilerOptions = { ...tsconfig.compilerOptions, skipLibCheck, noEmit: true }
    await writeFile(
      join(installed.dir, 'tsconfig.doors.json'),
      JSON.stringify({ ...tsconfig, compilerOptions, files: ['doors.ts'] }),
    )
    await installed.run([process.execPath, TSC, '-p', 'tsconfig.doors.json'])
  }
}, 120_000)

test('core without products stays below 75 KB, and a door loads no package that it does not need', async () => {
  const sizes = await doorSizes(join(installed.dir, 'node_modules/farebox'))
  const sizeOf = (name: string) => sizes.find(({ door }) => door === name)
  expect(sizeOf('farebox { customGateway, paid }')?.gzip).toBeLessThan(75 << 10)
  expect(sizeOf('farebox/x402')?.gzip).toBeLessThan(6 << 10)
  const packages = (name: string) => sizeOf(name)?.packages
  expect(packages('farebox { customGateway, paid }')).toEqual(['@noble/hashes', '@sinclair/typebox'])
  expect(packages('farebox/adapters/evm')).not.toContain('@solana/kit')
  expect(packages('farebox/adapters/solana')).not.toContain('viem')
  expect(packages('farebox/adapters/sqlite')).not.toContain('pg')
}, 120_000)

test('a program type-checks against the packed types, and runs under Node and Bun: challenge, identify, call', async () => {
  const { run } = installed
  await run([process.execPath, TSC, '-p', '.'])
  const seen = { challenge: 402, paid: 200, payment: 'settled' }
  const [node, bun] = await Promise.all([
    run(['node', 'visitor.js']),
    run([process.execPath, '--no-install', 'visitor.js']),
  ])
  expect(JSON.parse(node)).toEqual({ runtime: 'node', ...seen })
  expect(JSON.parse(bun)).toEqual({ runtime: 'bun', ...seen })
}, 300_000)

test('the program that embeds Farebox in the README sells a picture as it is printed, under Node and Bun', async () => {
  const [program = ''] = blocks(readme, '## Embed it', 'js')
  expect(program.trimEnd().split('\n').length).toBeLessThanOrEqual(13)
  expect(blocks(await guideText('embedding'), '## Sell an image', 'js')).toEqual([program])
  await writeFile(join(installed.dir, 'shop.mjs'), program)
  const account = privateKeyToAccount(devnet.buyer.privateKey)
  const pay = wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(account) }],
  })
  for (const runtime of ['node', process.execPath]) {
    const env = {
      PATH: process.env.PATH ?? '',
      RPC_URL: devnet.rpcUrl,
      PAY_TO: devnet.payTo,
      RELAYER_KEY: devnet.relayerKey,
      PORT: String(await freePort()),
    }
    const child = Bun.spawn([runtime, 'shop.mjs'], { cwd: installed.dir, env, stdout: 'pipe' })
    const url = await firstLine(child.stdout)
    const order = {
      method: 'POST',
      body: '{"model":"vendor-a/image-1","prompt":"a red fox in the snow"}',
      headers: { 'content-type': 'application/json' },
    }
    const sold = await read(await pay(`${url}/api/v1/images/generations`, order))
    child.kill('SIGKILL')
    expect(sold.body).toMatchObject({
      data: [{ backed_up: true }],
      payment: { status: 'settled', network: 'base-sepolia' },
    })
  }
}, 300_000)

test('the command of the package starts the devnet under Node, sells a chat to @x402/fetch, and ends with SIGTERM', async () => {
  const { dir } = installed
  const node = Bun.which('node') ?? ''
  const launcher = Bun.spawn(['npx', '--no-install', 'farebox', 'devnet', '--data', join(dir, 'data')], {
    cwd: dir,
    // Bun is found as a package, not on PATH.
    env: {
      PATH: `${dirname(node)}:/usr/bin:/bin`,
      HOME: dir,
      PORT: '0',
    },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  try {
    const url = await addressIn(launcher.stdout)
    const { buyer } = (await (await fetch(`${url}/devnet`)).json()) as { buyer: { private_key: `0x${string}` } }
    const pay = wrapFetchWithPaymentFromConfig(fetch, {
      schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(privateKeyToAccount(buyer.private_key)) }],
    })
    const messages = [{ role: 'user', content: 'Hello' }]
    const sold = await pay(`${url}/api/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'farebox/echo', messages }),
      headers: { 'content-type': 'application/json' },
    })
    expect(sold.status).toBe(200)
    expect(sold.headers.get('payment-response')).toBeString()
  } finally {
    launcher.kill('SIGTERM')
    // npx ends at once; its output ends with the server.
    await new Response(launcher.stderr).text()
  }
}, 120_000)

async function addressIn(stdout: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stdout) {
    text += decoder.decode(chunk, { stream: true })
    const address = /^ {2}look around: +(\S+)\/ /m.exec(text)?.[1]
    if (address) return address
  }
  throw new Error(`farebox ended without a greeting: ${text}`)
}

/** A port that nothing listened on a moment ago: the program prints the port that it was given. */
async function freePort(): Promise<number> {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
  const { port = 0 } = server
  await server.stop(true)
  return port
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = ''
  for await (const chunk of stream) {
    text += new TextDecoder().decode(chunk)
    if (text.includes('\n')) break
  }
  return text.trim()
}
