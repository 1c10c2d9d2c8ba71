/** Promises of every chain that sells by `upto`, as data: beside the laws of chains, which are those of `exact`. */
import { expect } from 'bun:test'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { usdc } from '../../core/x402/money.ts'
import type { Chain } from '../../core/ports/mod.ts'
import type { Offer, Payment } from '../../core/x402/protocol.ts'
import { law, portLaw, type Broken, type Law, type Subject } from './law.ts'

/** Fields to sign in place of those of the offer. Times are in seconds. */
export type UptoSigning = {
  readonly to?: string
  readonly value?: bigint
  readonly validAfter?: bigint
  readonly validBefore?: bigint
  readonly nonce?: string
  readonly isForged?: boolean
}

export type UptoHarness = {
  readonly chain: Chain
  /** At most 10,000 base units. */
  readonly offer: Offer
  now(): number
  /** A wallet with 1,000,000 base units, or as told, that lets Permit2 move them. */
  payer(balance?: bigint): Promise<string>
  sign(payer: string, signing?: UptoSigning): Promise<Payment>
  balanceOf(address: string): Promise<bigint>
  /** The payer invalidates the nonce on chain. */
  cancel(payment: Payment): Promise<void>
  mineAt(seconds: number): Promise<void>
}

const CEILING = 10_000n
const CHARGE = 1_234n
const RICH = 1_000_000n
const NONCE = `0x${'5a'.repeat(32)}`
const PERMIT2 = '0x000000000022d473030f116ddee9f6b43ac78ba3'
const STRANGER = '0x000000000000000000000000000000000000dEaD'

const timeouts = () => AbortSignal.timeout(10_000)
const at = (h: UptoHarness, charge?: bigint) => ({
  now: h.now(),
  signal: timeouts(),
  ...(charge !== undefined && { charge: usdc(charge) }),
})
const identify = (h: UptoHarness, payment: Payment) => h.chain.identify(payment, h.offer, at(h))
const verify = (h: UptoHarness, payment: Payment) => h.chain.verify(payment, h.offer, at(h))
const settle = (h: UptoHarness, payment: Payment, charge?: bigint) => h.chain.settle(payment, h.offer, at(h, charge))
const fate = (h: UptoHarness, payment: Payment, charge?: bigint) => h.chain.fate(payment, h.offer, at(h, charge))

async function world(subject: Subject<UptoHarness>) {
  const h = await subject.open()
  const payer = await h.payer()
  return { h, payer, payment: await h.sign(payer) }
}

export const uptoLaws: readonly Law<UptoHarness>[] = [
  portLaw('terms() name the account that sends, and Permit2 (contract 1.76)', async (h) => {
    const terms = h.chain.terms(h.now()).find(({ scheme }) => scheme === 'upto')
    expect(terms?.extra).toMatchObject({
      facilitatorAddress: expect.stringMatching(/^0x[0-9a-fA-F]{40}$/),
      assetTransferMethod: 'permit2',
    })
  }),
  law('identify() tells the payer, the owner and nonce under Permit2 as the key, and the end', async (subject) => {
    const { h, payer } = await world(subject)
    const payment = await h.sign(payer, { nonce: NONCE, validBefore: 4_102_444_800n })
    expect(await identify(h, payment)).toEqual({
      kind: 'known',
      payer,
      key: `${h.offer.network}/${PERMIT2}/${payer.toLowerCase()}/${NONCE}`,
      expiresAt: 4_102_444_800_000,
    })
  }),
  law('identify() refuses a forged signature, and what was signed for somebody else', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const { permit2Authorization: permit, signature } = payment.payload as Record<string, any>
    const changed = (change: object) => ({
      ...payment,
      payload: { signature, permit2Authorization: { ...permit, ...change } },
    })
    const bad = [
      await h.sign(payer, { isForged: true }),
      await h.sign(payer, { to: STRANGER }),
      changed({ spender: STRANGER }),
      changed({ witness: { ...permit.witness, facilitator: STRANGER } }),
      changed({ permitted: { ...permit.permitted, token: STRANGER } }),
      changed({ nonce: '-1' }),
      changed({ deadline: null }),
      { ...payment, payload: {} },
      { ...payment, accepted: { ...payment.accepted, network: 'eip155:1' } },
    ]
    for (const each of bad) expect(await identify(h, each)).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
  }),
  law('verify() accepts exactly the ceiling, of a wallet that has it, in its time', async (subject) => {
    const { h, payer, payment } = await world(subject)
    expect(await verify(h, payment)).toMatchObject({ kind: 'valid', balance: RICH })
    const seconds = BigInt(Math.ceil(h.now() / 1000))
    const refusals: readonly (readonly [string, Payment])[] = [
      ['PAYMENT_INVALID', await h.sign(payer, { value: CEILING - 1n })],
      ['PAYMENT_INVALID', await h.sign(payer, { value: CEILING + 1n })],
      ['PAYMENT_UNFUNDED', await h.sign(payer, { validBefore: seconds + 4n })],
      ['PAYMENT_UNFUNDED', await h.sign(payer, { validAfter: seconds + 60n })],
      ['PAYMENT_INVALID', await h.sign(payer, { validBefore: seconds + 10n ** 6n })],
      ['PAYMENT_UNFUNDED', await h.sign(await h.payer(CEILING - 1n))],
    ]
    for (const [code, each] of refusals) expect(await verify(h, each)).toMatchObject({ kind: 'refused', code })
  }),
  law('verify() refuses a nonce that was used or invalidated', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const canceled = await h.sign(payer)
    await settle(h, payment, CHARGE)
    await h.cancel(canceled)
    for (const each of [payment, canceled])
      expect(await verify(h, each)).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  }),
  law('settle() moves the charge once, however often it is asked, and its receipt says so', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const before = await h.balanceOf(h.offer.payTo)
    const all = await Promise.all(Array.from({ length: 9 }, () => settle(h, payment, CHARGE)))
    all.push(await settle(h, payment, CHARGE))
    expect(all[0]).toMatchObject({ kind: 'settled', receipt: { payer, amount: String(CHARGE) } })
    expect(new Set(all.map((each) => JSON.stringify(each))).size).toBe(1)
    expect(await h.balanceOf(payer)).toBe(RICH - CHARGE)
    expect(await h.balanceOf(h.offer.payTo)).toBe(before + CHARGE)
  }),
  law('settle() without a charge moves the whole amount, and never more than was signed', async (subject) => {
    const { h, payer, payment } = await world(subject)
    expect(await settle(h, payment, CEILING + 1n)).toMatchObject({ kind: 'refused' })
    expect(await settle(h, payment)).toMatchObject({ kind: 'settled', receipt: { amount: String(CEILING) } })
    expect(await h.balanceOf(payer)).toBe(RICH - CEILING)
  }),
  law('a charge of zero is settled without a transaction (contract 1.76)', async (subject) => {
    const { h, payer, payment } = await world(subject)
    const receipt = { transaction: '', network: h.offer.network, payer, amount: '0' }
    expect(await settle(h, payment, 0n)).toEqual({ kind: 'settled', receipt })
    expect(await fate(h, payment, 0n)).toEqual({ kind: 'paid', receipt })
    expect(await h.balanceOf(payer)).toBe(RICH)
  }),
  law('fate() is open, then paid with what was moved, and stays so', async (subject) => {
    const { h, payer, payment } = await world(subject)
    expect(await fate(h, payment, CHARGE)).toEqual({ kind: 'open' })
    const another = await h.sign(payer)
    await settle(h, another, CHARGE + 1n)
    expect(await fate(h, payment, CHARGE)).toEqual({ kind: 'open' })
    const settled = await settle(h, payment, CHARGE)
    const receipt = settled.kind === 'settled' ? settled.receipt : undefined
    expect(await fate(h, payment, CHARGE)).toEqual({ kind: 'paid', receipt } as never)
    await h.mineAt(Math.ceil(h.now() / 1000) + 4_000)
    expect(await fate(h, payment, CHARGE)).toEqual({ kind: 'paid', receipt } as never)
  }),
  law('fate() of what has expired is dead, and settle() of it moves nothing', async (subject) => {
    const { h, payer } = await world(subject)
    const end = Math.ceil(h.now() / 1000) + 30
    const payment = await h.sign(payer, { validBefore: BigInt(end) })
    await h.mineAt(end + 1)
    expect(await fate(h, payment, CHARGE)).toEqual({ kind: 'dead' })
    expect(await settle(h, payment, CHARGE)).toMatchObject({ kind: 'refused' })
    expect(await h.balanceOf(payer)).toBe(RICH)
  }),
]

// ── test money, and what it must not do ─────────────────────────────────────────────────────────────────────────────

const START = Date.UTC(2026, 10, 20)

function memoryUptoHarness(broken: (chain: Chain) => Partial<Chain> = () => ({})): UptoHarness {
  const cash = memoryChain({ schemes: ['exact', 'upto'] })
  let now = START
  let wallets = 0
  cash.advance(now)
  const offer = cash.offerUpTo(CEILING)
  return {
    chain: { ...cash, ...broken(cash) },
    offer,
    now: () => now,
    async payer(balance = RICH) {
      const address = cash.wallet(`payer ${wallets++}`)
      cash.fund(address, balance)
      return address
    },
    sign: async (from, { isForged = false, ...signing } = {}) =>
      cash.sign(offer, { from, now, ...signing, ...(isForged && { by: cash.wallet('somebody else') }) }),
    balanceOf: async (address) => cash.balanceOf(address),
    cancel: async (payment) => cash.cancel(payment),
    async mineAt(seconds) {
      now = seconds * 1000
      cash.advance(now)
    },
  }
}

export async function memoryUptoSubject(broken?: (chain: Chain) => Partial<Chain>): Promise<Subject<UptoHarness>> {
  const harness = memoryUptoHarness(broken)
  return { open: async () => harness, close: async () => {} }
}

const broken = (law: string, but: string, change: (good: Chain) => Partial<Chain>): Broken<UptoHarness> => ({
  law,
  but,
  make: () => memoryUptoSubject(change),
})

export const brokenUpto: readonly Broken<UptoHarness>[] = [
  broken('terms() name the account that sends, and Permit2 (contract 1.76)', 'keeps its account to itself', (good) => ({
    terms: (now) => good.terms(now).map((terms) => ({ ...terms, extra: {} })),
  })),
  broken(
    'identify() tells the payer, the owner and nonce under Permit2 as the key, and the end',
    'names keys by the token',
    (good) => ({
      async identify(payment, offer, when) {
        const identity = await good.identify(payment, offer, when)
        return identity.kind === 'known'
          ? { ...identity, key: identity.key.replace(PERMIT2, offer.asset.toLowerCase()) }
          : identity
      },
    }),
  ),
  broken(
    'identify() refuses a forged signature, and what was signed for somebody else',
    'believes every signature',
    (good) => ({
      async identify(payment, offer, when) {
        const identity = await good.identify(payment, offer, when)
        if (identity.kind !== 'refused' || !identity.reason.includes('not signed by')) return identity
        return { kind: 'known', payer: STRANGER, key: 'any', expiresAt: 0 }
      },
    }),
  ),
  broken('verify() accepts exactly the ceiling, of a wallet that has it, in its time', 'finds all poor', (good) => ({
    async verify(payment, offer, when) {
      const verdict = await good.verify(payment, offer, when)
      return verdict.kind === 'valid' ? { kind: 'refused', code: 'PAYMENT_UNFUNDED', reason: 'too little' } : verdict
    },
  })),
  broken('verify() refuses a nonce that was used or invalidated', 'forgets nonces', (good) => ({
    async verify(payment, offer, when) {
      const verdict = await good.verify(payment, offer, when)
      const isUsed = verdict.kind === 'refused' && verdict.code === 'PAYMENT_REPLAY'
      return isUsed ? { kind: 'valid', balance: usdc(RICH), asOf: when.now } : verdict
    },
  })),
  broken(
    'settle() moves the charge once, however often it is asked, and its receipt says so',
    'answers only the first who asks',
    (good) => {
      const seen = new Set<unknown>()
      return {
        async settle(payment, offer, when) {
          const key = JSON.stringify(payment.payload)
          if (seen.has(key) && when.charge === CHARGE && when.now === START)
            return { kind: 'unknown', reason: 'it was asked before' }
          seen.add(key)
          return await good.settle(payment, offer, when)
        },
      }
    },
  ),
  broken(
    'settle() without a charge moves the whole amount, and never more than was signed',
    'lowers a charge to the ceiling by itself',
    (good) => ({
      settle: (payment, offer, { charge, ...when }) =>
        good.settle(payment, offer, { ...when, ...(charge !== undefined && charge <= CEILING && { charge }) }),
    }),
  ),
  broken('a charge of zero is settled without a transaction (contract 1.76)', 'refuses to move nothing', (good) => ({
    settle: async (payment, offer, when) =>
      when.charge === 0n ? { kind: 'refused', reason: 'nothing to move' } : good.settle(payment, offer, when),
  })),
  broken('fate() is open, then paid with what was moved, and stays so', 'says that the ceiling was moved', (good) => ({
    async fate(payment, offer, when) {
      const found = await good.fate(payment, offer, when)
      return found.kind === 'paid' && found.receipt.transaction !== ''
        ? { ...found, receipt: { ...found.receipt, amount: offer.amount } }
        : found
    },
  })),
  broken('fate() of what has expired is dead, and settle() of it moves nothing', 'hopes for ever', (good) => ({
    async fate(payment, offer, when) {
      const found = await good.fate(payment, offer, when)
      return found.kind === 'dead' ? { kind: 'open' } : found
    },
  })),
]
