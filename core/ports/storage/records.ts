/** Small records beside the calls. */
import type { Json } from '../../lib/json.ts'

/** A small record beside the calls, of one owner. `kind` and `id` identify it. */
export type StoredRecord = {
  readonly kind: string
  readonly id: string
  readonly owner: string
  readonly data: Json
  /** Expired records are treated as absent. */
  readonly expiresAt: number
}

/** A record in place of the one that has the data `from`. */
export type RecordMove = { readonly record: StoredRecord; readonly from: Json }

/** Records by kind and id. */
export interface RecordStorage {
  /** Stores a record. False, and nothing written, while an unexpired one of its kind and id exists. */
  putRecord(record: StoredRecord, now: number): Promise<boolean>
  getRecord(kind: string, id: string, now: number): Promise<StoredRecord | undefined>
  /**
   * Compare and set: true when the unexpired record of this kind and id had the data `from`, and is now this one. It
   * may name another owner.
   */
  moveRecord(record: StoredRecord, from: Json, now: number): Promise<boolean>
  /** Unexpired records of a kind and owner, at most `limit`, by id; only ids after `after`, where it is given. */
  listRecords(
    kind: string,
    owner: string,
    at: { now: number; after?: string; limit: number },
  ): Promise<readonly StoredRecord[]>
}
