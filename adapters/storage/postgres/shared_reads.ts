/** Reads of single rows, of which those that wait at the same time are sent as one statement. */
import type { Query, Statement, Values } from '../sql/statement.ts'
import { ask } from './statements.ts'

type Ask = (query: Query) => Promise<readonly unknown[]>
type Waiting = { readonly values: Values; resolve(rows: readonly unknown[]): void; reject(error: unknown): void }

/** Most rows of one statement. */
const MOST = 64

type Kind = {
  readonly many: (all: readonly Values[]) => Query
  readonly keyOf: (values: Values) => unknown
}

/** By the name of the statement that reads one row. */
const KINDS = new Map<string, Kind>([
  [ask.call.name, { many: (all) => [ask.callsAmong, { ids: all.map(({ id }) => id) }], keyOf: ({ id }) => id }],
  [
    ask.callOf.name,
    { many: (all) => [ask.callsOfAmong, { keys: all.map(({ key }) => key) }], keyOf: ({ key }) => key },
  ],
  [
    ask.record.name,
    {
      many: (all) => [ask.recordsAmong, { kinds: all.map(({ kind }) => kind), ids: all.map(({ id }) => id) }],
      keyOf: ({ kind, id }) => JSON.stringify([kind, id]),
    },
  ],
])

export function sharedReads(send: Ask) {
  const queues = new Map<string, { readonly waiting: Waiting[]; isBusy: boolean }>()

  async function drain(statement: Statement<unknown>, kind: Kind): Promise<void> {
    const queue = queues.get(statement.name)
    while (queue && queue.waiting.length > 0) {
      const batch = queue.waiting.splice(0, MOST)
      await answered(batch, statement, kind)
    }
    if (queue) queue.isBusy = false
  }

  async function answered(batch: readonly Waiting[], statement: Statement<unknown>, kind: Kind): Promise<void> {
    const [first] = batch
    try {
      if (batch.length === 1 && first) return first.resolve(await send([statement, first.values]))
      const rows = await send(kind.many(batch.map(({ values }) => values)))
      const found = new Map(rows.map((row) => [kind.keyOf(row as Values), row]))
      for (const { values, resolve } of batch) {
        const row = found.get(kind.keyOf(values))
        resolve(row === undefined ? [] : [row])
      }
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  /** The rows of a query of one of those kinds, which are found together; undefined of any other. */
  return ([statement, values]: Query): Promise<readonly unknown[]> | undefined => {
    const kind = KINDS.get(statement.name)
    if (!kind) return undefined
    const queue = queues.get(statement.name) ?? { waiting: [], isBusy: false }
    queues.set(statement.name, queue)
    return new Promise((resolve, reject) => {
      queue.waiting.push({ values, resolve, reject })
      if (queue.isBusy) return
      queue.isBusy = true
      void drain(statement, kind)
    })
  }
}
