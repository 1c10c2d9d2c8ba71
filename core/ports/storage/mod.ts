/** The storage of a gateway: five ports, a file each. */
import type { CallStorage } from './calls.ts'
import type { Coordination } from './coordination.ts'
import type { LedgerReads } from './ledger_reads.ts'
import type { RecordStorage } from './records.ts'
import type { RetentionStorage } from './retention.ts'

export type * from './calls.ts'
export type * from './coordination.ts'
export type * from './ledger_reads.ts'
export type * from './records.ts'
export type * from './retention.ts'

/** All five ports, which an adapter implements. Functions ask for those that they need. */
export interface Storage extends CallStorage, LedgerReads, RecordStorage, Coordination, RetentionStorage {
  close(): Promise<void>
}
