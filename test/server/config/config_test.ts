import type { TSchema } from '@sinclair/typebox'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { STORAGE_URLS } from '../../../adapters/storage/manifests.ts'
import { audioRows, chatRows, imageRows, retention, rowKinds, videoRows } from '../../../core/mod.ts'
import { type Config, isLoopback, readConfig, parseConfig } from '../../../server/config/mod.ts'
import { settings } from '../../../server/config/file.ts'
import type { Environment } from '../../../server/config/settings.ts'
import { good, mistakes } from './config_kit.ts'

const KEY = `0x${'5ec2e7'.repeat(10)}5ec2`
const PAY_TO = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const env = { BASE_RPC_URL: 'https://node.example/v2/s3cretpath', RELAYER_KEY: KEY }
const gateway = `[[gateways]]\nname = "base"\nnetwork = "eip155:8453"\npay_to = "${PAY_TO}"\nrpc_url_env = "BASE_RPC_URL"\nrelayer_key_env = "RELAYER_KEY"\n`

describe('defaults', () => {
  test('nothing at all configures devnet on loopback, with SQLite and media files in one folder', () => {
    expect(good('')).toMatchObject({
      port: 4020,
      host: '127.0.0.1',
      database: 'sqlite:.farebox/devnet/farebox.db',
      objects: { kind: 'file', dir: '.farebox/devnet/media' },
      body_memory_bytes: 268_435_456,
      drain_grace_seconds: 0,
      gateways: [],
      devnetDir: '.farebox/devnet',
      production: [],
      images: { rows: imageRows, servings: new Map() },
      chat: { rows: chatRows, servings: new Map() },
      videos: { rows: videoRows, servings: new Map(), byVendor: new Map() },
      audio: { rows: audioRows },
      declared: new Map(rowKinds.map(({ kind, builtIn }) => [kind, builtIn])),
      retention,
      environmentVendors: [],
      rpc: {},
    })
  })

  test('what the file leaves out has the default of its schema', () => {
    const config: Readonly<Record<string, unknown>> = good('')
    const named = Object.entries(settings as Readonly<Record<string, TSchema>>)
    for (const [name, schema] of named.filter(
      ([, { default: value, type }]) => value !== undefined && type !== 'object',
    ))
      expect([name, config[name]]).toEqual([name, schema.default])
  })

  test('the file sets everything (contract 5.22)', () => {
    const config = good(`
      port = 0
      host = "0.0.0.0"
      public_origin = "https://images.example.com"
      database_url = "memory:"
      object_store = "file:/srv/media"
      operator_token = "0123456789abcdef"
      max_body_bytes = 2048
      inline_window_seconds = 0.5
      drain_seconds = 5
      trusted_proxies = ["10.0.0.0/8"]
      bare_v1 = true
      log_level = "silent"
      trusted_hosts = ["gpu.lan:7860"]
      [vendors.vendor-a]
      protocol = "demo"
      [[images]]
      id = "vendor-a/image-1"
      hidden = true
    `)
    expect(config).toMatchObject({
      port: 0,
      host: '0.0.0.0',
      public_origin: 'https://images.example.com',
      database: 'memory:',
      objects: { kind: 'file', dir: '/srv/media' },
    })
    expect(config).toMatchObject({
      operator_token: '0123456789abcdef',
      max_body_bytes: 2048,
      inline_window_seconds: 0.5,
      drain_seconds: 5,
      trusted_proxies: ['10.0.0.0/8'],
      bare_v1: true,
      log_level: 'silent',
    })
    expect(config.trusted_hosts).toEqual(['gpu.lan:7860'])
    expect([...config.images.servings.keys()]).toEqual(['vendor-a/image-1', 'vendor-a/image-2'])
    expect(config.images.servings.get('vendor-a/image-2')).toMatchObject({
      protocol: 'demo',
      key: undefined,
      timeoutMs: 600_000,
    })
    expect(config.images.rows.filter(({ hidden }) => hidden).map(({ id }) => id)).toEqual(['vendor-a/image-1'])
  })
})

describe('environment', () => {
  test('it wins over the file', () => {
    const file =
      'port = 4020\nhost = "127.0.0.1"\ndatabase_url = "sqlite:a.db"\nobject_store = "memory:"\npublic_origin = "http://a.example"\n'
    const config = good(file, {
      PORT: '8080',
      HOST: '::1',
      DATABASE_URL: 'memory:',
      OBJECT_STORE: 'file:b',
      PUBLIC_ORIGIN: 'https://b.example',
    })
    expect(config).toMatchObject({
      port: 8080,
      host: '::1',
      database: 'memory:',
      objects: { kind: 'file', dir: 'b' },
      public_origin: 'https://b.example',
    })
  })

  test('its numbers are read as numbers, and an empty variable is none', () => {
    const config = good('port = 4020', {
      PORT: '',
      INLINE_WINDOW_SECONDS: '0',
      DRAIN_SECONDS: '1.5',
      MAX_BODY_BYTES: '4096',
      LOG_LEVEL: 'warn',
    })
    expect(config).toMatchObject({
      port: 4020,
      inline_window_seconds: 0,
      drain_seconds: 1.5,
      max_body_bytes: 4096,
      log_level: 'warn',
    })
  })

  test('lifetimes are settings, in the file and in the environment, which wins (contract 2.24)', () => {
    const [hour, day] = [3_600_000, 86_400_000]
    const file = '[retention]\nunclaimed_hours = 24\nsettled_days = 40\nledger_days = 400'
    expect(good(file).retention).toEqual({
      unclaimedMs: 24 * hour,
      settledMs: 40 * day,
      backgroundMs: day,
      ledgerMs: 400 * day,
    })
    const env = { RETENTION_UNCLAIMED_HOURS: '72', RETENTION_MEDIA_DAYS: '90', RETENTION_BACKGROUND_HOURS: '1' }
    expect(good(file, env).retention).toEqual({
      unclaimedMs: 72 * hour,
      settledMs: 40 * day,
      backgroundMs: hour,
      ledgerMs: 400 * day,
      mediaMs: 90 * day,
    })
  })

  test('lifetimes out of bounds, or that would delete what a result still shows, are mistakes by name', () => {
    for (const [file, env, mistake] of [
      ['[retention]\nsettled_days = 0', {}, 'retention.settled_days: must be a whole number from 1 to 3650, got 0'],
      ['', { RETENTION_LEDGER_DAYS: '7' }, 'RETENTION_LEDGER_DAYS: must be a whole number from 31 to 3650, got 7'],
      [
        '',
        { RETENTION_UNCLAIMED_HOURS: 'soon' },
        'RETENTION_UNCLAIMED_HOURS: must be a whole number from 1 to 8760, got "soon"',
      ],
      [
        '[retention]\nmedia_days = 7',
        {},
        'retention.media_days: must be at least retention.settled_days, which is 30, got 7',
      ],
      ['retention = 30', { RETENTION_MEDIA_DAYS: '60' }, 'retention: must be a table of settings, got 30'],
    ] as const)
      expect(mistakes(file, env)).toEqual([mistake])
  })

  test('variables that are none of ours are none of our business', () => {
    expect(mistakes('', { PATH: '/bin', PORTS: 'x', FAREBOX_BUYER_KEY: 'x' })).toEqual([])
  })
})

describe('mistakes', () => {
  test('every one is reported at once, by the name under which it was made', () => {
    const found = mistakes(
      'port = "x"\nhost = 5\nlog_level = "loud"\nbare_v1 = "yes"\nmax_body_bytes = 1\ndrain_seconds = -1',
      { PORT: '70000', DATABASE_URL: 'mysql://x' },
    )
    expect(found.map((mistake) => mistake.split(':', 1)[0]).sort()).toEqual([
      'DATABASE_URL',
      'PORT',
      'bare_v1',
      'drain_seconds',
      'host',
      'log_level',
      'max_body_bytes',
    ])
  })

  test('one mistake is one line that says what is allowed, and what was given', () => {
    expect(mistakes('log_level = "loud"')).toEqual(['log_level: must be one of silent, error, warn, info, got "loud"'])
    expect(mistakes('', { PORT: 'four thousand' })).toEqual([
      'PORT: must be a whole number from 0 to 65535, got "four thousand"',
    ])
  })

  test('an unknown setting is named, at every depth', () => {
    expect(mistakes('prot = 80')).toEqual(['prot: there is no such setting; did you mean port?'])
    expect(mistakes('databse_url = "memory:"\n[retention]\nmedia_day = 40')).toEqual([
      'databse_url: there is no such setting; did you mean database_url?',
      'retention.media_day: there is no such setting; did you mean media_days?',
    ])
    expect(mistakes('colour = "red"')).toEqual(['colour: there is no such setting'])
    expect(mistakes(`${gateway}chain = 1`, env)).toEqual(['gateways.0.chain: there is no such setting'])
    expect(mistakes('[vendors.vendor-a]\nprotocol = "demo"\nmodel = "x"')).toEqual([
      'vendors.vendor-a.model: there is no such setting',
    ])
  })

  test('a public origin has no path, and a vendor a protocol that exists', () => {
    expect(mistakes('public_origin = "https://a.example/shop"')).toHaveLength(1)
    expect(mistakes('[vendors.vendor-a]\nprotocol = "magic"')).toHaveLength(1)
  })

  test('a proxy is an address or a range', () => {
    expect(good('trusted_proxies = ["::1", "fd00::/8", "192.0.2.1", "10.0.0.0/8"]').trusted_proxies).toHaveLength(4)
    const found = mistakes(
      'trusted_proxies = ["10.0.0.0/33", "proxy.example", "10.0.0.0/8", "::1/129", "10.0.0.0/8/8"]',
    )
    expect(found.map((mistake) => mistake.split(':', 1)[0])).toEqual([
      'trusted_proxies.0',
      'trusted_proxies.1',
      'trusted_proxies.3',
      'trusted_proxies.4',
    ])
  })

  test('a mistake says where it is and what to write, and quotes no secret', () => {
    const mistakes = (toml: string) => {
      const read = parseConfig(toml)
      return read.ok ? [] : read.mistakes
    }
    const [syntax = ''] = mistakes('version = "1"\noperator_token = "s3cret" x\n')
    expect(syntax).toMatch(/^farebox\.toml:2:\d+: /)
    expect(syntax).not.toContain('s3cret')
    expect(mistakes('database_url = "mysql://x"').join()).toContain(`must be ${STORAGE_URLS}`)
    expect(mistakes('operator_token = 123456').join()).toContain('must be text: write it in quotes')
    expect(mistakes('free_per_hour = 5').join()).toContain('free_per_hour: must be at least free_per_minute')
  })

  test('a file that is not TOML is one mistake with the name of the file', () => {
    const [mistake, ...others] = mistakes('port = = 1')
    expect(mistake).toStartWith('farebox.toml:1:8: ')
    expect(mistake).not.toContain('\n')
    expect(others).toEqual([])
  })
})

describe('databases and object stores', () => {
  test('Postgres by its URL, with either name', () => {
    for (const url of ['postgres://user:s3cret@db/x', 'postgresql://db/x'])
      expect(good('', { DATABASE_URL: url }).database).toBe(url)
  })

  test('S3 by its URL, with the credentials of the environment and nothing else from there', () => {
    const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 's3cret', AWS_REGION: 'eu-central-1' }
    const { objects } = good('', { OBJECT_STORE: 's3://bucket/media', ...keys, HOME: '/root' })
    expect(objects).toEqual({ kind: 's3', url: 's3://bucket/media', env: keys })
  })
})

/** Who settles the first rail of the first gateway. */
function settlesOf({ gateways: [row] }: Config): unknown {
  const [paymentMethod] = row?.paymentMethods ?? []
  return paymentMethod && 'settles' in paymentMethod ? paymentMethod.settles : undefined
}

describe('gateways', () => {
  test('a row takes what is known of its network, and its secrets from the environment (contract 21.2)', () => {
    expect(good(gateway, env).gateways).toEqual([
      {
        name: 'base',
        label: 'base',
        hosts: [],
        catalog: 'full',
        hidden: [],
        mpp: true,
        retired: false,
        paymentMethods: [
          {
            kind: 'evm',
            network: 'eip155:8453',
            asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
            payTo: PAY_TO,
            domain: { name: 'USD Coin', version: '2' },
            rpcUrl: env.BASE_RPC_URL,
            settles: { by: 'relayer', keys: [KEY] },
          },
        ],
      },
    ])
  })

  test('a network that is not known has to say its asset and its domain', () => {
    const elsewhere = gateway.replace('eip155:8453', 'eip155:1')
    expect(mistakes(elsewhere, env).map((mistake) => mistake.split(':', 1)[0])).toEqual([
      'gateways.0.asset',
      'gateways.0.asset_name',
    ])
    const settings = `${elsewhere}asset = "${PAY_TO}"\nasset_name = "Coin"\nasset_version = "1"\nlabel = "mainnet"\nhosts = ["pay.example"]`
    expect(good(settings, env).gateways[0]).toMatchObject({
      paymentMethods: [{ asset: PAY_TO, domain: { name: 'Coin', version: '1' } }],
      label: 'mainnet',
      hosts: ['pay.example'],
    })
  })

  test('missing and malformed secrets are named by their variable', () => {
    const found = mistakes(gateway, { RELAYER_KEY: '0x1234' })
    expect(found).toEqual([
      'gateways.0.rpc_url_env: the environment variable BASE_RPC_URL is not set',
      'RELAYER_KEY: must be 0x and 64 hex digits, a key of secp256k1 (its value is not shown)',
    ])
    expect(mistakes(gateway, { ...env, RELAYER_KEY: `0x${'f'.repeat(64)}` })).toEqual([
      'RELAYER_KEY: must be 0x and 64 hex digits, a key of secp256k1 (its value is not shown)',
    ])
  })

  test('a row without a node is a mistake', () => {
    expect(mistakes(gateway.replace('rpc_url_env = "BASE_RPC_URL"\n', ''), env)).toEqual([
      'gateways.0.rpc_url: missing; or name an environment variable in rpc_url_env',
    ])
  })

  test('as many relayer keys as there are replicas, each another one', () => {
    const keys = { ...env, RELAYER_KEY_2: `0x${'7'.repeat(64)}` }
    const withSecond = (second: string) => gateway.replace('"RELAYER_KEY"', `["RELAYER_KEY", "${second}"]`)
    expect(settlesOf(good(withSecond('RELAYER_KEY_2'), keys))).toEqual({
      by: 'relayer',
      keys: [KEY, keys.RELAYER_KEY_2],
    })
    expect(mistakes(withSecond('RELAYER_KEY'), keys)).toEqual([
      'gateways.0.relayer_key_env: two variables hold the same key',
    ])
    expect(
      mistakes(withSecond('RELAYER_KEY_4'), { ...keys, RELAYER_KEY_4: KEY.toUpperCase().replace('0X', '0x') }),
    ).toEqual(['gateways.0.relayer_key_env: two variables hold the same key'])
    expect(mistakes(withSecond('RELAYER_KEY_3'), keys)).toEqual([
      'gateways.0.relayer_key_env: the environment variable RELAYER_KEY_3 is not set',
    ])
  })

  test('settles by itself or through facilitators, not both and not neither', () => {
    const bare = gateway.replace('relayer_key_env = "RELAYER_KEY"\n', '')
    const facilitators = `[[gateways.facilitators]]\nurl = "https://x402.org/facilitator"\n[[gateways.facilitators]]\nurl = "https://api.cdp.example"\ncdp_key_id_env = "CDP_ID"\ncdp_key_secret_env = "CDP_SECRET"\nredirect_origins = ["https://edge.example"]`
    const keys = { ...env, CDP_ID: 'id', CDP_SECRET: 's3cret' }
    const who = ['gateways.0: set either relayer_key_env or facilitators, to settle payments']
    expect([mistakes(bare, keys), mistakes(gateway + facilitators, keys)]).toEqual([who, who])
    expect(settlesOf(good(bare + facilitators, keys))).toEqual({
      by: 'facilitators',
      rows: [
        { url: 'https://x402.org/facilitator' },
        {
          url: 'https://api.cdp.example',
          cdp: { keyId: 'id', keySecret: 's3cret' },
          redirectOrigins: ['https://edge.example'],
        },
      ],
    })
    expect(mistakes(bare + facilitators, env).map((mistake) => mistake.split(': ', 1)[0])).toEqual([
      'gateways.0.facilitators.1.cdp_key_id_env',
      'gateways.0.facilitators.1.cdp_key_secret_env',
    ])
    expect(mistakes((bare + facilitators).replace('cdp_key_id_env = "CDP_ID"\n', ''), keys)).toEqual([
      'gateways.0.facilitators.1: cdp_key_id_env and cdp_key_secret_env must be set together',
    ])
  })

  test('two rows that answer for one host are a mistake', () => {
    const two = `${gateway}hosts = ["pay.example"]\n${gateway.replace('"base"', '"other"')}hosts = ["PAY.example"]`
    expect(mistakes(two, env)).toEqual([
      'gateways.1.hosts.0: pay.example is used by gateways.0.hosts.0 as well; each must have its own',
    ])
  })

  test('two rows of one name are a mistake', () => {
    expect(mistakes(`${gateway}${gateway}port = 4021\n`, env)).toEqual([
      'gateways.1.name: base is used by gateways.0.name as well; each must have its own',
    ])
  })

  const WALLET = '7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU'
  const solana = `[[gateways]]\nname = "solana"\nnetwork = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"\npay_to = "${WALLET}"\nrpc_url_env = "BASE_RPC_URL"\nfee_payer_key_env = "FEE_PAYER"\nport = 4021\n`
  const keypair = JSON.stringify(Array.from({ length: 64 }, (_, index) => index))
  const nano = `[[gateways]]\nname = "nano"\npay_to = "${PAY_TO}"\nport = 4022\nbatched = { networks = ["eip155:8453"] }\n`

  test('one process serves Base, Solana, nano, a test network and one that is retired (contract 21.3, 21.4, 21.5, 21.7)', () => {
    const testnet = `${gateway.replace('"base"', '"testnet"').replace('eip155:8453', 'eip155:84532')}hosts = ["test.example"]\ncatalog = "small"\nhidden = ["portraits"]\npublic_origin = "https://test.example"\n`
    const rows = good(
      `${gateway}${solana}${nano}${testnet}[[gateways]]\nname = "ledger"\nhosts = ["old.example"]\nretired = true\n`,
      { ...env, FEE_PAYER: keypair },
    ).gateways
    expect(
      rows.map(({ name, label, port, retired, catalog, paymentMethods }) => [
        name,
        label,
        port,
        retired,
        catalog,
        paymentMethods.map(({ kind }) => kind),
      ]),
    ).toEqual([
      ['base', 'base', undefined, false, 'full', ['evm']],
      ['solana', 'solana', 4021, false, 'full', ['solana']],
      ['nano', 'nano', 4022, false, 'full', ['batched']],
      ['testnet', 'base-sepolia', undefined, false, 'small', ['evm']],
      ['ledger', 'ledger', undefined, true, 'full', []],
    ])
    expect(rows[1]?.paymentMethods[0]).toMatchObject({
      network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
      asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
      payTo: WALLET,
      settles: { by: 'fee_payer', keys: [keypair] },
    })
    const leadingZeros = `1111${'z'.repeat(81)}`
    expect(good(solana, { ...env, FEE_PAYER: leadingZeros }).gateways[0]?.paymentMethods[0]).toMatchObject({
      settles: { keys: [leadingZeros] },
    })
    expect(
      good(`${solana}max_fee_lamports = 20000\n`, { ...env, FEE_PAYER: keypair }).gateways[0]?.paymentMethods[0],
    ).toMatchObject({ settles: { maxFeeLamports: 20_000 } })
    expect(
      good(`${solana}fee_payer_floor_lamports = 5000000\n`, { ...env, FEE_PAYER: keypair }).gateways[0]
        ?.paymentMethods[0],
    ).toMatchObject({ settles: { feePayerFloorLamports: 5_000_000 } })
    expect(
      good(`${gateway}relayer_floor_wei = "70000000000000000000"\nrelayer_floor_settlements = 9\n`, env).gateways[0]
        ?.paymentMethods[0],
    ).toMatchObject({ settles: { relayerFloorWei: '70000000000000000000', relayerFloorSettlements: 9 } })
    expect(rows[2]?.paymentMethods[0]).toEqual({
      kind: 'batched',
      url: 'https://gateway-api.circle.com',
      networks: ['eip155:8453'],
      payTo: PAY_TO,
    })
    expect(rows[3]).toMatchObject({
      hidden: ['portraits'],
      publicOrigin: 'https://test.example',
      paymentMethods: [{ network: 'eip155:84532' }],
    })
  })

  test('a plain offer stands before a batched one', () => {
    expect(good(`${gateway}batched = {}\n`, env).gateways[0]?.paymentMethods.map(({ kind }) => kind)).toEqual([
      'evm',
      'batched',
    ])
  })

  test('a gateway that nobody could call is named, by its name, its port, or that it has neither', () => {
    const keys = { ...env, FEE_PAYER: keypair }
    const lost = solana.replace('port = 4021\n', '')
    expect(mistakes(gateway + lost, keys)).toEqual([
      'gateways.1: is unreachable, because the first gateway answers to all other names; set hosts or port',
    ])
    expect(mistakes(`${gateway}[[gateways]]\nname = "old"\nretired = true\n`, keys)).toEqual([])
    expect(mistakes(gateway + solana, { ...keys, PORT: '4021' })).toEqual([
      'gateways.1.port: 4021 is the shared port; choose another one',
    ])
    for (const host of ['https://sol.example', 'sol.example/', 'sol.example:80', 'sóla.example', 'sol example']) {
      expect(mistakes(`${gateway}${lost}hosts = ["a.example", "${host}"]\n`, keys)).toEqual([
        `gateways.1.hosts.1: must be a name as callers send it, such as pay.example or pay.example:8080, got "${host}"`,
      ])
    }
    expect(
      mistakes(
        `${gateway}${lost}hosts = ["Sol.Example:8443", "xn--sla-gna.example", "[::1]:4020", "127.0.0.1"]\n`,
        keys,
      ),
    ).toEqual([])
  })

  test('what does not belong to a rail is named', () => {
    const keys = { ...env, FEE_PAYER: keypair }
    const wrong: readonly (readonly [string, string])[] = [
      [
        '[[gateways]]\nname = "x"\n',
        'gateways.0.network: missing; or set batched, for payments through Circle Gateway',
      ],
      [`${nano}rpc_url = "http://x"\n`, 'gateways.0.rpc_url: needs network, which is not set'],
      [solana.replace(WALLET, PAY_TO), `gateways.0.pay_to: must be a base58 wallet address, got "${PAY_TO}"`],
      [gateway.replace(PAY_TO, WALLET), `gateways.0.pay_to: must be 0x and 40 hex digits, got "${WALLET}"`],
      [
        solana.replace('fee_payer_key_env', 'relayer_key_env'),
        'gateways.0.relayer_key_env: is for EVM networks; on Solana use fee_payer_key_env',
      ],
      [
        gateway.replace('relayer_key_env', 'fee_payer_key_env'),
        'gateways.0.fee_payer_key_env: is for Solana; on EVM networks use relayer_key_env',
      ],
      [`${gateway}max_fee_lamports = 20000\n`, 'gateways.0.max_fee_lamports: is for Solana'],
      [`${solana}schemes = ["upto"]\n`, 'gateways.0.schemes: is for EVM networks'],
      [`${solana}channel_min_deposit = 1\n`, 'gateways.0.channel_min_deposit: is for EVM networks'],
      [
        `${gateway}schemes = ["exact", "batch-settlement"]\n`,
        'gateways.0.channel_key_env: missing; "batch-settlement" in schemes needs the key that signs claims',
      ],
      [`${gateway}channel_claim_above = 5\n`, 'gateways.0.channel_claim_above: needs "batch-settlement" in schemes'],
      [
        `${gateway}fee_payer_floor_lamports = 1\n`,
        'gateways.0.fee_payer_floor_lamports: is for Solana; on EVM networks use relayer_floor_wei',
      ],
      [
        `${solana}relayer_floor_wei = "1"\n`,
        'gateways.0.relayer_floor_wei: is for EVM networks; on Solana use fee_payer_floor_lamports',
      ],
      [
        `${solana}${nano.replace('4022', '4021')}`,
        'gateways.1.port: 4021 is used by gateways.0.port as well; each must have its own',
      ],
      ['[[gateways]]\nname = "x"\nretired = true\n', 'gateways: all are retired; at least one must sell'],
      [
        gateway + gateway.replace('"base"', '"other"').replace(PAY_TO, `0x${'1'.repeat(40)}`),
        'gateways.1.relayer_key_env: shares a key with gateways.0 on eip155:8453, which has another pay_to or other settings; give it its own key',
      ],
    ]
    for (const [toml, mistake] of wrong) expect(mistakes(toml, keys)).toContain(mistake)
    expect(mistakes(solana, { ...env, FEE_PAYER: KEY })).toEqual([
      'FEE_PAYER: must be a keypair of 64 bytes, in base58 or as a JSON array (its value is not shown)',
    ])
  })
})

describe('vendors and rows', () => {
  const keys = { OPENAI_KEY: 's3cret-a', OTHER_KEY: 's3cret-b' }
  const vendor =
    '[vendors.vendor-a]\nprotocol = "openai-images"\nkey_env = "OPENAI_KEY"\nbase_url = "https://api.example/v1"\ntimeout_seconds = 60\nparameters = { quality = "low" }\n'
  const image = (id: string, ...lines: readonly string[]) => `[[images]]\nid = "${id}"\n${lines.join('\n')}\n`
  const serving = (toml: string, id: string, with_: Environment = keys) => good(toml, with_).images.servings.get(id)
  const served = {
    protocol: 'openai-images',
    baseUrl: 'https://api.example/v1',
    key: 's3cret-a',
    timeoutMs: 60_000,
    parameters: { quality: 'low' },
  } as const

  test('a vendor serves its rows, with its key from the environment; other rows have nobody', () => {
    const { servings } = good(vendor, keys).images
    expect([...servings]).toEqual([
      ['vendor-a/image-1', served],
      ['vendor-a/image-2', served],
    ])
  })

  test('a row says what differs for it: protocol, address, key, time, parameters, overrides, images per call and mask', () => {
    const wins = (line: string, id = 'vendor-a/image-1') => serving(vendor + image(id, line), id)
    expect(wins('base_url = "http://proxy.lan"')).toEqual({ ...served, baseUrl: 'http://proxy.lan' })
    expect(wins('key_env = "OTHER_KEY"')).toEqual({ ...served, key: 's3cret-b' })
    expect(wins('timeout_seconds = 600')).toEqual({ ...served, timeoutMs: 600_000 })
    expect(wins('parameters = { quality = "high", n = 1 }')).toEqual({
      ...served,
      parameters: { quality: 'high', n: 1 },
    })
    expect(wins('overrides = { model = "x" }')).toEqual({ ...served, overrides: { model: 'x' } })
    expect(wins('per_call = 1')).toEqual({ ...served, perCall: 1 })
    expect(wins('mask_marks = "white"')).toEqual({ ...served, maskMarks: 'white' })
    expect(wins('protocol = "openai-images"')).toEqual(served)
    expect(serving(vendor + image('vendor-a/image-1', 'per_call = 1'), 'vendor-a/image-2')).toEqual(served)
  })

  test('a row of another protocol is another service: it inherits neither address nor key', () => {
    const local = image('vendor-a/image-1', 'protocol = "sdapi"', 'base_url = "http://gpu.lan:7860"')
    expect(serving(vendor + local, 'vendor-a/image-1')).toMatchObject({
      protocol: 'sdapi',
      baseUrl: 'http://gpu.lan:7860',
      key: undefined,
      timeoutMs: 600_000,
    })
  })

  test('a row can be served without any vendor table', () => {
    const local = image(
      'vendor-e/image-pro',
      'protocol = "demo"',
      'slow = false',
      'edits = { max_images = 2, mask = true }',
    )
    const { images: catalog } = good(local)
    expect([...catalog.servings.keys()]).toEqual(['vendor-e/image-pro'])
    expect(catalog.rows.find(({ id }) => id === 'vendor-e/image-pro')).toMatchObject({
      slow: false,
      edits: { maxImages: 2, mask: true },
    })
  })

  test('a new row is served by the vendor that it names, or says what is missing', () => {
    const row = image(
      'house/brush',
      'vendor = "local"',
      'upstream = "brush-9"',
      'sizes = { "640x480" = "0.004" }',
      'aliases = ["brush"]',
      'name = "Brush"',
      'maker = "house"',
    )
    const { images: catalog } = good(`[vendors.local]\nprotocol = "sdapi"\nbase_url = "http://127.0.0.1:7860"\n${row}`)
    expect(catalog.rows.at(-1)).toMatchObject({
      id: 'house/brush',
      aliases: ['brush'],
      name: 'Brush',
      maker: 'house',
      vendor: 'local',
      upstream: 'brush-9',
    })
    expect(catalog.servings.get('house/brush')).toMatchObject({ protocol: 'sdapi', key: undefined })
    const table = '[vendors.local]\nprotocol = "sdapi"\nbase_url = "http://127.0.0.1:7860"\n'
    expect(mistakes(table + image('house/brush', 'vendor = "local"'))).toEqual([
      'images house/brush: not in the built-in catalog, so upstream and sizes are required',
    ])
    expect(mistakes(image('house/brush'))).toEqual([
      'images house/brush: not in the built-in catalog, so vendor, upstream and sizes are required',
    ])
  })

  test('a redirected row is served as its fallback is, and keeps its name', () => {
    const rows =
      image('vendor-a/image-2', 'redirect = "vendor-a/image-1"') +
      image('vendor-a/image-1', 'key_env = "OTHER_KEY"', 'upstream = "today"')
    const { images: catalog } = good(vendor + rows, keys)
    expect(catalog.servings.get('vendor-a/image-2')).toEqual({ ...served, key: 's3cret-b' })
    expect(catalog.rows.find(({ id }) => id === 'vendor-a/image-2')).toMatchObject({
      upstream: 'today',
      servedBy: 'vendor-a/image-1',
    })
    expect(mistakes(vendor + image('vendor-a/image-1', 'redirect = "vendor-a/image-2"'), keys)).toHaveLength(3)
  })

  test('two rows with one name, and two entries for one row, are mistakes', () => {
    expect(mistakes(image('vendor-a/image-1', 'aliases = ["vendor-a/image-2"]'))).toEqual([
      'images: two rows are called vendor-a/image-2',
    ])
    expect(mistakes(image('vendor-a/image-1', 'slow = true') + image('vendor-a/image-1', 'hidden = true'))).toEqual([
      'images: two entries change vendor-a/image-1',
    ])
  })

  test('a key that is not in the environment is named once, wherever it is missing', () => {
    expect(mistakes(vendor)).toEqual(['vendors.vendor-a.key_env: the environment variable OPENAI_KEY is not set'])
    expect(
      mistakes(vendor + image('vendor-b/image-pro', 'protocol = "gemini-images"', 'key_env = "GONE"'), keys),
    ).toEqual(['images vendor-b/image-pro.key_env: the environment variable GONE is not set'])
  })

  test('sizes, rates, ids and unknown fields are checked by name, and a key in the wrong place is not shown', () => {
    const bad = [
      [image('vendor-a/image-1', 'sizes = { "large" = "0.1" }'), 'images vendor-a/image-1.sizes'],
      [image('vendor-a/image-1', 'sizes = { "1024x1024" = "free" }'), 'images.0.sizes.1024x1024'],
      [image('has space'), 'images.0.id'],
      [image('vendor-a/image-1', 'model = "x"'), 'images.0.model'],
      [image('vendor-a/image-1', 'edits = { max_images = 0, mask = true }'), 'images.0.edits.max_images'],
      [image('vendor-a/image-1', `key_env = "${KEY}"`), 'images.0.key_env'],
      ['trusted_hosts = ["http://gpu.lan"]', 'trusted_hosts.0'],
    ] as const
    for (const [toml, name] of bad) {
      const [first = ''] = mistakes(toml)
      expect([toml, first]).toEqual([toml, expect.stringContaining(name)])
      expect(first).not.toContain(KEY)
    }
  })

  test('on devnet with a vendor’s key, only loopback is listened on: play money must not buy real work', () => {
    for (const host of ['0.0.0.0', '::', '10.0.0.1', 'pay.example']) {
      const found = mistakes(`host = "${host}"\n${vendor}`, keys)
      expect(found).toEqual([expect.stringMatching(/^HOST: .*test money/)])
      expect(found.join()).not.toContain('s3cret')
      expect(mistakes(`host = "${host}"\n${vendor.replace('key_env = "OPENAI_KEY"\n', '')}`)).toEqual([])
      expect(mistakes(`host = "${host}"\n${vendor}${gateway}`, { ...keys, ...env })).toEqual([])
    }
    for (const host of ['127.0.0.1', '::1', 'localhost'])
      expect(mistakes(`host = "${host}"\n${vendor}`, keys)).toEqual([])
    expect(mistakes(vendor, { ...keys, HOST: '0.0.0.0' })).toHaveLength(1)
    expect(
      mistakes(image('vendor-c/image-1', 'protocol = "xai-images"', 'key_env = "OTHER_KEY"'), {
        ...keys,
        HOST: '0.0.0.0',
      }),
    ).toHaveLength(1)
  })
})

describe('secrets', () => {
  const secrets = { OPERATOR_TOKEN: 's3cret-short', DATABASE_URL: 's3cret://user:s3cret@db', OBJECT_STORE: 's3cret' }

  test('no mistake shows the value of a token, a key or a URL', () => {
    const found = mistakes(
      `${gateway.replace(/rpc_url_env.*/, 'rpc_url = "ftp://s3cret@node"')}relayer_key = "s3cret"`,
      { ...secrets, RELAYER_KEY: 's3cret' },
    )
    expect(found.length).toBeGreaterThanOrEqual(4)
    expect(found.join()).not.toContain('s3cret')
  })

  test('a key pasted where the name of its variable belongs is not shown', () => {
    for (const pasted of [KEY, KEY.slice(2), KEY.slice(2).toUpperCase(), env.BASE_RPC_URL]) {
      const found = mistakes(
        gateway.replace('"RELAYER_KEY"', `"${pasted}"`).replace('"BASE_RPC_URL"', `"${pasted}"`),
        env,
      )
      expect(found).toHaveLength(2)
      expect(found.join()).not.toContain(pasted)
    }
  })

  test('a key in a setting that does not exist is not shown', () => {
    expect(mistakes(`relayer = "${KEY}"`).join()).not.toContain(KEY)
  })
})

describe('files', () => {
  let dir = ''
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'farebox-config-'))
  })
  afterEach(() => rmSync(dir, { recursive: true }))

  test('FAREBOX_CONFIG names the file, and the environment still wins', () => {
    const path = join(dir, 'other.toml')
    writeFileSync(path, 'port = 5000\nhost = "localhost"')
    expect(readConfig({ FAREBOX_CONFIG: path, PORT: '6000' })).toMatchObject({
      ok: true,
      config: { port: 6000, host: 'localhost' },
    })
  })

  test('a file that FAREBOX_CONFIG names and that is not there is a mistake', () => {
    const path = join(dir, 'none.toml')
    expect(readConfig({ FAREBOX_CONFIG: path })).toMatchObject({
      ok: false,
      mistakes: [`FAREBOX_CONFIG: no file at ${path}`],
    })
  })

  test('what cannot be read is a mistake, not a stack', () => {
    expect(readConfig({ FAREBOX_CONFIG: dir })).toMatchObject({
      ok: false,
      mistakes: [`${dir}: cannot be read (EISDIR)`],
    })
  })

  test('a mistake in TOML names the file that it is in', () => {
    const path = join(dir, 'broken.toml')
    writeFileSync(path, 'port = = 1')
    const read = readConfig({ FAREBOX_CONFIG: path })
    expect(read.ok ? '' : read.mistakes[0]).toStartWith(`${path}:1:8: `)
  })
})

test('loopback is what only this machine can reach', () => {
  expect(['localhost', '127.0.0.1', '127.8.8.8', '::1'].filter((host) => !isLoopback(host))).toEqual([])
  expect(
    ['0.0.0.0', '::', '10.0.0.1', 'localhost.example.com', '127.evil.example', '1127.0.0.1'].filter(isLoopback),
  ).toEqual([])
})

describe('what is set for a gateway that sells, and by no devnet', () => {
  const ORIGIN = 'https://ai.example.com'
  const found = (given: Environment, toml = '') => good(toml, given).production

  test.each<[string, Environment]>([
    ['PUBLIC_ORIGIN', { PUBLIC_ORIGIN: ORIGIN }],
    ['OPERATOR_TOKEN', { OPERATOR_TOKEN: 'a-token-of-the-operator' }],
    ['DATABASE_URL', { DATABASE_URL: 'sqlite:elsewhere.db' }],
    ['OBJECT_STORE', { OBJECT_STORE: 's3://bucket' }],
    ['ALERT_WEBHOOK_URL', { ALERT_WEBHOOK_URL: ORIGIN }],
    ['POLL_KEYS', { POLL_KEYS: '00'.repeat(16) }],
    ['RELAYER_KEY', { RELAYER_KEY: KEY }],
    ['BASE_RELAYER_KEY', { BASE_RELAYER_KEY: KEY }],
    ['SOLANA_FEE_PAYER', { SOLANA_FEE_PAYER: '[]' }],
    ['TWILIO_AUTH_TOKEN', { TWILIO_AUTH_TOKEN: 'token' }],
    ['BLAND_API_KEY', { BLAND_API_KEY: 'key' }],
    ['CDP_API_KEY_SECRET', { CDP_API_KEY_SECRET: 'secret' }],
  ])('is named: %s', (name, given) => {
    expect(found(given)).toEqual([name])
  })

  test('is named as the file spells it', () => {
    expect(found({}, `public_origin = "${ORIGIN}"\ntrusted_proxies = ["10.0.0.1"]`)).toEqual([
      'public_origin',
      'trusted_proxies',
    ])
  })

  test('is not the key of a model vendor, or where to listen; and a gateway may have all of it', () => {
    const allowed = { ANTHROPIC_API_KEY: 'k', OPENAI_API_KEY: 'k', EXA_API_KEY: 'k', PORT: '0', LOG_LEVEL: 'warn' }
    expect(found(allowed)).toEqual([])
    expect(found({ ...env, PUBLIC_ORIGIN: ORIGIN }, gateway)).toEqual([])
  })
})

test('an empty FAREBOX_CONFIG is one that is not set', () => {
  expect(readConfig({ FAREBOX_CONFIG: '' })).toEqual(readConfig({}))
})
