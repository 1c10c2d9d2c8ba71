import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { solanaChain, type SolanaChain, type SolanaConfig } from '../../../../adapters/chains/solana/mod.ts'
import type { Fate, Settlement } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/protocol.ts'
import { RpcError } from '../../../../server/devnet/solana/errors.ts'
import { everyChainLaw } from '../../../conformance/chain_histories.ts'
import { runLaws } from '../../../conformance/law.ts'
import {
  ask,
  base64,
  blockhashOf,
  draftOf,
  EXCEPT,
  type Key,
  newKey,
  paymentOf,
  type SolanaHarness,
  solanaHarness,
  solanaSubject,
  solanaWorld,
  transfer,
  chatFormatOf,
} from './solana_kit.ts'

const node = await solanaWorld()
afterAll(() => node.stop())

runLaws('solana', everyChainLaw, () => solanaSubject(node), { except: EXCEPT })

// ── laws of Solana alone ────────────────────────────────────────────────────────────────────────────────────────────

const METHODS = [
  'getSignatureStatuses',
  'getMultipleAccounts',
  'isBlockhashValid',
  'simulateTransaction',
  'sendTransaction',
  'getTransaction',
]
afterEach(() => {
  node.recover()
  node.outage(false)
  node.rewind(false)
  node.setLag(0)
  for (const method of METHODS) node.fakeReply(method)
})

const CENT = 10_000n
const RICH = 1_000_000n
/** Slots until a blockhash has run out, and until that is finalized. */
const [BLOCKHASH_EXPIRED, FINAL] = [151, 31]

type World = { readonly h: SolanaHarness; readonly payer: Key; readonly offer: Offer; readonly payment: Payment }

async function world(change: Partial<SolanaConfig> = {}): Promise<World> {
  const h = await solanaHarness(node, change)
  const payer = await h.payer()
  return { h, payer: h.key(payer), offer: h.offer, payment: await h.sign(payer, h.offer) }
}

const at = (now = node.now()) => ({ now, signal: AbortSignal.timeout(5_000) })
type Target = { readonly chain: SolanaChain; readonly offer: Offer }
const verify = ({ chain, offer }: Target, payment: Payment, now?: number) => chain.verify(payment, offer, at(now))
const settle = ({ chain, offer }: Target, payment: Payment, now?: number) => chain.settle(payment, offer, at(now))
const fate = ({ chain, offer }: Target, payment: Payment, now?: number) => chain.fate(payment, offer, at(now))
const receiptOf = (answer: Settlement | Fate) => ('receipt' in answer ? answer.receipt : answer)
const DEAD: Fate = { kind: 'dead', code: 'PAYMENT_BLOCKHASH_STALE' }
const contextAt = (slot: number) => ({ slot, apiVersion: '3.0.10' })

/** Blocks tell their time in seconds; five slots make two of them. */
const toFullSecond = () => node.setTime(Math.ceil(node.now() / 2_000) * 2_000)

/** The same configuration in another process, which remembers nothing. */
async function restarted({ config }: SolanaHarness, change: Partial<SolanaConfig> = {}): Promise<SolanaChain> {
  const chain = solanaChain({ ...config, ...change })
  expect(await chain.check({ now: node.now() })).toMatchObject({ kind: 'ready' })
  return chain
}

describe('identify()', () => {
  test('tells the authority of the transfer, the hash of the message, and by our own hint when its blockhash runs out', async () => {
    const { h, payer, offer, payment } = await world()
    const whenAnswerStarts = node.now()
    const identity = await h.chain.identify(payment, offer, at())
    const message = Buffer.from(String(payment.payload.transaction), 'base64').subarray(129)
    const key = `${offer.network}/${new Bun.CryptoHasher('sha256').update(message).digest('hex')}`
    expect(identity).toEqual({ kind: 'known', payer: payer.address, key, expiresAt: whenAnswerStarts + 60_000 })
    node.advance(50)
    await h.chain.refresh({ now: node.now() })
    expect(await h.chain.identify(payment, offer, at())).toEqual(identity)
  })

  test('gives a blockhash that it never named a minute from when it first saw it, and no more for asking again', async () => {
    const { h, payer, offer } = await world()
    node.advance(1)
    const payment = await h.sign(payer, offer)
    const first = node.now()
    expect(await h.chain.identify(payment, offer, at())).toMatchObject({ expiresAt: first + 60_000 })
    node.advance(25)
    expect(await h.chain.identify(payment, offer, at())).toMatchObject({ expiresAt: first + 60_000 })
  })

  test("gives one key, whatever stands in the fee payer's place, and another one to every message", async () => {
    const { h, payer, offer, payment } = await world()
    const transaction = Buffer.from(String(payment.payload.transaction), 'base64')
    transaction.fill(0xab, 1, 65)
    const known = await h.chain.identify(payment, offer, at())
    expect(await h.chain.identify(paymentOf(offer, base64(transaction)), offer, at())).toEqual(known)
    expect(known).not.toEqual(await h.chain.identify(await h.sign(payer, offer), offer, at()))
  })

  test('knows who signed for a fee payer that was replaced, and takes one for its successor only by an offer that names it', async () => {
    const { h, payer, payment } = await world()
    const next = await newKey()
    node.airdropSol(next.address)
    const chain = await restarted(h, { feePayerKeys: [next.secret] })
    const [terms] = chain.terms(node.now())
    const offer = { ...h.offer, ...terms }
    const fresh = await h.sign(payer, offer)
    expect(await chain.identify(payment, h.offer, at())).toMatchObject({ kind: 'known', payer: payer.address })
    expect(await chain.identify(payment, offer, at())).toMatchObject({ kind: 'refused' })
    expect(await chain.identify(fresh, h.offer, at())).toMatchObject({ kind: 'refused' })
    for (const refused of [await chain.verify(payment, h.offer, at()), await chain.settle(payment, h.offer, at())])
      expect(refused.kind).toBe('refused')
    expect(await chain.identify(fresh, offer, at())).toMatchObject({ kind: 'known' })
    expect(await chain.settle(fresh, offer, at())).toMatchObject({ kind: 'settled' })
    chain.close()
  })

  test('looks at neither life, nor value, nor cost, and asks nobody', async () => {
    const { h, payer, offer } = await world()
    const payment = await h.sign(payer, offer, { value: 2n ** 64n - 1n })
    node.advance(10 * BLOCKHASH_EXPIRED)
    const before = node.reads()
    expect(await h.chain.identify(payment, offer, at())).toMatchObject({ kind: 'known', payer: payer.address })
    expect(node.reads()).toBe(before)
  })
})

describe('verify()', () => {
  test('accepts a legacy message, and a transfer of nothing', async () => {
    const { h, payer, offer } = await world()
    const old = paymentOf(
      offer,
      base64(await chatFormatOf({ ...(await draftOf(node, payer, offer)), version: 'legacy' })),
    )
    expect(await verify({ ...h, offer }, old)).toMatchObject({ kind: 'valid' })
    expect(await settle(h, old)).toMatchObject({ kind: 'settled' })
    const free = { ...offer, amount: '0' }
    expect(await verify({ ...h, offer: free }, await h.sign(payer, free))).toMatchObject({
      kind: 'valid',
      balance: RICH - CENT,
    })
  })

  test('refuses a blockhash that has run out, and one of our own that is about to (contract 1.26)', async () => {
    const { h, payer, payment } = await world()
    node.advance(134)
    expect(await verify(h, payment)).toMatchObject({ kind: 'valid' })
    node.advance(2)
    const late = await verify(h, payment)
    expect(late).toMatchObject({ kind: 'refused', code: 'PAYMENT_BLOCKHASH_STALE' })
    const last = await h.sign({ address: payer.address }, h.offer)
    expect(await verify(h, last)).toMatchObject({ kind: 'valid' })
    node.advance(16)
    const gone = await verify(h, payment)
    expect(gone).toMatchObject({ kind: 'refused', code: 'PAYMENT_BLOCKHASH_STALE' })
    for (const verdict of [late, gone]) expect('reason' in verdict && verdict.reason).toContain('blockhash')
  })

  test('dates a balance by the bank that shows it: what settled since then is not in it', async () => {
    const { h, payment } = await world()
    toFullSecond()
    const then = node.now()
    expect(await verify(h, payment, then + 20_000)).toMatchObject({ kind: 'valid', balance: RICH, asOf: then })
    expect(await verify(h, payment, then - 2_000)).toMatchObject({ kind: 'valid', asOf: then - 2_000 })
  })

  test('leaves to settle() the last seconds of a life', async () => {
    const { h, payment } = await world()
    node.advance(150)
    expect(await verify(h, payment)).toMatchObject({ kind: 'refused', code: 'PAYMENT_BLOCKHASH_STALE' })
    expect(await settle(h, payment)).toMatchObject({ kind: 'settled' })
  })

  test('reads as replayed what was spent, long after its blockhash has run out too', async () => {
    const { h, payment } = await world()
    await settle(h, payment)
    node.advance(3 * BLOCKHASH_EXPIRED)
    const other = await restarted(h)
    expect(await other.verify(payment, h.offer, at())).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
    other.close()
  })

  const REASONS: readonly (readonly [string, unknown])[] = [
    ['AccountInUse', 'AccountInUse'],
    ['WouldExceedMaxBlockCostLimit', 'WouldExceedMaxBlockCostLimit'],
    ['InsufficientFundsForFee', 'InsufficientFundsForFee'],
    ['no rent for the fee payer', { InsufficientFundsForRent: { account_index: 0 } }],
    ['a blockhash that is our own hint is not found', 'BlockhashNotFound'],
  ]
  test.each(REASONS)("is unavailable where the trouble is the node's or the fee payer's: %s", async (reason, err) => {
    const { h, payment } = await world()
    node.fakeReply('simulateTransaction', () => ({ context: contextAt(1), value: { err, logs: [] } }))
    expect(await verify(h, payment)).toMatchObject({ kind: 'unavailable' })
    const isFee = /Fee$|fee payer$/.test(reason) // known to have sent nothing, and nothing that the payer could mend
    expect(await settle(h, payment)).toMatchObject({ kind: isFee ? 'unavailable' : 'unknown' })
    expect(node.balanceOf(String(h.offer.payTo))).resolves.toBe(0n)
  })

  test('is unavailable while the node is too busy, behind, or says what cannot be read', async () => {
    const { h, payment } = await world()
    node.outage('busy')
    expect(await verify(h, payment)).toMatchObject({ kind: 'unavailable' })
    node.outage(false)
    for (const odd of [null, {}, { context: contextAt(1) }, { context: contextAt(1), value: null }, [], 'ok']) {
      for (const method of METHODS.slice(0, 4)) {
        node.fakeReply(method, () => odd)
        if (method !== 'isBlockhashValid') expect(await verify(h, payment)).toMatchObject({ kind: 'unavailable' })
        expect((await fate(h, payment)).kind).toBe(
          method === 'getMultipleAccounts' || method === 'simulateTransaction' ? 'open' : 'unknown',
        )
        node.fakeReply(method)
      }
    }
    node.mark()
    node.advance(80)
    node.rewind(true)
    expect(await verify(h, payment)).toMatchObject({ kind: 'unavailable' })
    node.rewind(false)
    expect(await verify(h, payment)).toMatchObject({ kind: 'valid' })
  })

  test('is unavailable while the fee payer has nothing to pay with', async () => {
    const { h, payment } = await world()
    node.airdropSol(h.feePayer.address, -node.lamportsOf(h.feePayer.address))
    expect(await verify(h, payment)).toMatchObject({ kind: 'unavailable' })
    node.airdropSol(h.feePayer.address)
    expect(await verify(h, payment)).toMatchObject({ kind: 'valid' })
  })
})

describe('settle()', () => {
  /** Waits by letting things happen to the chain. */
  const acting = (act: (round: number) => void): Partial<SolanaConfig> => {
    let round = 0
    return { wait: async () => act(++round) }
  }

  test('through two replicas at once moves money once, and both read one receipt', async () => {
    const { h, payer, payment } = await world()
    const other = await restarted(h)
    const both = await Promise.all([settle(h, payment), other.settle(payment, h.offer, at())])
    expect(both[0]?.kind).toBe('settled')
    expect(both[1]).toEqual(both[0] as Settlement)
    expect(await node.balanceOf(payer.address)).toBe(RICH - CENT)
    other.close()
  })

  test('accepts whichever fee payer of ours a payment names (contract 21.3)', async () => {
    const second = await newKey()
    node.airdropSol(second.address)
    const { h, payer, offer } = await world()
    const both = await restarted(h, { feePayerKeys: [...h.config.feePayerKeys, second.secret] })
    const draft = { ...(await draftOf(node, payer, offer)), feePayer: second.address }
    const payment = paymentOf(offer, base64(await chatFormatOf(draft)))
    expect(await settle(h, payment)).toMatchObject({ kind: 'refused' })
    expect(await both.settle(payment, offer, at())).toMatchObject({ kind: 'settled' })
    both.close()
  })

  test('sends again what leaders drop, until it lands', async () => {
    const { h, payer, payment } = await world(acting((round) => (round === 30 ? node.recover() : node.advance(1))))
    const before = node.reads('sendTransaction')
    void node.drop('landings')
    expect(await settle(h, payment)).toMatchObject({ kind: 'settled' })
    expect(node.reads('sendTransaction') - before).toBeGreaterThan(2)
    expect(await node.balanceOf(payer.address)).toBe(RICH - CENT)
  })

  test('ends with the code for a dead blockhash when it never lands', async () => {
    const { h, payer, payment } = await world(acting(() => node.advance(30)))
    void node.drop('landings')
    expect(await settle(h, payment)).toMatchObject({ kind: 'refused', code: 'PAYMENT_BLOCKHASH_STALE' })
    node.recover()
    expect(await fate(h, payment)).toEqual(DEAD)
    await h.submit(payment)
    expect(await node.balanceOf(payer.address)).toBe(RICH)
  })

  test('of what is dead already says so with the same code', async () => {
    const { h, payment } = await world()
    node.advance(BLOCKHASH_EXPIRED)
    expect(await settle(h, payment)).toMatchObject({ kind: 'refused', code: 'PAYMENT_BLOCKHASH_STALE' })
  })

  test('waits until it is confirmed, and is not fooled by a fork', async () => {
    node.setLag(3)
    const forked: (readonly string[])[] = []
    const { h, payer, payment } = await world(
      acting((round) => (round === 1 ? forked.push(node.fork()) : node.advance(1))),
    )
    const settled = await settle(h, payment)
    expect(forked[0]).toHaveLength(1)
    expect(settled).toMatchObject({ kind: 'settled', receipt: { transaction: forked[0]?.[0] } })
    expect(node.slot('confirmed')).toBeGreaterThanOrEqual(node.landed(String(forked[0]?.[0]))?.slot ?? Infinity)
    expect(await node.balanceOf(payer.address)).toBe(RICH - CENT)
  })

  test('is refused at once where the node calls it no transaction, and unknown where the node only stumbles', async () => {
    const { h, payment } = await world(acting(() => node.advance(100)))
    const answer = (code: number) => () => {
      throw new RpcError(code, 'no')
    }
    node.fakeReply('sendTransaction', answer(-32003))
    void node.drop('landings')
    expect(await settle(h, payment)).toMatchObject({ kind: 'refused', reason: 'nothing was sent: no' })
    node.recover()
    node.fakeReply('sendTransaction', answer(-32005))
    const before = node.reads('sendTransaction')
    expect(await settle(h, payment)).toMatchObject({ kind: 'settled' })
    expect(node.reads('sendTransaction')).toBe(before + 1)
  })

  test('believes a node that confirms it only when it shows the transfer', async () => {
    const { h, payer, offer, payment } = await world(acting(() => {}))
    await h.submit(payment)
    const short = (truth: unknown) =>
      JSON.parse(JSON.stringify(truth).replace('"amount":"10000"', '"amount":"9999"')) as unknown
    const other = await settle(h, await h.sign(payer, offer))
    const stranger = await ask(node, 'getTransaction', (receiptOf(other) as { transaction: string }).transaction, {
      encoding: 'base64',
      commitment: 'confirmed',
      maxSupportedTransactionVersion: 0,
    })
    for (const fakeReply of [() => null, () => stranger]) {
      node.fakeReply('getTransaction', fakeReply)
      expect((await fate(h, payment)).kind).toBe('unknown')
      const signal = AbortSignal.timeout(20)
      expect(await h.chain.settle(payment, offer, { now: node.now(), signal })).toMatchObject({ kind: 'unknown' })
    }
    node.fakeReply('getTransaction', short)
    const doubting = await restarted(h)
    expect(await doubting.fate(payment, offer, at())).toEqual({ kind: 'dead' })
    node.fakeReply('getTransaction')
    expect((await fate(h, payment)).kind).toBe('paid')
    doubting.close()
  })

  /** The payer's money goes between rehearsal and block. */
  async function fails({ h, payment, payer }: World): Promise<Settlement> {
    let stored: unknown
    node.fakeReply('getMultipleAccounts', (truth) => (stored ??= truth))
    node.fakeReply('simulateTransaction', () => ({ context: contextAt(1), value: { err: null } }))
    await verify(h, payment)
    await node.fund(payer.address, 0n)
    const settlement = await settle(h, payment)
    for (const method of METHODS) node.fakeReply(method)
    await node.fund(payer.address, RICH)
    return settlement
  }

  test('that failed on chain is refused, and stays dead', async () => {
    const given = await world()
    expect(await fails(given)).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('invalid_exact_svm_transaction_failed'),
    })
    const first = await fate(given.h, given.payment)
    const other = await restarted(given.h)
    expect([first, await other.fate(given.payment, given.offer, at())]).toEqual([{ kind: 'dead' }, { kind: 'dead' }])
    expect(await settle(given.h, given.payment)).toMatchObject({ kind: 'refused' })
    expect(await node.balanceOf(given.payer.address)).toBe(RICH)
    other.close()
  })

  test('sends nothing more for a payer whose transfers failed five times on chain', async () => {
    const given = await world()
    for (let i = 0; i < 5; i++) await fails({ ...given, payment: await given.h.sign(given.payer, given.offer) })
    const [before, sent] = [node.lamportsOf(given.h.feePayer.address), node.reads('sendTransaction')]
    const payment = await given.h.sign(given.payer, given.offer)
    expect(await settle(given.h, payment)).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('5 transfers'),
    })
    expect([node.lamportsOf(given.h.feePayer.address), node.reads('sendTransaction')]).toEqual([before, sent])
    node.advance(2)
    expect(await settle(given.h, payment, node.now() + 3_600_000)).toMatchObject({ kind: 'unknown' })
  })
})

describe('fate()', () => {
  test('is open while any commitment knows the blockhash, and dead when the last of them has let it go', async () => {
    const { h, payment } = await world()
    const kinds: string[] = []
    for (const slots of [0, BLOCKHASH_EXPIRED - 1, 1, FINAL - 1, 1]) {
      node.advance(slots)
      kinds.push((await fate(h, payment)).kind)
    }
    expect(kinds).toEqual(['open', 'open', 'open', 'open', 'dead'])
    expect(await fate(h, payment)).toEqual(DEAD)
  })

  test('stays dead, whatever a node says later', async () => {
    const { h, payer, payment } = await world()
    await fate(h, payment)
    node.advance(BLOCKHASH_EXPIRED + FINAL)
    expect(await fate(h, payment)).toEqual(DEAD)
    node.fakeReply('isBlockhashValid', () => ({ context: contextAt(1), value: true }))
    expect([await fate(h, payment), (await settle(h, payment)).kind]).toEqual([DEAD, 'refused'])
    expect(await node.balanceOf(payer.address)).toBe(RICH)
  })

  test('is not dead to a node that is behind: there the blockhash is too new', async () => {
    const { h, payer, offer } = await world()
    node.mark()
    node.advance(5)
    const payment = await h.sign(payer, offer)
    node.rewind(true)
    for (const seconds of [0, 10, 20, 40, 60, 600, 86_400])
      expect([seconds, (await fate(h, payment, node.now() + 1000 * seconds)).kind]).toEqual([seconds, 'unknown'])
    node.rewind(false)
    expect(await fate(h, payment)).toEqual({ kind: 'open' })
  })

  test('is not dead on the word of a node that is a minute behind, though that would be enough', async () => {
    const { h, payment } = await world()
    await fate(h, payment)
    node.advance(BLOCKHASH_EXPIRED + FINAL)
    node.mark()
    node.advance(120)
    node.rewind(true)
    expect((await fate(h, payment)).kind).toBe('unknown')
    node.rewind(false)
    expect(await fate(h, payment)).toEqual(DEAD)
  })

  test('is not dead to a process that has just begun, until a finalized block is younger than its first look', async () => {
    const { h, payment } = await world()
    node.advance(BLOCKHASH_EXPIRED + FINAL)
    toFullSecond()
    const other = await restarted(h)
    const poll = () => other.fate(payment, h.offer, at())
    expect((await poll()).kind).toBe('unknown')
    node.advance(FINAL + 37)
    expect((await poll()).kind).toBe('unknown')
    node.advance(1)
    expect(await poll()).toEqual(DEAD)
    other.close()
  })

  test('looks once more after the blockhash has run out: it may have landed between two questions', async () => {
    const { h, payer, payment } = await world()
    await fate(h, payment)
    await h.submit(payment)
    node.advance(BLOCKHASH_EXPIRED + FINAL)
    let requestCount = 0
    node.fakeReply('getSignatureStatuses', (truth) =>
      ++requestCount === 1 ? { context: contextAt(node.slot()), value: [null] } : truth,
    )
    expect(await fate(h, payment)).toMatchObject({ kind: 'paid', receipt: { payer: payer.address, amount: '10000' } })
    expect(requestCount).toBe(2)
  })

  test('is not dead because a status says that it failed, where its transaction says that it paid', async () => {
    const { h, payment } = await world()
    await h.submit(payment)
    node.fakeReply('getSignatureStatuses', (truth) => ({
      ...(truth as object),
      value: [{ err: { InstructionError: [2, { Custom: 1 }] }, confirmations: 1, confirmationStatus: 'confirmed' }],
    }))
    expect((await fate(h, payment)).kind).toBe('unknown')
    node.fakeReply('getSignatureStatuses')
    expect((await fate(h, payment)).kind).toBe('paid')
  })

  test('is not dead where the second look is taken by a node that has not come as far', async () => {
    const { h, payment } = await world()
    await fate(h, payment)
    node.advance(BLOCKHASH_EXPIRED + FINAL)
    node.fakeReply('getSignatureStatuses', () => ({ context: contextAt(node.slot('finalized') - 1), value: [null] }))
    expect((await fate(h, payment)).kind).toBe('unknown')
    node.fakeReply('getSignatureStatuses')
    node.fakeReply('isBlockhashValid', (truth, [, config]) =>
      (config as { commitment: string }).commitment === 'processed' ? { context: contextAt(1), value: true } : truth,
    )
    expect((await fate(h, payment)).kind).toBe('open')
    node.fakeReply('isBlockhashValid', (truth) => ({
      ...(truth as object),
      context: contextAt(node.slot('finalized') - 1),
    }))
    expect((await fate(h, payment)).kind).toBe('unknown')
    node.fakeReply('isBlockhashValid')
    expect(await fate(h, payment)).toEqual(DEAD)
  })

  test('of what has run in a block that is not confirmed is open', async () => {
    node.setLag(4)
    const { h, payment } = await world()
    await h.submit(payment)
    expect(await fate(h, payment)).toEqual({ kind: 'open' })
    node.advance(4)
    expect((await fate(h, payment)).kind).toBe('paid')
  })

  test('is found by its message where the fee payer is configured no longer', async () => {
    const { h, payer, offer, payment } = await world()
    const unsent = await h.sign(payer, offer)
    const settled = await settle(h, payment)
    const successor = await newKey()
    node.airdropSol(successor.address)
    const next = await restarted(h, { feePayerKeys: [successor.secret] })
    expect(await next.settle(payment, offer, at())).toMatchObject({ kind: 'refused' })
    expect(receiptOf(await next.fate(payment, offer, at()))).toEqual(receiptOf(settled))
    expect(await next.fate(unsent, offer, at())).toEqual({ kind: 'open' })
    node.advance(BLOCKHASH_EXPIRED + FINAL)
    expect(await next.fate(unsent, offer, at())).toEqual(DEAD)
    next.close()
  })
})

test('a blockhash of another fork never comes to life: its payment is dead once that is final', async () => {
  node.setLag(10)
  const { h, payer, offer } = await world()
  node.advance(5)
  const draft = { ...(await draftOf(node, payer, offer)), blockhash: await blockhashOf(node, 'processed') }
  const payment = paymentOf(
    offer,
    base64(
      await chatFormatOf({
        ...draft,
        instructions: draft.instructions.with(
          2,
          await transfer({ from: payer.address, to: offer.payTo, amount: CENT }),
        ),
      }),
    ),
  )
  node.fork()
  toFullSecond()
  expect((await fate(h, payment)).kind).toBe('unknown')
  node.advance(FINAL + 10 + 38)
  expect(await fate(h, payment)).toEqual(DEAD)
})
