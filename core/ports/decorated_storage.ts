/** Storage decorators that list every verb, so that a new verb does not compile until each of them has decided. */
import type { Storage } from './storage/mod.ts'

/** A function in place of the verb's own, or `same`. */
type Decision<Verb extends keyof Storage> = 'same' | NonNullable<Storage[Verb]>

/** The decision of a decorator on each verb. `isShared` is a property. */
export type StorageDecorator = { readonly [Verb in Exclude<keyof Storage, 'isShared'>]-?: Decision<Verb> }

/** Verbs that neither begin, change nor delete a call: most decorators leave them as they are. */
export const OTHER_VERBS = {
  now: 'same',
  getCall: 'same',
  callOf: 'same',
  lostCalls: 'same',
  unfinishedCalls: 'same',
  unsettled: 'same',
  spendByModel: 'same',
  listCalls: 'same',
  listSettled: 'same',
  findCalls: 'same',
  callTotals: 'same',
  buyersByDay: 'same',
  listOpen: 'same',
  listAuthorizations: 'same',
  putRecord: 'same',
  getRecord: 'same',
  moveRecord: 'same',
  listRecords: 'same',
  lease: 'same',
  hit: 'same',
  ledgerRows: 'same',
  close: 'same',
} as const satisfies Partial<StorageDecorator>

/**
 * The storage with the verbs that the decorator replaces.
 *
 * @example
 * const counted = decorated(storage, { ...OTHER_VERBS, openCall: counting, recordPaid: 'same' })
 */
export function decorated<Some extends Storage>(storage: Some, decorator: StorageDecorator): Some {
  const replaced = Object.entries(decorator).filter(([, verb]) => verb !== 'same')
  return { ...storage, ...Object.fromEntries(replaced) }
}
