import { concurrencyLimiter, portOf } from '../../../core/lib/mod.ts'
import type { Chain, ChainKeys, Closed, Refunding, Securing, Settlement, Verdict } from '../../../core/ports/mod.ts'
import { type CheckResult, unavailable } from '../lib/results.ts'
import {
  borrow,
  dropKey,
  failureOf,
  holderOf,
  type KeyState,
  keyStates,
  type LeasedOptions,
  lowOf,
  readKey,
  refresh,
  type RelayerLease,
  renew,
  serving,
} from './relayer_keys.ts'
import { facilitatorOf, refusedUpto } from './upto/payload.ts'

export type LeasedChain = Chain & {
  check: (at?: { now: number }) => Promise<CheckResult>
  /**
   * Reads the balance of every key once a minute, and switches keys when the current one runs low. Call it every few
   * seconds.
   */
  refresh(at: { now: number }): Promise<void>
  /**
   * Extends the current lease, or takes a free and funded key. Call it several times per lease. Returns false while no
   * key serves.
   */
  renew(now: number): Promise<boolean>
  /** Releases the key at once so that another replica can take it. */
  release(now: number): Promise<void>
  keys(): readonly KeyState[]
  close(): void
}

const NO_KEY_HERE = 'this replica holds no relayer key; ask again'

/** An EVM chain whose relayer key no other replica uses at the same time. Without a funded key it offers no terms. */
export function leasedChain({ keys, build, takeLease, leaseMs }: LeasedOptions): LeasedChain {
  const [first] = keys
  if (!first) throw new RangeError('keys: at least one relayer key is required')
  const reader = build(first.key, 'reader')

  const lease: RelayerLease = {
    keys,
    build,
    takeLease,
    leaseMs,
    reader,
    states: new Map<string, KeyState>(
      keys.map(({ name, address = name }) => [name, { address, kind: 'free', reason: 'not read yet' }]),
    ),
    leased: undefined,
    aside: [],
    renewing: undefined,
    inTurn: concurrencyLimiter(1),
    readAt: Number.NEGATIVE_INFINITY,
  }
  return portOf<LeasedChain>({
    families: reader.families,
    identify: reader.identify,
    hasSigned: reader.hasSigned,
    proves: reader.proves,
    drawDown: reader.drawDown,
    verify: (...args) => verify(lease, ...args),
    fate: reader.fate,
    balance: reader.balance,
    check: (...args) => check(lease, ...args),
    refresh: (...args) => refresh(lease, ...args),
    renew: (...args) => renew(lease, ...args),
    closed: (...args) => closed(lease, ...args),
    keys: () => keyStates(lease),
    terms(now) {
      const current = serving(lease, now)
      // Those of the key: the buyer of `upto` signs for the account that sends.
      return current && lowOf(lease, current) === undefined ? current.sender.terms(now) : []
    },
    settle: (...args) => settle(lease, ...args),
    secure: reader.secure && ((...args) => secure(lease, ...args)),
    refund: reader.refund && ((...args) => refund(lease, ...args)),
    apiKeys: reader.apiKeys && leasedKeys(lease, reader.apiKeys),
    async release(now) {
      const all = [...(lease.leased ? [lease.leased] : []), ...lease.aside]
      dropKey(lease)
      for (const { sender } of lease.aside) sender.close()
      lease.aside = []
      for (const { name } of all) await takeLease(name, { now, until: now })
    },
    close() {
      dropKey(lease)
      for (const { sender } of lease.aside) sender.close()
      reader.close()
    },
  })
}

async function settle(lease: RelayerLease, ...[payment, offer, at]: Parameters<Chain['settle']>): Promise<Settlement> {
  const facilitator = offer.scheme === 'upto' ? facilitatorOf(payment) : undefined
  if (facilitator) return await settleWith(lease, facilitator, payment, offer, at)
  // A reservation is charged in storage alone.
  if (payment.payload.type === 'key') return await lease.reader.settle(payment, offer, at)
  const current = serving(lease, at.now)
  if (!current) return { kind: 'unknown', reason: 'this replica holds no relayer key; another replica will settle' }
  const settlement = await current.sender.settle(payment, offer, at)
  if (settlement.kind !== 'unavailable') return settlement
  // Nothing was sent for lack of gas, so a funded key may send it at once.
  const moved = await renew(lease, at.now).catch(() => false)
  const next = moved ? serving(lease, at.now) : undefined
  return next && next.name !== current.name ? await next.sender.settle(payment, offer, at) : settlement
}

async function secure(
  lease: RelayerLease,
  ...[payment, offer, at]: Parameters<NonNullable<Chain['secure']>>
): Promise<Securing> {
  if (payment.payload.type !== 'deposit')
    return (await lease.reader.secure?.(payment, offer, at)) ?? { kind: 'secured' }
  const secured = serving(lease, at.now)?.sender.secure?.(payment, offer, at)
  return (await secured) ?? unavailable(NO_KEY_HERE)
}

async function refund(
  lease: RelayerLease,
  ...[payment, offer, at]: Parameters<NonNullable<Chain['refund']>>
): Promise<Refunding> {
  const refunded = serving(lease, at.now)?.sender.refund?.(payment, offer, at)
  return (await refunded) ?? unavailable(NO_KEY_HERE)
}

/** Payments by API keys: what is sent to the chain is sent by the key that is leased. */
function leasedKeys(lease: RelayerLease, keys: ChainKeys): ChainKeys {
  return portOf<ChainKeys>({
    modes: keys.modes,
    open: keys.open,
    pay: keys.pay,
    payAgain: keys.payAgain,
    channels: keys.channels,
    lend: keys.lend,
    child: keys.child,
    children: keys.children,
    revoke: keys.revoke,
    list: keys.list,
    release: keys.release,
    recorded: keys.recorded,
    deposit: async (payment, at) =>
      (await serving(lease, at.now)?.sender.apiKeys?.deposit(payment, at)) ?? unavailable(NO_KEY_HERE),
    close: async (closing, at) => {
      const current = serving(lease, at.now)?.sender.apiKeys
      return current ? await current.close(closing, at) : unavailable(NO_KEY_HERE)
    },
  })
}

function closed(lease: RelayerLease, now: number): Closed | undefined {
  const current = serving(lease, now)
  if (current && lowOf(lease, current) === undefined) return undefined
  const all = keyStates(lease)
  const reason = all.map((state) => `${state.address}: ${state.reason}`).join('; ')
  return {
    code: all.some(({ kind }) => kind === 'low') ? 'no_gas' : 'no_key',
    reason: `no relayer key serves: ${reason}`,
  }
}

/** Fails for a wrong chain, or when no key can ever serve; warns about keys that cannot serve now. */
async function check(lease: RelayerLease, at: { now: number } = { now: 0 }): Promise<CheckResult> {
  const checked = await lease.reader.check(at)
  if (checked.kind !== 'ready') return checked
  await Promise.all(lease.keys.map(({ name }) => readKey(lease, name, at.now)))
  const bad = [...lease.states.values()].filter(
    ({ kind }) => kind === 'low' || kind === 'wrong' || kind === 'unreadable',
  )
  const isHopeless =
    lease.keys.length > 0 &&
    bad.length === lease.keys.length &&
    bad.every(({ kind, balance }) => kind === 'wrong' || balance === 0n)
  const reasons = bad.map(({ reason }) => `relayer_key: ${reason}`)
  return isHopeless ? { kind: 'wrong', problems: reasons } : { ...checked, warnings: [...checked.warnings, ...reasons] }
}

/** Sends a payment with the key that it names: leases that key, unless another replica does, and gives it back. */
async function settleWith(
  lease: RelayerLease,
  account: string,
  ...[payment, offer, at]: Parameters<Chain['settle']>
): Promise<Settlement> {
  const key = lease.keys.find(({ name, address = name }) => address.toLowerCase() === account)
  if (!key) return unavailable(`${account} has to send it, and no relayer key is of that account`)
  if (at.charge === 0n) return await lease.reader.settle(payment, offer, at) // sends nothing
  const holder = holderOf(lease, key.name, at.now) ?? (await lease.inTurn(() => borrow(lease, key, at.now)))
  if (!holder) return unavailable(`the key of ${account} has to send it, and another replica holds it`)
  holder.users++
  try {
    const checked = await holder.ready
    if (checked.kind === 'ready') return await holder.sender.settle(payment, offer, at)
    return unavailable(`the key of ${account} has to send it: ${failureOf(checked).reason}`)
  } finally {
    holder.users--
  }
}

/** A payment that only an account without gas could send is refused: the current offer names another one. */
async function verify(lease: RelayerLease, ...[payment, offer, at]: Parameters<Chain['verify']>): Promise<Verdict> {
  const facilitator = facilitatorOf(payment)
  const state = [...lease.states.values()].find(({ address }) => address.toLowerCase() === facilitator)
  if (offer.scheme === 'upto' && (state?.kind === 'low' || state?.kind === 'wrong')) {
    const text = `the account ${facilitator} cannot send it; sign the current offer`
    return refusedUpto('PAYMENT_INVALID', 'upto_facilitator_mismatch', text)
  }
  return await lease.reader.verify(payment, offer, at)
}
