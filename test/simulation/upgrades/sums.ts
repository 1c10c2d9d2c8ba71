/** Sums that storages keep beside the calls, against the calls themselves. */
import { peek } from 'bun'
import { DAY_MS } from '../../../core/payment/mod.ts'
import type { Call, Storage } from '../../../core/ports/mod.ts'
import type { World } from '../world.ts'

type Answer<Verb extends 'spendByModel' | 'callTotals' | 'buyersByDay'> = Awaited<ReturnType<Storage[Verb]>>

const dayOf = (at: number): number => at - (at % DAY_MS)

/** At the end of a run: a storage counts in the transaction that changes a call. */
export function judgeSums(world: World): void {
  const { ledgerRows, storage, buyers } = world
  const calls = ledgerRows.calls.flatMap((id) => ledgerRows.row(id) ?? [])
  const settled = calls.filter(({ paymentStatus }) => paymentStatus === 'settled')
  for (const { name, wallet } of buyers) {
    const own = settled.filter(({ payer }) => payer === wallet)
    const found = peek(storage.spendByModel(wallet, 0)) as Answer<'spendByModel'>
    const spent = found.reduce((sum, each) => sum + each.spent, 0n)
    const count = found.reduce((sum, each) => sum + each.calls, 0)
    const truth = own.reduce((sum, { charge, quote }) => sum + (charge ?? quote), 0n)
    if (spent !== truth || count !== own.length)
      ledgerRows.violate('sums', `${name} paid ${truth} for ${own.length} calls; the sums say ${spent} for ${count}`)
  }
  const all = { since: 0, until: dayOf(world.now) + 2 * DAY_MS }
  const totals = peek(storage.callTotals({ ...all, unit: 'day' })) as Answer<'callTotals'>
  const counted = listed(totals.map(({ at, outcome, calls: count }) => [`${at} ${outcome}`, count]))
  const truth = listed(calls.flatMap(endsOf).map((end) => [end, 1]))
  if (counted !== truth) ledgerRows.violate('sums', `the calls of the days are ${truth}; the sums say ${counted}`)
  const days = peek(storage.buyersByDay(all)) as Answer<'buyersByDay'>
  const buyersCounted = listed(days.map(({ at, buyers: count }) => [String(at), count]))
  const pairs = new Set(settled.map(({ payer, settledAt }) => `${dayOf(settledAt ?? 0)} ${payer}`))
  const buyersTrue = listed([...pairs].map((pair) => [String(pair.split(' ')[0]), 1]))
  if (buyersCounted !== buyersTrue)
    ledgerRows.violate('sums', `the buyers of the days are ${buyersTrue}; the sums say ${buyersCounted}`)
}

/** Class of a call, by day: how its work has ended, and its payment where it was settled. */
function endsOf({ workStatus, endedAt, paymentStatus, settledAt }: Call): readonly string[] {
  const isOver = workStatus === 'completed' || workStatus === 'failed'
  return [
    ...(isOver ? [`${dayOf(endedAt ?? 0)} ${workStatus}`] : []),
    ...(paymentStatus === 'settled' ? [`${dayOf(settledAt ?? 0)} settled`] : []),
  ]
}

/** Sums by name, in the order of names, as text. Refused and unresolved payments may settle later. */
function listed(counts: readonly (readonly [name: string, count: number])[]): string {
  const sums = new Map<string, number>()
  for (const [name, count] of counts)
    if (!/refused|unresolved/.test(name)) sums.set(name, (sums.get(name) ?? 0) + count)
  return JSON.stringify([...sums].filter(([, count]) => count > 0).sort())
}
