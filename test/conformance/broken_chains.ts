/** One cash chain per law that breaks it, and no other. */
import { maxLifetimeSeconds } from '../../adapters/chains/evm/exact/payload.ts'
import { type Usdc, usdc } from '../../core/x402/money.ts'
import type { Chain, Fate, Identity, Settlement, Verdict } from '../../core/ports/mod.ts'
import type { Payment, Receipt } from '../../core/x402/protocol.ts'
import { cashHarness } from './cash_harness.ts'
import type { ChainHarness, Forgery } from './chains.ts'
import type { Broken } from './law.ts'

/** Orders that a harness was given, for defects that show only then. */
type Past = {
  forged: Map<Payment, Forgery>
  submitted: Payment[]
  canceled: Payment[]
  lost: string
  isDown: boolean
  isBehind: boolean
}
type Defect = (chain: Chain, past: Past) => Partial<Chain>

const VALID: Verdict = { kind: 'valid', asOf: 0 }
const UNFUNDED: Verdict = { kind: 'refused', code: 'PAYMENT_UNFUNDED', reason: 'broken' }
const KNOWN: Identity = { kind: 'known', payer: '', key: '', expiresAt: 0 }
const REFUSED: Settlement = { kind: 'refused', reason: 'broken' }
const UNKNOWN: Settlement & Fate = { kind: 'unknown', reason: 'broken' }
const DEAD: Fate = { kind: 'dead' }
const OPEN: Fate = { kind: 'open' }
const NOWHERE = { transaction: '0x', network: '', payer: '', amount: '' }

export const brokenChains: readonly Broken<ChainHarness>[] = [
  broken('terms() are what an offer needs, and asked of nobody', 'forgets the version of the domain', (chain) => ({
    terms: (now) => chain.terms(now).map((terms) => ({ ...terms, extra: { name: terms.extra.name } })),
  })),
  broken(
    'identify() tells the payer, the key of the authorization and the end of its life',
    'counts its life in seconds',
    (chain) => ({
      identify: afterIdentify(chain, (found) => ({ ...found, expiresAt: Math.floor(found.expiresAt / 1000) })),
    }),
  ),
  broken(
    'identify() gives one key and one payer, however the addresses are spelled',
    'builds the key from the words as sent',
    (chain) => ({
      identify: afterIdentify(chain, (found, payment) => {
        const [network, asset] = found.key.split('/')
        return { ...found, key: `${network}/${asset}/${field(payment, 'from')}/${field(payment, 'nonce')}` }
      }),
    }),
  ),
  broken('identify() asks nobody about a plain account', 'looks at the chain first', (chain) => ({
    async identify(payment, offer, at) {
      await chain.fate(payment, offer, at)
      return chain.identify(payment, offer, at)
    },
  })),
  broken(
    'identify() looks at neither time nor value, and bears the largest numbers there are',
    'multiplies what a double cannot hold',
    (chain) => ({
      identify: afterIdentify(chain, (found, payment) => ({
        ...found,
        expiresAt: Number(field(payment, 'validBefore')) * 1000,
      })),
    }),
  ),
  acceptsForgery('identify() refuses the signature of another key', 'another key'),
  acceptsForgery('identify() refuses a signature over another domain name', 'another domain'),
  acceptsForgery('identify() refuses the high-s twin of a signature', 'high s'),
  acceptsForgery('identify() refuses a signature of the wrong length', 'too short'),
  broken('identify() refuses a payment to another recipient', 'takes money for anybody', (chain) => ({
    identify(payment, offer, at) {
      const { to = offer.payTo } = (payment.payload.authorization ?? {}) as { to?: string }
      return chain.identify(payment, { ...offer, payTo: to }, at)
    },
  })),
  ignoresAccepted('identify() refuses another asset', 'asset'),
  ignoresAccepted('identify() refuses another network', 'network'),
  ignoresAccepted('identify() refuses another scheme', 'scheme'),
  broken('identify() refuses what is no payload, and never throws', 'reads before it checks', (chain) => ({
    identify: async (payment, offer, at) =>
      field(payment, 'nonce').length > 0 ? chain.identify(payment, offer, at) : KNOWN,
  })),

  broken(
    'verify() accepts a good payment and tells the balance as of the time given',
    'dates the balance late',
    (chain) => ({
      verify: afterVerify(chain, (verdict) =>
        verdict.kind === 'valid' ? { ...verdict, asOf: verdict.asOf + 1 } : verdict,
      ),
    }),
  ),
  broken(
    'what was settled up to the block of a balance is in it, and nothing that was settled later',
    'names the block before',
    (chain) => ({
      verify: afterVerify(chain, (verdict) =>
        verdict.kind === 'valid' && verdict.block !== undefined ? { ...verdict, block: verdict.block - 1 } : verdict,
      ),
    }),
  ),
  broken('verify() accepts the whole balance', 'wants a unit more than the price', (chain) => ({
    verify: afterVerify(chain, (verdict, payment) =>
      verdict.kind === 'valid' && String(verdict.balance) === field(payment, 'value') ? UNFUNDED : verdict,
    ),
  })),
  broken('verify() moves no money (contract 1.29)', 'settles on the way', (chain) => ({
    async verify(payment, offer, at) {
      const verdict = await chain.verify(payment, offer, at)
      if (verdict.kind === 'valid') await chain.settle(payment, offer, at)
      return verdict
    },
  })),
  broken(
    'verify() refuses one unit too little and one too much, and names both figures',
    'is glad of a gift',
    (chain) => ({
      verify(payment, offer, at) {
        const value = field(payment, 'value')
        return chain.verify(payment, BigInt(value) > BigInt(offer.amount) ? { ...offer, amount: value } : offer, at)
      },
    }),
  ),
  acceptsWhen(
    'verify() refuses an expired authorization',
    'forgets the end',
    (payment, now) => Number(field(payment, 'validBefore')) < now,
  ),
  acceptsWhen('verify() refuses less than six seconds of life', 'takes the last seconds too', (payment, now) => {
    const left = Number(field(payment, 'validBefore')) - now
    return left >= 0 && left < 6
  }),
  broken('verify() accepts exactly six seconds of life', 'wants seven', (chain) => ({
    verify: afterVerify(chain, (verdict, payment, now) =>
      Number(field(payment, 'validBefore')) - now === 6 ? UNFUNDED : verdict,
    ),
  })),
  acceptsWhen(
    'verify() refuses an authorization that outlives the log search, and accepts one that ends with it (contract 1.50)',
    'takes what never ends',
    (payment, now) => {
      return BigInt(field(payment, 'validBefore')) > BigInt(Math.floor(now) + maxLifetimeSeconds(payment.accepted))
    },
  ),
  acceptsWhen('verify() refuses an authorization that is not yet valid', 'forgets the beginning', (payment, now) => {
    return Number(field(payment, 'validAfter')) > now
  }),
  broken(
    'verify() refuses an authorization that was used',
    'does not ask whether it was used',
    (chain, { submitted }) => ({
      verify: afterVerify(chain, (verdict, payment) => (submitted.includes(payment) ? VALID : verdict)),
    }),
  ),
  broken(
    'verify() refuses an authorization that was canceled',
    'does not ask whether it was canceled',
    (chain, { canceled }) => ({
      verify: afterVerify(chain, (verdict, payment) => (canceled.includes(payment) ? VALID : verdict)),
    }),
  ),
  broken('verify() refuses a wallet that is one unit short', 'rounds', (chain) => ({
    verify: afterVerify(chain, (verdict) =>
      verdict.kind === 'refused' && verdict.reason.includes('insufficient_balance') ? VALID : verdict,
    ),
  })),

  broken(
    'settle() moves exactly the price, and its receipt names the transfer',
    'makes up a receipt for what is new',
    (chain, { submitted }) => {
      const first = new Map<Payment, boolean>()
      const made = <T extends { receipt: Receipt }>(answer: T): T => ({
        ...answer,
        receipt: { ...answer.receipt, payer: 'nobody' },
      })
      return {
        settle: afterSettle(chain, (settlement, payment) => {
          if (!first.has(payment)) first.set(payment, settlement.kind === 'settled' && !submitted.includes(payment))
          return settlement.kind === 'settled' && first.get(payment) ? made(settlement) : settlement
        }),
        fate: afterFate(chain, (fate, payment) => (fate.kind === 'paid' && first.get(payment) ? made(fate) : fate)),
      }
    },
  ),
  broken(
    'settle() of what is settled is the same receipt and no second transfer',
    'refuses what it has settled',
    (chain) => {
      const done = new Set<Payment>()
      return {
        async settle(payment, offer, at) {
          if (done.has(payment)) return REFUSED
          const settlement = await chain.settle(payment, offer, at)
          if (settlement.kind === 'settled') done.add(payment)
          return settlement
        },
      }
    },
  ),
  broken(
    'settle() by twenty at once moves money once, and all read one receipt',
    'refuses what is on its way',
    (chain) => {
      const flying = new Set<Payment>()
      return {
        async settle(payment, offer, at) {
          if (flying.has(payment)) return REFUSED
          flying.add(payment)
          return chain.settle(payment, offer, at).finally(() => flying.delete(payment))
        },
      }
    },
  ),
  broken(
    'settle() of two equal payments of one payer moves money twice',
    'takes equal prices for one payment',
    (chain) => {
      const flying = new Map<string, Promise<Settlement>>()
      return {
        settle(payment, offer, at) {
          const alike = `${field(payment, 'from')} ${field(payment, 'value')}`
          const merged = flying.get(alike) ?? chain.settle(payment, offer, at).finally(() => flying.delete(alike))
          flying.set(alike, merged)
          return merged
        },
      }
    },
  ),
  broken('settle() of one bad payment among good ones spoils no other', 'lets all fail together', (chain) => {
    let group: Promise<Settlement>[] = []
    return {
      async settle(payment, offer, at) {
        group = [...group, chain.settle(payment, offer, at)]
        const mine = group.length - 1
        await Promise.resolve()
        const all = await Promise.all(group)
        group = []
        return all.find((each) => each.kind === 'refused') ?? all[mine] ?? REFUSED
      },
    }
  }),
  broken(
    'settle() refuses an emptied wallet; once funded again, the same authorization pays',
    'never forgives',
    (chain) => {
      const poor = new Set<Payment>()
      return {
        settle: afterSettle(chain, (settlement, payment) => {
          if (settlement.kind === 'refused') poor.add(payment)
          return poor.has(payment) ? REFUSED : settlement
        }),
      }
    },
  ),
  broken('settle() refuses another price, and sends nothing', 'takes what it gets', (chain) => ({
    settle: (payment, offer, at) => chain.settle(payment, { ...offer, amount: field(payment, 'value') }, at),
  })),
  broken(
    'settle() of what somebody else has sent is settled, with that transfer',
    'wants to have sent it itself',
    (chain, { submitted }) => ({
      settle: afterSettle(chain, (settlement, payment) => (submitted.includes(payment) ? REFUSED : settlement)),
    }),
  ),
  broken('settle() of a canceled authorization is refused', 'hopes on', (chain, { canceled }) => ({
    settle: afterSettle(chain, (settlement, payment) => (canceled.includes(payment) ? UNKNOWN : settlement)),
  })),
  broken('settle() of an expired authorization is refused, and moves nothing', 'hopes past the end', (chain) => ({
    settle: afterSettle(chain, (settlement, payment, now) =>
      Number(field(payment, 'validBefore')) <= now ? UNKNOWN : settlement,
    ),
  })),
  broken(
    'settle() whose answer was lost is unknown; then it reads as paid, once',
    'takes silence for a no',
    (chain, past) => ({
      settle: afterSettle(chain, (settlement) =>
        settlement.kind === 'unknown' && past.lost === 'answers' ? REFUSED : settlement,
      ),
    }),
  ),
  broken(
    'settle() that was dropped is unknown; sent again it is settled, once',
    'never sends again',
    (chain, past) => ({
      settle: (payment, offer, at) =>
        past.lost === 'sends' ? Promise.resolve(UNKNOWN) : chain.settle(payment, offer, at),
    }),
  ),

  broken('fate() of what nobody has sent is open', 'does not commit itself', (chain) => ({
    fate: afterFate(chain, (fate) => (fate.kind === 'open' ? UNKNOWN : fate)),
  })),
  broken(
    'fate() of what somebody else has sent is paid, with that transfer',
    'knows only its own transactions',
    (chain, { submitted }) => ({
      fate: afterFate(chain, (fate, payment) => (submitted.includes(payment) ? DEAD : fate)),
    }),
  ),
  broken(
    'fate() of what was settled is paid, with the receipt that settle() gave',
    'spells its receipts anew',
    (chain, past) => {
      const done = new Set<Payment>()
      return {
        settle: afterSettle(chain, (settlement, payment) => {
          if (settlement.kind === 'settled') done.add(payment)
          return settlement
        }),
        fate: afterFate(chain, (fate, payment) => {
          if (fate.kind !== 'paid' || !done.has(payment) || past.lost) return fate
          return { kind: 'paid', receipt: { ...fate.receipt, transaction: fate.receipt.transaction.toUpperCase() } }
        }),
      }
    },
  ),
  broken('fate() of a canceled authorization is dead', 'does not know cancels', (chain, { canceled }) => ({
    fate: afterFate(chain, (fate, payment) => (canceled.includes(payment) ? OPEN : fate)),
  })),
  broken(
    'fate() of a nonce that was spent on somebody else is dead',
    'takes a used nonce for money',
    (chain, { submitted }) => ({
      fate: afterFate(chain, (fate, payment) => {
        const isElsewhere = submitted.some(
          (other) => other !== payment && field(other, 'nonce') === field(payment, 'nonce'),
        )
        return isElsewhere ? { kind: 'paid', receipt: NOWHERE } : fate
      }),
    }),
  ),
  broken(
    'fate() of an unused authorization is dead from the second of its end on, and not before',
    'buries it a second early',
    (chain) => ({
      fate: afterFate(chain, (fate, payment, now) =>
        fate.kind === 'open' && now >= Number(field(payment, 'validBefore')) - 1 ? DEAD : fate,
      ),
    }),
  ),
  broken('fate() stays paid when the authorization has expired', 'looks at the time first', (chain) => ({
    fate: afterFate(chain, (fate, payment, now) => (now >= Number(field(payment, 'validBefore')) ? DEAD : fate)),
  })),
  broken('fate() stays dead, whatever comes after', 'changes its mind', (chain) => {
    const buried = new Set<Payment>()
    return {
      fate: afterFate(chain, (fate, payment) => {
        if (buried.has(payment)) return OPEN
        if (fate.kind === 'dead') buried.add(payment)
        return fate
      }),
    }
  }),

  broken(
    'a node that does not answer reads as unavailable or unknown, never as refused',
    'blames the buyer for an outage',
    (chain, past) => ({
      verify: afterVerify(chain, (verdict) => (past.isDown ? UNFUNDED : verdict)),
    }),
  ),
  broken(
    'a caller without time reads unavailable or unknown, and nothing is sent',
    'throws when it is out of time',
    (chain) => ({
      async settle(payment, offer, at) {
        at.signal.throwIfAborted()
        return chain.settle(payment, offer, at)
      },
    }),
  ),
  broken(
    'a node that fell behind takes nothing back: what was paid is neither open nor dead',
    'believes any block',
    (chain, past) => ({
      fate: afterFate(chain, (fate) => (past.isBehind ? OPEN : fate)),
    }),
  ),

  broken('balance() reads what transfers leave', 'remembers what it has read', (chain) => {
    const read = new Map<string, Usdc>()
    return {
      async balance(address, at) {
        const now = await balanceOf(chain, address, at)
        const first = read.get(address) ?? now
        read.set(address, first)
        return first
      },
    }
  }),
  broken(
    'balance() rejects what is no address, and a node that does not answer',
    'has nothing to say, so it says nothing',
    (chain) => ({
      balance: (address, at) => balanceOf(chain, address, at).catch(() => usdc(0n)),
    }),
  ),
]

/** Caught by histories; some of the laws above catch it too. */
export const brokenHistories: readonly Broken<ChainHarness>[] = [
  broken(
    'random payments, lost answers and takers move money once, and each receipt is real',
    'proves every payment of a wallet with its first transfer',
    (chain) => {
      const first = new Map<string, Receipt>()
      return {
        async settle(payment, offer, at) {
          const settlement = await chain.settle(payment, offer, at)
          if (settlement.kind !== 'settled') return settlement
          const { payer } = settlement.receipt
          first.set(payer, first.get(payer) ?? settlement.receipt)
          return { kind: 'settled', receipt: first.get(payer) ?? settlement.receipt }
        },
      }
    },
  ),
]

function broken(law: string, but: string, defect: Defect): Broken<ChainHarness> {
  return {
    law,
    but,
    async make() {
      const { harness, past } = watched(cashHarness())
      const spoiled = { ...harness, chain: { ...harness.chain, ...defect(harness.chain, past) } }
      return { open: async () => spoiled, close: async () => {} }
    },
  }
}

/** Notes what is done to the world, so that a defect can be about just that. */
function watched(h: ChainHarness): { harness: ChainHarness; past: Past } {
  const past: Past = { forged: new Map(), submitted: [], canceled: [], lost: '', isDown: false, isBehind: false }
  const harness: ChainHarness = {
    ...h,
    async sign(payer, offer, signing) {
      const payment = await h.sign(payer, offer, signing)
      if (signing?.forge) past.forged.set(payment, signing.forge)
      return payment
    },
    submit(payment) {
      past.submitted.push(payment)
      return h.submit(payment)
    },
    cancel(payer, payment) {
      past.canceled.push(payment)
      return h.cancel(payer, payment)
    },
    drop(what) {
      past.lost = what
      return h.drop(what)
    },
    outage(on) {
      past.isDown = on
      h.outage(on)
    },
    rewind(on) {
      past.isBehind = on
      h.rewind(on)
    },
  }
  return { harness, past }
}

function acceptsForgery(law: string, forgery: Forgery): Broken<ChainHarness> {
  return broken(law, 'takes it', (chain, { forged }) => ({
    identify: async (payment, offer, at) =>
      forged.get(payment) === forgery ? KNOWN : chain.identify(payment, offer, at),
  }))
}

function ignoresAccepted(law: string, name: 'asset' | 'network' | 'scheme'): Broken<ChainHarness> {
  return broken(law, 'does not compare it', (chain) => ({
    identify: (payment, offer, at) =>
      chain.identify({ ...payment, accepted: { ...payment.accepted, [name]: offer[name] } }, offer, at),
  }))
}

function acceptsWhen(
  law: string,
  but: string,
  isBlind: (payment: Payment, now: number) => boolean,
): Broken<ChainHarness> {
  return broken(law, but, (chain) => ({
    verify: afterVerify(chain, (verdict, payment, now) => (isBlind(payment, now) ? VALID : verdict)),
  }))
}

type Known = Extract<Identity, { kind: 'known' }>

function afterIdentify(chain: Chain, change: (found: Known, payment: Payment) => Identity): Chain['identify'] {
  return async (payment, offer, at) => {
    const found = await chain.identify(payment, offer, at)
    return found.kind === 'known' ? change(found, payment) : found
  }
}

/** `now` is in seconds. */
function afterVerify(
  chain: Chain,
  change: (verdict: Verdict, payment: Payment, now: number) => Verdict,
): Chain['verify'] {
  return async (payment, offer, at) => change(await chain.verify(payment, offer, at), payment, at.now / 1000)
}

function afterSettle(
  chain: Chain,
  change: (settlement: Settlement, payment: Payment, now: number) => Settlement,
): Chain['settle'] {
  return async (payment, offer, at) => change(await chain.settle(payment, offer, at), payment, at.now / 1000)
}

function afterFate(chain: Chain, change: (fate: Fate, payment: Payment, now: number) => Fate): Chain['fate'] {
  return async (payment, offer, at) => change(await chain.fate(payment, offer, at), payment, at.now / 1000)
}

async function balanceOf(chain: Chain, address: string, at: { signal: AbortSignal }): Promise<Usdc> {
  if (!chain.balance) throw new Error('it cannot be asked')
  return await chain.balance(address, at)
}

function field(payment: Payment, name: string): string {
  return (payment.payload.authorization as Record<string, string>)[name] as string
}
