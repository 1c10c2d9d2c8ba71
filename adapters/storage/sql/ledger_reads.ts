/** Reads of a ledger for the operator. */
import { byTime, DAY_MS, HOUR_MS, summed, unexpired, wholeDays } from '../../../core/payment/mod.ts'
import type { CallTotalsQuery, LedgerReads } from '../../../core/ports/mod.ts'
import { type Usdc, usdc } from '../../../core/x402/mod.ts'
import { named, oldestFirst, tailOf } from '../named_calls.ts'
import type { SqlReader } from './database.ts'
import type { Query } from './statement.ts'

const BILLION = 1_000_000_000n

type Sums = { readonly billions: Usdc | null; readonly rest: Usdc | null }

/** An amount of its two parts. Undefined where there was nothing to sum. */
export function amountOf({ billions, rest }: Sums): Usdc | undefined {
  return billions === null || rest === null ? undefined : usdc(billions * BILLION + rest)
}

/** The same with the amount in place of its parts. */
function withAmount<Row extends Sums>({ billions, rest, ...row }: Row) {
  return { ...row, spent: amountOf({ billions, rest }) ?? usdc(0n) }
}

export function ledgerReads({ statements: ask, read, partOfTotals }: SqlReader): LedgerReads {
  return {
    getRecord: (kind, id, now) => read([[ask.record, { kind, id }]], ([[stored]]) => unexpired(stored, now)),

    listOpen: (limit) =>
      read(
        [
          [ask.listedUnfinished, { limit }],
          [ask.listedInDoubt, { limit }],
        ],
        (found) => found.flat().toSorted(oldestFirst),
      ),

    listCalls: ({ payer, since, until, after = { at: until, id: '' }, limit }) =>
      read(
        [
          payer === undefined
            ? [ask.listed, { since, ...after, limit }]
            : [ask.listedOfPayer, { payer, since, ...after, limit }],
        ],
        ([listed]) => listed,
      ),

    listSettled: ({ since, after = { at: since, id: '' }, limit }) =>
      read([[ask.listedSettled, { ...after, limit }]], ([listed]) => listed),

    findCalls(name, limit) {
      const tail = tailOf(name)
      return read(
        [
          [ask.entry, { name }],
          [ask.entriesByKey, { name }],
          tail === undefined ? undefined : [ask.entriesByNonce, { tail }],
          tail === undefined ? undefined : [ask.entriesByTransaction, { tail }],
        ],
        ([byId, byKey, byNonce, byTransaction]) =>
          named(name, { exact: [...byId, ...byKey], byNonce, byTransaction }, limit),
      )
    },

    listAuthorizations: (id) => read([[ask.authorizationsOf, { id }]], ([found]) => found),

    spendByModel(payer, since) {
      const { day, until } = wholeDays(since)
      return read(
        [
          [ask.spent, { payer, since, until }],
          [ask.spendTotals, { payer, day }],
        ],
        ([first, totals]) =>
          summed([...first, ...totals.map((row) => ({ ...row, model: modelOf(row.model) }))].map(withAmount)),
      )
    },

    async callTotals({ unit, since, until, by, ...names }) {
      const ms = unit === 'hour' ? HOUR_MS : DAY_MS
      const totals = {
        gateway: ask.totalsByGateway,
        endpoint: ask.totalsByEndpoint,
        model: ask.totalsByModel,
        all: ask.totals,
      }[by ?? 'all']
      const found = await inParts(
        read,
        { since, until, length: partOfTotals && partOfTotals * ms },
        {
          first: (from) => [ask.firstTotal, { unit: ms, since: from }],
          rows: (from, to) => [totals, { unit: ms, since: from, until: to, ...namesOf(names) }],
        },
      )
      return found
        .map((row) => ({
          ...withAmount(row),
          name: by === 'model' && row.name !== null ? row.name.slice(1) : row.name,
        }))
        .toSorted(byTime)
    },

    async buyersByDay({ since, until, ...names }) {
      const found = await inParts(
        read,
        { since: Math.ceil(since / DAY_MS), until: Math.ceil(until / DAY_MS), length: partOfTotals },
        {
          first: (from) => [ask.firstDay, { since: from }],
          rows: (from, to) => [ask.buyersByDay, { since: from, until: to, ...namesOf(names) }],
        },
      )
      return found.map(({ day, buyers }) => ({ at: day * DAY_MS, buyers }))
    },
  }
}

/** Reads a part of the range at a time, so that others are served between the parts. Passes over gaps. */
async function inParts<Row>(
  read: SqlReader['read'],
  { since, until, length }: { since: number; until: number; length: number | undefined },
  {
    first,
    rows,
  }: {
    readonly first: (from: number) => Query<{ at: number | null }>
    readonly rows: (from: number, to: number) => Query<Row>
  },
): Promise<readonly Row[]> {
  if (length === undefined) return await read([rows(since, until)], ([found]) => found)
  const all: Row[] = []
  for (let from = since; ;) {
    const at = await read([first(from)], ([[found]]) => found?.at ?? null)
    if (at === null || at >= until) return all
    const to = Math.min(until, at + length)
    for (const row of await read([rows(at, to)], ([found]) => found)) all.push(row)
    from = to
    await new Promise((turn) => setTimeout(turn, 0))
  }
}

/** A model is stored with a colon before it, because an empty name is not the same as none. */
const modelOf = (stored: string): string | null => (stored === '' ? null : stored.slice(1))

/** A parameter that is null stands for any name. */
const namesOf = ({ gateway, endpoint, model }: Pick<CallTotalsQuery, 'gateway' | 'endpoint' | 'model'>) => ({
  gateway: gateway ?? null,
  endpoint: endpoint ?? null,
  model: model === undefined ? null : `:${model}`,
})
