/** Wallets that are contracts and mean harm: whatever their code does, only their own payment suffers. */
import { afterAll, expect, test } from 'bun:test'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { CONTRACT_LIMITS } from '../../../../adapters/chains/evm/node/contracts.ts'
import { jsonRpc } from '../../../../adapters/chains/lib/json_rpc.ts'
import type { Payment } from '../../../../core/x402/protocol.ts'
import { type EvmHarness, evmHarness, type Message, signPayment, type World, world } from './evm_kit.ts'

const chainWorld: World = await world()
afterAll(() => chainWorld.close())

const at = (h: EvmHarness) => ({ now: h.now(), signal: AbortSignal.timeout(20_000) })

/** Code that answers every question with 300,000 bytes, reverts with them, never ends, or is none. */
const CODES = { answers: '0x620493e05ff3', reverts: '0x620493e05ffd', loops: '0x5b5f56', breaks: '0x0c' } as const
const YES = `0x7f1626ba7e${'00'.repeat(28)}5f5260205ff3`

type Change = Parameters<typeof evmHarness>[1]

async function withChain(work: (h: EvmHarness) => Promise<void>, change: Change = {}): Promise<void> {
  const h = await evmHarness(chainWorld, change)
  try {
    await work(h)
  } finally {
    h.chain.close()
  }
}

/** A payment of a wallet with this code, signed by nobody's key in particular. */
async function paymentOf(h: EvmHarness, code: string): Promise<Payment> {
  const owner = privateKeyToAccount(chainWorld.key())
  const { address } = privateKeyToAccount(chainWorld.key())
  await chainWorld.ask('anvil_setCode', address, code)
  await chainWorld.setBalance(address, 1_000_000n)
  return signPayment(owner, h.offer, { now: h.now(), from: address })
}

const fromOf = ({ payload }: Payment): string => (payload.authorization as { from: string }).from.toLowerCase()
const many = <T>(count: number, make: () => Promise<T>): Promise<readonly T[]> =>
  Promise.all(Array.from({ length: count }, make))

/** Whether a message runs the code of one of these wallets: directly, through the token, or through Multicall3. */
function asks(wallets: ReadonlySet<string>): (message: Message) => boolean {
  return ({ method, params }) => {
    if (method !== 'eth_call') return false
    const { to, data } = params[0] as { to: string; data: string }
    if (wallets.has(to.toLowerCase())) return true
    const moves = /cf092995|e3ee160e/.test(data) // transferWithAuthorization, both of them
    return [...wallets].some((wallet) => data.includes(wallet.slice(2)) && (moves || data.includes('1626ba7e')))
  }
}

for (const [does, code] of Object.entries(CODES)) {
  test(`twenty wallets whose code ${does} fail no verification of others`, () =>
    withChain(
      async (h) => {
        const bad = await many(20, () => paymentOf(h, code))
        const good = await many(5, async () => h.sign(await h.payer(), h.offer))
        const requests: Message[][] = []
        const isAbout = asks(new Set(bad.map(fromOf)))
        h.line.judge = (messages) => {
          if (messages.some(isAbout)) requests.push([...messages])
          return 'fine'
        }
        const [identities, verdicts, others] = await Promise.all([
          Promise.all(bad.map((payment) => h.chain.identify(payment, h.offer, at(h)))),
          Promise.all(good.map((payment) => h.chain.verify(payment, h.offer, at(h)))),
          Promise.all(bad.map((payment) => h.chain.verify(payment, h.offer, at(h)))),
        ])
        expect(verdicts.map(({ kind }) => kind)).toEqual(Array(5).fill('valid'))
        for (const { kind } of [...identities, ...others]) expect(kind).toBe('refused')
        const again = await Promise.all(bad.map((payment) => h.chain.verify(payment, h.offer, at(h))))
        for (const { kind } of again) expect(kind).toBe('refused')
        for (const messages of requests) {
          const [call] = (messages.find(isAbout)?.params ?? []) as readonly { gas?: Hex }[]
          expect(BigInt(call?.gas ?? 0)).toBe(CONTRACT_LIMITS.gas)
        }
      },
      { maxRequests: 1 },
    ))
}

test('what a wallet computes is asked in an HTTP request of its own, once it is known to be a contract', () =>
  withChain(async (h) => {
    const payments = await many(6, () => paymentOf(h, YES))
    const sizes: number[] = []
    const isAbout = asks(new Set(payments.map(fromOf)))
    h.line.judge = (messages) => {
      if (messages.some(isAbout)) sizes.push(messages.length)
      return 'fine'
    }
    for (const ask of [h.chain.identify, h.chain.verify]) {
      const answers = await Promise.all(payments.map((payment) => ask(payment, h.offer, at(h))))
      for (const { kind } of answers) expect(['known', 'valid']).toContain(kind)
    }
    const settled = await Promise.all(payments.map((payment) => h.chain.settle(payment, h.offer, at(h))))
    expect(settled.map(({ kind }) => kind)).toEqual(Array(6).fill('settled'))
    // identify: the wallet; verify: the wallet, and the token; settle: the token, again where a block came in between
    expect(sizes.length).toBeGreaterThanOrEqual(6 * 4)
    expect(new Set(sizes)).toEqual(new Set([1]))
  }))

test('a slow contract keeps nobody waiting, and is given up at its own deadline', () =>
  withChain(
    async (h) => {
      const slow = await paymentOf(h, YES)
      const isAbout = asks(new Set([fromOf(slow)]))
      h.line.judge = (messages) => (messages.some(isAbout) ? () => new Promise(() => {}) : 'fine')
      const waiting = h.chain.identify(slow, h.offer, at(h))
      const good = await many(3, async () => h.sign(await h.payer(), h.offer))
      const verdicts = await Promise.all(good.map((payment) => h.chain.verify(payment, h.offer, at(h))))
      expect(verdicts.map(({ kind }) => kind)).toEqual(['valid', 'valid', 'valid'])
      expect(await waiting).toMatchObject({
        kind: 'unavailable',
        reason: expect.stringContaining('no answer in 200 ms'),
      })
    },
    { maxRequests: 1, contracts: { timeoutMs: 200 } },
  ))

test('few contracts are asked at a time, and one contract less often than all', () =>
  withChain(async (h) => {
    const [wallet, ...others] = await many(12, () => paymentOf(h, YES))
    const every = [wallet, ...others] as readonly Payment[]
    const isAbout = asks(new Set(every.map(fromOf)))
    const blocked: (() => void)[] = []
    let most = 0
    let blockedOne: () => void = () => {}
    h.line.judge = (messages) => {
      if (!messages.some(isAbout)) return 'fine'
      return async (_, forward) => {
        await new Promise<void>((go) => {
          blocked.push(go)
          most = Math.max(most, blocked.length)
          blockedOne()
        })
        return forward()
      }
    }
    const until = async (count: number) => {
      while (blocked.length < count) await new Promise<void>((seen) => (blockedOne = seen))
    }
    const same = Array.from({ length: 6 }, () => h.chain.identify(wallet as Payment, h.offer, at(h)))
    await until(CONTRACT_LIMITS.maxAtOncePerContract)
    // a round trip, in which a third would have come
    await h.chain.verify(await h.sign(await h.payer(), h.offer), h.offer, at(h))
    expect(blocked).toHaveLength(CONTRACT_LIMITS.maxAtOncePerContract)
    const rest = others.map((payment) => h.chain.identify(payment, h.offer, at(h)))
    await until(CONTRACT_LIMITS.maxAtOnce)
    await h.chain.verify(await h.sign(await h.payer(), h.offer), h.offer, at(h))
    expect(most).toBe(CONTRACT_LIMITS.maxAtOnce)
    h.recover()
    for (const go of blocked.splice(0)) go()
    for (const { kind } of await Promise.all([...same, ...rest])) expect(kind).toBe('known')
  }))

test('an answer is cut off while it is read, and the rest is never asked for', async () => {
  let given = 0
  const endless = new TextEncoder().encode('a'.repeat(1_024))
  const body = () =>
    new ReadableStream<Uint8Array>({
      pull(controller) {
        given += endless.length
        controller.enqueue(endless)
      },
    })
  const headers = { 'content-type': 'application/json' }
  const fetch = (async () => new Response(body(), { headers })) as unknown as typeof globalThis.fetch
  const rpc = jsonRpc({ url: 'http://node.test', fetch })
  expect(await rpc.requestAlone('eth_call', [], { timeoutMs: 5_000, maxBytes: 4_096 })).toMatchObject({
    kind: 'failure',
    isTooLarge: true,
  })
  expect(given).toBeLessThanOrEqual(4_096 + 3 * 1_024)
  rpc.close()
})

test('an error of 300 KB is the wallet’s own; a page of the proxy’s is the node’s trouble', () =>
  withChain(async (h) => {
    const payment = await paymentOf(h, YES)
    const isAbout = asks(new Set([fromOf(payment)]))
    const long = 'revert '.repeat(43_000)
    const reply = async (messages: readonly Message[]) =>
      messages.map(({ id }) => ({ id, error: { code: 3, message: long } }))
    h.line.judge = (messages) => (messages.some(isAbout) ? reply : 'fine')
    expect(await h.chain.identify(payment, h.offer, at(h))).toMatchObject({ kind: 'refused' })
    h.line.judge = (messages) => (messages.some(isAbout) ? 'garbage' : 'fine')
    expect(await h.chain.identify(payment, h.offer, at(h))).toMatchObject({ kind: 'unavailable' })
  }))

test('a payer who delegates to code that never ends (EIP-7702) spoils no settlement of others', () =>
  withChain(async (h) => {
    const payers = await many(24, () => h.payer())
    const payments = await Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
    await chainWorld.ask('anvil_setCode', payers[0]?.address, CODES.loops)
    const settled = await Promise.all(payments.map((payment) => h.chain.settle(payment, h.offer, at(h))))
    expect(settled.map(({ kind }) => kind)).toEqual(['refused', ...Array(23).fill('settled')])
  }))
