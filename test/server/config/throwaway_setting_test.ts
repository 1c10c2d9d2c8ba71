/** A new setting is one entry of the schema: its type, default, variable, mistakes and documentation follow. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type * as ConfigModule from '../../../server/config/mod.ts'
import type { Config } from '../../../server/config/mod.ts'
import type * as ConfigurationModule from '../../../server/operator/configuration.ts'
import type * as TablesModule from '../settings_tables.ts'
import { good } from './config_kit.ts'

const ROOT = join(import.meta.dirname, '../../..')
const DARK = 'Serves pages with light text on a dark ground.'
const SETTING = `dark_mode: setting('${DARK}', Type.Boolean()),\n`
/** One entry of each schema, by what it is put before. */
const ENTRIES: readonly (readonly [file: string, before: string, entry: string])[] = [
  ['file.ts', '    bare_v1: defaulted(\n', `    dark_mode: defaulted('${DARK}', Type.Boolean({ default: false })),\n`],
  ['gateways.ts', '  retired: defaulted(\n', `  dark_mode: defaulted('${DARK}', Type.Boolean({ default: false })),\n`],
  [
    '../../adapters/chains/evm/settings.ts',
    '  channel_claim_above: setting(\n',
    SETTING.replace('dark_mode', 'dim_mode'),
  ],
  [
    '../../adapters/chains/evm/settings.ts',
    '  relayer_floor_wei: setting(\n',
    SETTING.replace('dark_mode', 'dusk_mode'),
  ],
  [
    '../../adapters/chains/solana/settings.ts',
    '  max_fee_lamports: setting(\n',
    SETTING.replace('dark_mode', 'dawn_mode'),
  ],
  ['../../adapters/chains/lib/settings.ts', '    redirect_origins: setting(', SETTING],
  ['../../adapters/chains/evm/batched/settings.ts', '    networks: setting(\n', SETTING],
  ['vendors.ts', '    per_call: setting(', SETTING],
  ['vendors.ts', '    style: setting(\n', SETTING],
]
const env = { RELAYER_KEY: `0x${'1'.repeat(64)}`, K: 'key' }
const gateway = `[[gateways]]
name = "base"
network = "eip155:8453"
pay_to = "0x${'ab'.repeat(20)}"
rpc_url = "https://node.example"
relayer_key_env = "RELAYER_KEY"
`
let copy: string

/** A tree whose configuration has one more setting in each schema; everything else is the real one. */
beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'farebox-setting-'))
  for (const room of ['core', 'node_modules', 'package.json']) symlinkSync(join(ROOT, room), join(copy, room))
  for (const [room, copied] of [
    ['adapters', ['chains']],
    ['server', ['config', 'operator']],
  ] as const) {
    mkdirSync(join(copy, room))
    for (const name of readdirSync(join(ROOT, room)).filter((each) => !(copied as readonly string[]).includes(each)))
      symlinkSync(join(ROOT, room, name), join(copy, room, name))
    for (const name of copied) cpSync(join(ROOT, room, name), join(copy, room, name), { recursive: true })
  }
  mkdirSync(join(copy, 'test/server'), { recursive: true })
  cpSync(join(ROOT, 'test/server/settings_tables.ts'), join(copy, 'test/server/settings_tables.ts'))
  for (const [file, before, entry] of ENTRIES) {
    const schema = join(copy, 'server/config', file)
    const source = readFileSync(schema, 'utf8')
    expect(source.split(before)).toHaveLength(2)
    writeFileSync(schema, source.replace(before, entry + before))
  }
})
afterAll(() => rmSync(copy, { recursive: true }))

test('a boolean setting touches its schema and its user, and nothing else', async () => {
  const { parseConfig } = (await import(join(copy, 'server/config/mod.ts'))) as typeof ConfigModule
  const { withTables } = (await import(join(copy, 'test/server/settings_tables.ts'))) as typeof TablesModule
  const read = (toml: string, env = {}) => {
    const result = parseConfig(toml, env)
    return result.ok ? (result.config as Config & { readonly dark_mode: boolean }).dark_mode : result.mistakes
  }
  expect(read('')).toBe(false)
  expect(read('dark_mode = true')).toBe(true)
  expect(read('dark_mode = true', { DARK_MODE: 'false' })).toBe(false)
  expect(read('', { DARK_MODE: 'true' })).toBe(true)
  expect(read('dark_mode = 1')).toEqual(['dark_mode: must be true or false, without quotes, got 1'])
  expect(read('', { DARK_MODE: 'yes' })).toEqual(['DARK_MODE: must be true or false, without quotes, got "yes"'])
  expect(read('dark_mod = true')).toEqual(['dark_mod: there is no such setting; did you mean dark_mode?'])
  const page = withTables(readFileSync(join(ROOT, 'server/docs/configuration.md'), 'utf8'))
  expect(page).toContain(
    '| `dark_mode` | `DARK_MODE` | `false` | Serves pages with light text on a dark ground. `true` or `false`. |',
  )
})

test('a boolean setting of a gateway, of its payments or of a vendor touches its schema and its user, and nothing else', async () => {
  const { parseConfig } = (await import(join(copy, 'server/config/mod.ts'))) as typeof ConfigModule
  const { withTables } = (await import(join(copy, 'test/server/settings_tables.ts'))) as typeof TablesModule
  const read = (toml: string) => {
    const result = parseConfig(toml, env)
    if (!result.ok) return result.mistakes
    const { gateways, images, chat } = result.config
    const [{ darkMode, paymentMethods: [method] = [] } = {} as never] = gateways as never as [Dark]
    return {
      gateway: darkMode,
      channels: method?.channels?.dimMode,
      images: (images.servings.get('vendor-a/image-1') as Dark | undefined)?.darkMode,
      chat: (chat.servings.get('vendor-a/chat-6-small') as Dark | undefined)?.darkMode,
    }
  }
  const channels = 'schemes = ["exact", "batch-settlement"]\nchannel_key_env = "RELAYER_KEY"\n'
  const vendor = '[vendors.vendor-a]\nprotocol = "openai-images"\nchat = "openai"\nkey_env = "K"\n'
  const usual = { gateway: false, channels: undefined, images: undefined, chat: undefined }
  expect(read(gateway + channels + vendor)).toEqual(usual)
  expect(read(`${gateway}dark_mode = true\n`)).toMatchObject({ gateway: true })
  expect(read(`${gateway + channels}dim_mode = false\n`)).toMatchObject({ channels: false })
  expect(read(`${gateway}dim_mode = true\n`)).toEqual(['gateways.0.dim_mode: needs "batch-settlement" in schemes'])
  expect(read(`${gateway}dark_mode = 1\n`)).toEqual([
    'gateways.0.dark_mode: must be true or false, without quotes, got 1',
  ])
  expect(read(`${gateway + vendor}dark_mode = true\n`)).toEqual({ ...usual, images: true })
  expect(read(`${gateway + vendor}chat_dark_mode = true\n`)).toEqual({ ...usual, chat: true })
  const row = '[[chat]]\nid = "vendor-a/chat-6-small"\ndark_mode = false\n'
  expect(read(`${gateway + vendor}chat_dark_mode = true\n${row}`)).toEqual({ ...usual, chat: false })
  expect(read(`${gateway + vendor.replace('chat = "openai"\n', '')}chat_dark_mode = true\n`)).toEqual([
    'vendors.vendor-a.chat_dark_mode: has no effect without chat',
  ])
  const page = withTables(readFileSync(join(ROOT, 'server/docs/configuration.md'), 'utf8'))
  expect(page).toContain(`| \`dark_mode\` | \`false\` | ${DARK} \`true\` or \`false\`. |`)
  expect(page).toContain('| `chat_dark_mode` |  | Chat: serves pages')
})

type Dark = {
  readonly darkMode?: boolean
  readonly paymentMethods?: readonly { readonly channels?: { readonly dimMode?: boolean } }[]
}

test('a boolean setting of who settles is its family’s, and refused on another one', async () => {
  const { parseConfig } = (await import(join(copy, 'server/config/mod.ts'))) as typeof ConfigModule
  const solana = gateway
    .replace('eip155:8453', 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1')
    .replace(/pay_to = .*/, 'pay_to = "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU"')
    .replace('relayer_key_env = "RELAYER_KEY"', 'fee_payer_key_env = "FEE_KEY"')
  const settlesOf = (toml: string) => {
    const result = parseConfig(toml, { ...env, FEE_KEY: '1'.repeat(64) })
    const method = result.ok && result.config.gateways[0]?.paymentMethods[0]
    return result.ok ? method && 'settles' in method && method.settles : result.mistakes
  }
  expect(settlesOf(`${gateway}dusk_mode = true\n`)).toMatchObject({ by: 'relayer', duskMode: true })
  expect(settlesOf(`${solana}dawn_mode = true\n`)).toMatchObject({ by: 'fee_payer', dawnMode: true })
  expect(settlesOf(`${gateway}dawn_mode = true\n`)).toEqual(['gateways.0.dawn_mode: is for Solana'])
  expect(settlesOf(`${solana}dusk_mode = true\n`)).toEqual(['gateways.0.dusk_mode: is for EVM networks'])
})

test('a boolean setting of a facilitator and of a batching service touches its schema and its user, and nothing else', async () => {
  const { parseConfig } = (await import(join(copy, 'server/config/mod.ts'))) as typeof ConfigModule
  const row = 'url = "https://facilitator.example"\ndark_mode = true\n'
  const facilitated = gateway.replace('relayer_key_env = "RELAYER_KEY"', `[[gateways.facilitators]]\n${row}`)
  const read = (toml: string) => {
    const result = parseConfig(toml, env)
    return result.ok ? result.config.gateways[0]?.paymentMethods : result.mistakes
  }
  expect(read(facilitated)).toMatchObject([{ settles: { by: 'facilitators', rows: [{ darkMode: true }] } }])
  expect(read(facilitated.replace('= true', '= 1'))).toEqual([
    'gateways.0.facilitators.0.dark_mode: must be true or false, without quotes, got 1',
  ])
  const batched = `${gateway}[gateways.batched]\ndark_mode = true\n`
  expect(read(batched)).toMatchObject([{ kind: 'evm' }, { kind: 'batched', darkMode: true, networks: [] }])
})

test('a new setting of the process and of a gateway is shown to the operator, and nothing else says so', async () => {
  const { parseConfig } = (await import(join(copy, 'server/config/mod.ts'))) as typeof ConfigModule
  const { configurationOf } = (await import(
    join(copy, 'server/operator/configuration.ts')
  )) as typeof ConfigurationModule
  const result = parseConfig(`dark_mode = true\n${gateway}dark_mode = false\n`, env)
  if (!result.ok) throw new Error(result.mistakes.join('\n'))
  const visible = configurationOf(result.config, result.config.gateways)
  const valueIn = (section: string) =>
    visible.find(({ title }) => title === section)?.settings.find(({ name }) => name === 'dark_mode')?.value
  expect([valueIn('Process'), valueIn('Gateway base')]).toEqual(['true', 'false'])
})

test('the type of a setting is that of its schema', () => {
  const { bare_v1, port, contact }: { bare_v1: boolean; port: number; contact?: string } = good('')
  expect([typeof bare_v1, typeof port, contact]).toEqual(['boolean', 'number', undefined])
})
