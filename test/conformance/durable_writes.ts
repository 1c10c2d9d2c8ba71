/** One write of every verb of a storage, on calls and keys of its own, and how it is read back. */
import { usdc } from '../../core/x402/money.ts'
import type { Claim, LedgerReads, Outcome, Storage } from '../../core/ports/mod.ts'
import { T, newCall, signed } from './storage_questions.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

type Reads =
  | keyof LedgerReads
  | 'getCall'
  | 'callOf'
  | 'listRecords'
  | 'lostCalls'
  | 'unfinishedCalls'
  | 'unsettled'
  | 'ledgerRows'
type WritingVerb = Exclude<keyof Storage, Reads | 'isShared' | 'now' | 'close'>

type Write = {
  /** Writes that it needs before. */
  prepare?(storage: Storage): Promise<unknown>
  /** One write, of this verb. */
  write(storage: Storage): Promise<unknown>
  /** Of the call `id` where it writes one. May write itself. */
  read(storage: Storage): Promise<unknown>
}

/** A verb that is missing here does not compile. */
export const durableWrites: Readonly<Record<WritingVerb, Write>> = {
  openCall: { write: (storage) => open(storage, 'opened'), read: callRead('opened') },
  moveCall: {
    prepare: (storage) => open(storage, 'moved'),
    write: (storage) =>
      storage.moveCall('moved', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream', endedAt: T }),
    read: callRead('moved'),
  },
  claimSettlement: {
    prepare: (storage) => open(storage, 'claimed'),
    write: (storage) => claim(storage, 'claimed'),
    read: callRead('claimed'),
  },
  finishSettlement: {
    prepare: (storage) => claimOf(storage, 'settled'),
    write: (storage) => finish(storage, 'settled', T),
    read: callRead('settled'),
  },
  recordPaid: {
    prepare: (storage) => storage.putRecord(record('channel', 0), T),
    write: (storage) =>
      storage.recordPaid(newCall('prepaid'), signed('key of prepaid'), {
        now: T,
        paid: {
          result: { made: true },
          usage: { input: 3, output: 4 },
          receipt: receipt('prepaid'),
          expiresAt: T + DAY,
          spent: { record: record('channel', 7), from: { count: 0 } },
        },
      }),
    read: async (storage) => [await callRead('prepaid')(storage), await storage.getRecord('channel', 'a', T)],
  },
  renew: {
    prepare: (storage) => open(storage, 'renewed'),
    write: (storage) => storage.renew('me', ['renewed'], T + 9 * HOUR),
    read: callRead('renewed'),
  },
  putRecord: {
    write: (storage) => storage.putRecord(record('put', 1), T),
    read: (storage) => storage.getRecord('put', 'a', T),
  },
  moveRecord: {
    prepare: (storage) => storage.putRecord(record('moved', 1), T),
    write: (storage) => storage.moveRecord(record('moved', 2), { count: 1 }, T),
    read: (storage) => storage.listRecords('moved', '0xa', { now: T, limit: 9 }),
  },
  lease: {
    write: (storage) => storage.lease('sweep', 'me', { now: T, until: T + HOUR }),
    read: (storage) => storage.lease('sweep', 'another', { now: T + 1, until: T + HOUR }),
  },
  hit: {
    write: (storage) => storage.hit(BUCKET, 2, T),
    read: (storage) => storage.hit(BUCKET, 2, T + 1),
  },
  prune: {
    prepare: async (storage) => {
      await settle(storage, 'emptied', T - 2 * DAY)
      await open(storage, 'expired', T - 2 * DAY)
      await storage.moveCall('expired', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
    },
    write: (storage) => storage.prune(T - DAY),
    read: async (storage) => [await callRead('emptied')(storage), await callRead('expired')(storage)],
  },
  archiveCalls: {
    prepare: async (storage) => {
      await settle(storage, 'archived', T - 4 * DAY)
      await storage.prune(T - 3 * DAY)
    },
    // As of the month in which it settled.
    write: (storage) => storage.archiveCalls(['archived'], Math.floor((T - 30 * DAY) / DAY)),
    read: callRead('archived'),
  },
  pruneLedger: {
    prepare: async (storage) => {
      await settle(storage, 'deleted', T - 9 * DAY)
      await storage.prune(T - 8 * DAY)
    },
    write: (storage) => storage.pruneLedger(T - 8 * DAY, T - 8 * DAY),
    read: callRead('deleted'),
  },
}

/** Every write, one after the other. */
export async function writeAll(storage: Storage): Promise<void> {
  for (const { prepare, write } of Object.values(durableWrites)) {
    await prepare?.(storage)
    await write(storage)
  }
}

const BUCKET = { key: 'chat', limit: 3, windowMs: HOUR }

const record = (kind: string, count: number) => ({
  kind,
  id: 'a',
  owner: '0xa',
  data: { count },
  expiresAt: T + DAY,
})

const receipt = (id: string) => ({ transaction: `0x${id}`, network: 'eip155:84532', payer: '0xa', amount: '5' })

/** The call with its authorizations, and what lists and sums say. */
function callRead(id: string): Write['read'] {
  return async (storage) => ({
    call: await storage.getCall(id),
    bound: await storage.callOf(`key of ${id}`, T),
    authorizations: await storage.listAuthorizations(id),
    found: await storage.findCalls(id, 9),
    open: (await storage.listOpen(9)).filter((call) => call.id === id),
    paid: await storage.spendByModel(`0x${id}`, 0),
    totals: await storage.callTotals({ unit: 'day', since: 0, until: T + DAY, by: 'endpoint', endpoint: id }),
    buyers: await storage.buyersByDay({ since: 0, until: T + DAY, endpoint: id }),
  })
}

/** Calls of one verb are of one endpoint and wallet, so that sums tell them apart. */
function open(storage: Storage, id: string, at = T): Promise<unknown> {
  const call = newCall(id, { endpoint: id, payer: `0x${id}`, quote: usdc(5n), createdAt: at, expiresAt: at + HOUR })
  return storage.openCall(call, signed(`key of ${id}`, at + HOUR), { now: at, until: at + HOUR })
}

function claim(storage: Storage, id: string, at = T): Promise<Claim> {
  const result = { result: { made: true }, expiresAt: at + HOUR, usage: { input: 3, output: 4 }, charge: usdc(4n) }
  return storage.claimSettlement(id, signed(`key of ${id}`, at + HOUR), { now: at, until: at + HOUR, result })
}

async function claimOf(storage: Storage, id: string, at = T): Promise<Claim> {
  await open(storage, id, at)
  return await claim(storage, id, at)
}

/** The token of a first claim is 1 in every storage. */
function finish(storage: Storage, id: string, at: number): Promise<boolean> {
  const outcome: Outcome = { kind: 'paid', receipt: receipt(id) }
  return storage.finishSettlement(id, 1, outcome, { now: at, expiresAt: at + HOUR, by: 'reply' })
}

async function settle(storage: Storage, id: string, at: number): Promise<void> {
  await claimOf(storage, id, at)
  await finish(storage, id, at)
}
