/** Promises of every chain, as data. Each law gets a harness of its own: nobody else's money, nonces or time. */
import { expect } from 'bun:test'
import type { Chain, Fate, Settlement } from '../../core/ports/mod.ts'
import type { Terms } from '../../core/x402/offer.ts'
import type { Offer, Payment, Receipt } from '../../core/x402/protocol.ts'
import { law, portLaw, type Law, type Subject } from './law.ts'

export type Payer = { readonly address: string }
export type Forgery = 'another key' | 'another domain' | 'high s' | 'too short' | 'too long'
/** Fields to sign in place of those of the offer. Times are the authorization's, in seconds. */
export type Signing = {
  readonly to?: string
  readonly value?: bigint
  readonly validAfter?: bigint
  readonly validBefore?: bigint
  readonly nonce?: string
  readonly forge?: Forgery
}
type Transfer = { readonly from: string; readonly to: string; readonly value: bigint }

/** Differences of chains without EIP-3009 in spelling and expiry. */
export type Ways = {
  /** An address that nobody holds, and how a payment to it names it. */
  readonly stranger: string
  readonly printed: string
  /** Other spellings of an address that mean the same one. */
  spellings(address: string): readonly string[]
  /** Texts that are nearly addresses. */
  notAddresses(address: string): readonly string[]
  /** Payloads that are none, made from a good one. */
  malformed(payment: Payment, offer: Offer): readonly Payment['payload'][]
  /** After so many seconds an authorization that was to live for 30 is over. */
  readonly lifeSeconds: number
}

/** A chain, and hands on the world around it. Whatever acts on the world has happened when its promise resolves. */
export type ChainHarness = {
  readonly chain: Chain
  /** 10,000 base units to a recipient that nobody else is paying. */
  readonly offer: Offer
  /** Balance that an authorization uses up and is paid out of, if not the asset. */
  readonly contract?: string
  /** The chain's own time in milliseconds; blocks made from now on are not older. */
  now(): number
  /** A plain account; 1,000,000 base units unless told. */
  payer(balance?: bigint): Promise<Payer>
  sign(payer: Payer, offer: Offer, signing?: Signing): Promise<Payment>
  balanceOf(address: string): Promise<bigint>
  /** Lets what was settled arrive where it can be spent, where that takes more than settling. */
  arrive?(): Promise<void>
  fund(payer: Payer, balance: bigint): Promise<void>
  /** The asset's transfers in a transaction; empty when there is no such transaction. */
  transfersIn(transaction: string): Promise<readonly Transfer[]>
  /** The payer takes it back on chain. */
  cancel(payer: Payer, payment: Payment): Promise<void>
  /** Somebody else sends it. */
  submit(payment: Payment): Promise<void>
  /** A block with exactly this time, in seconds. */
  mineAt(seconds: number): Promise<void>
  /** How often the chain has been asked anything. */
  reads(): number
  /** The node does not answer, or does again. */
  outage(on: boolean): void
  /**
   * Sends vanish before they arrive, or arrive while their answers and receipts vanish, until `heal`. Resolves when one
   * has.
   */
  drop(what: 'sends' | 'answers'): Promise<void>
  recover(): void
  /** Remembers the chain as it is from here on; `rewind(true)` shows it so again, as a node that is behind does. */
  mark(): void
  rewind(on: boolean): void
  /** Whether balances and receipts tell their block; they do unless told. */
  readonly tellsBlocks?: false
  /** Those of EIP-3009 unless told. */
  readonly ways?: Ways
}

type World = { readonly h: ChainHarness; readonly payer: Payer; readonly offer: Offer; readonly payment: Payment }

const CENT = 10_000n
const RICH = 1_000_000n
const NONCE = `0x${'5a'.repeat(32)}`
const STRANGER = '0x000000000000000000000000000000000000dEaD'

const shout = (hex: string) => `0x${hex.slice(2).toUpperCase()}`

const NOBODY = STRANGER.replace('dEaD', '0b0b')

const EIP3009: Ways = {
  stranger: NOBODY,
  printed: NOBODY,
  spellings: (address) => [shout(address)],
  notAddresses: (address) => ['', 'alice', address.slice(0, -1), `${address}00`, 'x'.repeat(42)],
  malformed({ payload }, offer) {
    const { authorization, signature } = payload as { authorization: object; signature: string }
    const odd = (change: object) => ({ signature, authorization: { ...authorization, ...change } })
    const numbers = ['01', '-1', '1e3', ' 1', '', 10_000, null, '9'.repeat(78)].flatMap((number) => [
      odd({ value: number }),
      odd({ validBefore: number }),
    ])
    const shapes = [
      {},
      { signature },
      { authorization },
      { signature, authorization: null },
      { signature: 1, authorization },
      { signature: '0x', authorization },
    ]
    return [
      ...shapes,
      ...numbers,
      odd({ nonce: '0xab' }),
      odd({ from: 'alice' }),
      odd({ from: undefined }),
      odd({ to: `${offer.payTo}00` }),
    ]
  },
  lifeSeconds: 30,
}

const waysOf = ({ ways = EIP3009 }: ChainHarness): Ways => ways

const identifying: readonly Law<ChainHarness>[] = [
  portLaw('terms() are what an offer needs, and asked of nobody', async (h) => {
    const before = h.reads()
    const [{ minValiditySeconds: _, ...terms }] = h.chain.terms(h.now()) as [Terms]
    const { scheme, network, asset, payTo, extra } = h.offer
    expect(terms).toEqual({ scheme, network, asset, payTo, extra } as Terms)
    expect(h.reads()).toBe(before)
  }),
  portLaw('identify() tells the payer, the key of the authorization and the end of its life', async (h) => {
    const payer = await h.payer()
    const payment = await h.sign(payer, h.offer, { validBefore: 4_102_444_800n, nonce: NONCE })
    const { network, asset } = h.offer
    const { contract = asset } = h
    const key = `${network}/${contract.toLowerCase()}/${payer.address.toLowerCase()}/${NONCE}`
    const fundedBy = h.contract && { fundedBy: h.contract.toLowerCase() }
    expect(await identify(h, payment)).toEqual({
      kind: 'known',
      payer: payer.address,
      key,
      expiresAt: 4_102_444_800_000,
      ...fundedBy,
    })
  }),
  law('identify() gives one key and one payer, however the addresses are spelled', async (subject) => {
    const { h, payment, payer } = await world(subject)
    const { authorization, signature } = payment.payload as {
      authorization: Record<'from' | 'to' | 'nonce', string>
      signature: string
    }
    const { from, to, nonce } = authorization
    const loud = {
      ...payment,
      payload: {
        signature,
        authorization: { ...authorization, from: shout(from), to: shout(to), nonce: shout(nonce) },
      },
    }
    const spelled = { ...loud, accepted: { ...payment.accepted, asset: shout(payment.accepted.asset) } }
    const [one, two] = [await identify(h, payment), await identify(h, spelled)]
    expect(two).toEqual(one)
    expect(one).toMatchObject({ payer: payer.address })
  }),
  law('identify() asks nobody about a plain account', async (subject) => {
    const { h, payment } = await world(subject)
    const before = h.reads()
    expect(await identify(h, payment)).toMatchObject({ kind: 'known' })
    expect(h.reads()).toBe(before)
  }),
  portLaw('identify() looks at neither time nor value, and bears the largest numbers there are', async (h) => {
    const payer = await h.payer()
    const largest = 2n ** 256n - 1n
    const payment = await h.sign(payer, h.offer, { value: largest, validAfter: largest, validBefore: largest })
    const identity = await identify(h, payment)
    expect(identity).toMatchObject({ kind: 'known', payer: payer.address })
    if (identity.kind !== 'known') return
    expect(new Date(identity.expiresAt).getTime()).toBe(identity.expiresAt)
    expect(await identify(h, await h.sign(payer, h.offer, { validBefore: 0n }))).toMatchObject({
      kind: 'known',
      expiresAt: 0,
    })
  }),
  refusesForgery('identify() refuses the signature of another key', 'another key'),
  refusesForgery('identify() refuses a signature over another domain name', 'another domain'),
  refusesForgery('identify() refuses the high-s twin of a signature', 'high s'),
  refusesForgery('identify() refuses a signature of the wrong length', 'too short', 'too long'),
  portLaw('identify() refuses a payment to another recipient', async (h) => {
    const { stranger, printed } = waysOf(h)
    await expectInvalid(h, await h.sign(await h.payer(), h.offer, { to: stranger }), printed)
  }),
  refusesAccepted('identify() refuses another asset', 'asset', STRANGER),
  refusesAccepted('identify() refuses another network', 'network', 'eip155:1'),
  refusesAccepted('identify() refuses another scheme', 'scheme', 'upto'),
  law('identify() refuses what is no payload, and never throws', async (subject) => {
    const { h, payment } = await world(subject)
    for (const payload of waysOf(h).malformed(payment, h.offer)) await expectInvalid(h, { ...payment, payload })
  }),
]

const verifying: readonly Law<ChainHarness>[] = [
  law('verify() accepts a good payment and tells the balance as of the time given', async (subject) => {
    const { h, payment } = await world(subject)
    const now = h.now()
    expect(await verify(h, payment, now)).toMatchObject({ kind: 'valid', balance: RICH, asOf: now })
  }),
  portLaw('verify() accepts the whole balance', async (h) => {
    const payment = await h.sign(await h.payer(CENT), h.offer)
    expect(await verify(h, payment)).toMatchObject({ kind: 'valid', balance: CENT })
  }),
  law('verify() moves no money (contract 1.29)', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const [before, height] = [await h.balanceOf(h.offer.payTo), await h.balanceOf(payer.address)]
    for (let i = 0; i < 3; i++) expect(await verify(h, payment)).toMatchObject({ kind: 'valid' })
    expect([await h.balanceOf(h.offer.payTo), await h.balanceOf(payer.address)]).toEqual([before, height])
  }),
  portLaw('verify() refuses one unit too little and one too much, and names both figures', async (h) => {
    const payer = await h.payer()
    for (const value of [CENT - 1n, CENT + 1n]) {
      const verdict = await verify(h, await h.sign(payer, h.offer, { value }))
      expect(verdict).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
      if (verdict.kind === 'refused')
        for (const figure of [value, CENT]) expect(verdict.reason).toContain(String(figure))
    }
  }),
  refusesWindow('verify() refuses an expired authorization', (now) => ({ validBefore: now - 1n })),
  refusesWindow('verify() refuses less than six seconds of life', (now) => ({ validBefore: now + 5n })),
  portLaw('verify() accepts exactly six seconds of life', async (h) => {
    const now = (Math.floor(h.now() / 1000) + 1) * 1000
    const payment = await h.sign(await h.payer(), h.offer, { validBefore: BigInt(now / 1000 + 6) })
    expect(await verify(h, payment, now)).toMatchObject({ kind: 'valid' })
  }),
  portLaw(
    'verify() refuses an authorization that outlives the log search, and accepts one that ends with it (contract 1.50)',
    async (h) => {
      const now = seconds(h)
      const payer = await h.payer()
      const latest = BigInt(now + h.offer.maxTimeoutSeconds + 86_400 - 600)
      expect(await verify(h, await h.sign(payer, h.offer, { validBefore: latest }), now * 1000)).toMatchObject({
        kind: 'valid',
      })
      for (const validBefore of [latest + 1n, 4_102_444_800n, 2n ** 256n - 1n]) {
        const verdict = await verify(h, await h.sign(payer, h.offer, { validBefore }), now * 1000)
        expect(verdict).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
        if (verdict.kind === 'refused')
          for (const text of ['authorization.validBefore', String(validBefore), String(latest)])
            expect(verdict.reason).toContain(text)
      }
    },
  ),
  refusesWindow('verify() refuses an authorization that is not yet valid', (now) => ({ validAfter: now + 60n })),
  law('verify() refuses an authorization that was used', async (subject) => {
    const { h, payment } = await world(subject)
    await h.submit(payment)
    expect(await verify(h, payment)).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  }),
  law('verify() refuses an authorization that was canceled', async (subject) => {
    const { h, payer, payment } = await world(subject)
    await h.cancel(payer, payment)
    expect(await verify(h, payment)).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  }),
  portLaw('verify() refuses a wallet that is one unit short', async (h) => {
    const payment = await h.sign(await h.payer(CENT - 1n), h.offer)
    expect(await verify(h, payment)).toMatchObject({ kind: 'refused', code: 'PAYMENT_UNFUNDED' })
  }),
]

const settling: readonly Law<ChainHarness>[] = [
  law('settle() moves exactly the price, and its receipt names the transfer', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const before = await h.balanceOf(h.offer.payTo)
    await expectReal(h, payer, await settle(h, payment))
    expect(await h.balanceOf(h.offer.payTo)).toBe(before + CENT)
    expect(await h.balanceOf(payer.address)).toBe(RICH - CENT)
  }),
  law('settle() of what is settled is the same receipt and no second transfer', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const first = await settle(h, payment)
    expect(first.kind).toBe('settled')
    expect([await settle(h, payment), await settle(h, payment)]).toEqual([first, first])
    expect(await h.balanceOf(payer.address)).toBe(RICH - CENT)
  }),
  law('settle() by twenty at once moves money once, and all read one receipt', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const all = await Promise.all(Array.from({ length: 20 }, () => settle(h, payment)))
    expect(all[0]?.kind).toBe('settled')
    expect(new Set(all.map((each) => JSON.stringify(each))).size).toBe(1)
    expect(await h.balanceOf(payer.address)).toBe(RICH - CENT)
  }),
  law('settle() of two equal payments of one payer moves money twice', async (subject) => {
    const { h, payer, offer } = await world(subject)
    const payments = [await h.sign(payer, offer), await h.sign(payer, offer)]
    const both = await Promise.all(payments.map((payment) => settle(h, payment)))
    expect(both).toMatchObject([{ kind: 'settled' }, { kind: 'settled' }])
    expect(await h.balanceOf(payer.address)).toBe(RICH - 2n * CENT)
  }),
  portLaw('settle() of one bad payment among good ones spoils no other', async (h) => {
    const payers = await Promise.all(Array.from({ length: 9 }, () => h.payer()))
    const payments = await Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
    await h.fund(payers[5] as Payer, 0n)
    const before = await h.balanceOf(h.offer.payTo)
    const all = await Promise.all(payments.map((payment) => settle(h, payment)))
    expect(all.map((each) => each.kind)).toEqual(payers.map((_, i) => (i === 5 ? 'refused' : 'settled')))
    expect(await h.balanceOf(h.offer.payTo)).toBe(before + 8n * CENT)
  }),
  law('settle() refuses an emptied wallet; once funded again, the same authorization pays', async (subject) => {
    const { h, payer, payment } = await world(subject)
    await h.fund(payer, CENT - 1n)
    expect(await settle(h, payment)).toMatchObject({ kind: 'refused' })
    expect(await h.balanceOf(payer.address)).toBe(CENT - 1n)
    await h.fund(payer, CENT)
    expect(await settle(h, payment)).toMatchObject({ kind: 'settled' })
    expect(await h.balanceOf(payer.address)).toBe(0n)
  }),
  portLaw('settle() refuses another price, and sends nothing', async (h) => {
    const payer = await h.payer()
    expect(await settle(h, await h.sign(payer, h.offer, { value: CENT - 1n }))).toMatchObject({ kind: 'refused' })
    expect(await h.balanceOf(payer.address)).toBe(RICH)
  }),
  law('settle() of what somebody else has sent is settled, with that transfer', async (subject) => {
    const { h, payer, payment } = await world(subject)
    await h.submit(payment)
    await expectReal(h, payer, await settle(h, payment))
    expect(await h.balanceOf(payer.address)).toBe(RICH - CENT)
  }),
  law('settle() of a canceled authorization is refused', async (subject) => {
    const { h, payer, payment } = await world(subject)
    await h.cancel(payer, payment)
    expect(await settle(h, payment)).toMatchObject({ kind: 'refused' })
  }),
  portLaw('settle() of an expired authorization is refused, and moves nothing', async (h) => {
    const payer = await h.payer()
    const end = seconds(h) + waysOf(h).lifeSeconds
    const payment = await h.sign(payer, h.offer, { validBefore: BigInt(end) })
    await h.mineAt(end)
    expect(await settle(h, payment, end * 1000)).toMatchObject({ kind: 'refused' })
    expect(await h.balanceOf(payer.address)).toBe(RICH)
  }),
  law('settle() whose answer was lost is unknown; then it reads as paid, once', async (subject) => {
    const { h, payer, payment } = await world(subject)
    expect(await settleWhileLosing(h, payment, 'answers')).toMatchObject({ kind: 'unknown' })
    h.recover()
    await expectReal(h, payer, await settle(h, payment))
    await expectReal(h, payer, await fate(h, payment))
    expect(await h.balanceOf(payer.address)).toBe(RICH - CENT)
  }),
  law('settle() that was dropped is unknown; sent again it is settled, once', async (subject) => {
    const { h, payer, payment } = await world(subject)
    expect(await settleWhileLosing(h, payment, 'sends')).toMatchObject({ kind: 'unknown' })
    expect(await h.balanceOf(payer.address)).toBe(RICH)
    h.recover()
    await expectReal(h, payer, await settle(h, payment))
    expect(await h.balanceOf(payer.address)).toBe(RICH - CENT)
  }),
]

const fates: readonly Law<ChainHarness>[] = [
  law('fate() of what nobody has sent is open', async (subject) => {
    const { h, payment } = await world(subject)
    expect(await fate(h, payment)).toEqual({ kind: 'open' })
  }),
  law('fate() of what somebody else has sent is paid, with that transfer', async (subject) => {
    const { h, payer, payment } = await world(subject)
    await h.submit(payment)
    await expectReal(h, payer, await fate(h, payment))
  }),
  law('fate() of what was settled is paid, with the receipt that settle() gave', async (subject) => {
    const { h, payment } = await world(subject)
    const settled = await settle(h, payment)
    expect(await fate(h, payment)).toEqual({ kind: 'paid', receipt: receiptOf(settled) })
  }),
  law('fate() of a canceled authorization is dead', async (subject) => {
    const { h, payer, payment } = await world(subject)
    await h.cancel(payer, payment)
    expect(await fate(h, payment)).toEqual({ kind: 'dead' })
  }),
  portLaw('fate() of a nonce that was spent on somebody else is dead', async (h) => {
    const payer = await h.payer()
    const payment = await h.sign(payer, h.offer, { nonce: NONCE })
    await h.submit(await h.sign(payer, h.offer, { nonce: NONCE, to: STRANGER }))
    expect(await fate(h, payment)).toEqual({ kind: 'dead' })
  }),
  portLaw('fate() of an unused authorization is dead from the second of its end on, and not before', async (h) => {
    const end = seconds(h) + 30
    const payment = await h.sign(await h.payer(), h.offer, { validBefore: BigInt(end) })
    await h.mineAt(end - 1)
    expect((await fate(h, payment, (end - 1) * 1000)).kind).not.toBe('dead')
    await h.mineAt(end)
    expect(await fate(h, payment, end * 1000)).toEqual({ kind: 'dead' })
  }),
  portLaw('fate() stays paid when the authorization has expired', async (h) => {
    const payer = await h.payer()
    const end = seconds(h) + waysOf(h).lifeSeconds
    const payment = await h.sign(payer, h.offer, { validBefore: BigInt(end) })
    await settle(h, payment)
    const paid = await fate(h, payment)
    await h.mineAt(end + 3_600)
    expect([paid.kind, await fate(h, payment)]).toEqual(['paid', paid])
  }),
  law('fate() stays dead, whatever comes after', async (subject) => {
    const { h, payer, payment } = await world(subject)
    await h.cancel(payer, payment)
    const first = await fate(h, payment)
    await h.fund(payer, 2n * RICH)
    await h.submit(payment).catch(() => {})
    await h.mineAt(seconds(h) + 4_000)
    expect([first, await fate(h, payment)]).toEqual([first, first])
    expect(await h.balanceOf(payer.address)).toBe(2n * RICH)
  }),
]

const failing: readonly Law<ChainHarness>[] = [
  law('a node that does not answer reads as unavailable or unknown, never as refused', async (subject) => {
    const { h, payer, payment } = await world(subject)
    h.outage(true)
    const [verdict, settlement, found] = [await verify(h, payment), await settle(h, payment), await fate(h, payment)]
    h.outage(false)
    expect([verdict.kind, settlement.kind, found.kind]).toEqual(['unavailable', 'unknown', 'unknown'])
    expect(await h.balanceOf(payer.address)).toBe(RICH)
    expect(await verify(h, payment)).toMatchObject({ kind: 'valid' })
  }),
  law('a caller without time reads unavailable or unknown, and nothing is sent', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const at = { now: h.now(), signal: AbortSignal.abort() }
    const { chain, offer } = h
    const answers = [
      await chain.verify(payment, offer, at),
      await chain.settle(payment, offer, at),
      await chain.fate(payment, offer, at),
    ]
    expect(answers.map((answer) => answer.kind)).toEqual(['unavailable', 'unknown', 'unknown'])
    expect(await h.balanceOf(payer.address)).toBe(RICH)
  }),
  law('a node that fell behind takes nothing back: what was paid is neither open nor dead', async (subject) => {
    const { h, payment } = await world(subject)
    h.mark()
    expect((await fate(h, payment)).kind).not.toBe('paid')
    await h.mineAt(seconds(h) + 2)
    await settle(h, payment)
    expect((await fate(h, payment)).kind).toBe('paid')
    h.rewind(true)
    const behind = await fate(h, payment)
    h.rewind(false)
    expect(['paid', 'unknown']).toContain(behind.kind)
    expect((await fate(h, payment)).kind).toBe('paid')
  }),
]

const looking: readonly Law<ChainHarness>[] = [
  law('what was settled up to the block of a balance is in it, and nothing that was settled later', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const next = await h.sign(payer, h.offer)
    h.mark()
    const { block } = receiptOf(await settle(h, payment))
    await h.arrive?.()
    h.rewind(true)
    const behind = await verify(h, next)
    h.rewind(false)
    const verdicts = [behind, await verify(h, next)]
    const blockType = h.tellsBlocks === false ? 'undefined' : 'number'
    expect(verdicts[1]).toMatchObject({ kind: 'valid', balance: RICH - CENT })
    expect([typeof block, verdicts[1]?.kind === 'valid' && typeof verdicts[1].block]).toEqual([blockType, blockType])
    for (const verdict of verdicts) {
      if (verdict.kind !== 'valid' || verdict.block === undefined || block === undefined) continue
      expect([verdict.block >= block, verdict.balance as bigint]).toEqual([
        verdict.balance === RICH - CENT,
        verdict.block >= block ? RICH - CENT : RICH,
      ])
    }
  }),
  law('balance() reads what transfers leave', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const before = await balance(h, h.offer.payTo)
    expect(await balance(h, payer.address)).toBe(RICH)
    expect((await settle(h, payment)).kind).toBe('settled')
    await h.arrive?.()
    expect(await balance(h, payer.address)).toBe(RICH - CENT)
    expect(await balance(h, h.offer.payTo)).toBe(before + CENT)
    for (const spelled of waysOf(h).spellings(payer.address)) expect(await balance(h, spelled)).toBe(RICH - CENT)
    expect(await balance(h, waysOf(h).stranger)).toBe(0n)
  }),
  law('balance() rejects what is no address, and a node that does not answer', async (subject) => {
    const { h, payer } = await world(subject)
    for (const odd of waysOf(h).notAddresses(payer.address)) await expect(balance(h, odd)).rejects.toThrow()
    h.outage(true)
    const refused = balance(h, payer.address).then(
      () => 'answered',
      () => 'rejected',
    )
    expect(await refused).toBe('rejected')
    h.outage(false)
    expect(await balance(h, payer.address)).toBe(RICH)
  }),
]

export const chainLaws: readonly Law<ChainHarness>[] = [
  ...identifying,
  ...verifying,
  ...settling,
  ...fates,
  ...failing,
  ...looking,
]

// ── shared steps ────────────────────────────────────────────────────────────────────────────────────────────────────

async function world(subject: Subject<ChainHarness>): Promise<World> {
  const h = await subject.open()
  const payer = await h.payer()
  return { h, payer, offer: h.offer, payment: await h.sign(payer, h.offer) }
}

const timeouts = () => AbortSignal.timeout(10_000)

const identify = (h: ChainHarness, payment: Payment) =>
  h.chain.identify(payment, h.offer, { now: h.now(), signal: timeouts() })
const verify = (h: ChainHarness, payment: Payment, now = h.now()) =>
  h.chain.verify(payment, h.offer, { now, signal: timeouts() })
const settle = (h: ChainHarness, payment: Payment, now = h.now()) =>
  h.chain.settle(payment, h.offer, { now, signal: timeouts() })
async function balance(h: ChainHarness, address: string): Promise<bigint> {
  if (!h.chain.balance) throw new Error('this chain cannot be asked for balances')
  return await h.chain.balance(address, { signal: timeouts() })
}

const fate = (h: ChainHarness, payment: Payment, now = h.now()) =>
  h.chain.fate(payment, h.offer, { now, signal: timeouts() })

/** The caller's time runs out as soon as something was lost. */
async function settleWhileLosing(h: ChainHarness, payment: Payment, what: 'sends' | 'answers'): Promise<Settlement> {
  const stop = new AbortController()
  void h.drop(what).then(() => stop.abort())
  return h.chain.settle(payment, h.offer, { now: h.now(), signal: stop.signal })
}

function seconds(h: ChainHarness): number {
  return Math.ceil(h.now() / 1000)
}

function receiptOf(answer: Settlement | Fate): Receipt {
  if (answer.kind === 'settled' || answer.kind === 'paid') return answer.receipt
  throw new Error(`nothing was paid: ${JSON.stringify(answer)}`)
}

/** The receipt is ours, and its transaction holds a transfer of exactly that. */
async function expectReal(h: ChainHarness, payer: Payer, answer: Settlement | Fate): Promise<void> {
  const receipt = receiptOf(answer)
  const { transaction } = receipt
  const { block, ...rest } = receipt
  expect(rest).toEqual({ transaction, network: h.offer.network, payer: payer.address, amount: h.offer.amount })
  expect(['number', 'undefined']).toContain(typeof block)
  const moved = { from: payer.address.toLowerCase(), to: h.offer.payTo.toLowerCase(), value: CENT }
  expect(await h.transfersIn(transaction)).toContainEqual(moved)
}

async function expectInvalid(h: ChainHarness, payment: Payment, named = ''): Promise<void> {
  const identity = await identify(h, payment)
  expect(identity).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
  if (identity.kind === 'refused') expect(identity.reason).toContain(named)
}

function refusesForgery(name: string, ...forgeries: readonly Forgery[]): Law<ChainHarness> {
  return portLaw(name, async (h) => {
    const payer = await h.payer()
    for (const forge of forgeries) await expectInvalid(h, await h.sign(payer, h.offer, { forge }))
  })
}

function refusesAccepted(name: string, field: 'asset' | 'network' | 'scheme', value: string): Law<ChainHarness> {
  return law(name, async (subject) => {
    const { h, payment } = await world(subject)
    await expectInvalid(h, { ...payment, accepted: { ...payment.accepted, [field]: value } }, value)
  })
}

function refusesWindow(name: string, window: (now: bigint) => Signing): Law<ChainHarness> {
  return portLaw(name, async (h) => {
    const now = Math.floor(h.now() / 1000)
    const payment = await h.sign(await h.payer(), h.offer, window(BigInt(now)))
    expect(await verify(h, payment, now * 1000)).toMatchObject({ kind: 'refused', code: 'PAYMENT_UNFUNDED' })
  })
}
