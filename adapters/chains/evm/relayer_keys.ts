/** The relayer keys that a replica leases: taken, extended, changed when one runs low, and released. */
import type { ConcurrencyLimiter } from '../../../core/lib/mod.ts'
import type { CheckResult } from '../lib/results.ts'
import type { EvmChain } from './mod.ts'
import type { KeyStatus } from './node/gas.ts'

/** `name` identifies its lease. `address` is the account that pays the gas; defaults to the name. */
type RelayerKey = { readonly name: string; readonly key: string; readonly address?: string }

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

/** `ready` compares it with its chain before it sends. `users` have been given it, and may not have begun to send. */
type LeasedKey = {
  readonly name: string
  readonly sender: EvmChain
  readonly ready: Promise<CheckResult>
  until: number
  users: number
}

const READ_EVERY_MS = 60_000

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

export function renew(lease: RelayerLease, now: number): Promise<boolean> {
  lease.renewing ??= lease.inTurn(() => renewNow(lease, now)).finally(() => (lease.renewing = undefined))
  return lease.renewing
}

async function renewNow(lease: RelayerLease, now: number): Promise<boolean> {
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

async function takeOther(lease: RelayerLease, now: number): Promise<LeasedKey | undefined> {
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
async function isFunded(lease: RelayerLease, name: string, now: number): Promise<boolean> {
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
async function releaseAside(lease: RelayerLease, now: number): Promise<void> {
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
  const [kind, reason] = low === undefined ? (['serving', ''] as const) : (['low', low] as const)
  const before = lease.states.get(name)
  // Asked for every quote.
  if (before?.kind !== kind || before.reason !== reason) setState(lease, name, { kind, reason })
  return low
}

function setState(
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

export const serving = (lease: RelayerLease, now: number): LeasedKey | undefined =>
  lease.leased && lease.leased.until > now ? lease.leased : undefined

/** A key that this replica leases: also one that is about to be released. */
export function holderOf(lease: RelayerLease, name: string, now: number): LeasedKey | undefined {
  const ours = [...(lease.leased ? [lease.leased] : []), ...lease.aside].filter(({ until }) => until > now)
  return ours.find((each) => each.name === name)
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

export function failureOf(checked: CheckResult): Pick<KeyState, 'kind' | 'reason'> {
  if (checked.kind === 'wrong') return { kind: 'wrong', reason: checked.problems.join('; ') }
  if (checked.kind === 'unavailable') return { kind: 'unreadable', reason: `it cannot be read: ${checked.reason}` }
  return { kind: 'free', reason: '' }
}
