/** Child keys: made by their parent out of what it has left, listed and revoked by it (contract 23.14). */
import type { ChildKey, Lending, Lent, OpenedKey } from '../../../../../core/ports/mod.ts'
import { lower } from '../../../lib/hex.ts'
import { type CallOptions, unavailable } from '../../../lib/results.ts'
import { refusedChannel } from '../payload.ts'
import { addressOf, childName, childrenIn } from './child_calls.ts'
import { childOfState, type StoredChild } from './child_keys.ts'
import { type KeyParts, type Opened, statesOf } from './key_channels.ts'

/** Children that have ended count, so that a key fills no database. */
const MAX_LISTED = 100

/** The record comes before the reservation: one that nobody knows would hold money for its whole life. */
export async function lend(
  parts: KeyParts,
  { key, lending }: { readonly key: OpenedKey; readonly lending: Lending },
  at: CallOptions,
): Promise<Lent | undefined> {
  const { calls, children } = parts
  const found = await statesOf(parts, key.address, at.now)
  const state = found.find((each) => calls.available(each, at.now) >= lending.cap) ?? found[0]
  if (!state) return undefined
  const { channelId, config: channel } = state
  const listed = await children.list(lower(key.address), { now: at.now, limit: MAX_LISTED })
  if (listed.length >= MAX_LISTED)
    return refusedChannel(
      'PAYMENT_INVALID',
      'children',
      `a key has made ${MAX_LISTED} children; ended ones are forgotten after thirty days`,
    )
  const lent = { ...lending, address: lower(lending.address), lender: lower(key.address), channelId }
  const child: StoredChild = { ...lent, cap: String(lending.cap) }
  const { signer } = key as Opened
  const reservation = { name: childName(child.address), price: lending.cap, until: lending.until, isLate: false }
  const cap = { channelId, config: channel, ...reservation, signer }
  const verdict = await calls.verify(cap, at)
  if (verdict.kind !== 'valid') return verdict
  if (!(await children.add(child, at.now))) return unavailable('a child key of this address exists')
  const reserved = await calls.secure(cap, at)
  if (reserved.kind !== 'secured') {
    await children.drop(child, at.now)
    return reserved
  }
  return { kind: 'lent', child: await withState(parts, child, at.now) }
}

export async function findChild(parts: KeyParts, address: string, now: number): Promise<ChildKey | undefined> {
  const child = await parts.children.find(lower(address), now)
  return child && (await withState(parts, child, now))
}

/** The children of a key: those that have not ended, and those that its list still has. */
export async function childrenOf(parts: KeyParts, address: string, now: number): Promise<readonly ChildKey[]> {
  const { children } = parts
  const names = (await statesOf(parts, address, now)).flatMap((state) => childrenIn(state, now))
  const active = await Promise.all(names.map((name) => children.find(addressOf(name), now)))
  const all = [...active, ...(await children.list(lower(address), { now, limit: MAX_LISTED }))]
  const found = new Map(all.flatMap((child) => (child ? [[child.address, child] as const] : [])))
  return await Promise.all([...found.values()].slice(0, MAX_LISTED).map((child) => withState(parts, child, now)))
}

/** False for a child of another key. */
export async function revoke(
  { children, calls }: KeyParts,
  { lender, address }: { readonly lender: string; readonly address: string },
  now: number,
): Promise<boolean> {
  const child = await children.find(lower(address), now)
  if (child?.lender !== lower(lender)) return false
  return await calls.endChildren(child.channelId, now, childName(child.address))
}

async function withState({ states }: KeyParts, child: StoredChild, now: number): Promise<ChildKey> {
  return childOfState(child, await states.get(child.channelId, now), now)
}
