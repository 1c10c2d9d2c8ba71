/** Who converses, by file and by environment; free tier, guests and receipts. */
import { describe, expect, test } from 'bun:test'
import { chatRows } from '../../../core/mod.ts'
import { type Config, realVendors } from '../../../server/config/mod.ts'
import { good, mistakes } from './config_kit.ts'

const PAYER = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const gateway = `[[gateways]]\nname = "base"\nnetwork = "eip155:8453"\npay_to = "${PAYER}"\nrpc_url_env = "BASE_RPC_URL"\nrelayer_key_env = "RELAYER_KEY"\n`
const real = { BASE_RPC_URL: 'https://node.example', RELAYER_KEY: `0x${'7'.repeat(64)}` }

const vendorsOf = ({ chat: { rows, servings } }: Config) => [
  ...new Set(rows.filter(({ id }) => servings.has(id)).map(({ vendor }) => vendor)),
]
const row = (id: string, ...lines: readonly string[]) => `[[chat]]\nid = "${id}"\n${lines.join('\n')}\n`

describe('vendors that converse', () => {
  const keys = { OPENAI_KEY: 's3cret-a', OTHER_KEY: 's3cret-b' }
  const vendor =
    '[vendors.vendor-a]\nprotocol = "openai-images"\nchat = "openai"\nkey_env = "OPENAI_KEY"\nbase_url = "https://api.example/v1"\ntimeout_seconds = 600\nparameters = { quality = "low" }\nchat_timeout_seconds = 60\nchat_parameters = { store = false }\n'
  const served = {
    protocol: 'openai',
    baseUrl: 'https://api.example/v1',
    key: 's3cret-a',
    timeoutMs: 60_000,
    parameters: { store: false },
  } as const
  const serving = (toml: string, id: string) => good(toml, keys).chat.servings.get(id)

  test('one table serves images and chat with one key and address; the rest of its settings speak of one of them', () => {
    const config = good(vendor, keys)
    expect(vendorsOf(config)).toEqual(['vendor-a'])
    expect(config.chat.servings.get('vendor-a/chat-6-small')).toEqual(served)
    expect(config.images.servings.get('vendor-a/image-1')).toMatchObject({
      protocol: 'openai-images',
      baseUrl: 'https://api.example/v1',
      key: 's3cret-a',
      timeoutMs: 600_000,
      parameters: { quality: 'low' },
    })
    // A provider that serves another product with this key says `account: 'vendor-a'` in its offer.
    expect(realVendors(config)).toEqual(['vendor-a'])
  })

  test('a row says what differs for it: protocol, address, key, time, parameters and overrides', () => {
    const wins = (line: string) => serving(vendor + row('vendor-a/chat-6-small', line), 'vendor-a/chat-6-small')
    expect(wins('base_url = "http://proxy.lan"')).toEqual({ ...served, baseUrl: 'http://proxy.lan' })
    expect(wins('key_env = "OTHER_KEY"')).toEqual({ ...served, key: 's3cret-b' })
    expect(wins('timeout_seconds = 5')).toEqual({ ...served, timeoutMs: 5_000 })
    expect(wins('parameters = { seed = 1 }')).toEqual({ ...served, parameters: { seed: 1 } })
    expect(wins('overrides = { service_tier = "flex" }')).toEqual({ ...served, overrides: { service_tier: 'flex' } })
    expect(wins('hidden = true')).toEqual(served)
    expect(wins('style = "compatible"')).toEqual({ ...served, style: 'compatible' })
    expect(serving(vendor + row('vendor-a/chat-6-small', 'timeout_seconds = 5'), 'vendor-a/chat-6-large')).toEqual(
      served,
    )
  })

  test('a row of another protocol is another service: it inherits neither address nor key, and has to say whose server it means', () => {
    const elsewhere = row('vendor-a/chat-6-small', 'protocol = "openai-chat"', 'base_url = "http://gpu.lan/v1"')
    const { parameters: _vendors, ...bare } = served
    expect(serving(vendor + elsewhere, 'vendor-a/chat-6-small')).toEqual({
      ...bare,
      protocol: 'openai-chat',
      baseUrl: 'http://gpu.lan/v1',
      key: undefined,
      timeoutMs: 120_000,
    })
    expect(mistakes(vendor + row('vendor-a/chat-6-small', 'protocol = "openai-chat"'), keys)).toEqual([
      'chat vendor-a/chat-6-small.base_url: missing; the protocol openai-chat is served by many servers',
    ])
  })

  test('a maker is found without an address, and no key goes to another one', () => {
    const at = (name: string, chat: string, id: string) =>
      good(`[vendors.${name}]\nchat = "${chat}"\nkey_env = "OTHER_KEY"`, keys).chat.servings.get(id)?.baseUrl
    expect(at('vendor-h', 'openai-chat', 'vendor-h/chat-4')).toBe('https://api.deepseek.com')
    expect(at('vendor-c', 'openai', 'vendor-c/chat-4.7')).toBe('https://api.x.ai/v1')
    expect(at('vendor-a', 'openai', 'vendor-a/chat-6-small')).toBeUndefined()
    for (const [name, chat] of [
      ['vendor-h', 'anthropic-messages'],
      ['vendor-g', 'openai'],
      ['vendor-e', 'openai-chat'],
      ['mine', 'openai-chat'],
    ]) {
      expect(mistakes(`[vendors.${name}]\nchat = "${chat}"\nkey_env = "OTHER_KEY"`, keys)).toEqual([
        `vendors.${name}.base_url: missing; the protocol ${chat} is served by many servers`,
      ])
    }
  })

  test('rows are changed, added, given prices and redirected; a redirected row is served as its fallback is', () => {
    const rows =
      row('vendor-a/chat-6-small', 'upstream = "gpt-6-luna-2026-10-01"', 'input = "0.2"', 'aliases = ["luna"]') +
      row('vendor-a/chat-6-large', 'redirect = "vendor-a/chat-6-small"') +
      row(
        'house/talk',
        'vendor = "vendor-a"',
        'upstream = "talk-1"',
        'context_window = 8192',
        'max_output = 1024',
        'flat = "0.004"',
        'categories = ["chat"]',
        'surfaces = ["responses"]',
      )
    const { chat } = good(vendor + rows, keys)
    const find = (id: string) => chat.rows.find((row) => row.id === id)
    expect(find('vendor-a/chat-6-small')).toMatchObject({
      upstream: 'gpt-6-luna-2026-10-01',
      aliases: ['luna'],
      billing: { mode: 'paid' },
    })
    expect(find('vendor-a/chat-6-large')).toMatchObject({
      upstream: 'gpt-6-luna-2026-10-01',
      servedBy: 'vendor-a/chat-6-small',
    })
    expect(chat.servings.get('vendor-a/chat-6-large')).toEqual(served)
    expect(find('house/talk')).toMatchObject({
      contextWindow: 8192,
      maxOutput: 1024,
      billing: { mode: 'flat' },
      surfaces: ['responses'],
    })
    expect(chat.servings.get('house/talk')).toEqual(served)
  })

  test('a local server is one table; nothing else is configured by it', () => {
    const config = good('[vendors.vendor-open]\nchat = "openai-chat"\nbase_url = "http://localhost:11434/v1"')
    expect(vendorsOf(config)).toEqual(['vendor-open'])
    expect(config.chat.servings.get('vendor-open/qwen3-32b')).toMatchObject({
      baseUrl: 'http://localhost:11434/v1',
      key: undefined,
    })
    expect(realVendors(config)).toEqual([])
  })

  test('settings of a service that a table does not name are mistakes, and say what was meant', () => {
    expect(mistakes('[vendors.vendor-a]\nkey_env = "OPENAI_KEY"', keys)).toEqual([
      'vendors.vendor-a: set at least one of protocol (for images), chat and video',
    ])
    expect(mistakes('[vendors.vendor-a]\nprotocol = "openai-images"\nchat_timeout_seconds = 5')).toEqual([
      'vendors.vendor-a.chat_timeout_seconds: has no effect without chat',
    ])
    expect(mistakes('[vendors.vendor-a]\nchat = "openai"\nparameters = { seed = 1 }\nper_call = 1')).toEqual([
      'vendors.vendor-a.parameters: is for images, which need a protocol; for chat it is chat_parameters',
      'vendors.vendor-a.per_call: is for images, which need a protocol',
    ])
  })

  test('fields are checked by name; what a row costs, by the row', () => {
    const bad = [
      ['[vendors.vendor-a]\nchat = "openai-images"', 'vendors.vendor-a.chat'],
      [row('has space'), 'chat.0.id'],
      [row('vendor-a/chat-6-small', 'model = "x"'), 'chat.0.model'],
      [row('vendor-a/chat-6-small', 'input = "cheap"'), 'chat.0.input'],
      [row('vendor-a/chat-6-small', 'max_output = 0'), 'chat.0.max_output'],
      [row('vendor-a/chat-6-small', 'protocol = "gemini-images"'), 'chat.0.protocol'],
      [row('vendor-a/chat-6-small', 'surfaces = ["messages"]'), 'chat.0.surfaces.0'],
      [row('vendor-a/chat-6-small', 'long = { from = 1 }'), 'chat.0.long'],
      [row('vendor-a/chat-6-small', 'free = true', 'flat = "1"'), 'chat vendor-a/chat-6-small.flat'],
      [row('house/talk', 'vendor = "vendor-a"'), 'chat house/talk.id'],
      [row('vendor-a/chat-6-small', 'aliases = ["gpt-6-sol"]'), 'chat: two rows are called gpt-6-sol'],
      [row('vendor-a/chat-6-small') + row('vendor-a/chat-6-small'), 'chat: two entries change vendor-a/chat-6-small'],
    ] as const
    for (const [toml, name] of bad) expect([toml, mistakes(toml)[0]]).toEqual([toml, expect.stringContaining(name)])
    expect(mistakes('[vendors.vendor-a]\nprotocol = "openai-images"\nchat = "openai"\nkey_env = "GONE"')).toEqual([
      'vendors.vendor-a.key_env: the environment variable GONE is not set',
    ])
    expect(mistakes(row('vendor-a/chat-6-small', 'key_env = "sk-s3cret"')).join()).not.toContain('s3cret')
  })
})

describe('keys in the environment', () => {
  test.each([
    ['OPENAI_API_KEY', 'vendor-a', 'openai', 'vendor-a/image-1'],
    ['GEMINI_API_KEY', 'vendor-b', 'gemini', 'vendor-b/image-flash'],
    ['GOOGLE_API_KEY', 'vendor-b', 'gemini', 'vendor-b/image-flash'],
    ['XAI_API_KEY', 'vendor-c', 'openai', 'vendor-c/image-1'],
    ['ZAI_API_KEY', 'vendor-d', 'openai-chat', 'vendor-d/image-cv4'],
    ['ANTHROPIC_API_KEY', 'vendor-g', 'anthropic-messages', undefined],
    ['DEEPSEEK_API_KEY', 'vendor-h', 'openai-chat', undefined],
    ['NVIDIA_API_KEY', 'vendor-open', 'openai-chat', undefined],
    ['ARK_API_KEY', 'vendor-e', undefined, 'vendor-e/image-pro'],
  ])('%s alone brings %s to life, its chat and its images', (variable, vendor, chat, image) => {
    const config = good('', { [variable]: 's3cret' })
    expect(config.environmentVendors).toEqual([vendor])
    expect(vendorsOf(config)).toEqual(chat ? [vendor] : [])
    for (const serving of config.chat.servings.values())
      expect(serving).toMatchObject({ protocol: chat, key: 's3cret' })
    if (image) expect(config.images.servings.get(image)).toMatchObject({ key: 's3cret' })
    expect(realVendors(config)).toEqual([vendor])
  })

  test('a vendor that the file names is the file’s alone; others still come from the environment', () => {
    const config = good('[vendors.vendor-a]\nprotocol = "openai-images"\nkey_env = "MINE"', {
      MINE: 'k',
      OPENAI_API_KEY: 'other',
      ANTHROPIC_API_KEY: 'a',
    })
    expect(config.environmentVendors).toEqual(['vendor-g'])
    expect(vendorsOf(config)).toEqual(['vendor-g'])
    expect(config.images.servings.get('vendor-a/image-1')?.key).toBe('k')
  })

  test('OPENAI_CHAT_STYLE says how the server at OPENAI_BASE_URL takes parameters, where it differs (contract 6.61)', () => {
    const styleOf = (env: Record<string, string>) =>
      good('', { OPENAI_API_KEY: 'k', ...env }).chat.servings.get('vendor-a/chat-6-small')?.style
    expect([styleOf({}), styleOf({ OPENAI_CHAT_STYLE: 'compatible' })]).toEqual([undefined, 'compatible'])
    expect(mistakes('', { OPENAI_API_KEY: 'k', OPENAI_CHAT_STYLE: 'azure' })).toEqual([
      'OPENAI_CHAT_STYLE: must be openai or compatible, got "azure"',
    ])
  })

  test('an empty variable is none, and X_BASE_URL says another address for X_API_KEY', () => {
    expect(good('', { OPENAI_API_KEY: '' }).environmentVendors).toEqual([])
    const config = good('', {
      OPENAI_API_KEY: 'k',
      OPENAI_BASE_URL: 'http://proxy.lan/v1',
      ANTHROPIC_BASE_URL: 'nonsense',
    })
    expect(config.chat.servings.get('vendor-a/chat-6-small')?.baseUrl).toBe('http://proxy.lan/v1')
    expect(config.images.servings.get('vendor-a/image-1')?.baseUrl).toBe('http://proxy.lan/v1')
    expect(mistakes('', { ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: 'api.s3cret.example' })).toEqual([
      'ANTHROPIC_BASE_URL: must begin with http:// or https:// (its value is not shown)',
    ])
  })

  test('on devnet they are refused where others can reach them: play money must not buy real work', () => {
    for (const variable of ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'DEEPSEEK_API_KEY']) {
      expect(mistakes('', { [variable]: 's3cret', HOST: '0.0.0.0' })).toEqual([
        expect.stringMatching(new RegExp(`^HOST: .*test money.*the keys of vendor-\\w \\(${variable}\\)$`)),
      ])
      expect(mistakes('', { [variable]: 's3cret', HOST: '127.0.0.1' })).toEqual([])
      expect(mistakes(gateway, { ...real, [variable]: 's3cret', HOST: '0.0.0.0' })).toEqual([])
    }
  })
})

describe('a chat server of one’s own', () => {
  const ollama = { CHAT_BASE_URL: 'http://localhost:11434/v1' }
  const local = ({ chat }: Config) =>
    chat.rows.filter(({ id }) => chat.servings.has(id)).map(({ id, upstream, billing }) => [id, upstream, billing.mode])

  test('CHAT_BASE_URL with CHAT_MODEL serves those models as local/<model>: free on devnet, at a flat price for real money', () => {
    const env = { ...ollama, CHAT_MODEL: 'llama3.2, hf.co/some/model:Q4' }
    expect(local(good('', env))).toEqual([
      ['local/llama3.2', 'llama3.2', 'free'],
      ['local/hf.co/some/model:Q4', 'hf.co/some/model:Q4', 'free'],
    ])
    expect(local(good(gateway, { ...env, ...real })).map(([, , mode]) => mode)).toEqual(['flat', 'flat'])
    expect(good('', env).chat.servings.get('local/llama3.2')).toMatchObject({
      protocol: 'openai-chat',
      baseUrl: 'http://localhost:11434/v1',
      key: undefined,
    })
    expect(good('', { ...env, HOST: '0.0.0.0' }).environmentVendors).toEqual(['local'])
  })

  test('without CHAT_MODEL it hosts open weights, under the ids that it knows them by', () => {
    const config = good('', { ...ollama, CHAT_API_KEY: 'k', NVIDIA_API_KEY: 'other' })
    expect(config.environmentVendors).toEqual(['vendor-open'])
    expect(config.chat.servings.get('vendor-open/qwen3-32b')).toMatchObject({
      baseUrl: 'http://localhost:11434/v1',
      key: 'k',
    })
    expect(vendorsOf(config)).toEqual(['vendor-open'])
  })

  test('its rows are rows like any other: the file prices and renames them', () => {
    const { chat } = good(row('local/llama3.2', 'flat = "0.002"', 'aliases = ["llama"]', 'context_window = 32768'), {
      ...ollama,
      CHAT_MODEL: 'llama3.2',
    })
    expect(chat.rows.at(-1)).toMatchObject({
      id: 'local/llama3.2',
      aliases: ['llama'],
      contextWindow: 32_768,
      billing: { mode: 'flat' },
    })
  })

  test('half of it is a mistake', () => {
    expect(mistakes('', { CHAT_MODEL: 'llama3.2', CHAT_API_KEY: 'k' })).toEqual([
      'CHAT_MODEL: has no effect without CHAT_BASE_URL',
      'CHAT_API_KEY: has no effect without CHAT_BASE_URL',
    ])
    expect(mistakes('', { CHAT_BASE_URL: 'localhost:11434' })).toEqual([
      'CHAT_BASE_URL: must begin with http:// or https:// (its value is not shown)',
    ])
    expect(mistakes('', { ...ollama, CHAT_MODEL: 'two words' })).toEqual([
      expect.stringContaining('CHAT_MODEL: "two words" is not the name of a model'),
    ])
  })
})

describe('free tier, guests and receipts', () => {
  test('file and environment set them', () => {
    const config = good(
      `free_per_minute = 5\nchat_receipt_seconds = 2.5\ngenerate_content_payers = ["${PAYER}"]\nbackground_payers = []`,
      { FREE_PER_HOUR: '50' },
    )
    expect(config).toMatchObject({
      free_per_minute: 5,
      free_per_hour: 50,
      chat_receipt_seconds: 2.5,
      generate_content_payers: [PAYER],
      background_payers: [],
    })
    expect(good('', { FREE_PER_MINUTE: '1', CHAT_RECEIPT_SECONDS: '0' })).toMatchObject({
      free_per_minute: 1,
      chat_receipt_seconds: 0,
    })
    expect(good('new_wallet_calls = 3', { NEW_WALLET_USDC: '0.5' })).toMatchObject({
      new_wallet_calls: 3,
      new_wallet_usdc: '0.5',
    })
  })

  test('mistakes in them are named', () => {
    expect(
      mistakes(
        'generate_content_payers = ["0x12"]\nbackground_payers = "all"\nfree_per_hour = 0\nnew_wallet_calls = 0\nnew_wallet_usdc = 0.05',
        { FREE_PER_MINUTE: 'many', CHAT_RECEIPT_SECONDS: '600' },
      )
        .map((mistake) => mistake.split(':', 1)[0])
        .toSorted(),
    ).toEqual([
      'CHAT_RECEIPT_SECONDS',
      'FREE_PER_MINUTE',
      'background_payers',
      'free_per_hour',
      'generate_content_payers.0',
      'new_wallet_calls',
      'new_wallet_usdc',
    ])
  })
})

test('nothing but the catalog is for sale when nothing is configured', () => {
  expect(good('').chat).toEqual({ rows: chatRows, servings: new Map() })
})
