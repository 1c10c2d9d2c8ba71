/** Ports whose every question goes through a scheduler, and the books that are kept on the way. */
import { chunk, DONE, streamAnswer, usageChunk, wholeAnswer } from '../fakes/chat.ts'
import type { ChatVendor, Storage } from '../../core/mod.ts'
import type {
  Authorization,
  Cap,
  Claim,
  Opened,
  NewCall,
  Outcome,
  PaidWork,
  Ports,
  StoredRecord,
} from '../../core/ports/mod.ts'

type Ask = <T>(label: string, run: () => Promise<T>) => Promise<T>
type AskStorage = <T>(label: string, run: (inner: Storage) => Promise<T>) => Promise<T>

/** Events that are told as they happen, not when the answer arrives. */
export type StorageHooks = {
  opened(opened: Opened, authorization: Authorization, at: { cap?: Pick<Cap, 'observed'> }): Opened
  /** Before it is asked. */
  claiming(id: string): void
  claimed(claim: Claim, request: { id: string; offered: Authorization | undefined; at: { now: number } }): Claim
  finished(isWritten: boolean, id: string, outcome: Outcome): boolean
  recorded?(record: StoredRecord): void
  /** Stored when it was done and paid. */
  paid?(order: NewCall, authorization: Authorization, paid: PaidWork): void
}

export function scheduledStorage(
  ask: AskStorage,
  hooks: StorageHooks,
  { isShared = false }: { readonly isShared?: boolean } = {},
): Storage {
  const noted = async (isWritten: Promise<boolean>, record: StoredRecord): Promise<boolean> => {
    const isDone = await isWritten
    if (isDone) hooks.recorded?.(record)
    return isDone
  }
  return {
    isShared,
    openCall: (call, authorization, at) =>
      ask('openCall', async (inner) => hooks.opened(await inner.openCall(call, authorization, at), authorization, at)),
    recordPaid: (order, authorization, at) =>
      ask('recordPaid', async (inner) => {
        const answer = await inner.recordPaid(order, authorization, at)
        if (answer.kind === 'recorded') hooks.paid?.(order, authorization, at.paid)
        return answer
      }),
    getCall: (id) => ask('getCall', (inner) => inner.getCall(id)),
    callOf: (key, now) => ask('callOf', (inner) => inner.callOf(key, now)),
    moveCall: (id, from, patch) =>
      ask(`moveCall ${patch.workStatus ?? ''}`, (inner) => inner.moveCall(id, from, patch)),
    renew: (workerId, ids, until) => ask('renew', (inner) => inner.renew(workerId, ids, until)),
    lostCalls: (now, limit) => ask('lostCalls', (inner) => inner.lostCalls(now, limit)),
    unfinishedCalls: (workerId, at) => ask('unfinishedCalls', (inner) => inner.unfinishedCalls(workerId, at)),
    claimSettlement(id, offered, at) {
      hooks.claiming(id)
      return ask('claimSettlement', async (inner) =>
        hooks.claimed(await inner.claimSettlement(id, offered, at), { id, offered, at }),
      )
    },
    finishSettlement: (id, token, outcome, at) =>
      ask(`finishSettlement ${outcome.kind}`, async (inner) =>
        hooks.finished(await inner.finishSettlement(id, token, outcome, at), id, outcome),
      ),
    unsettled: (...args) => ask('unsettled', (inner) => inner.unsettled(...args)),
    spendByModel: (payer, since) => ask('spendByModel', (inner) => inner.spendByModel(payer, since)),
    listCalls: (at) => ask('listCalls', (inner) => inner.listCalls(at)),
    listSettled: (at) => ask('listSettled', (inner) => inner.listSettled(at)),
    findCalls: (name, limit) => ask('findCalls', (inner) => inner.findCalls(name, limit)),
    listAuthorizations: (call) => ask('listAuthorizations', (inner) => inner.listAuthorizations(call)),
    callTotals: (query) => ask('callTotals', (inner) => inner.callTotals(query)),
    buyersByDay: (query) => ask('buyersByDay', (inner) => inner.buyersByDay(query)),
    listOpen: (limit) => ask('listOpen', (inner) => inner.listOpen(limit)),
    lease: (name, workerId, at) => ask('lease', (inner) => inner.lease(name, workerId, at)),
    hit: (bucket, take, now) => ask('hit', (inner) => inner.hit(bucket, take, now)),
    putRecord: (record, now) => ask('putRecord', (inner) => noted(inner.putRecord(record, now), record)),
    getRecord: (...args) => ask('getRecord', (inner) => inner.getRecord(...args)),
    moveRecord: (record, ...rest) => ask('moveRecord', (inner) => noted(inner.moveRecord(record, ...rest), record)),
    listRecords: (...args) => ask('listRecords', (inner) => inner.listRecords(...args)),
    prune: (now) => ask('prune', (inner) => inner.prune(now)),
    ledgerRows: (...args) => ask('ledgerRows', (inner) => inner.ledgerRows(...args)),
    archiveCalls: (...args) => ask('archiveCalls', (inner) => inner.archiveCalls(...args)),
    pruneLedger: (...args) => ask('pruneLedger', (inner) => inner.pruneLedger(...args)),
    close: async () => {},
  }
}

const PIXEL = 'data:image/png;base64,iVBORw0KGgo='

/** Pictures, and answers each of which has a number of its own and comes in pieces where a stream is asked for. */
export function scheduledVendors({
  ask,
  fails,
  newWork,
}: {
  readonly ask: Ask
  /** Whether the vendor fails this time. */
  readonly fails: () => boolean
  readonly newWork: () => number
}): Ports['vendors'] {
  const generate = () =>
    ask('vendor', async () => {
      if (fails()) throw new Error('the vendor is out of paint')
      return [{ url: PIXEL }]
    })

  const talker: ChatVendor = {
    format: 'chat',
    async ask({ stream }) {
      const work = newWork()
      await ask('model', async () => {
        if (fails()) throw new Error('the model is lost for words')
      })
      if (!stream) return wholeAnswer({ content: `end-of-work-${work}` })
      const pieces = [
        chunk({ content: 'Well' }),
        chunk({ content: ', you see, ' }),
        chunk({ content: `end-of-work-${work}` }, { finish: 'stop' }),
        usageChunk(),
        DONE,
      ]
      return streamAnswer(pieces, { gate: () => ask('piece', async () => {}) })
    },
  }
  return {
    images: () => ({ generate }),
    chat: () => talker,
    media: () => Promise.reject(new Error('there is no media host')),
  }
}
