import type { CallOptions, CheckResult } from './lib/results.ts'
import type { Chain, ChainKeys, Identity, Lent, Proof, Refunding, RefundOptions } from '../../core/ports/mod.ts'
import type { Offer, Payment, Usdc } from '../../core/x402/mod.ts'
import { boundedMap, type BoundedMap, portOf } from '../../core/lib/mod.ts'

type SignedText = Proof & { readonly network: string }

const MAX_OFFERS = 1_000
const UNCHECKED: CheckResult = { kind: 'ready', warnings: [] }

/** State of `multiChain`. */
type PaymentMethods = {
  readonly chains: readonly Chain[]
  readonly first: Chain
  readonly others: Chain[]
  readonly readable: ((address: string, at: { signal: AbortSignal }) => Promise<Usdc>)[]
  readonly provers: ((proof: Proof) => Promise<boolean>)[]
  /** The chain of each offer seen. */
  readonly owners: BoundedMap<Chain>
}

/**
 * One gateway paid through several payment methods, in order of preference. Put batched payments last: a plain client
 * takes the first offer of a network and signs what batches cannot use (decision 69). Throws RangeError for an empty
 * list.
 *
 * @example
 * const chain = multiChain([evmChain(base), solanaChain(solana), batchedChain(nano)])
 */
export function multiChain(chains: readonly Chain[]): Chain {
  if (!chains[0]) throw new RangeError('chains: at least one is required')
  const [first, ...others]: readonly [Chain, ...Chain[]] = [chains[0], ...chains.slice(1)]
  const readable = chains.flatMap(({ balance }) => (balance ? [balance] : []))
  const provers = chains.flatMap(({ proves }) => (proves ? [proves] : []))

  const apiKeys = keysOf(chains.flatMap((chain) => chain.apiKeys ?? []))
  const methods: PaymentMethods = { chains, first, others, readable, provers, owners: boundedMap<Chain>(MAX_OFFERS) }
  return portOf<Chain>({
    families: [...new Set(chains.flatMap(({ families }) => families))],
    check: (...args) => check(methods, ...args),
    refresh: async (at) => void (await Promise.all(chains.map((chain) => chain.refresh?.(at)))),
    terms: (now) => chains.flatMap((chain) => chain.terms(now)),
    closed: (now) => chains.flatMap((chain) => chain.closed?.(now) ?? [])[0],
    identify: async (payment, offer, at) =>
      (await ownerOf(methods, offer, at.now)?.identify(payment, offer, at)) ??
      (await chainBySignature(methods, payment, offer, at)).identity,
    verify: async (payment, offer, at) => (await chainOf(methods, payment, offer, at)).verify(payment, offer, at),
    settle: async (payment, offer, at) => (await chainOf(methods, payment, offer, at)).settle(payment, offer, at),
    secure: async (payment, offer, at) =>
      (await ownerOf(methods, offer, at.now)?.secure?.(payment, offer, at)) ?? { kind: 'secured' },
    fate: async (payment, offer, at) => (await chainOf(methods, payment, offer, at)).fate(payment, offer, at),
    drawDown: async (payment, offer, at) => await ownerOf(methods, offer, at.now)?.drawDown?.(payment, offer, at),
    refund: chains.some((chain) => chain.refund) ? (...args) => refund(methods, ...args) : undefined,
    apiKeys,
    balance: readable.length > 0 ? (...args) => balance(methods, ...args) : undefined,
    proves: provers.length > 0 ? (...args) => proves(methods, ...args) : undefined,
    hasSigned: chains.some((chain) => chain.hasSigned) ? (...args) => hasSigned(methods, ...args) : undefined,
  })
}

/** The chain of an offer, by its current terms or by offers seen before. */
function ownerOf(methods: PaymentMethods, offer: Offer, now: number): Chain | undefined {
  const name = offerKey(offer)
  const owner =
    methods.chains.find((chain) => chain.terms(now).some((terms) => offerKey(terms) === name)) ??
    methods.owners.get(name)
  if (owner) methods.owners.set(name, owner)
  return owner
}

/** Identifies an offer from before a restart that nobody's terms contain any more: its signature shows the chain. */
async function chainBySignature(
  methods: PaymentMethods,
  payment: Payment,
  offer: Offer,
  at: CallOptions,
): Promise<{ chain: Chain; identity: Identity }> {
  let best = { chain: methods.first, identity: await methods.first.identify(payment, offer, at) }
  for (const chain of methods.others) {
    if (best.identity.kind === 'known') break
    const identity = await chain.identify(payment, offer, at)
    if (identity.kind === 'known' || (best.identity.kind === 'refused' && identity.kind === 'unavailable'))
      best = { chain, identity }
  }
  if (best.identity.kind === 'known') methods.owners.set(offerKey(offer), best.chain)
  return best
}

async function chainOf(methods: PaymentMethods, payment: Payment, offer: Offer, at: CallOptions): Promise<Chain> {
  return ownerOf(methods, offer, at.now) ?? (await chainBySignature(methods, payment, offer, at)).chain
}

/** Reads the first chain that knows such addresses; the others throw RangeError. */
async function balance(methods: PaymentMethods, address: string, at: { signal: AbortSignal }) {
  let reason: unknown
  for (const read of methods.readable) {
    try {
      return await read(address, at)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      reason = error
    }
  }
  throw reason
}

async function refund(methods: PaymentMethods, payment: Payment, offer: Offer, at: RefundOptions): Promise<Refunding> {
  const refunded = (await chainOf(methods, payment, offer, at)).refund?.(payment, offer, at)
  return (await refunded) ?? { kind: 'unavailable', reason: 'nothing is deposited with this offer' }
}

async function proves(methods: PaymentMethods, proof: Proof): Promise<boolean> {
  for (const check of methods.provers) if (await check(proof)) return true
  return false
}

async function hasSigned(
  methods: PaymentMethods,
  proof: SignedText,
  at: { signal: AbortSignal },
): Promise<string | undefined> {
  for (const chain of methods.chains) {
    const wallet = await chain.hasSigned?.(proof, at)
    if (wallet !== undefined) return wallet
  }
  return undefined
}

/** The problems of all chains, because whoever mends one wants to know the others. */
async function check(methods: PaymentMethods, at: { now: number }): Promise<CheckResult> {
  const results = await Promise.all(methods.chains.map(async (chain) => (await chain.check?.(at)) ?? UNCHECKED))
  const problems = results.flatMap((result) => (result.kind === 'wrong' ? result.problems : []))
  if (problems.length > 0) return { kind: 'wrong', problems }
  const reasons = results.flatMap((result) => (result.kind === 'unavailable' ? [result.reason] : []))
  if (reasons.length > 0) return { kind: 'unavailable', reason: reasons.join('; ') }
  return { kind: 'ready', warnings: results.flatMap((result) => (result.kind === 'ready' ? result.warnings : [])) }
}

/** Key that tells the offers of one gateway apart. Prices, times and recipients are not part of it. */
function offerKey({ scheme, network, asset, extra }: Pick<Offer, 'scheme' | 'network' | 'asset' | 'extra'>): string {
  return JSON.stringify([scheme, network, asset, extra?.name, extra?.verifyingContract]).toLowerCase()
}

/** The keys of several networks: a call is paid on the first network where its key has a channel. */
function keysOf(all: readonly ChainKeys[]): ChainKeys | undefined {
  const [first] = all
  if (!first || all.length === 1) return first

  /** The first answer that is one. */
  async function firstOf<Answer>(ask: (keys: ChainKeys) => Promise<Answer | undefined>): Promise<Answer | undefined> {
    for (const keys of all) {
      const answer = await ask(keys)
      if (answer !== undefined) return answer
    }
    return undefined
  }

  return {
    modes: [...new Set(all.flatMap(({ modes }) => modes))],
    open: first.open,
    list: async (at) => (await Promise.all(all.map((keys) => keys.list(at)))).flat(),
    pay: (key, order, at) => firstOf((keys) => keys.pay(key, order, at)),
    payAgain: (key, authorization, at) => firstOf((keys) => keys.payAgain(key, authorization, at)),
    channels: async (address, at) => (await Promise.all(all.map((keys) => keys.channels(address, at)))).flat(),
    async deposit(payment, at) {
      let last = await first.deposit(payment, at)
      for (const keys of all.slice(1)) {
        if (last.kind !== 'refused') return last
        last = await keys.deposit(payment, at)
      }
      return last
    },
    async lend(key, child, at) {
      let last: Lent | undefined
      for (const keys of all) {
        const lent = await keys.lend(key, child, at)
        if (lent?.kind === 'lent') return lent
        last ??= lent
      }
      return last
    },
    child: (address, at) => firstOf((keys) => keys.child(address, at)),
    children: async (address, at) => (await Promise.all(all.map((keys) => keys.children(address, at)))).flat(),
    async revoke(lender, child, at) {
      for (const keys of all) if (await keys.revoke(lender, child, at)) return true
      return false
    },
    async close(closing, at) {
      let last: Refunding | undefined
      for (const keys of all) {
        const answer = await keys.close(closing, at)
        if (answer?.kind === 'refunded') return answer
        last ??= answer
      }
      return last
    },
    release: async (authorization, now) =>
      void (await Promise.all(all.map((keys) => keys.release(authorization, now)))),
    recorded: (authorization) => all.forEach((keys) => keys.recorded(authorization)),
  }
}
