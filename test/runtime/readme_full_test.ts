/** What the README shows, done: its commands exist, its output is the real one, its programs run (the embedding one: package_test.ts). */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { endpoints, type Endpoint, gateway } from '../../core/mod.ts'
import { parseConfig } from '../../server/config/mod.ts'
import { greeting, type Running, start } from '../../server/main.ts'
import { kit, read } from '../kit.ts'
import { blocks, readme } from './readme.ts'

const ROOT = join(import.meta.dirname, '../..')
const scratch = await mkdtemp(join(tmpdir(), 'farebox-readme-'))

let running: Running

beforeAll(async () => {
  running = await startGateway()
}, 30_000)

async function startGateway(env: Readonly<Record<string, string>> = {}): Promise<Running> {
  const read = parseConfig('', { PORT: '0', DATABASE_URL: 'memory:', OBJECT_STORE: 'memory:', ...env })
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  const quiet = () => {}
  return await start(read.config, {
    info: quiet,
    warn: quiet,
    alert: (message) => console.error(message),
    access: quiet,
    flush: quiet,
  })
}

afterAll(async () => {
  await running.stop()
  await rm(scratch, { recursive: true })
})

test('every command of the README is a script of the package', () => {
  const commands = [...readme.matchAll(/npx -y bun@([\d.]+) (?:run )?(\w+)/g)]
  expect(commands.length).toBeGreaterThan(4)
  for (const [, version, script = ''] of commands) {
    expect(version).toBe(manifest.devDependencies['bun-types'])
    expect(Object.keys({ ...manifest.scripts, install: '' })).toContain(script)
  }
})

test('the greeting in the README is the one that is printed', () => {
  const [, shown] = blocks('# Farebox', '')
  const facts = {
    version: manifest.version,
    origin: 'http://127.0.0.1:4020',
    listening: 'http://127.0.0.1:4020',
    labels: ['base-sepolia', 'solana-devnet'],
    endpoints: endpoints.filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden).length,
    isDevnet: true,
    real: [],
  }
  expect(shown?.trimEnd().split('\n')).toEqual([...greeting(facts)])
})

test('the answer that the README buys is the one that is sold', async () => {
  const [, , command = '', shown = ''] = blocks('# Farebox', '')
  const [, words = ''] = /run buy -- chat "(.*)"/.exec(command) ?? []
  const child = Bun.spawn([process.execPath, 'server/cli/buy.ts', 'chat', words, '--url', running.url], {
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? '' },
    stdout: 'pipe',
  })
  expect((await child.stdout.text()).replace(/0x[0-9a-fA-F]{40,64}/g, '0x…')).toBe(shown)
})

test('the SDK in the README pays and streams', async () => {
  const [snippet = ''] = blocks('## Chat', 'js')
  const { buyer } = (await (await fetch(`${running.url}/devnet`)).json()) as { buyer: { private_key: string } }
  const env = { PATH: process.env.PATH ?? '', FAREBOX_BUYER_KEY: buyer.private_key }
  const child = Bun.spawn([process.execPath, '-e', snippet.replace('http://127.0.0.1:4020', running.url)], {
    cwd: ROOT,
    env,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [said, complained] = await Promise.all([child.stdout.text(), child.stderr.text()])
  expect(complained).toBe('')
  expect(said).toContain('You said: "Why is the sky blue?"')
})

test('the keys and servers that the README names bring their vendors to life', () => {
  const chat = readme.slice(readme.indexOf('\n## Chat\n'), readme.indexOf('\n## Embed it\n'))
  const keys = [...chat.matchAll(/((?:`\w+_API_KEY`(?: or )?)+) \((vendor-\w+)\)/g)].flatMap(
    ([, names = '', vendor = '']) => [...names.matchAll(/\w+_API_KEY/g)].map(([name]) => [name, vendor] as const),
  )
  expect(keys.length).toBeGreaterThan(8)
  for (const [name, vendor] of keys) expect([name, found({ [name]: 'k' })]).toEqual([name, [vendor]])
  const lines = blocks('## Chat', 'sh').join('').trim().split('\n')
  const started = lines.map((line) =>
    found(Object.fromEntries([...line.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]))),
  )
  expect(started).toEqual([['vendor-g'], ['local'], ['vendor-open']])
})

/** Vendors of the environment alone. */
function found(env: Readonly<Record<string, string>>): readonly string[] {
  const read = parseConfig('', env)
  return read.ok ? read.config.environmentVendors : read.mistakes
}

test('the video that the README buys is quoted as the shortest one, and its keys and servers film what it says', async () => {
  const [, seconds = ''] = /run buy -- video "[^"]*" --seconds (\d+)/.exec(blocks('## Video', '').join('')) ?? []
  const order = JSON.stringify({ prompt: 'a red fox', duration_seconds: Number(seconds) })
  const quote = await fetch(`${running.url}/api/v1/videos/generations`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: order,
  })
  expect([quote.status, (await quote.json()).price.amount]).toEqual([402, '0.052000'])
  for (const line of blocks('## Video', 'sh').join('').trim().split('\n')) {
    const [, key = '', vendor = ''] = /^(\w+)=key .*# (\S+)$/.exec(line) ?? []
    expect(films(parseConfig('', { [key]: 'k' }))).toEqual([vendor])
  }
  const [toml = ''] = blocks('## Video', 'toml')
  expect(films(parseConfig(toml, { RESELLER_KEY: 'k' }))).toEqual(['vendor-f', 'vendor-e'])
})

/** Whose videos are sold. */
function films(read: ReturnType<typeof parseConfig>): readonly string[] {
  if (!read.ok) return read.mistakes
  const { rows, servings } = read.config.videos
  return [...new Set(rows.filter(({ id }) => servings.has(id)).map(({ vendor }) => vendor))]
}

test('the keys of search, prices and swaps bring what the README says', () => {
  const services = blocks('## Search, prices and swaps', 'sh')
    .join('')
    .trim()
    .split('\n')
    .map((line) => {
      const read = parseConfig(
        '',
        Object.fromEntries([...line.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value])),
      )
      if (!read.ok) return read.mistakes
      const { search, market, swap } = read.config
      return [search?.map(({ by }) => by), market?.by, swap?.feeRecipient]
    })
  expect(services).toEqual([
    [['xai', 'exa'], undefined, undefined],
    [undefined, 'pyth', undefined],
    [undefined, undefined, '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'],
  ])
})

test('the settings of what is passed on bring what the README says', () => {
  const [line = ''] = blocks('## Pages, prediction markets and DeFi', 'sh')
  const read = parseConfig(
    '',
    Object.fromEntries([...line.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value])),
  )
  const { websearch, prediction, defi } = read.ok ? read.config : {}
  expect([websearch?.by, prediction?.by, defi?.by]).toEqual(['exa', 'venues', 'defillama'])
})

test('the keys of sandboxes bring what the README says', () => {
  const [lines = ''] = blocks('## Sandboxes', 'sh')
  const places = lines
    .trimEnd()
    .split('\n')
    .map((line) =>
      parseConfig('', Object.fromEntries([...line.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]))),
    )
  expect(places.map((read) => (read.ok ? read.config.sandbox?.by : read.mistakes))).toEqual([
    'e2b',
    'modal',
    'embedded',
  ])
})

test('the figures that the README names are those that the operator reads, with the scrape that it shows', async () => {
  const [scrape = ''] = blocks('## Watch it', 'yaml')
  const [, credentials = ''] = /credentials: ([\w-]+)/.exec(scrape) ?? []
  const watched = await startGateway({ OPERATOR_TOKEN: credentials })
  try {
    const response = await fetch(`${watched.url}/metrics`, { headers: { authorization: `Bearer ${credentials}` } })
    const shown = [...(await response.text()).matchAll(/^# TYPE (farebox_\w+) /gm)].map(([, name]) => name)
    const section = readme.slice(readme.indexOf('\n## Watch it\n'), readme.indexOf('\n## The house\n'))
    const named = [...section.matchAll(/`(farebox_\w+)`/g)].map(([, name]) => name)
    expect(shown.toSorted()).toEqual(named.toSorted())
  } finally {
    await watched.stop()
  }
})

test('the endpoint that the README adds in one file is quoted, sold and described', async () => {
  const [source = ''] = blocks('## Add an endpoint', 'ts')
  const file = join(scratch, 'poems.ts')
  await writeFile(
    file,
    source
      .replaceAll("'../", `'${ROOT}/core/`)
      .replaceAll("'@sinclair/typebox'", `'${ROOT}/node_modules/@sinclair/typebox/build/esm/index.mjs'`),
  )
  const { poems } = (await import(file)) as { poems: readonly Endpoint[] }
  const { ports, shop, ...rest } = kit({ endpoints: [...endpoints, ...poems] })
  const buyer = rest.buyer()
  const sold = await buyer.buy({ about: 'snow' }, { path: '/api/v1/haiku' })
  expect(sold.status).toBe(200)
  expect(sold.body).toMatchObject({
    price: { amount: '0.011000' },
    payment: { status: 'settled' },
    lines: ['first light on snow', expect.any(String), expect.any(String)],
  })
  const described = await read(await shop.fetch(new Request('http://farebox.test/openapi.json')))
  expect(described.body.paths['/api/v1/haiku'].post['x-payment-info'].price).toEqual({
    mode: 'fixed',
    currency: 'USD',
    amount: '0.011000',
  })
  expect(gateway({ ports, endpoints: poems }).endpoints).toHaveLength(1)
})

test('both configurations in the README are accepted, and every setting of its table exists', () => {
  const files = blocks('## Sell for real', 'toml')
  expect(files).toHaveLength(2)
  const keys = Object.fromEntries(
    ['', '_1', '_2', '_3'].map((end, index) => [`RELAYER_KEY${end}`, `0x${String(index + 1).repeat(64)}`]),
  )
  const env = {
    ...keys,
    BASE_RPC_URL: 'https://rpc.example.com/key',
    BASE_SEPOLIA_RPC_URL: 'https://rpc.example.com/key',
    OPENAI_API_KEY: 'k',
    SOLANA_RPC_URL: 'https://rpc.example.com/key',
    SOLANA_FEE_PAYER: JSON.stringify(Array.from({ length: 64 }, (_, index) => index)),
  }
  for (const toml of files) {
    const read = parseConfig(toml, env)
    expect(read.ok || read.mistakes).toBe(true)
  }
  const settings = [...readme.matchAll(/^\| (`[^|]*`) \| ([^|]*) \|/gm)]
  expect(settings.length).toBeGreaterThan(8)
  for (const [, names = '', variables = ''] of settings) {
    for (const [, name = ''] of names.matchAll(/`(\w+)`/g)) {
      const wrong = parseConfig(`${name} = { }`)
      expect(wrong.ok ? name : wrong.mistakes.join()).not.toMatch(/no such setting/)
    }
    for (const [, variable = ''] of variables.matchAll(/`(\w+)`/g))
      expect(parseConfig('', { [variable]: '' }).ok).toBe(true)
  }
})
