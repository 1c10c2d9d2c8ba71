/** The package, used by a program that embeds it, under Node and Bun. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'
import manifest from '../../package.json' with { type: 'json' }
import { type Devnet, startDevnet } from '../../server/devnet/mod.ts'
import { read } from '../kit.ts'
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

test('the package holds core, the portable adapters and their types, and nothing that needs Bun', () => {
  expect(installed.files).toContain('core/mod.d.ts')
  expect(installed.files).toContain('adapters/chains/evm/mod.js')
  expect(installed.files).toContain('LICENSE')
  expect(
    installed.files.filter((path) =>
      /demo\/(?:drawing|images|film|videos|audio)|^server\/(?!docs\/\w+\.md$)|^test/.test(path),
    ),
  ).toEqual([])
})

test('everything that the README links to is in the package', () => {
  const linked = [...readme.matchAll(/\]\(([\w./]+)\)/g)].map(([, path = '']) => path)
  expect(linked.length).toBeGreaterThan(10)
  expect(linked.filter((path) => !installed.files.includes(path))).toEqual([])
})

test('the package asks for ten dependencies and an optional one, at the versions that were tested', async () => {
  const described = JSON.parse(await readFile(join(installed.dir, 'dist/package.json'), 'utf8')) as Record<
    string,
    unknown
  >
  const names = [
    '@aws-sdk/client-s3',
    '@noble/hashes',
    '@sinclair/typebox',
    '@solana-program/token',
    '@solana/kit',
    'drizzle-orm',
    'gpt-tokenizer',
    'image-size',
    'pg',
    'viem',
  ] as const
  expect(described.dependencies).toEqual(Object.fromEntries(names.map((name) => [name, manifest.dependencies[name]])))
  expect(described.optionalDependencies).toEqual({ secp256k1: manifest.optionalDependencies.secp256k1 })
  expect(described).toMatchObject({ name: 'farebox', version: manifest.version, license: 'Apache-2.0' })
  expect(described).not.toHaveProperty('devDependencies')
  expect(described).not.toHaveProperty('private')
})

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

test('the embedding in the README sells an image on a real chain, under plain Node and Bun', async () => {
  const [snippet = ''] = blocks(readme, '## Embed it', 'js')
  expect(snippet.trimEnd().split('\n').length).toBeLessThanOrEqual(10)
  expect(blocks(await guideText('embedding'), '## Sell an image in ten lines', 'js')).toEqual([snippet])
  const { rpcUrl, asset, payTo, relayerKey } = devnet
  const given = `const { rpcUrl, asset, payTo, relayerKey } = ${JSON.stringify({ rpcUrl, asset, payTo, relayerKey })}\n`
  const paint = `const paint = () => 'data:image/png;base64,iVBORw0KGgo='\n`
  const body = snippet.replace(
    '.listen(3000)',
    '.listen(0, "127.0.0.1", function () { console.log(this.address().port) })',
  )
  expect(body).not.toBe(snippet)
  await writeFile(join(installed.dir, 'readme.js'), `${given}${paint}${body}`)
  const account = privateKeyToAccount(devnet.buyer.privateKey)
  const pay = wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(account) }],
  })
  for (const runtime of ['node', process.execPath]) {
    const child = Bun.spawn([runtime, 'readme.js'], { cwd: installed.dir, stdout: 'pipe' })
    const port = await firstLine(child.stdout)
    const order = {
      method: 'POST',
      body: '{"model":"vendor-a/image-1","prompt":"a red fox in the snow"}',
      headers: { 'content-type': 'application/json' },
    }
    const sold = await read(await pay(`http://127.0.0.1:${port}/api/v1/images/generations`, order))
    child.kill('SIGKILL')
    expect(sold.body).toMatchObject({
      data: [{ backed_up: true }],
      payment: { status: 'settled', network: 'base-sepolia' },
    })
  }
}, 300_000)

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = ''
  for await (const chunk of stream) {
    text += new TextDecoder().decode(chunk)
    if (text.includes('\n')) break
  }
  return text.trim()
}
