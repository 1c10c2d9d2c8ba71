import { type ExposedCall, SETTLED_LOOKBACK_MS } from '../../../core/payment/exposure.ts'
import {
  type AuthorizationBinding,
  type ClaimAnswer,
  type Head,
  type OpenAnswer,
  type RowPatch,
  UNCLAIMED,
  type Write,
  afterlife,
  alive,
  decideClaim,
  decideFinish,
  decideOpen,
  decideRenewal,
  isFree,
  isUnfinished,
  mayLease,
  mayMove,
  mayMoveRecord,
  patchOf,
  takePermits,
} from '../../../core/payment/ledger.ts'
import type { Call, Claim, NewCall, Opened, StoredRecord, Storage } from '../../../core/ports/mod.ts'
import { summed } from '../../../core/payment/spend_report.ts'
import { databases } from '../databases.ts'
import { type Limits, type Send, type Step, connections } from './connections.ts'
import { type Statement, ask, patching } from './statements.ts'

/** Rows that one step of `prune` or `renew` looks at: bounds how long it holds them. */
const BATCH = 256

/** How far `prune` has come among the calls, in order of age. */
type Place = { readonly expiresAt: number; readonly id: string }

export type PostgresStorage = Storage & {
  /** Connects and migrates. Throws, with words for the operator, for what would make every verb fail. */
  ready(): Promise<void>
}

/**
 * One database for any number of processes (decision 23). Each verb is a transaction at READ COMMITTED: locks first, in one
 * order for all; then core decides on what it sees behind them; then its writes. An authorization is locked by name before it is
 * bound, a payer before his debts are summed, a call before anything of it or of its bonds is changed.
 */
export function postgresStorage(url: string, options: Limits = {}): PostgresStorage {
  const { ready, read, write, close } = connections(url, options)

  return {
    ...databases.postgres,
    ready,

    openCall(...given) {
      const [call, authorization, at] = structuredClone(given)
      const { key } = authorization
      const payer = payerOf(call)
      return write({
        turn: payer,
        locks: [keyOf(key), payer],
        look: (send) =>
          Promise.all([
            send(ask.bound, { key }),
            at.cap ? exposedCalls(send, call, { now: at.now, asOf: at.cap.asOf }) : [],
            at.cap?.newWallet ? send(ask.paid, { payer: call.payer, asset: call.asset }) : [],
          ]),
        act([[bound], owed, [paid]], send) {
          const { answer, writes } = decideOpen(
            { call, authorization },
            { bound, exposedCalls: owed, hasPaid: paid !== undefined },
            at,
          )
          return after(perform(writes, send), opened(answer, send))
        },
      })
    },

    now: () => read(async (send) => must((await send(ask.now, {}))[0], 'its time').now),

    getCall: (id) => read((send) => send(ask.call, { id }).then(first)),

    callOf: (key, now) =>
      read(async (send) => {
        const [found] = await send(ask.callOf, { key })
        return found && !isFree(found, now) ? found : undefined
      }),

    moveCall(...given) {
      const [id, from, patch] = structuredClone(given)
      return write({
        turn: callOf(id),
        look: (send) => send(ask.head, { id }),
        async act([head], send) {
          if (!mayMove(head, from)) return false
          await patchCall(id, patchOf(patch), send)
          return true
        },
      })
    },

    async renew(workerId, ids, until) {
      const held: string[] = []
      // Once in any case: whoever renews nothing learns whether the database is there.
      for (let from = 0; from === 0 || from < ids.length; from += BATCH) {
        held.push(...(await write(renewing(workerId, ids.slice(from, from + BATCH), until))))
      }
      return held
    },

    lostCalls: (now, limit) => read((send) => send(ask.lost, { now, limit })),

    unfinishedCalls: (workerId, at) => read((send) => send(ask.unfinished, { workerId, ...at })),

    claimSettlement(...given) {
      const [id, offered, at] = structuredClone(given)
      const key = offered?.key ?? null
      return write({
        turn: callOf(id),
        locks: key === null ? [] : [keyOf(key)],
        look: (send) => Promise.all([send(ask.pair, { id, key }), send(ask.bindings, { id, key })]),
        act([heads, found], send) {
          const bindings = found.filter((binding) => binding.call === id)
          const elsewhere = found.find((binding) => binding.call !== id)
          const bound =
            elsewhere &&
            must(
              heads.find((head) => head.id === elsewhere.call),
              `call ${elsewhere.call}`,
            )
          const call = heads.find((head) => head.id === id)
          const { answer, writes } = decideClaim(call, { bindings, offered, bound }, at)
          return after(perform(writes, send), claimed(answer, send))
        },
      })
    },

    finishSettlement(...given) {
      const [id, token, outcome, at] = structuredClone(given)
      return write({
        turn: callOf(id),
        look: (send) => Promise.all([send(ask.head, { id }), send(ask.bindings, { id, key: null })]),
        act([[head], bindings], send) {
          const { answer, writes } = decideFinish(head, { bindings, token, outcome }, at)
          return after(perform(writes, send), Promise.resolve(answer))
        },
      })
    },

    unsettled: (before, limit, gateway) =>
      read((send) => send(ask.unsettled, { before, limit, gateway: gateway ?? null })),

    spendByModel: (payer, since) => read((send) => send(ask.spent, { payer, since }).then(summed)),

    putRecord(...given) {
      const [record, now] = structuredClone(given)
      return write(owning(record, (stored) => !alive(stored, now)))
    },

    getRecord: (kind, id, now) =>
      read(async (send) => {
        const [stored] = await send(ask.owned, { kind, id })
        return alive(stored, now)
      }),

    moveRecord(...given) {
      const [record, from, now] = structuredClone(given)
      return write(owning(record, (stored) => mayMoveRecord(stored, { record, from, now })))
    },

    listRecords: (kind, owner, at) => read((send) => send(ask.ownedBy, { kind, owner, ...at })),

    lease: (name, workerId, { now, until }) =>
      write({
        turn: `lease ${name}`,
        locks: [`lease ${name}`],
        look: (send) => send(ask.lease, { name }),
        async act([held], send) {
          if (!mayLease(held, workerId, now)) return false
          await send(ask.takeLease, { name, workerId, expiresAt: until })
          return true
        },
      }),

    hit: (bucket, take, now) =>
      write({
        turn: `window ${bucket.key}`,
        locks: [`window ${bucket.key}`],
        look: (send) => send(ask.window, { key: bucket.key }),
        async act([stored], send) {
          const { answer, window } = takePermits(stored, bucket, { take, now })
          if (window) await send(ask.keepWindow, { key: bucket.key, ...window })
          return answer
        },
      }),

    async prune(now) {
      let touched = 0
      for (let from: Place | undefined = { expiresAt: Number.MIN_SAFE_INTEGER, id: '' }; from;) {
        const step: Aged = await write(aging(now, from))
        touched += step.touched
        from = step.last
      }
      for (const stale of [ask.staleOwned, ask.staleLeases, ask.staleWindows] as readonly Statement<object>[]) {
        let gone: number
        do {
          gone = await write({
            turn: 'prune',
            look: async () => {},
            act: async (_, send) => (await send(stale, { now, limit: BATCH })).length,
          })
          touched += gone
        } while (gone === BATCH)
      }
      return touched
    },

    close,
  }
}

// ── what is locked, and whose turn it is ────────────────────────────────────────────────────────────────────────────

const keyOf = (key: string) => `authorization ${key}`
const payerOf = ({ payer, asset }: Pick<NewCall, 'payer' | 'asset'>) => `payer ${JSON.stringify([payer, asset])}`
const callOf = (id: string) => `call ${id}`
const ownedOf = ({ kind, id }: Pick<StoredRecord, 'kind' | 'id'>) => `owned ${JSON.stringify([kind, id])}`

// ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function exposedCalls(
  send: Send,
  { payer, asset }: NewCall,
  at: { now: number; asOf: number },
): Promise<ExposedCall[]> {
  return send(ask.exposedCalls, { payer, asset, now: at.now, since: at.asOf - SETTLED_LOOKBACK_MS })
}

async function call(id: string, send: Send): Promise<Call> {
  return must(first(await send(ask.call, { id })), `call ${id}`)
}

async function opened(answer: OpenAnswer, send: Send): Promise<Opened> {
  return answer.kind === 'replayed' ? { kind: 'replayed', call: await call(answer.id, send) } : answer
}

async function claimed(answer: ClaimAnswer, send: Send): Promise<Claim> {
  if (answer.kind === 'replayed') return { kind: 'replayed', call: await call(answer.id, send) }
  if (answer.kind !== 'retry') return answer
  const { key, ...rest } = answer
  const [found] = await send(ask.signed, { key })
  return { ...rest, authorization: must(found?.signed, `authorization ${key}`) }
}

// ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function perform(writes: readonly Write[], send: Send): Promise<unknown> {
  return Promise.all(writes.map((step) => performOne(step, send)))
}

function performOne(step: Write, send: Send): Promise<unknown> {
  if (step.kind === 'insert') return send(ask.insertCall, { ...step.call, ...UNCLAIMED })
  if (step.kind === 'patch') return patchCall(step.id, step.patch, send)
  if (step.kind === 'bind') return send(ask.bind, { ...step.binding, signed: step.authorization })
  if (step.kind === 'mark') return send(ask.mark, { key: step.key, status: step.status })
  return send(ask.free, { key: step.key })
}

function patchCall(id: string, patch: RowPatch, send: Send): Promise<unknown> {
  const fields = Object.keys(patch) as (keyof RowPatch)[]
  return fields.length === 0 ? Promise.resolve() : send(patching(fields), { ...patch, id })
}

/** Keeps the record where what is stored so far allows it. */
function owning(
  record: StoredRecord,
  may: (stored: StoredRecord | undefined) => boolean,
): Step<readonly StoredRecord[], boolean> {
  return {
    turn: ownedOf(record),
    locks: [ownedOf(record)],
    look: (send) => send(ask.owned, record),
    async act([stored], send) {
      if (!may(stored)) return false
      await send(ask.keepOwned, record)
      return true
    },
  }
}

type Promised = { readonly heads: readonly Head[]; readonly bindings: readonly AuthorizationBinding[] }

/** One bounded step of `renew`. Whose promise is lengthened, and no more, is written at once. */
function renewing(workerId: string, ids: readonly string[], until: number): Step<Promised, readonly string[]> {
  return {
    turn: `worker ${workerId}`,
    async look(send) {
      const [heads, bindings] = await Promise.all([send(ask.headsAmong, { ids }), send(ask.bindingsAmong, { ids })])
      return { heads, bindings }
    },
    act({ heads, bindings }, send) {
      const decided = heads.map((head) => ({
        head,
        ...decideRenewal(head, { bindings: bindings.filter(({ call }) => call === head.id), workerId }, until),
      }))
      const longer = decided
        .filter(({ head, writes }) => isUnfinished(head.workStatus) && writes.length > 0)
        .map(({ head }) => head.id)
      const back = decided.flatMap(({ head, writes }) => (isUnfinished(head.workStatus) ? [] : writes))
      const done = [
        ...(longer.length > 0 ? [send(ask.renew, { ids: longer, leaseExpiresAt: until })] : []),
        perform(back, send),
      ]
      return after(Promise.all(done), Promise.resolve(decided.flatMap(({ head, answer }) => (answer ? [head.id] : []))))
    },
  }
}

type Aged = { readonly touched: number; readonly last: Place | undefined }
type Old = {
  readonly heads: readonly Head[]
  readonly bindings: readonly Pick<AuthorizationBinding, 'call' | 'expiresAt'>[]
}

/** One bounded step of `prune` over calls, beginning behind `from`. */
function aging(now: number, from: Place): Step<Old, Aged> {
  return {
    turn: 'prune',
    async look(send) {
      const heads = await send(ask.aging, { now, ...from, limit: BATCH })
      return { heads, bindings: await send(ask.bindingsAmong, { ids: heads.map(({ id }) => id) }) }
    },
    act({ heads, bindings }, send) {
      const fated = (fate: string) =>
        heads.filter(
          (head) =>
            afterlife(
              head,
              bindings.filter(({ call }) => call === head.id),
              now,
            ) === fate,
        )
      const [old, over] = [{ ids: fated('empty').map(({ id }) => id) }, { ids: fated('forget').map(({ id }) => id) }]
      const done = [
        send(ask.emptyAmong, old),
        send(ask.unsignAmong, old),
        send(ask.freeAmong, over),
        send(ask.forgetAmong, over),
      ]
      const last = heads.length < BATCH ? undefined : heads.at(-1)
      return after(Promise.all(done), Promise.resolve({ touched: old.ids.length + over.ids.length, last }))
    },
  }
}

async function after<Answer>(done: Promise<unknown>, answer: Promise<Answer>): Promise<Answer> {
  const [, answered] = await Promise.all([done, answer])
  return answered
}

function first<Row>(found: readonly Row[]): Row | undefined {
  return found[0]
}

function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`the database has lost ${what}`)
  return value
}
