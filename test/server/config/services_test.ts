/** Who searches, who knows prices and who finds swaps: by key, by file, and by mistake. */
import { describe, expect, test } from 'bun:test'
import { type Config, realVendors } from '../../../server/config/mod.ts'
import { providers } from '../../../server/config/providers.ts'
import { good, mistakes, servedBy, settingsOf } from './config_kit.ts'

const PAYER = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const gateway = `[[gateways]]\nname = "base"\nnetwork = "eip155:8453"\npay_to = "${PAYER}"\nrpc_url_env = "BASE_RPC_URL"\nrelayer_key_env = "RELAYER_KEY"\n`
const real = { BASE_RPC_URL: 'https://node.example', RELAYER_KEY: `0x${'7'.repeat(64)}` }
const ZEROX = { ZEROX_API_KEY: 's3cret', SWAP_FEE_RECIPIENT: PAYER }

const order = (config: Config) => servedBy(config, 'search')

test('nobody serves what nothing is said of, but on devnet, where the demo fills in', () => {
  const served = (config: Config) => (['search', 'market', 'swap'] as const).map((each) => servedBy(config, each))
  expect(served(good(gateway, real))).toEqual([undefined, undefined, undefined])
  expect(served(good(''))).toEqual([['corpus'], ['sample'], undefined])
  for (const config of [good(''), good(gateway, real)]) expect(realVendors(config)).toEqual([])
})

describe('search', () => {
  test('keys bring it to life: xAI first, then Exa', () => {
    expect(order(good('', { XAI_API_KEY: 'x' }))).toEqual(['xai'])
    expect(order(good('', { EXA_API_KEY: 'e' }))).toEqual(['exa'])
    expect(order(good('', { EXA_API_KEY: 'e', XAI_API_KEY: 'x' }))).toEqual(['xai', 'exa'])
  })

  test('the file says another order, one alone, or none', () => {
    const keys = { EXA_API_KEY: 'e', XAI_API_KEY: 'x' }
    expect(order(good('search = ["exa", "xai"]', keys))).toEqual(['exa', 'xai'])
    expect(order(good('search = ["exa"]', keys))).toEqual(['exa'])
    expect(order(good('search = []', keys))).toEqual([])
    expect(order(good(`search = ["corpus"]\n${gateway}`, { ...keys, ...real }))).toEqual(['corpus'])
  })

  test('each is called at its maker’s address unless told; the model that searches can be another', () => {
    const keys = { EXA_API_KEY: 'e', XAI_API_KEY: 'x' }
    const settings = (config: Config) => config.services.search?.map((each) => each.settings)
    expect(settings(good('', keys))).toEqual([{ xai_api_key: 'x' }, { exa_api_key: 'e' }])
    const reported = good('xai_search_model = "grok-5"\nexa_base_url = "http://exa.lan"', {
      ...keys,
      XAI_BASE_URL: 'http://xai.lan/v1',
    })
    expect(settings(reported)).toEqual([
      { xai_api_key: 'x', xai_base_url: 'http://xai.lan/v1', xai_search_model: 'grok-5' },
      { exa_api_key: 'e', exa_base_url: 'http://exa.lan' },
    ])
    const nearer = good('exa_base_url = "http://exa.lan"', { EXA_API_KEY: 'e', EXA_BASE_URL: 'http://nearer.lan' })
    expect(settings(nearer)).toMatchObject([{ exa_base_url: 'http://nearer.lan' }])
  })

  test('a source without its key is a mistake that names the key, as are two of one, and the corpus beside another', () => {
    expect(mistakes('search = ["exa", "xai"]')).toEqual([
      'search: exa needs the environment variable EXA_API_KEY, which is not set (The API key of Exa.)',
      'search: xai needs the environment variable XAI_API_KEY, which is not set (The API key of xAI.)',
    ])
    expect(mistakes('search = ["exa", "exa"]', { EXA_API_KEY: 'e' })).toEqual(['search: names a provider twice'])
    expect(mistakes('search = ["exa", "corpus"]', { EXA_API_KEY: 'e' })).toEqual([
      'search: corpus is a sample (a few bundled documents, alone only) and cannot be combined with others',
    ])
    expect(mistakes('search = ["bing"]')).toEqual([
      expect.stringMatching(/^search\.0: must be one of xai, .*exa.*, corpus, got "bing"$/),
    ])
    expect(mistakes('', { EXA_API_KEY: 'e', EXA_BASE_URL: 'exa.s3cret.lan' })).toEqual([
      'EXA_BASE_URL: must be a URL that begins with http:// or https:// (its value is not shown)',
    ])
    expect(mistakes('', { XAI_API_KEY: 'x', XAI_BASE_URL: 'xai.s3cret.lan' })).toEqual([
      'XAI_BASE_URL: must begin with http:// or https:// (its value is not shown)',
    ])
  })
})

describe('market data', () => {
  test('a key brings Pyth, at its own addresses unless told', () => {
    expect(servedBy(good('', { PYTH_API_KEY: 'p' }), 'market')).toEqual(['pyth'])
    expect(settingsOf(good('', { PYTH_API_KEY: 'p' }), 'market')).toEqual({ pyth_api_key: 'p' })
    const env = {
      PYTH_API_KEY: 'p',
      PYTH_HERMES_URL: 'http://hermes.lan',
      PYTH_HISTORY_URL: 'http://bars.lan/v1/real_time',
    }
    expect(settingsOf(good('pyth_hermes_url = "http://farther.lan"', env), 'market')).toEqual({
      pyth_api_key: 'p',
      pyth_hermes_url: 'http://hermes.lan',
      pyth_history_url: 'http://bars.lan/v1/real_time',
    })
  })

  test('the switch wins over the key', () => {
    expect(servedBy(good('market = "sample"', { PYTH_API_KEY: 'p' }), 'market')).toEqual(['sample'])
    expect(servedBy(good('market = "sample"', { PYTH_API_KEY: 'p', MARKET: 'off' }), 'market')).toEqual([])
    expect(servedBy(good(`market = "sample"\n${gateway}`, real), 'market')).toEqual(['sample'])
  })

  test('Pyth without a key is a mistake, unless both its lists and its bars are somewhere else', () => {
    const missing =
      'market: pyth needs the environment variable PYTH_API_KEY, which is not set; without a key, name both pyth_hermes_url and pyth_history_url'
    expect(mistakes('market = "pyth"')).toEqual([missing])
    expect(mistakes('market = "pyth"\npyth_hermes_url = "http://hermes.lan"')).toEqual([missing])
    const own = good('market = "pyth"\npyth_hermes_url = "http://hermes.lan"\npyth_history_url = "http://bars.lan"')
    expect(settingsOf(own, 'market')).toEqual({
      pyth_hermes_url: 'http://hermes.lan',
      pyth_history_url: 'http://bars.lan',
    })
    expect(realVendors(own)).toEqual([])
    expect(mistakes('', { MARKET: 'nasdaq' })).toEqual([
      expect.stringMatching(/^MARKET: must be one of .*pyth.*, sample, off, got "nasdaq"$/),
    ])
    expect(mistakes('market = "pyth"\npyth_hermes_url = "hermes.s3cret.lan"')).toEqual([
      'pyth_hermes_url: must be a URL that begins with http:// or https:// (its value is not shown)',
    ])
  })
})

describe('swaps', () => {
  test('a key and a recipient of the fee bring them, from file or environment', () => {
    const swap = { zerox_api_key: 's3cret', swap_fee_recipient: PAYER }
    expect(settingsOf(good('', ZEROX), 'swap')).toEqual(swap)
    const file = `swap_fee_recipient = "${PAYER}"\nzerox_base_url = "http://127.0.0.1:9"`
    expect(settingsOf(good(file, { ZEROX_API_KEY: 's3cret' }), 'swap')).toEqual({
      ...swap,
      zerox_base_url: 'http://127.0.0.1:9',
    })
  })

  test('one without the other is a mistake that names what is missing', () => {
    expect(mistakes('', { ZEROX_API_KEY: 's3cret' })).toEqual([
      'swap_fee_recipient (SWAP_FEE_RECIPIENT): not set; ZEROX_API_KEY has no effect without it. The address that receives the 0.2% fee of swaps. `ZEROX_API_KEY` needs it.',
    ])
    expect(mistakes(`swap_fee_recipient = "${PAYER}"`)).toEqual([
      'ZEROX_API_KEY: not set; swap_fee_recipient (SWAP_FEE_RECIPIENT) has no effect without it. The API key of 0x.',
    ])
  })

  test('the recipient is an address that somebody can have', () => {
    expect(mistakes('', { ...ZEROX, SWAP_FEE_RECIPIENT: 'treasury.eth' })).toEqual([
      'SWAP_FEE_RECIPIENT: must be an address: 0x and 40 hex digits, got "treasury.eth"',
    ])
    expect(mistakes('', { ...ZEROX, SWAP_FEE_RECIPIENT: `0x${'0'.repeat(40)}` })).toEqual([
      'SWAP_FEE_RECIPIENT: the zero address would burn every fee',
    ])
  })
})

describe('what can be said wrongly', () => {
  const NO_ROOT =
    'must be the base URL of an API, such as https://api.example/v1, without a user, a query or a fragment (its value is not shown)'

  test.each([
    'http://',
    'https://a b.example',
    'https://s3cret:pass@api.example',
    'https://api.example/v1?key=s3cret',
    'https://api.example/#s3cret',
    'https://api.example:99999',
    'https:///v1',
    'https://api.example\\v1',
    'https://api.example/\nv1',
  ])('an address that is no root is a mistake by its name: %p', (address) => {
    const env = { PYTH_API_KEY: 'p', EXA_API_KEY: 'e', ...ZEROX }
    const reported = mistakes('', {
      ...env,
      EXA_BASE_URL: address,
      PYTH_HERMES_URL: address,
      PYTH_HISTORY_URL: address,
      ZEROX_BASE_URL: address,
    })
    expect(reported).toEqual(
      [
        'exa_base_url (EXA_BASE_URL)',
        'pyth_hermes_url (PYTH_HERMES_URL)',
        'pyth_history_url (PYTH_HISTORY_URL)',
        'zerox_base_url (ZEROX_BASE_URL)',
      ].map((name) => `${name}: ${NO_ROOT}`),
    )
  })

  test.each(['http://127.0.0.1:4899/hermes', 'https://api.example/v1/', 'http://[::1]:8080', 'https://api.example'])(
    'a root is a root: %s',
    (address) => {
      expect(mistakes('', { PYTH_API_KEY: 'p', PYTH_HERMES_URL: address })).toEqual([])
    },
  )

  test('every setting of a provider is read where its provider is chosen', () => {
    const choices =
      'search = ["exa", "xai"]\nvoice = "bland"\nphone = "twilio"\nonramp = "coinbase"\npolymarket_funding = "bridge"\ndefidata = "defillama"\n'
    const values: Readonly<Record<string, string>> = {
      TWILIO_ACCOUNT_SID: `AC${'7'.repeat(32)}`,
      SWAP_FEE_RECIPIENT: PAYER,
      PHONE_COUNTRIES: 'US',
      TWILIO_FRAUD_FIELDS: 'sim_swap',
      OPENAI_CHAT_STYLE: 'compatible',
      SANDBOX_MOST: '2',
      SANDBOX_MEMORY_MB: '128',
    }
    const env = Object.fromEntries(
      providers.flatMap(({ environment }) =>
        Object.keys(environment).map((variable) => [
          variable,
          values[variable] ?? (variable.endsWith('_URL') ? 'http://a.lan' : 'word'),
        ]),
      ),
    )
    const rpc = '[rpc]\nbase-mainnet = "http://node.lan"\n'
    const reported = ['e2b', 'modal', 'embedded'].map((sandbox) =>
      mistakes(`${choices}sandbox = "${sandbox}"\n${rpc}`, env).map((mistake) => mistake.split(':')[0]),
    )
    const [e2b, modal, embedded] = [
      ['e2b_base_url (E2B_BASE_URL)', 'e2b_template (E2B_TEMPLATE)'],
      ['modal_app (MODAL_APP)'],
      ['sandbox_most (SANDBOX_MOST)', 'sandbox_memory_mb (SANDBOX_MEMORY_MB)'],
    ]
    expect(reported).toEqual([
      [...modal, ...embedded],
      [...e2b, ...embedded],
      [...e2b, ...modal],
    ])
  })

  test('a setting that nothing reads', () => {
    expect(
      mistakes('', {
        PYTH_HERMES_URL: 'http://h.lan',
        EXA_BASE_URL: 'http://e.lan',
        XAI_SEARCH_MODEL: 'grok-5',
        ZEROX_BASE_URL: 'http://z.lan',
      }),
    ).toEqual([
      'exa_base_url (EXA_BASE_URL): has no effect unless search names exa or websearch (WEBSEARCH) is exa, which needs EXA_API_KEY',
      'pyth_hermes_url (PYTH_HERMES_URL): has no effect unless market (MARKET) is pyth, which needs PYTH_API_KEY',
      'xai_search_model (XAI_SEARCH_MODEL): has no effect unless search names xai, which needs XAI_API_KEY',
      'zerox_base_url (ZEROX_BASE_URL): has no effect without ZEROX_API_KEY and swap_fee_recipient (SWAP_FEE_RECIPIENT)',
    ])
    expect(
      mistakes('market = "off"\nsearch = ["xai"]\nwebsearch = "off"\nexa_base_url = "http://e.lan"', {
        XAI_API_KEY: 'x',
        EXA_API_KEY: 'e',
        PYTH_API_KEY: 'p',
        PYTH_HISTORY_URL: 'http://h.lan',
      }).length,
    ).toBe(2)
  })

  test.each(['XAI_API_KEY', 'EXA_API_KEY', 'PYTH_API_KEY', 'ZEROX_API_KEY'])(
    'a %s that no header can carry',
    (variable) => {
      for (const key of ['s3cret\n', ' s3cret', 's3 cret', 's3crét', '   ']) {
        expect(mistakes('', { ...(variable === 'ZEROX_API_KEY' && ZEROX), [variable]: key })).toEqual([
          `${variable}: contains a blank, a line break or another character that no key has (its value is not shown)`,
        ])
      }
    },
  )

  test('a recipient of fees with a mistyped digit', () => {
    const wrong = PAYER.replace('0x209693B', '0x209693C')
    expect(mistakes('', { ...ZEROX, SWAP_FEE_RECIPIENT: wrong })).toEqual([
      'SWAP_FEE_RECIPIENT: its capitals do not match its checksum (EIP-55); a digit may be wrong',
    ])
    for (const address of [PAYER, wrong.toLowerCase(), `0x${PAYER.slice(2).toUpperCase()}`])
      expect(mistakes('', { ...ZEROX, SWAP_FEE_RECIPIENT: address })).toEqual([])
  })

  test('an operator’s token that no header can carry, or that is all blanks', () => {
    for (const token of [' '.repeat(20), 'sixteen letters!\n', 'a token with blanks', 'short']) {
      const [mistake, ...others] = mistakes('', { OPERATOR_TOKEN: token })
      expect([mistake, others]).toEqual([
        'OPERATOR_TOKEN: must be text of at least 16 printable ASCII characters, without spaces (its value is not shown)',
        [],
      ])
    }
    expect(good('', { OPERATOR_TOKEN: 'the-operators-own-token' }).operator_token).toBe('the-operators-own-token')
  })
})

describe('real keys', () => {
  test.each([
    ['vendor-c', 'XAI_API_KEY', { XAI_API_KEY: 's3cret' }],
    ['exa', 'EXA_API_KEY', { EXA_API_KEY: 's3cret' }],
    ['pyth', 'PYTH_API_KEY', { PYTH_API_KEY: 's3cret' }],
    ['zerox', 'ZEROX_API_KEY', ZEROX],
  ])('on devnet, %s by %s is refused where others can reach it', (name, variable, env) => {
    expect(realVendors(good('', env))).toEqual([name])
    const [mistake, ...others] = mistakes('', { ...env, HOST: '0.0.0.0' })
    expect(mistake).toEndWith(`or remove the keys of ${name} (${variable})`)
    expect(mistake).not.toContain('s3cret')
    expect(others).toEqual([])
    expect(mistakes(gateway, { ...real, ...env, HOST: '0.0.0.0' })).toEqual([])
  })

  test('a key that nothing uses buys nothing', () => {
    expect(
      mistakes('search = []\nwebsearch = "off"\nmarket = "sample"', {
        EXA_API_KEY: 'e',
        PYTH_API_KEY: 'p',
        HOST: '0.0.0.0',
      }),
    ).toEqual([])
  })
})
