/** Each mistake of a configuration is named with its line and column, all at once, in words. */
import { describe, expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import { STORAGE_URLS } from '../../../adapters/storage/manifests.ts'
import { providers } from '../../../server/config/providers.ts'
import { positionsIn } from '../../../server/config/errors/positions.ts'
import { hasWords } from '../../../server/config/errors/wording.ts'
import { checkedConfig, File } from '../../../server/config/mod.ts'
import type { Environment } from '../../../server/config/settings.ts'

const KEY = `0x${'5ec2e7'.repeat(10)}5ec2`
const ENV = { BASE_RPC_URL: 'https://node.example/v2/s3cretpath', RELAYER_KEY: KEY }
/** Six lines. */
const GATEWAY = `[[gateways]]
name = "base"
network = "eip155:8453"
pay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
rpc_url_env = "BASE_RPC_URL"
relayer_key_env = "RELAYER_KEY"
`

function mistakes(toml: string, env: Environment): readonly string[] {
  const read = checkedConfig(toml, env, 'farebox.toml')
  return read.ok ? [] : read.mistakes
}

/** Name of the case, the file, the environment, and every mistake. */
const BROKEN: readonly (readonly [string, string, Environment, readonly string[]])[] = [
  ['no value', 'port =\n', {}, ['farebox.toml:1:7: Invalid TOML document: invalid value']],
  ['an open quote', `port = 1\nhost = "0.0.0.0\n${GATEWAY}`, ENV, ['farebox.toml:2:16: Invalid TOML document: ']],
  ['one setting twice', 'port = 1\nport = 2\n', {}, ['farebox.toml:2:1: Invalid TOML document: ']],
  ['a misspelt setting', '# comment\n\nprot = 4020\n', {}, ['3:1: prot: there is no such setting; did you mean port?']],
  [
    'a misspelt setting of a gateway, and its key unset',
    GATEWAY.replace('pay_to', 'payto'),
    { BASE_RPC_URL: 'http://x' },
    [
      '4:1: gateways.0.payto: there is no such setting; did you mean pay_to?',
      '6:1: gateways.0.relayer_key_env: the environment variable RELAYER_KEY is not set',
    ],
  ],
  [
    'a misspelt table',
    `[[gateway]]\nname = "base"\n`,
    {},
    ['1:1: gateway: there is no such setting; did you mean gateways?'],
  ],
  [
    'an address that nobody has',
    'port = 1\nhost = "999.1.1.1"\n',
    {},
    [
      '2:1: host: must be an IP address such as 127.0.0.1, 0.0.0.0 for all addresses, or a host name of this machine, got',
    ],
  ],
  [
    'an address with a port, in the environment',
    '',
    { HOST: 'localhost:4020' },
    [
      'HOST: must be an IP address such as 127.0.0.1, 0.0.0.0 for all addresses, or a host name of this machine, got "lo',
    ],
  ],
  ['text for a number', 'port = "4020"\n', {}, ['1:1: port: must be a whole number from 0 to 65535, got "4020"']],
  ['a number for text', 'host = 1\n', {}, ['1:1: host: must be text: write it in quotes, got 1']],
  ['text for a switch', 'bare_v1 = "yes"', {}, ['1:1: bare_v1: must be true or false, without quotes, got "yes"']],
  [
    'text for a list',
    'trusted_proxies = "10.0.0.0/8"',
    {},
    ['1:1: trusted_proxies: must be a list, in square brackets, got "10.0.0.0/8"'],
  ],
  [
    'an unknown level',
    'log_level = "loud"',
    {},
    ['1:1: log_level: must be one of silent, error, warn, info, got "loud"'],
  ],
  [
    'a range that is none, in a list over several lines',
    'trusted_proxies = [\n  "10.0.0.0/8", # first\n  "10.0.0.0/99",\n]\n',
    {},
    ['3:3: trusted_proxies.1: must be an address or a range such as 10.0.0.0/8, got "10.0.0.0/99"'],
  ],
  [
    'an origin with a path',
    'public_origin = "https://ai.example.com/farebox"',
    {},
    [
      '1:1: public_origin: must be an origin such as https://ai.example.com, without a path or a slash at its end, got ',
    ],
  ],
  ['a database of another kind', 'database_url = "mysql://x"', {}, [`1:1: database_url: must be ${STORAGE_URLS} (`]],
  [
    'a key in place of the name of its variable',
    GATEWAY.replace('"RELAYER_KEY"', `"${KEY}"`),
    ENV,
    [
      '6:1: gateways.0.relayer_key_env: must be the name of an environment variable, in capital letters (not the key itself), or a list of 1 to 64 such names, in square brackets (its value is not shown)',
    ],
  ],
  [
    'a wallet that is too short',
    GATEWAY.replace('312287C', ''),
    ENV,
    ['4:1: gateways.0.pay_to: must be an address: 0x and 40 hex digits, or 32 to 44 base58 characters on Solana, got '],
  ],
  [
    'a network by its name',
    GATEWAY.replace('eip155:8453', 'base'),
    ENV,
    [
      '3:1: gateways.0.network: must be a network in CAIP-2: eip155:<chain id>, such as eip155:8453 for Base, or solana',
    ],
  ],
  [
    'nobody who settles',
    GATEWAY.replace('relayer_key_env = "RELAYER_KEY"\n', ''),
    ENV,
    ['1:1: gateways.0: set either relayer_key_env or facilitators, to settle payments'],
  ],
  [
    'what the second gateway lacks',
    `${GATEWAY}\n# on a port of its own\n[[gateways]]\nname = "more"\nport = 4021\nnetwork = "eip155:999"\npay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"\n`,
    ENV,
    [
      '9:1: gateways.1.rpc_url: missing; or name an environment variable in rpc_url_env',
      '9:1: gateways.1.asset: missing; the USDC address on eip155:999 is not built in',
      "9:1: gateways.1.asset_name: missing; the token's EIP-712 name on eip155:999 is not built in",
      '9:1: gateways.1: set either relayer_key_env or facilitators, to settle payments',
    ],
  ],
  [
    'a second gateway with the name and the host of the first',
    `${GATEWAY}hosts = ["a.example"]\n\n${GATEWAY}hosts = [\n  "b.example",\n  "A.example",\n]\n`,
    ENV,
    [
      '10:1: gateways.1.name: base is used by gateways.0.name as well; each must have its own',
      '17:3: gateways.1.hosts.1: a.example is used by gateways.0.hosts.0 as well; each must have its own',
    ],
  ],
  [
    'a vendor that has no table',
    '[vendors.local]\nprotocol = "sdapi"\n\n[[images]]\nid = "my/brush"\nvendor = "locol"\nupstream = "b"\nsizes = { "512x512" = "0.01" }\n',
    {},
    ['6:1: images my/brush.vendor: there is no table [vendors.locol]; did you mean local? (known: local, vendor-a, '],
  ],
  [
    'a vendor that has no table, of a built-in model',
    '[[chat]]\nid = "vendor-a/chat-6-small"\nvendor = "none"\n',
    {},
    ['3:1: chat vendor-a/chat-6-small.vendor: there is no table [vendors.none] (known: embedded, vendor-a, '],
  ],
  [
    'a second gateway that nobody can reach',
    `${GATEWAY}\n${GATEWAY.replace('"base"', '"more"')}`,
    ENV,
    ['8:1: gateways.1: is unreachable, because the first gateway answers to all other names; set hosts or port'],
  ],
  [
    'a price as a number, in an inline table',
    `[[images]]\nid = "vendor-a/image-1"\nsizes = { "1024x1024" = 0.02 }\n`,
    {},
    ['3:11: images.0.sizes.1024x1024: must be text: write it in quotes, got 0.02'],
  ],
  [
    'a vendor without a protocol, whose key is not set',
    '[vendors.mine]\nbase_url = "https://x.example"\nkey_env = "MY_KEY"\n',
    {},
    ['1:1: vendors.mine: set at least one of protocol (for images), chat and video'],
  ],
  ['a port in the environment', '', { PORT: '99999' }, ['PORT: must be a whole number from 0 to 65535, got 99999']],
  [
    'five settings at once',
    `colour = 1\nlog_level = 7\nfree_per_minute = 50\nfree_per_hour = 40\n${GATEWAY.replace('"base"', '"Base One"')}`,
    { ...ENV, RELAYER_KEY: 'abc' },
    [
      'RELAYER_KEY: must be 0x and 64 hex digits, a key of secp256k1 (its value is not shown)',
      '1:1: colour: there is no such setting',
      '2:1: log_level: must be one of silent, error, warn, info, got 7',
      '4:1: free_per_hour: must be at least free_per_minute, which is 50, got 40',
      '6:1: gateways.0.name: must be at most 40 lower-case letters, digits and dashes, got "Base One"',
    ],
  ],
]

test.each(BROKEN)('%s is named with its line and column', (_, toml, env, expected) => {
  const found = mistakes(toml, env)
  const lines = found.map((each) => (each.startsWith('farebox.toml:') ? each.replace(/^farebox\.toml:/, '') : each))
  expect(lines.map((each, index) => each.slice(0, expected[index]?.replace('farebox.toml:', '').length))).toEqual(
    expected.map((each) => each.replace('farebox.toml:', '')),
  )
  expect(found.join()).not.toMatch(/5ec2e7|s3cret|\^\(|\[0-9|Expected|expected/)
})

test('every pattern of a setting can be said in words', () => {
  const nameless: string[] = []
  const descend = (schema: unknown, at: string): void => {
    if (typeof schema !== 'object' || schema === null) return
    const { pattern, isSecret } = schema as TSchema
    if (typeof pattern === 'string' && !isSecret && !hasWords(schema as TSchema)) nameless.push(`${at}: ${pattern}`)
    for (const [name, inner] of Object.entries(schema))
      if (name !== 'patternProperties') descend(inner, `${at}.${name}`)
    for (const [inner, each] of Object.entries((schema as TSchema).patternProperties ?? {}))
      descend(each, `${at}.${inner}`)
  }
  descend(File.properties, '')
  for (const { name, settings } of providers) descend(settings, name)
  expect(nameless).toEqual([])
})

describe('positions', () => {
  test('every form of TOML has its line and column', () => {
    const text = `# [no.table]
top = """one
two = 2"""
'quoted' = 'a # b'
list = [[1, 2], { a = "]" }, """
x"""]
a.b = { c = 1, "d e" = [1] }
  [table."sub"] # comment
  key = true
[[rows]]
id = "a"
[rows.more]
x = 1
[[rows]]
id = "b"
`
    const at = Object.fromEntries([...positionsIn(text)].map(([path, { line, column }]) => [path, `${line}:${column}`]))
    expect(at).toEqual({
      top: '2:1',
      quoted: '4:1',
      list: '5:1',
      'list.0': '5:9',
      'list.0.0': '5:10',
      'list.0.1': '5:13',
      'list.1': '5:17',
      'list.1.a': '5:19',
      'list.2': '5:30',
      a: '7:1',
      'a.b': '7:1',
      'a.b.c': '7:9',
      'a.b.d e': '7:16',
      'a.b.d e.0': '7:25',
      table: '8:3',
      'table.sub': '8:3',
      'table.sub.key': '9:3',
      rows: '10:1',
      'rows.0': '10:1',
      'rows.0.id': '11:1',
      'rows.0.more': '12:1',
      'rows.0.more.x': '13:1',
      'rows.1': '14:1',
      'rows.1.id': '15:1',
    })
  })
})
