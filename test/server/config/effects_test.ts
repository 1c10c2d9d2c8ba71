/** Products that act upon the world are off until they are named, and then need all of their keys. */
import { describe, expect, test } from 'bun:test'
import { type Config, parseConfig, realVendors } from '../../../server/config/mod.ts'
import { offByDefault } from '../../../server/config/services/reports.ts'
import type { Environment } from '../../../server/config/settings.ts'
import { affordable, serviceVendors } from '../../../server/wiring/services.ts'
import { actors } from '../../actors.ts'
import { kit, testClock, testLog } from '../../kit.ts'
import { servedBy, settingsOf } from './config_kit.ts'

const SID = `AC${'7'.repeat(32)}`
const TWILIO = { TWILIO_ACCOUNT_SID: SID, TWILIO_AUTH_TOKEN: 's3cret-t' }
const BLAND = { BLAND_API_KEY: 's3cret-b', BLAND_ENCRYPTED_KEY: 's3cret-e' }
const CDP = {
  CDP_API_KEY_ID: 'key-1',
  CDP_API_KEY_SECRET: '-----BEGIN EC PRIVATE KEY-----\ns3cret\n-----END EC PRIVATE KEY-----',
}
const ALL = 'voice = "bland"\nphone = "twilio"\nonramp = "coinbase"\npolymarket_funding = "bridge"\n'

function read(toml: string, env: Environment = {}) {
  const found = parseConfig(toml, env)
  return found.ok ? { config: found.config, mistakes: [] } : { config: undefined, mistakes: found.mistakes }
}
const good = (toml: string, env: Environment): Config => {
  const { config, mistakes } = read(toml, env)
  if (!config) throw new Error(mistakes.join('\n'))
  return config
}

const EFFECTS = ['voice', 'phone', 'onramp', 'bridge'] as const

test('keys alone start nothing, on devnet as elsewhere', () => {
  const config = good('', { ...TWILIO, ...BLAND, ...CDP })
  expect(EFFECTS.map((product) => servedBy(config, product))).toEqual([undefined, undefined, undefined, undefined])
  expect(realVendors(good('', { ...TWILIO, ...BLAND, ...CDP }))).toEqual([])
})

test('named, with their keys, they are there, and count as real', () => {
  const config = good(ALL, { ...TWILIO, ...BLAND, ...CDP })
  expect(EFFECTS.map((product) => servedBy(config, product))).toEqual([['bland'], ['twilio'], ['coinbase'], ['bridge']])
  expect(EFFECTS.map((product) => settingsOf(config, product))).toEqual([
    { bland_api_key: 's3cret-b', bland_encrypted_key: 's3cret-e' },
    { twilio_account_sid: SID, twilio_auth_token: 's3cret-t' },
    { cdp_api_key_id: 'key-1', cdp_api_key_secret: CDP.CDP_API_KEY_SECRET },
    {},
  ])
  expect(realVendors(config)).toEqual(['bland', 'twilio', 'coinbase'])
  const env = { ...TWILIO, PHONE: 'twilio', TWILIO_BASE_URL: 'http://twilio.lan', PHONE_COUNTRIES: 'US,GB' }
  expect(settingsOf(good('', env), 'phone')).toMatchObject({
    twilio_base_url: 'http://twilio.lan',
    phone_countries: 'US,GB',
  })
})

describe('a mistake is told by name, without a value', () => {
  test.each([
    [
      'phone = "twilio"',
      {},
      [
        'phone: twilio needs the environment variable TWILIO_ACCOUNT_SID, which is not set (The SID of the Twilio account.)',
        'phone: twilio needs the environment variable TWILIO_AUTH_TOKEN, which is not set (The auth token of the Twilio account.)',
      ],
    ],
    [
      'phone = "twilio"',
      { ...TWILIO, TWILIO_ACCOUNT_SID: 's3cret' },
      ['TWILIO_ACCOUNT_SID: must be AC and 32 hex digits'],
    ],
    [
      'voice = "bland"',
      BLAND,
      ['voice: people are called from numbers that their callers rent here, so it needs phone (PHONE) as well'],
    ],
    [
      'voice = "bland"\nphone = "twilio"',
      { ...TWILIO, BLAND_API_KEY: 's3cret' },
      [
        'voice: bland needs the environment variable BLAND_ENCRYPTED_KEY, which is not set (What Bland gives for the Twilio account that rents the numbers.)',
      ],
    ],
    [
      'onramp = "coinbase"',
      { CDP_API_KEY_ID: 'key-1' },
      [
        'onramp: coinbase needs the environment variable CDP_API_KEY_SECRET, which is not set (The secret of the Coinbase API key.)',
      ],
    ],
    [
      'bland_base_url = "http://b.lan"',
      {},
      ['bland_base_url (BLAND_BASE_URL): has no effect unless voice (VOICE) is bland'],
    ],
    [
      'polymarket_bridge_url = "http://b.lan"',
      {},
      [
        'polymarket_bridge_url (POLYMARKET_BRIDGE_URL): has no effect unless polymarket_funding (POLYMARKET_FUNDING) is bridge',
      ],
    ],
    ['voice = "echo"', {}, ['voice: must be one of bland, off, got "echo"']],
  ])('%s', (toml, env, expected) => {
    const { mistakes } = read(toml, env as Environment)
    expect([mistakes, mistakes.join('').includes('s3cret')]).toEqual([expected, false])
  })

  test('a real key on devnet is refused on any host but loopback', () => {
    expect(read('phone = "twilio"\nhost = "0.0.0.0"', TWILIO).mistakes.join('')).toContain('twilio')
  })
})

test('whoever is off is named in the log, with the settings that are missing', () => {
  const log = testLog()
  const timed = <Vendor extends object>(_name: string, vendor: Vendor) => vendor
  const wiring = { timed, clock: testClock(), log, isDevnet: true, undo: [], nodes: {} }
  const sold = (config: Config) =>
    Object.keys(serviceVendors(config, wiring)).filter((name) => EFFECTS.some((each) => each === name))
  expect(sold(good('', {}))).toEqual([])
  // Without Deno there is a line on the embedded sandbox as well.
  expect(log.lines.map(({ fields }) => fields.missing)).toContainEqual(offByDefault(good('', {})))
  expect(offByDefault(good('', {})).slice(0, 4)).toEqual([
    'voice: needs voice = "bland" (VOICE), BLAND_API_KEY and BLAND_ENCRYPTED_KEY, phone',
    'phone: needs phone = "twilio" (PHONE), TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN',
    'onramp: needs onramp = "coinbase" (ONRAMP), CDP_API_KEY_ID and CDP_API_KEY_SECRET',
    'bridge: needs polymarket_funding = "bridge" (POLYMARKET_FUNDING)',
  ])
  expect(sold(good(ALL, { ...TWILIO, ...BLAND, ...CDP }))).toEqual([...EFFECTS])
})

describe('for play money', () => {
  const plain = (network: string) =>
    `network = "${network}"\nrpc_url = "http://node"\nfacilitators = [{ url = "https://pay.example" }]`
  const row = (how: string) => {
    const [found] = good(
      `[[gateways]]\nname = "row"\npay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"\n${how}`,
      {},
    ).gateways
    if (!found) throw new Error('no row')
    return found
  }
  const { vendors } = kit({ ports: { vendors: actors() } }).ports

  test.each([
    [plain('eip155:8453'), true],
    [plain('eip155:84532'), false],
    [`${plain('eip155:8453')}\nbatched = { networks = ["eip155:84532"] }`, false],
    ['batched = { networks = ["eip155:8453"] }', true],
    ['batched = { url = "https://gateway-api-testnet.circle.com" }', false],
  ])('nobody is rung and no number rented: %j (contract 17.16)', (how, isReal) => {
    const { voice, phone, bridge } = affordable(vendors, row(how), { isDevnet: false })
    expect([voice !== undefined, phone !== undefined, bridge !== undefined]).toEqual([
      isReal,
      isReal,
      how.startsWith('network'),
    ])
  })

  test('they are on devnet, where the operator alone can buy', () => {
    expect(Object.keys(affordable(vendors, row(plain('eip155:84532')), { isDevnet: true })).sort()).toEqual(
      Object.keys(vendors).sort(),
    )
  })
})
