import { describe, expect, test } from 'bun:test'
import { rpcNodes } from '../../../../adapters/providers/json_rpc/nodes.ts'
import { type RpcCall, type RpcVendor, networkRows } from '../../../../core/mod.ts'
import { type KitOptions, kit, oneNode, ORIGIN, read, testClock, testLog } from '../../../kit.ts'

const SOLANA = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
const call = (more: object = {}) => ({ jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [], ...more })
const batch = (size: number) => Array.from({ length: size }, (_, id) => call({ id }))
const on = (network: string) => ({ path: `/api/v1/rpc/${network}` })
const BASE = on('base')
const ON_SOLANA = { path: '/api/v1/solana/rpc' }

/** A gateway over a node that remembers what it was asked. */
function fixture(options: KitOptions = {}, node: Partial<RpcVendor> = {}) {
  const requests: { readonly network: string; readonly calls: RpcCall | readonly RpcCall[] }[] = []
  const rpc: RpcVendor = {
    ...oneNode,
    ...node,
    ask: (network, calls, at) => (requests.push({ network, calls }), (node.ask ?? oneNode.ask)(network, calls, at)),
  }
  const subject = kit({ ports: { vendors: { rpc } }, ...options })
  const free = async (body: unknown, path = ON_SOLANA.path, ip = '192.0.2.9') =>
    await read(
      await subject.gateway.fetch(
        new Request(ORIGIN + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
        { ip },
      ),
    )
  return { ...subject, requests, free }
}

describe('the price of asking a node', () => {
  // micro-USDC, from 0.002 per element + 0.001, and 0.0005 per element + 0.001
  test.each([
    ['a call', BASE.path, call(), '3000'],
    ['a batch of 1', BASE.path, batch(1), '3000'],
    ['a batch of 2', BASE.path, batch(2), '5000'],
    ['a batch of 10', BASE.path, batch(10), '21000'],
    ['a batch of 1000', BASE.path, batch(1_000), '2001000'],
    ['a call', ON_SOLANA.path, call({ method: 'getSlot' }), '1500'],
    ['a batch of 4', ON_SOLANA.path, batch(4), '3000'],
    ['a batch of 1000', ON_SOLANA.path, batch(1_000), '501000'],
  ] as const)('%s at %s (contract 15.7, 15.8)', async (_, path, body, amount) => {
    const { status, body: quote } = await fixture().buyer().ask(body, { path })
    expect([status, quote.accepts[0].amount]).toEqual([402, amount])
  })

  test('is asked before anything is judged: who does not pay is quoted, whatever he wrote (contract 15.10)', async () => {
    const { buyer, requests } = fixture()
    for (const body of [{}, [], 'text', null, 7, [null], call({ method: 'admin_peers' })])
      expect((await buyer().ask(body, BASE)).status).toBe(402)
    expect(requests).toEqual([])
  })
})

describe('an answer', () => {
  test("is the node's own, with the network that gave it, once it is paid (contract 15.11)", async () => {
    const { buyer, chain, requests } = fixture()
    const { status, headers, body } = await buyer().buy(call({ id: 'a' }), BASE)
    expect([status, body, headers.get('x-network'), headers.get('x-cache')]).toEqual([
      200,
      { jsonrpc: '2.0', id: 'a', result: 'eth_blockNumber' },
      'base-mainnet',
      'MISS',
    ])
    expect(chain.transfers.map(({ value }) => value)).toEqual([3_000n])
    expect(requests).toEqual([{ network: 'base-mainnet', calls: call({ id: 'a' }) as RpcCall }])
  })

  test('to a batch is a list, each call priced; ids may repeat, as the specification lets them', async () => {
    const { buyer, chain } = fixture()
    const { status, body } = await buyer().buy([call(), call(), call({ id: 'b', method: 'eth_gasPrice' })], BASE)
    expect([status, body.map(({ id }: RpcCall) => id)]).toEqual([200, [1, 1, 'b']])
    expect(chain.transfers.map(({ value }) => value)).toEqual([7_000n])
  })

  test('is asked for with what was judged alone: other spellings of its fields, which some nodes read, stay here', async () => {
    const { buyer, requests } = fixture()
    const odd = { ...call(), Method: 'admin_addPeer', METHOD: 'debug_setHead', Params: ['x'], extra: 1 }
    for (const body of [odd, [odd, odd]]) expect((await buyer().buy(body, BASE)).status).toBe(200)
    expect(requests.map(({ calls }) => calls)).toEqual([call() as RpcCall, [call(), call()] as RpcCall[]])
  })

  test('to a thousand calls is given; to one more, or to none, it is 400 and free', async () => {
    const { buyer, chain } = fixture()
    expect((await buyer().buy(batch(1_000), BASE)).body).toHaveLength(1_000)
    for (const size of [0, 1_001]) {
      const { status, body } = await buyer().buy(batch(size), BASE)
      expect([size, status, body.details[0].path]).toEqual([size, 400, 'batch'])
    }
    expect(chain.transfers).toHaveLength(1)
  })

  test('with a number beyond 64-bit floats is forwarded as written (contract 15.11)', async () => {
    const text = '{"jsonrpc":"2.0","id":1,"result":{"rentEpoch":18446744073709551615}}'
    const { gateway, buyer } = fixture({}, { ask: async () => ({ text, isCached: true }) })
    const alice = buyer()
    const payment = alice.sign(await alice.ask(call({ method: 'getAccountInfo' }), ON_SOLANA))
    const request = new Request(ORIGIN + ON_SOLANA.path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'payment-signature': btoa(JSON.stringify(payment)) },
      body: JSON.stringify(call({ method: 'getAccountInfo' })),
    })
    const response = await gateway.fetch(request)
    expect([await response.text(), response.headers.get('x-cache')]).toEqual([text, 'HIT'])
  })
})

describe('a method', () => {
  test('that reads, or sends what somebody else has signed, is served; one that uses the keys of the node is not (contract 15.12)', async () => {
    const { buyer, requests } = fixture()
    const served = ['eth_call', 'eth_getLogs', 'eth_sendRawTransaction', 'getBalance', 'sendTransaction']
    for (const method of served)
      expect([method, (await buyer().buy(call({ method }), BASE)).status]).toEqual([method, 200])
    for (const method of ['eth_sign', 'eth_sendTransaction', 'eth_accounts', 'personal_unlockAccount'])
      expect([method, (await buyer().buy(call({ method }), BASE)).status]).toEqual([method, 400])
    expect(requests.map(({ calls }) => (calls as RpcCall).method)).toEqual(served)
  })
})

describe('a node that does not answer', () => {
  test.each([
    ['base-mainnet', BASE, 20_000],
    ['solana-mainnet', ON_SOLANA, 15_000],
  ] as const)(
    'is given up: %s is 502 that may be asked again in 30 seconds, uncharged (contract 15.14)',
    async (network, at, waitMs) => {
      const clock = testClock()
      const rpc = rpcNodes({
        nodes: { [network]: 'https://node.example/' },
        clock,
        log: testLog(),
        fetch: () => new Promise<Response>(() => {}),
      })
      const { buyer, chain } = kit({ ports: { clock, vendors: { rpc } } })
      const alice = buyer()
      const payment = alice.sign(await alice.ask(call(), at))
      const asking = alice.buy(call(), { ...at, payment })
      let isAnswered = false
      void asking.then(() => (isAnswered = true))
      await clock.advance(waitMs - 1)
      expect(isAnswered).toBe(false)
      await clock.advance(1)
      const { status, headers } = await asking
      expect([status, headers.get('retry-after'), chain.transfers]).toEqual([502, '30', []])
    },
  )
})

describe('a bad call is 400 once it is paid, names its dotted path, reaches no node and costs nothing (contract 3.23)', () => {
  const METHODS = [
    'admin_addPeer',
    'personal_unlockAccount',
    'debug_setHead',
    'miner_start',
    'engine_newPayloadV3',
    'anvil_setBalance',
    'hardhat_mine',
    'evm_revert',
    'txpool_content',
    'eth_accounts',
    'eth_sign',
    'eth_signTypedData_v4',
    'eth_sendTransaction',
    'eth_sendTransactionSync',
    'eth_sendUnsignedTransaction',
    'eth_requestAccounts',
    'ETH_call',
    'eth_ca\u017fl',
    'anvil_setbalance',
    'net_addPeer',
    'web3_setProvider',
    'eth_getWork',
    'eth_submitWork',
    'eth_subscribe',
    'eth_newFilter',
    'eth_newPendingTransactionFilter',
    'eth_getFilterChanges',
    'requestAirdrop',
    'setLogFilter',
    'eth_',
    'eth_call\n',
    '__proto__',
    'constructor',
    '',
  ]
  const BAD: readonly (readonly [unknown, string])[] = [
    ...METHODS.map((method) => [call({ method }), 'method'] as const),
    [call({ jsonrpc: '1.0' }), 'jsonrpc'],
    [call({ jsonrpc: undefined }), 'jsonrpc'],
    [call({ id: undefined }), 'id'],
    [call({ id: null }), 'id'],
    [call({ id: 1.5 }), 'id'],
    [call({ id: 'x'.repeat(129) }), 'id'],
    [call({ method: 7 }), 'method'],
    [call({ params: {} }), 'params'],
    [call({ params: 'latest' }), 'params'],
    [[call(), 7], 'batch.1'],
    [[call(), null], 'batch.1'],
    [[call(), [call()]], 'batch.1'],
    [[call(), call({ id: undefined }), call()], 'batch.1.id'],
    [[call(), call(), call({ method: 'anvil_mine' })], 'batch.2.method'],
    [{ ...call(), batch: [call({ method: 'evm_mine' })] }, 'batch.0.method'],
  ]
  test.each(BAD.map(([body, field]) => [JSON.stringify(body).slice(0, 80), body, field] as const))(
    '%s',
    async (_, body, field) => {
      for (const at of [BASE, ON_SOLANA]) {
        const { buyer, requests, chain } = fixture()
        const { status, body: call } = await buyer().buy(body, at)
        expect([status, call.details[0].path]).toEqual([400, field])
        expect([requests, chain.transfers]).toEqual([[], []])
      }
    },
  )
})

describe('a network', () => {
  test('is known by its slug, by aliases, in any case, and without its -mainnet (contract 15.9)', async () => {
    const { buyer, requests } = fixture({}, { networks: ['base-mainnet', 'ethereum-mainnet', 'own-mainnet'] })
    for (const name of ['base-mainnet', 'BASE', 'eth', 'Mainnet', 'own'])
      expect((await buyer().buy(call(), on(name))).status).toBe(200)
    expect(requests.map(({ network }) => network)).toEqual([
      'base-mainnet',
      'base-mainnet',
      'ethereum-mainnet',
      'ethereum-mainnet',
      'own-mainnet',
    ])
  })

  test('without a node is 400 with the available ones, uncharged (contract 15.9, 15.15)', async () => {
    const { buyer, requests } = fixture()
    for (const name of ['dogecoin', 'base_', 'x'.repeat(42), '..%2Fadmin', 'base%00', 'constructor', '__proto__']) {
      const { status, body } = await buyer().ask(call(), on(name))
      expect([name, status, body]).toEqual([
        name,
        400,
        {
          error: 'Invalid request body',
          message: expect.stringMatching(/^network: must be /),
          details: [{ path: 'network', message: expect.stringMatching(/^must be /) }],
          supportedNetworks: ['base-mainnet', 'solana-mainnet'],
        },
      ])
    }
    expect(requests).toEqual([])
  })

  test('is one of forty that are known by name, each name once', () => {
    const names = networkRows.flatMap(({ slug, aliases }) => [slug, ...aliases])
    expect([networkRows.length, new Set(names).size]).toEqual([40, names.length])
    for (const name of names) expect(name).toMatch(/^[a-z0-9-]{1,41}$/)
  })

  test('cannot be asked where the operator has no node: 503 in place of the quote', async () => {
    expect((await kit().buyer().ask(call(), BASE)).status).toBe(503)
  })
})

describe('a free question of a Solana client', () => {
  const paidOnSolana = (more: KitOptions = {}) =>
    fixture({ networks: [SOLANA], ...more }, { networks: ['solana-mainnet', 'solana-devnet'] })
  const MINT = '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'

  test('is free on a gateway that is paid on Solana, and asked of the chain that it is paid on (contract 15.13)', async () => {
    const { free, requests, chain } = paidOnSolana()
    for (const input of [
      { method: 'getLatestBlockhash' },
      { method: 'isBlockhashValid', params: ['x'] },
      { method: 'getAccountInfo', params: [MINT, { encoding: 'base64' }] },
    ]) {
      const { status, body } = await free(call(input))
      expect([status, body.result]).toEqual([200, input.method])
    }
    expect([requests.map(({ network }) => network), chain.transfers]).toEqual([
      ['solana-devnet', 'solana-devnet', 'solana-devnet'],
      [],
    ])
  })

  test('is rationed by address', async () => {
    const { free } = paidOnSolana()
    const answers = await Promise.all(Array.from({ length: 301 }, () => free(call({ method: 'getLatestBlockhash' }))))
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(1)
    expect((await free(call({ method: 'getLatestBlockhash' }), ON_SOLANA.path, '192.0.2.10')).status).toBe(200)
  })

  test('is judged as all else: what is badly written is 400 at once', async () => {
    const { free, requests } = paidOnSolana()
    expect((await free({ method: 'getLatestBlockhash', id: 1 })).status).toBe(400)
    expect(requests).toEqual([])
  })

  test('is no more than that: other accounts, other methods and batches are sold, and on other gateways all of it is', async () => {
    const { free } = paidOnSolana()
    for (const body of [
      call({ method: 'getAccountInfo', params: ['11111111111111111111111111111111'] }),
      call({ method: 'getBalance', params: [MINT] }),
      [call({ method: 'getLatestBlockhash' })],
    ])
      expect((await free(body)).status).toBe(402)
    expect((await fixture().free(call({ method: 'getLatestBlockhash' }))).status).toBe(402)
  })

  test('is quoted if it names an account that is not a string', async () => {
    const { free, log } = paidOnSolana()
    for (const params of [[{ toString: 1, valueOf: 1 }], [[MINT]], [null], { 0: MINT }, null])
      expect((await free(call({ method: 'getAccountInfo', params }))).status).toBe(402)
    expect(log.lines).toEqual([])
  })

  test('a node that fails costs nothing and says so', async () => {
    const { free } = fixture(
      { networks: [SOLANA] },
      { networks: ['solana-devnet'], ask: () => Promise.reject(new Error('secret')) },
    )
    const { status, body } = await free(call({ method: 'getLatestBlockhash' }))
    expect([status, JSON.stringify(body).includes('secret')]).toEqual([502, false])
  })
})
