import type { Chain, Closed, Settlement } from '../../../core/ports/mod.ts'
import type { EvmChain } from './mod.ts'
import type { Checked } from './check.ts'
import type { KeyReading } from './gas.ts'

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
  readonly take: (name: string, at: { now: number; until: number }) => Promise<boolean>
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
  check: (at?: { now: number }) => Promise<Checked>
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

type Held = { readonly name: string; readonly sender: EvmChain; until: number }

const READ_EVERY_MS = 60_000

/** An EVM chain whose relayer key no other replica uses at the same time. Without a funded key it offers no terms. */
export function leasedChain({ keys, build, take, leaseMs }: LeasedOptions): LeasedChain {
  const [first] = keys
  if (!first) throw new RangeError('keys: at least one relayer key is required')
  const reader = build(first.key, 'reader')
  const states = new Map<string, KeyState>(
    keys.map(({ name, address = name }) => [name, { address, kind: 'free', reason: 'not read yet' }]),
  )
  let held: Held | undefined
  /** Keys that ran low while settlements were under way; they are released when those end. */
  let leaving: readonly Held[] = []
  let renewing: Promise<boolean> | undefined
  let readAt = Number.NEGATIVE_INFINITY

  function renew(now: number): Promise<boolean> {
    renewing ??= renewNow(now).finally(() => (renewing = undefined))
    return renewing
  }

  async function renewNow(now: number): Promise<boolean> {
    const until = now + leaseMs
    if (held && held.until <= now) drop() // another replica may have used the key since
    if (held && (await take(held.name, { now, until }))) held.until = until
    else drop()
    await seeOff(now)
    if (held && !lowOf(held)) return true
    const next = await takeOther(now)
    if (!next) return false
    if (held) leaving = [...leaving, held]
    held = next
    note(next.name, { kind: 'serving', reason: '' })
    return true
  }

  async function takeOther(now: number): Promise<Held | undefined> {
    const until = now + leaseMs
    for (const { name, key } of keys) {
      if (held?.name === name || leaving.some((each) => each.name === name)) continue
      if (!(await isFunded(name, now))) continue
      if (!(await take(name, { now, until }))) {
        note(name, { kind: 'elsewhere', reason: 'another replica holds it' })
        continue
      }
      const sender = build(key, 'sender')
      const checked = await sender.check({ now })
      const low = sender.gas().low
      if (checked.kind === 'ready' && low === undefined) return { name, sender, until }
      note(name, low === undefined ? failureOf(checked) : { kind: 'low', reason: low })
      sender.close()
      await take(name, { now, until: now }) // release it for other replicas
    }
    return undefined
  }

  /** A key known to be empty is not even leased; an unread key is checked by its sender. */
  async function isFunded(name: string, now: number): Promise<boolean> {
    const { kind } = states.get(name) as KeyState
    if (kind !== 'low' && kind !== 'wrong') return true
    if (now - readAt >= READ_EVERY_MS) await look(name, now)
    return !['low', 'wrong'].includes(states.get(name)?.kind ?? '')
  }

  async function look(name: string, now: number): Promise<void> {
    const key = keys.find((each) => each.name === name)?.key ?? ''
    const reading = await reader
      .look(key, now)
      .catch((error: Error): Pick<KeyReading, 'kind' | 'reason'> => ({ kind: 'wrong', reason: error.message }))
    const balance = 'balance' in reading ? reading.balance : undefined
    if (reading.kind !== 'funded')
      return note(name, { kind: reading.kind, reason: reading.reason, ...(balance !== undefined && { balance }) })
    const before = states.get(name)
    const isElsewhere = before?.kind === 'elsewhere'
    note(name, {
      kind: isElsewhere ? 'elsewhere' : 'free',
      reason: isElsewhere ? before.reason : 'free',
      ...(balance !== undefined && { balance }),
    })
  }

  async function refresh({ now }: { now: number }): Promise<void> {
    await held?.sender.refresh({ now })
    if (now - readAt >= READ_EVERY_MS) {
      readAt = now
      await Promise.all(keys.filter(({ name }) => name !== held?.name).map(({ name }) => look(name, now)))
    }
    if (held && lowOf(held) !== undefined) await renew(now)
  }

  /** Releases retired keys whose settlements have ended, and extends the lease of the others. */
  async function seeOff(now: number): Promise<void> {
    const staying: Held[] = []
    for (const each of leaving) {
      const isOver = each.until <= now || each.sender.isIdle()
      const isKept = !isOver && (await take(each.name, { now, until: now + leaseMs }))
      if (isKept) {
        staying.push({ ...each, until: now + leaseMs })
        continue
      }
      each.sender.close()
      if (each.until > now) await take(each.name, { now, until: now })
    }
    leaving = staying
  }

  function lowOf({ name, sender }: Held): string | undefined {
    const { low } = sender.gas()
    note(name, low === undefined ? { kind: 'serving', reason: '' } : { kind: 'low', reason: low })
    return low
  }

  function note(name: string, state: Pick<KeyState, 'kind' | 'reason'> & { readonly balance?: bigint }): void {
    const { address, balance } = states.get(name) as KeyState
    states.set(name, { address, ...(balance !== undefined && { balance }), ...state })
  }

  function drop(): void {
    held?.sender.close()
    if (held) note(held.name, { kind: 'free', reason: 'the lease was lost' })
    held = undefined
  }

  function stateNow(): readonly KeyState[] {
    if (held) lowOf(held)
    return keys.map(({ name }) => {
      const state = states.get(name) as KeyState
      const balance = held?.name === name ? held.sender.gas().balance : state.balance
      return { ...state, ...(balance !== undefined && { balance }) }
    })
  }

  const serving = (now: number): Held | undefined => (held && held.until > now ? held : undefined)

  function closed(now: number): Closed | undefined {
    const current = serving(now)
    if (current && lowOf(current) === undefined) return undefined
    const all = stateNow()
    const reason = all.map((state) => `${state.address}: ${state.reason}`).join('; ')
    return {
      code: all.some(({ kind }) => kind === 'low') ? 'no_gas' : 'no_key',
      reason: `no relayer key serves: ${reason}`,
    }
  }

  /** Fails for a wrong chain, or when no key can ever serve; warns about keys that cannot serve now. */
  async function check(at: { now: number } = { now: 0 }): Promise<Checked> {
    const checked = await reader.check(at)
    if (checked.kind !== 'ready') return checked
    await Promise.all(keys.map(({ name }) => look(name, at.now)))
    const bad = [...states.values()].filter(({ kind }) => kind === 'low' || kind === 'wrong' || kind === 'unreadable')
    const isHopeless =
      keys.length > 0 &&
      bad.length === keys.length &&
      bad.every(({ kind, balance }) => kind === 'wrong' || balance === 0n)
    const said = bad.map(({ reason }) => `relayer_key: ${reason}`)
    return isHopeless ? { kind: 'wrong', problems: said } : { ...checked, warnings: [...checked.warnings, ...said] }
  }

  const { identify, verify, fate, balance } = reader
  return {
    identify,
    verify,
    fate,
    balance,
    check,
    refresh,
    renew,
    closed,
    keys: stateNow,
    terms(now) {
      const current = serving(now)
      return current && lowOf(current) === undefined ? reader.terms(now) : []
    },
    async settle(payment, offer, at): Promise<Settlement> {
      const current = serving(at.now)
      if (!current) return { kind: 'unknown', reason: 'this replica holds no relayer key; another replica will settle' }
      const settlement = await current.sender.settle(payment, offer, at)
      if (settlement.kind !== 'unavailable') return settlement
      // Nothing was sent for lack of gas, so a funded key may send it at once.
      const moved = await renew(at.now).catch(() => false)
      const next = moved ? serving(at.now) : undefined
      return next && next.name !== current.name ? await next.sender.settle(payment, offer, at) : settlement
    },
    async release(now) {
      const all = [...(held ? [held] : []), ...leaving]
      drop()
      for (const { sender } of leaving) sender.close()
      leaving = []
      for (const { name } of all) await take(name, { now, until: now })
    },
    close() {
      drop()
      for (const { sender } of leaving) sender.close()
      reader.close()
    },
  }
}

function failureOf(checked: Checked): Pick<KeyState, 'kind' | 'reason'> {
  if (checked.kind === 'wrong') return { kind: 'wrong', reason: checked.problems.join('; ') }
  if (checked.kind === 'unavailable') return { kind: 'unreadable', reason: `it cannot be read: ${checked.reason}` }
  return { kind: 'free', reason: '' }
}
