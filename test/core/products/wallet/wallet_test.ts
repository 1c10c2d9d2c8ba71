import { describe, expect, test } from 'bun:test'
import { solanaFamily } from '../../../../adapters/chains/solana/family.ts'
import { memoryStorage } from '../../../../adapters/storage/memory/mod.ts'
import { usdc } from '../../../../core/x402/money.ts'
import type { Spend, Storage } from '../../../../core/ports/mod.ts'
import { walletOf } from '../../../../core/products/lib/wallet_lists.ts'
import { FOX, kit, type KitOptions, ORIGIN, read, START } from '../../../kit.ts'

const DAY = 86_400_000

function fixture(options: KitOptions = {}) {
  const made = kit({ name: 'main', ...options })
  const get = async (path: string, ip = '192.0.2.1') =>
    await read(await made.gateway.fetch(new Request(ORIGIN + path), { ip }))
  return {
    ...made,
    get,
    balance: (address: string, ip?: string) => get(`/api/v1/balance?address=${address}`, ip),
    spent: (address: string, ip?: string) => get(`/api/v1/wallet/${address}/reconciliation`, ip),
  }
}

const shouted = (address: string) => `0x${address.slice(2).toUpperCase()}`

test('a wallet is asked about as the chain spells its payers', () => {
  const spelled = [
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
    '0x52908400098527886E0F7030069857D2E4169EE7',
    '0xde709f2102306220921060314715629080e2fb77',
  ]
  const { families } = kit().chain
  for (const each of spelled)
    expect([each.toLowerCase(), shouted(each)].map((text) => walletOf(text, { families }))).toEqual([each, each])
})

describe('GET /api/v1/balance', () => {
  test('tells what a wallet holds, before and after it has paid (contract 18.1)', async () => {
    const { balance, buyer, chain } = fixture()
    const alice = buyer()
    const [terms] = chain.terms(START)
    const { status, body, headers } = await balance(alice.wallet)
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store'])
    expect(body).toEqual({
      object: 'balance',
      address: alice.wallet,
      balance: '100.000000',
      base_units: '100000000',
      asset: { symbol: 'USDC', address: terms?.asset ?? '', decimals: 6 },
      network: 'base-sepolia',
      chain: 'eip155:84532',
      timestamp: '2026-11-20T00:00:00.000Z',
    })
    await alice.buy()
    expect((await balance(shouted(alice.wallet))).body).toMatchObject({
      address: alice.wallet,
      balance: '99.978000',
      base_units: '99978000',
    })
  })

  test('is 0 for an empty wallet', async () => {
    expect((await fixture().balance(`0x${'0'.repeat(40)}`)).body).toMatchObject({
      balance: '0.000000',
      base_units: '0',
    })
  })

  test('is 400 with path and message for a malformed address, before the chain is asked (contract 18.3, 18.14)', async () => {
    let requestCount = 0
    const { chain } = kit()
    const { get } = fixture({ ports: { chain: { ...chain, balance: async () => (requestCount++, usdc(0n)) } } })
    for (const query of [
      '',
      '?address=',
      '?address=alice',
      `?address=0x${'g'.repeat(40)}`,
      `?address=0x${'1'.repeat(39)}`,
      `?address=0x${'1'.repeat(41)}`,
      '?address=So11111111111111111111111111111111111111112',
    ]) {
      const { status, body } = await get(`/api/v1/balance${query}`)
      expect([query, status, body]).toEqual([
        query,
        400,
        {
          error: 'Invalid request body',
          message: expect.stringMatching(/^address: must be 0x and 40 hex digits/),
          details: [{ path: 'address', message: expect.stringMatching(/^must be 0x and 40 hex digits/) }],
        },
      ])
    }
    expect(requestCount).toBe(0)
  })

  test('is 503 while the chain does not answer, without a word of what it said', async () => {
    const { chain } = kit()
    const silent = () => Promise.reject(new Error('http://node.internal:8545/s3cret refused'))
    const { balance, log } = fixture({ ports: { chain: { ...chain, balance: silent } } })
    const { status, body, headers } = await balance(chain.wallet('alice'))
    expect([status, body, headers.get('retry-after')]).toEqual([
      503,
      { error: 'Not ready', message: 'The chain is temporarily unreachable; try again.' },
      '5',
    ])
    expect(log.lines.map(({ level, message }) => `${level} ${message}`)).toEqual(['warn a balance could not be read'])
  })

  test('is 503 when the chain takes too long', async () => {
    const { chain } = kit()
    let isAborted = false
    const slow = (_: string, { signal }: { signal: AbortSignal }) =>
      new Promise<never>(() => signal.addEventListener('abort', () => (isAborted = true)))
    const { balance, clock } = fixture({ ports: { chain: { ...chain, balance: slow } } })
    const asking = balance(chain.wallet('alice'))
    await clock.advance(8_000)
    expect([(await asking).status, isAborted]).toEqual([503, true])
  })

  test('is 503 where the chain cannot be asked at all', async () => {
    const { chain } = kit()
    const { balance: _, ...mute } = chain
    expect((await fixture({ ports: { chain: mute } }).balance(chain.wallet('alice'))).body.error).toBe('Not configured')
  })

  test('is answered 60 times a minute (contract 18.1)', async () => {
    const { balance, chain } = fixture()
    const address = chain.wallet('alice')
    for (let i = 0; i < 60; i++) expect((await balance(address)).status).toBe(200)
    expect((await balance(address)).status).toBe(429)
    expect((await balance(address, '192.0.2.2')).status).toBe(200)
  })
})

describe('GET /api/v1/wallet/{address}/reconciliation', () => {
  test('sums what a wallet has paid in 30 days, by model and by endpoint (contract 18.2)', async () => {
    const { spent, buyer, clock } = fixture()
    const alice = buyer()
    await alice.buy()
    await alice.buy({ ...FOX, model: 'vendor-b/image-pro' })
    await clock.advance(5_000)
    await alice.buy()
    await buyer('bob').buy()
    const { status, body, headers } = await spent(shouted(alice.wallet))
    expect([status, headers.get('cache-control')]).toEqual([200, 'private, max-age=30'])
    const tokens = { input_tokens: 0, output_tokens: 0 }
    expect(body).toEqual({
      object: 'usage_summary',
      wallet: alice.wallet,
      window: {
        from: new Date(START + 5_000 - 30 * DAY).toISOString(),
        to: new Date(START + 5_000).toISOString(),
        days: 30,
      },
      totals: { usd: '0.150000', calls: 3, ...tokens },
      per_model: [
        { model: 'vendor-b/image-pro', usd: '0.106000', calls: 1, ...tokens },
        { model: 'vendor-a/image-1', usd: '0.044000', calls: 2, ...tokens },
      ],
      per_endpoint: [{ endpoint: 'images.generations', usd: '0.150000', calls: 3, ...tokens }],
      last_call_at: new Date(START + 5_000).toISOString(),
    })
  })

  test('is empty for an unknown wallet', async () => {
    const { body } = await fixture().spent(`0x${'1'.repeat(40)}`)
    expect(body).toMatchObject({
      totals: { usd: '0.000000', calls: 0 },
      per_model: [],
      per_endpoint: [],
      last_call_at: null,
    })
  })

  test('asks the ledger for 30 days, and shows nothing of other gateways', async () => {
    const requests: unknown[] = []
    const each: Spend = {
      gateway: 'main',
      endpoint: 'search',
      model: null,
      asset: 'a',
      calls: 1,
      spent: usdc(81_000n),
      inputTokens: 0,
      outputTokens: 0,
      lastAt: START - DAY,
    }
    const rows: readonly Spend[] = [
      each,
      {
        ...each,
        endpoint: 'chat.completions',
        model: 'vendor-a/chat',
        calls: 7,
        spent: usdc(5_000n),
        inputTokens: 11,
        outputTokens: 22,
        lastAt: START - 2 * DAY,
      },
      {
        ...each,
        endpoint: 'messages',
        model: 'vendor-a/chat',
        calls: 2,
        spent: usdc(100_000n),
        inputTokens: 1,
        outputTokens: 2,
        lastAt: START - 3 * DAY,
      },
      { ...each, gateway: 'testnet', spent: usdc(9_000_000n), lastAt: START },
    ]
    const storage: Storage = {
      ...memoryStorage(),
      spendByModel: async (...question) => (requests.push(question), rows),
    }
    const { spent, chain } = fixture({ ports: { storage } })
    const { body } = await spent(chain.wallet('alice'))
    expect(requests).toEqual([[chain.wallet('alice'), START - 30 * DAY]])
    expect(body.totals).toEqual({ usd: '0.186000', calls: 10, input_tokens: 12, output_tokens: 24 })
    expect(body.per_model).toEqual([
      { model: 'vendor-a/chat', usd: '0.105000', calls: 9, input_tokens: 12, output_tokens: 24 },
    ])
    expect(body.per_endpoint.map(({ endpoint }: { endpoint: string }) => endpoint)).toEqual([
      'messages',
      'search',
      'chat.completions',
    ])
    expect(body.last_call_at).toBe(new Date(START - DAY).toISOString())
  })

  test('is 400 for a malformed address (contract 18.3)', async () => {
    const { spent } = fixture()
    for (const odd of ['alice', `0x${'1'.repeat(39)}`, '%20', '0x', encodeURIComponent(`0x${'1'.repeat(40)}/x`)])
      expect([odd, (await spent(odd)).status]).toEqual([odd, 400])
  })

  test('takes an address of the network that it is paid on, whatever that is (contract 18.3)', async () => {
    const { chain } = kit()
    const key = 'So11111111111111111111111111111111111111112'
    const solana = chain.terms(START).map((terms) => ({ ...terms, network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp' }))
    const { spent } = fixture({ ports: { chain: { ...chain, families: [solanaFamily], terms: () => solana } } })
    expect((await spent(key)).body.wallet).toBe(key)
    expect((await spent(`0x${'1'.repeat(40)}`)).status).toBe(400)
  })

  test('is answered 20 times an hour', async () => {
    const { spent, chain, clock } = fixture()
    const address = chain.wallet('alice')
    for (let i = 0; i < 20; i++) expect((await spent(address)).status).toBe(200)
    await clock.advance(600_000)
    const { status, headers } = await spent(address)
    expect([status, headers.get('retry-after'), headers.get('x-ratelimit-reset')]).toEqual([
      429,
      '3000',
      String(START + 3_600_000),
    ])
    expect((await spent(address, '192.0.2.2')).status).toBe(200)
  })
})
