import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type RpcNodesConfig, rpcNodes } from '../../../../adapters/providers/json_rpc/nodes.ts'
import type { RpcCall } from '../../../../core/mod.ts'
import { type SolanaNode, solanaNode } from '../../../../server/devnet/solana/node.ts'
import { testClock, testLog } from '../../../kit.ts'

const call = (method: string, more: object = {}): RpcCall => ({ jsonrpc: '2.0', id: 1, method, params: [], ...more })
const at = () => ({ signal: AbortSignal.timeout(5_000) })
const URL = 'https://node.example/v2/s3cret-key'

/** Nodes whose replies a test writes; `sent` is what reached them. */
function fixture(reply: (body: unknown) => Response | Promise<Response>, more: Partial<RpcNodesConfig> = {}) {
  const [clock, log] = [testClock(), testLog()]
  const sent: { readonly url: string; readonly body: unknown; readonly init: RequestInit }[] = []
  const fetch: RpcNodesConfig['fetch'] = async (url, init) => {
    const body = JSON.parse(String(init.body))
    sent.push({ url, body, init })
    return await reply(body)
  }
  return {
    clock,
    log,
    sent,
    node: rpcNodes({ nodes: { 'base-mainnet': URL, 'solana-mainnet': `${URL}2` }, clock, log, fetch, ...more }),
  }
}
const answer = (result: unknown) => Response.json({ jsonrpc: '2.0', id: 1, result })
const refusal = (code: number, message = 'why') => ({ jsonrpc: '2.0', id: 1, error: { code, message } })

describe('a node', () => {
  test('is sent the call and nothing else, and its text comes back letter by letter', async () => {
    const text = '{"jsonrpc":"2.0","id":1,  "result":{"lamports":18446744073709551615}}'
    const { node, sent } = fixture(() => new Response(text))
    expect(await node.ask('solana-mainnet', call('getBalance'), at())).toEqual({ text, isCached: false })
    expect([sent[0]?.url, sent[0]?.body]).toEqual([`${URL}2`, call('getBalance') as object])
    expect(Object.keys(sent[0]?.init.headers ?? {}).sort()).toEqual(['accept', 'content-type'])
    expect(sent[0]?.init.redirect).toBe('manual')
  })

  test('that returns an error of the call has answered; one that fails itself has not', async () => {
    expect(
      (
        await fixture(() => Response.json(refusal(3, 'execution reverted'))).node.ask(
          'base-mainnet',
          call('eth_call'),
          at(),
        )
      ).text,
    ).toContain('execution reverted')
    for (const code of [-32603, -32005, -32016, 429]) {
      const { node, log } = fixture(() => Response.json(refusal(code, `see ${URL}`)))
      const apiError = await node.ask('base-mainnet', call('eth_call'), at()).catch((error) => error)
      expect([code, apiError.code, apiError.parts.headers]).toEqual([code, 'UPSTREAM_FAILED', { 'retry-after': '30' }])
      expect(apiError.parts.message).not.toContain('s3cret')
      expect(log.lines).toHaveLength(1)
    }
  })

  test('has to answer every call of a batch; some may be errors', async () => {
    const calls = [call('eth_call'), call('eth_call', { id: 2 })]
    const mixed = [refusal(-32603), { jsonrpc: '2.0', id: 2, result: '0x' }]
    expect((await fixture(() => Response.json(mixed)).node.ask('base-mainnet', calls, at())).text).toBe(
      JSON.stringify(mixed),
    )
    for (const bad of [[], [mixed[1]], mixed[1], [refusal(-32603), refusal(-32005)], [1, 2], null]) {
      const apiError = await fixture(() => Response.json(bad))
        .node.ask('base-mainnet', calls, at())
        .catch((error) => error)
      expect([bad, apiError.code]).toEqual([bad, 'UPSTREAM_FAILED'])
    }
  })

  test('that answers other ids has not answered; an error without an id is for any of them', async () => {
    const calls = [call('eth_call'), call('eth_call'), call('eth_call', { id: '1' })]
    const replies = (...ids: unknown[]) => ids.map((id) => ({ jsonrpc: '2.0', id, result: '0x' }))
    const nameless = { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'Invalid Request' } }
    const ask = (requests: RpcCall | readonly RpcCall[], reply: unknown) =>
      fixture(() => Response.json(reply))
        .node.ask('base-mainnet', requests, at())
        .then(
          () => 'answered',
          (error) => error.code,
        )
    for (const good of [replies(1, 1, '1'), replies('1', 1, 1), [...replies(1, '1'), nameless]])
      expect(await ask(calls, good)).toBe('answered')
    for (const bad of [replies(1, '1', '1'), replies(1, 2, '1'), replies(1, 1, null)])
      expect([bad, await ask(calls, bad)]).toEqual([bad, 'UPSTREAM_FAILED'])
    expect([await ask(call('eth_call'), nameless), await ask(call('eth_call'), replies(2)[0])]).toEqual([
      'answered',
      'UPSTREAM_FAILED',
    ])
  })

  test('that is unreachable, redirects, or sends no JSON has not answered, and its address is not revealed', async () => {
    const odd = [
      () => new Response('busy', { status: 503 }),
      () => new Response('', { status: 302, headers: { location: 'http://127.0.0.1/' } }),
      () => new Response('<html>'),
      () => Promise.reject(new Error(`cannot reach ${URL}`)),
      () => answer(undefined),
    ]
    for (const reply of odd) {
      const { node, clock, log } = fixture(reply)
      const asking = node.ask('base-mainnet', call('eth_call'), at()).catch((error) => error)
      await clock.advance(1_000)
      const apiError = await asking
      expect([apiError.code, JSON.stringify([apiError.message, apiError.parts, log.lines]).includes('s3cret')]).toEqual(
        ['UPSTREAM_FAILED', false],
      )
    }
  })

  test('is given up after 20 seconds, on Solana after 15 (contract 15.14)', async () => {
    for (const [network, seconds] of [
      ['base-mainnet', 20],
      ['solana-mainnet', 15],
    ] as const) {
      const { node, clock } = fixture(() => new Promise<Response>(() => {}))
      const asking = node.ask(network, call('getSlot'), at()).catch((error) => error)
      await clock.advance(seconds * 1_000 - 1)
      await clock.advance(1)
      expect((await asking).message ?? '').toContain(`within ${seconds} s`)
    }
  })
})

describe('answers that never change', () => {
  test('is asked once in ten seconds, however many ask; what is latest, written or priced always anew', async () => {
    const { node, sent, clock } = fixture(() => answer('0x2105'))
    const all = await Promise.all([1, 2, 3].map(() => node.ask('base-mainnet', call('eth_chainId'), at())))
    expect([sent.length, all.map(({ isCached }) => isCached)]).toEqual([1, [false, false, false]])
    expect((await node.ask('base-mainnet', call('eth_chainId'), at())).isCached).toBe(true)
    await clock.advance(10_001)
    expect((await node.ask('base-mainnet', call('eth_chainId'), at())).isCached).toBe(false)
    for (const method of [
      'eth_gasPrice',
      'eth_sendRawTransaction',
      'eth_blockNumber',
      'getLatestBlockhash',
      'sendTransaction',
      'eth_call',
    ]) {
      const before = sent.length
      for (let times = 0; times < 2; times++)
        expect((await node.ask('base-mainnet', call(method), at())).isCached).toBe(false)
      expect([method, sent.length - before]).toEqual([method, 2])
    }
  })

  test('is kept only once it is there, by its own network and parameters', async () => {
    let result: unknown = null
    const { node, sent } = fixture(() => answer(result))
    const receipt = (network: string, hash: string) =>
      node.ask(network, call('eth_getTransactionReceipt', { params: [hash] }), at())
    await receipt('base-mainnet', '0x1')
    result = { status: '0x1' }
    expect((await receipt('base-mainnet', '0x1')).isCached).toBe(false)
    expect([
      (await receipt('base-mainnet', '0x1')).isCached,
      (await receipt('base-mainnet', '0x2')).isCached,
      (await receipt('solana-mainnet', '0x1')).isCached,
    ]).toEqual([true, false, false])
    expect(sent).toHaveLength(4)
  })

  test('is not kept of a transaction that waits for its block, nor under a question of any length', async () => {
    let result: unknown = { hash: '0x1', blockHash: null }
    const { node } = fixture(() => answer(result))
    const found = async (method: string, params: string[]) =>
      (await node.ask('base-mainnet', call(method, { params }), at())).isCached
    expect([
      await found('eth_getTransactionByHash', ['0x1']),
      await found('eth_getTransactionByHash', ['0x1']),
    ]).toEqual([false, false])
    result = { hash: '0x1', blockHash: '0x2' }
    expect([
      await found('eth_getTransactionByHash', ['0x1']),
      await found('eth_getTransactionByHash', ['0x1']),
    ]).toEqual([false, true])
    expect([await found('eth_chainId', ['x'.repeat(2_000)]), await found('eth_chainId', ['x'.repeat(2_000)])]).toEqual([
      false,
      false,
    ])
  })
})

describe('the local Solana', () => {
  let chain: SolanaNode
  beforeAll(async () => {
    chain = await solanaNode({ clock: testClock() })
  })
  afterAll(() => chain.stop())

  test('answers single calls and batches, its own errors among them', async () => {
    const node = rpcNodes({ nodes: { 'solana-devnet': chain.url }, clock: testClock(), log: testLog() })
    expect(
      JSON.parse((await node.ask('solana-devnet', call('getLatestBlockhash'), at())).text).result.value.blockhash,
    ).toBeString()
    const both = JSON.parse(
      (await node.ask('solana-devnet', [call('getSlot'), call('getNothing', { id: 2 })], at())).text,
    )
    expect(both).toMatchObject([
      { id: 1, result: expect.any(Number) },
      { id: 2, error: { code: -32601 } },
    ])
  })
})
