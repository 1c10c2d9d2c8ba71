/**
 * The README and the guides, carried out: their commands exist, their output is the real one, their programs run
 * (the embedding one: package_test.ts).
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { endpoints, type Endpoint, gateway } from '../../core/mod.ts'
import { parseConfig } from '../../server/config/mod.ts'
import { greeting, type Running, start } from '../../server/main.ts'
import { kit, read } from '../kit.ts'
import { blocks, guideText, readme } from './readme.ts'

const ROOT = join(import.meta.dirname, '../..')
const [quickstart, configuration, providers, gateways, operations, embedding, product] = (await Promise.all(
  [
    'quickstart',
    'configuration',
    'providers',
    'gateways_and_chains',
    'operations',
    'embedding',
    'adding_a_product',
  ].map(guideText),
)) as [string, string, string, string, string, string, string]
const scratch = await mkdtemp(join(tmpdir(), 'farebox-readme-'))

let running: Running

beforeAll(async () => {
  running = await startGateway()
}, 300_000)

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

test('the README has at most 120 lines, and both commands', () => {
  expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(120)
  expect(blocks(readme, '## Run', '')[0]).toBe('npx -y bun@1.4.4 install && npx -y bun@1.4.4 start\n')
  expect(blocks(readme, '## Test', '')).toEqual(['npx -y bun@1.4.4 install && npx -y bun@1.4.4 run test\n'])
})

test('every command of the README and of the guides is a script of the package', () => {
  const commands = [
    ...[readme, quickstart, providers, embedding].join('\n').matchAll(/npx -y bun@([\d.]+) (?:run )?(\w+)/g),
  ]
  expect(commands.length).toBeGreaterThan(20)
  for (const [, version, script = ''] of commands) {
    expect(version).toBe(manifest.devDependencies['bun-types'])
    expect(Object.keys({ ...manifest.scripts, install: '' })).toContain(script)
  }
})

test('the greeting in the README is the one that is printed', () => {
  const [, printed] = blocks(readme, '## Run', '')
  const offered = running.wired.gateways[0]?.gateway.offered() ?? []
  const facts = {
    version: manifest.version,
    origin: 'http://127.0.0.1:4020',
    listening: 'http://127.0.0.1:4020',
    labels: ['base-sepolia', 'solana-devnet'],
    endpoints: offered.filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden).length,
    isDevnet: true,
    real: [],
  }
  expect(printed?.trimEnd().split('\n')).toEqual([...greeting(facts)])
})

test('the answer that the README buys is the one that is sold; an ellipsis stands for what it leaves out', async () => {
  const [command = '', expected = ''] = blocks(readme, '## Buy something', '')
  const [, words = ''] = /run buy -- chat "(.*)"/.exec(command) ?? []
  const child = Bun.spawn([process.execPath, 'server/main.ts', 'buy', 'chat', words, '--url', running.url], {
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? '' },
    stdout: 'pipe',
  })
  const printed = (await child.stdout.text()).replace(/0x[0-9a-fA-F]{40,64}/g, '0x…')
  const [head = '', tail = ''] = expected.split('\n…\n')
  expect([printed.slice(0, head.length), printed.slice(-tail.length)]).toEqual([head, tail])
})

test('the program in the README buys a picture as it is printed, under plain Node', async () => {
  const [program = ''] = blocks(readme, '## Buy something', 'js')
  expect(program.trimEnd().split('\n').length).toBeLessThanOrEqual(12)
  const child = Bun.spawn(['node', '--input-type=module', '-e', program], {
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? '', FAREBOX_URL: running.url },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [output, complained] = await Promise.all([child.stdout.text(), child.stderr.text()])
  expect(complained).toBe('')
  expect(output).toMatch(/status: ["']settled["']/)
})

/** Runs a program that pays with the funded wallet at the gateway of this test. */
async function runAsBuyer(program: string): Promise<{ output: string; complained: string }> {
  const { buyer } = (await (await fetch(`${running.url}/devnet`)).json()) as { buyer: { private_key: string } }
  const env = { PATH: process.env.PATH ?? '', FAREBOX_BUYER_KEY: buyer.private_key }
  const child = Bun.spawn([process.execPath, '-e', program.replace('http://127.0.0.1:4020', running.url)], {
    cwd: ROOT,
    env,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [output, complained] = await Promise.all([child.stdout.text(), child.stderr.text()])
  return { output, complained }
}

test('the SDK in the quickstart pays and streams', async () => {
  const [snippet = ''] = blocks(quickstart, '## Buy from a program', 'js')
  const { output, complained } = await runAsBuyer(snippet)
  expect(complained).toBe('')
  expect(output).toContain('You said: "Why is the sky blue?"')
})

test('the keys and servers that the guide names bring their vendors to life', () => {
  const rows = [...providers.matchAll(/^\| ((?:`\w+_API_KEY`(?: or )?)+) \| `(vendor-\w+)` \|/gm)]
  const keys = rows.flatMap(([, names = '', vendor = '']) =>
    [...names.matchAll(/\w+_API_KEY/g)].map(([name]) => [name, vendor] as const),
  )
  expect(keys.length).toBeGreaterThan(8)
  for (const [name, vendor] of keys) expect([name, found({ [name]: 'k' })]).toEqual([name, [vendor]])
  const lines = ['## Chat, images and video', '### Your own server'].flatMap((heading) =>
    blocks(providers, heading, 'sh').join('').trim().split('\n'),
  )
  expect(lines.map((line) => found(variablesIn(line)))).toEqual([
    ['vendor-g'],
    ['vendor-c', 'vendor-e'],
    ['local'],
    ['vendor-open'],
  ])
})

/** Variables that a line of a shell sets before its command. */
function variablesIn(line: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...line.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]))
}

/** Vendors of the environment alone. */
function found(env: Readonly<Record<string, string>>): readonly string[] {
  const read = parseConfig('', env)
  return read.ok ? read.config.environmentVendors : read.mistakes
}

test('the video of the quickstart is quoted as the shortest one, and the servers of the guide film what it says', async () => {
  const [, seconds = ''] =
    /run buy -- video "[^"]*" --seconds (\d+)/.exec(blocks(quickstart, '## Buy', '').join('')) ?? []
  const order = JSON.stringify({ prompt: 'a red fox', duration_seconds: Number(seconds) })
  const quote = await fetch(`${running.url}/api/v1/videos/generations`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: order,
  })
  expect([quote.status, (await quote.json()).price.amount]).toEqual([402, '0.052000'])
  for (const [key, vendor] of [
    ['XAI_API_KEY', 'vendor-c'],
    ['ARK_API_KEY', 'vendor-e'],
  ] as const)
    expect(films(parseConfig('', { [key]: 'k' }))).toEqual([vendor])
  const [toml = ''] = blocks(providers, '### Protocols', 'toml')
  expect(films(parseConfig(toml, { RESELLER_KEY: 'k' }))).toEqual(['vendor-f', 'vendor-e'])
})

/** Whose videos are sold. */
function films(read: ReturnType<typeof parseConfig>): readonly string[] {
  if (!read.ok) return read.mistakes
  const { rows, servings } = read.config.videos
  return [...new Set(rows.filter(({ id }) => servings.has(id)).map(({ vendor }) => vendor))]
}

test('the lines that start a provider start it', () => {
  const started = (heading: string): readonly unknown[] =>
    blocks(providers, heading, 'sh')
      .join('')
      .trim()
      .split('\n')
      .map((line) => {
        const read = parseConfig('', {
          ...variablesIn(line),
          ...(/TWILIO/.test(line) && { TWILIO_ACCOUNT_SID: `AC${'0'.repeat(32)}` }),
        })
        if (!read.ok) return read.mistakes
        // Settings that devnet fills in are left out, unless the line names it.
        const isNamed = (name: string) => line.toLowerCase().includes(name)
        const named = Object.entries(read.config.services).map(([product, choices]) => [
          product,
          choices.flatMap(({ by, offer }) => (offer.isOnDevnet && !isNamed(`${product}=${by}`) ? [] : [by])),
        ])
        return Object.fromEntries(named.filter(([, choices]) => (choices?.length ?? 0) > 0))
      })
  expect(started('## Audio')).toEqual([{ audio: ['elevenlabs', 'minimax'] }, { audio: ['speech'] }])
  expect(started('## Search and web pages')).toEqual([{ search: ['xai', 'exa'], websearch: ['exa'] }])
  expect(started('## Prices and swaps')).toEqual([{ market: ['pyth'] }, { swap: ['zerox'] }])
  expect(started('## Prediction markets and DeFi')).toEqual([
    { search: ['exa'], websearch: ['exa'], prediction: ['venues'], defi: ['defillama'] },
  ])
  expect(started('## Sandboxes')).toEqual([{ sandbox: ['e2b'] }, { sandbox: ['modal'] }, { sandbox: ['embedded'] }])
  expect(started('## Phone and voice')).toEqual([{ phone: ['twilio'] }, { voice: ['bland'], phone: ['twilio'] }])
  expect(started('## On-ramp and funding')).toEqual([{ onramp: ['coinbase'] }, { bridge: ['bridge'] }])
})

test('the metrics that the guide names are those that the operator reads, with the scrape that it shows', async () => {
  const [scrape = ''] = blocks(operations, '## Metrics', 'yaml')
  const [, credentials = ''] = /credentials: ([\w-]+)/.exec(scrape) ?? []
  const watched = await startGateway({ OPERATOR_TOKEN: credentials })
  try {
    const response = await fetch(`${watched.url}/metrics`, { headers: { authorization: `Bearer ${credentials}` } })
    const printed = [...(await response.text()).matchAll(/^# TYPE (farebox_\w+) /gm)].map(([, name]) => name)
    const named = [...operations.matchAll(/`(farebox_\w+)`/g)].map(([, name]) => name)
    expect(printed.toSorted()).toEqual(named.toSorted())
  } finally {
    await watched.stop()
  }
})

test('the product that the guide adds in one file is quoted, sold and described', async () => {
  const [source = ''] = blocks(product, '## Example', 'ts')
  const file = join(scratch, 'poems.ts')
  await writeFile(
    file,
    source
      .replaceAll("'../../", `'${ROOT}/core/`)
      .replaceAll("'@sinclair/typebox'", `'${ROOT}/node_modules/@sinclair/typebox/build/esm/index.mjs'`),
  )
  const { poems } = (await import(file)) as { poems: readonly Endpoint[] }
  const { ports, gateway: farebox, ...rest } = kit({ endpoints: [...endpoints, ...poems] })
  const buyer = rest.buyer()
  const sold = await buyer.buy({ about: 'snow' }, { path: '/api/v1/haiku' })
  expect(sold.status).toBe(200)
  expect(sold.body).toMatchObject({
    price: { amount: '0.011000' },
    payment: { status: 'settled' },
    lines: ['first light on snow', expect.any(String), expect.any(String)],
  })
  const described = await read(await farebox.fetch(new Request('http://farebox.test/openapi.json')))
  expect(described.body.paths['/api/v1/haiku'].post['x-payment-info'].price).toEqual({
    mode: 'fixed',
    currency: 'USD',
    amount: '0.011000',
  })
  expect(gateway({ ports, endpoints: poems }).endpoints).toHaveLength(1)
})

test('every configuration file that is shown is accepted', () => {
  const pages = [readme, quickstart, configuration, providers, gateways].flatMap((page) =>
    [...page.matchAll(/^```toml\n([^]*?)^```$/gm)].map(([, toml = '']) => toml),
  )
  const whole = pages.filter((toml) => /^\[\[?(gateways|vendors|rpc)/m.test(toml))
  expect(whole.length).toBeGreaterThanOrEqual(9)
  const keys = Object.fromEntries(
    ['', '_1', '_2', '_3'].map((end, index) => [`RELAYER_KEY${end}`, `0x${String(index + 1).repeat(64)}`]),
  )
  const urls = Object.fromEntries(
    ['BASE', 'BASE_SEPOLIA', 'SOLANA', 'ETHEREUM'].map((name) => [`${name}_RPC_URL`, 'https://rpc.example.com/key']),
  )
  const env = {
    ...keys,
    ...urls,
    OPENAI_API_KEY: 'k',
    RESELLER_KEY: 'k',
    SOLANA_FEE_PAYER: JSON.stringify(Array.from({ length: 64 }, (_, index) => index)),
  }
  for (const toml of whole) {
    const read = parseConfig(toml, env)
    expect([toml, read.ok || read.mistakes]).toEqual([toml, true])
  }
})
