import { concurrencyLimiter, type ConcurrencyLimiter, portOf } from '../../../core/lib/mod.ts'
import { type CheckResult, unavailable } from '../lib/results.ts'
import { facilitatorOf, refusedUpto } from './upto/payload.ts'
import type { Chain, ChainKeys, Closed, Refunding, Securing, Settlement, Verdict } from '../../../core/ports/mod.ts'
import type { EvmChain } from './mod.ts'
import type { KeyStatus } from './node/gas.ts'

/** `name` identifies its lease. `address` is the account that pays the gas; defaults to the name. */
export type RelayerKey = { readonly name: string; readonly key: string; readonly address?: string }

export type LeasedOptions = {
  /** As many keys as replicas; a replica holds one at a time (decision 24). */
  readonly keys: readonly RelayerKey[]
  /**
   * The reader needs only the address of the first key: it sends nothing, so it must not check or monitor that account.
   */
  readonly build: (key: string, role: 'reader' | 'sender') => EvmChain
  /** Takes or extends a lease that every replica sees. Returns false while another replica holds it. */
  readonly takeLease: (name: string, at: { now: number; until: number }) => Promise<boolean>
  readonly leaseMs: number
}

/** One relayer key as this replica sees it. `reason` says, in one line for the operator, why it does not serve here. */
export type KeyState = {
  readonly address: string
  readonly kind: 'serving' | 'free' | 'elsewhere' | 'low' | 'unreadable' | 'wrong'
  readonly reason: string
  /** In wei; undefined until read. */
  readonly balance?: bigint
}

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

/** `ready` compares it with its chain before it sends. `users` have been given it, and may not have begun to send. */
type LeasedKey = {
  readonly name: string
  readonly sender: EvmChain
  readonly ready: Promise<CheckResult>
  until: number
  users: number
}

const READ_EVERY_MS = 60_000
const NO_KEY_HERE = 'this replica holds no relayer key; ask again'

/** State of `leasedChain`. */
export type RelayerLease = {
  readonly keys: LeasedOptions['keys']
  readonly build: LeasedOptions['build']
  readonly takeLease: LeasedOptions['takeLease']
  readonly leaseMs: LeasedOptions['leaseMs']
  readonly reader: EvmChain
  readonly states: Map<string, KeyState>
  leased: LeasedKey | undefined
  /** Keys beside it, for settlements that name them or that began before it ran low; released when those end. */
  aside: readonly LeasedKey[]
  renewing: Promise<boolean> | undefined
  /** Leases are taken and released one after another: a key must never have two senders. */
  readonly inTurn: ConcurrencyLimiter
  readAt: number
}

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

export async function settle(
  lease: RelayerLease,
  ...[payment, offer, at]: Parameters<Chain['settle']>
): Promise<Settlement> {
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

export async function secure(
  lease: RelayerLease,
  ...[payment, offer, at]: Parameters<NonNullable<Chain['secure']>>
): Promise<Securing> {
  if (payment.payload.type !== 'deposit')
    return (await lease.reader.secure?.(payment, offer, at)) ?? { kind: 'secured' }
  const secured = serving(lease, at.now)?.sender.secure?.(payment, offer, at)
  return (await secured) ?? unavailable(NO_KEY_HERE)
}

export async function refund(
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

export function renew(lease: RelayerLease, now: number): Promise<boolean> {
  lease.renewing ??= lease.inTurn(() => renewNow(lease, now)).finally(() => (lease.renewing = undefined))
  return lease.renewing
}

export async function renewNow(lease: RelayerLease, now: number): Promise<boolean> {
  const until = now + lease.leaseMs
  if (lease.leased && lease.leased.until <= now) dropKey(lease) // another replica may have used the key since
  if (lease.leased && (await lease.takeLease(lease.leased.name, { now, until }))) lease.leased.until = until
  else dropKey(lease)
  await releaseAside(lease, now)
  if (lease.leased && !lowOf(lease, lease.leased)) return true
  const next = await takeOther(lease, now)
  if (!next) return false
  if (lease.leased) lease.aside = [...lease.aside, lease.leased]
  lease.leased = next
  setState(lease, next.name, { kind: 'serving', reason: '' })
  return true
}

export async function takeOther(lease: RelayerLease, now: number): Promise<LeasedKey | undefined> {
  const until = now + lease.leaseMs
  for (const { name, key } of lease.keys) {
    if (lease.leased?.name === name || lease.aside.some((each) => each.name === name)) continue
    if (!(await isFunded(lease, name, now))) continue
    if (!(await lease.takeLease(name, { now, until }))) {
      setState(lease, name, { kind: 'elsewhere', reason: 'another replica holds it' })
      continue
    }
    const sender = lease.build(key, 'sender')
    const checked = await sender.check({ now })
    const low = sender.gas().low
    if (checked.kind === 'ready' && low === undefined)
      return { name, sender, ready: Promise.resolve(checked), until, users: 0 }
    setState(lease, name, low === undefined ? failureOf(checked) : { kind: 'low', reason: low })
    sender.close()
    await lease.takeLease(name, { now, until: now }) // release it for other replicas
  }
  return undefined
}

/** A key known to be empty is not even leased; an unread key is checked by its sender. */
export async function isFunded(lease: RelayerLease, name: string, now: number): Promise<boolean> {
  const { kind } = lease.states.get(name) as KeyState
  if (kind !== 'low' && kind !== 'wrong') return true
  if (now - lease.readAt >= READ_EVERY_MS) await readKey(lease, name, now)
  return !['low', 'wrong'].includes(lease.states.get(name)?.kind ?? '')
}

export async function readKey(lease: RelayerLease, name: string, now: number): Promise<void> {
  const key = lease.keys.find((each) => each.name === name)?.key ?? ''
  const reading = await lease.reader
    .keyStatus(key, now)
    .catch((error: Error): Pick<KeyStatus, 'kind' | 'reason'> => ({ kind: 'wrong', reason: error.message }))
  const balance = 'balance' in reading ? reading.balance : undefined
  if (reading.kind !== 'funded')
    return setState(lease, name, {
      kind: reading.kind,
      reason: reading.reason,
      ...(balance !== undefined && { balance }),
    })
  const before = lease.states.get(name)
  const isElsewhere = before?.kind === 'elsewhere'
  setState(lease, name, {
    kind: isElsewhere ? 'elsewhere' : 'free',
    reason: isElsewhere ? before.reason : 'free',
    ...(balance !== undefined && { balance }),
  })
}

export async function refresh(lease: RelayerLease, { now }: { now: number }): Promise<void> {
  await lease.leased?.sender.refresh({ now })
  if (now - lease.readAt >= READ_EVERY_MS) {
    lease.readAt = now
    await Promise.all(
      lease.keys.filter(({ name }) => name !== lease.leased?.name).map(({ name }) => readKey(lease, name, now)),
    )
  }
  if (lease.leased && lowOf(lease, lease.leased) !== undefined) await renew(lease, now)
}

/** Releases the keys beside the current one whose settlements have ended, and extends the lease of the others. */
export async function releaseAside(lease: RelayerLease, now: number): Promise<void> {
  const busy: LeasedKey[] = []
  for (const each of lease.aside) {
    const isOver = each.until <= now || (each.users === 0 && each.sender.isIdle())
    const isExtended = !isOver && (await lease.takeLease(each.name, { now, until: now + lease.leaseMs }))
    if (isExtended) {
      each.until = now + lease.leaseMs
      busy.push(each)
      continue
    }
    each.sender.close()
    if (each.until > now) await lease.takeLease(each.name, { now, until: now })
  }
  lease.aside = busy
}

export function lowOf(lease: RelayerLease, { name, sender }: LeasedKey): string | undefined {
  const { low } = sender.gas()
  setState(lease, name, low === undefined ? { kind: 'serving', reason: '' } : { kind: 'low', reason: low })
  return low
}

export function setState(
  lease: RelayerLease,
  name: string,
  state: Pick<KeyState, 'kind' | 'reason'> & { readonly balance?: bigint },
): void {
  const { address, balance } = lease.states.get(name) as KeyState
  lease.states.set(name, { address, ...(balance !== undefined && { balance }), ...state })
}

export function dropKey(lease: RelayerLease): void {
  lease.leased?.sender.close()
  if (lease.leased) setState(lease, lease.leased.name, { kind: 'free', reason: 'the lease was lost' })
  lease.leased = undefined
}

export function keyStates(lease: RelayerLease): readonly KeyState[] {
  if (lease.leased) lowOf(lease, lease.leased)
  return lease.keys.map(({ name }) => {
    const state = lease.states.get(name) as KeyState
    const balance = lease.leased?.name === name ? lease.leased.sender.gas().balance : state.balance
    return { ...state, ...(balance !== undefined && { balance }) }
  })
}

const serving = (lease: RelayerLease, now: number): LeasedKey | undefined =>
  lease.leased && lease.leased.until > now ? lease.leased : undefined

export function closed(lease: RelayerLease, now: number): Closed | undefined {
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
export async function check(lease: RelayerLease, at: { now: number } = { now: 0 }): Promise<CheckResult> {
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

/** A key that this replica leases: also one that is about to be released. */
export function holderOf(lease: RelayerLease, name: string, now: number): LeasedKey | undefined {
  const ours = [...(lease.leased ? [lease.leased] : []), ...lease.aside].filter(({ until }) => until > now)
  return ours.find((each) => each.name === name)
}

/** Sends a payment with the key that it names: leases that key, unless another replica does, and gives it back. */
export async function settleWith(
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

/** Leases a key for as long as settlements need it. Undefined while another replica holds it. */
export async function borrow(
  lease: RelayerLease,
  { name, key }: RelayerKey,
  now: number,
): Promise<LeasedKey | undefined> {
  const holder = holderOf(lease, name, now)
  if (holder) return holder
  const until = now + lease.leaseMs
  if (!(await lease.takeLease(name, { now, until }))) return undefined
  for (const each of lease.aside) if (each.name === name) each.sender.close() // its lease was lost meanwhile
  const sender = lease.build(key, 'sender')
  const borrowed = { name, sender, ready: sender.check({ now }), until, users: 0 }
  lease.aside = [...lease.aside.filter((each) => each.name !== name), borrowed]
  return borrowed
}

/** A payment that only an account without gas could send is refused: the current offer names another one. */
export async function verify(
  lease: RelayerLease,
  ...[payment, offer, at]: Parameters<Chain['verify']>
): Promise<Verdict> {
  const facilitator = facilitatorOf(payment)
  const state = [...lease.states.values()].find(({ address }) => address.toLowerCase() === facilitator)
  if (offer.scheme === 'upto' && (state?.kind === 'low' || state?.kind === 'wrong')) {
    const text = `the account ${facilitator} cannot send it; sign the current offer`
    return refusedUpto('PAYMENT_INVALID', 'upto_facilitator_mismatch', text)
  }
  return await lease.reader.verify(payment, offer, at)
}

function failureOf(checked: CheckResult): Pick<KeyState, 'kind' | 'reason'> {
  if (checked.kind === 'wrong') return { kind: 'wrong', reason: checked.problems.join('; ') }
  if (checked.kind === 'unavailable') return { kind: 'unreadable', reason: `it cannot be read: ${checked.reason}` }
  return { kind: 'free', reason: '' }
}
