import { expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { type CallEvent, type CallObserver, reportedChanges } from '../../../core/ports/call_events.ts'
import { newCall, signed, T } from '../../conformance/storage_questions.ts'

function observed() {
  const events: string[] = []
  const note = (event: CallEvent) => void events.push(event.kind)
  const observer: CallObserver = { opened: note, recorded: note, moved: note, claimed: note, finished: note }
  const storage = memoryStorage()
  return { events, storage: { ...storage, ...reportedChanges(storage, [observer]) } }
}

test('each event of a call is told once, in the order in which storage has it', async () => {
  const { events, storage } = observed()
  await storage.openCall(newCall('call'), signed('key'), { now: T, until: T + 9 })
  await storage.moveCall('call', { workStatus: ['queued'] }, { workStatus: 'in_progress' })
  const result = { result: 'made', expiresAt: T + 99 }
  const claim = await storage.claimSettlement('call', undefined, { now: T, until: T + 9, result })
  if (claim.kind !== 'retry') throw new Error('there is nothing to settle')
  await storage.finishSettlement('call', claim.token, { kind: 'refused' }, { now: T })
  expect(events).toEqual(['opened', 'moved', 'claimed', 'finished'])
})

test('what storage refuses is no event', async () => {
  const { events, storage } = observed()
  await storage.openCall(newCall('call'), signed('key'), { now: T, until: T + 9 })
  await storage.openCall(newCall('again'), signed('key'), { now: T, until: T + 9 })
  await storage.moveCall('call', { workStatus: ['completed'] }, { workStatus: 'failed' })
  await storage.finishSettlement('call', 7, { kind: 'dead' }, { now: T })
  expect(events).toEqual(['opened'])
})

test('an event that an observer leaves out does not compile', () => {
  // @ts-expect-error `finished` is neither handled nor ignored.
  const partial: CallObserver = { opened: 'ignored', recorded: 'ignored', moved: 'ignored', claimed: 'ignored' }
  expect(Object.keys(partial)).not.toContain('finished')
})
