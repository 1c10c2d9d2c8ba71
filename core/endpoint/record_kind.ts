/**
 * Records that outlive a call (decision 112). Each kind has a name, a version and a schema and is declared once.
 * Records are checked when read, and older versions are upgraded; a kind that is not declared cannot be stored.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import { type SchemaCheck, schemaCheck } from '../http/schema_check.ts'
import type { Json } from '../lib/json.ts'
import { isFields } from '../lib/json.ts'
import type { RecordStorage, StoredRecord } from '../ports/mod.ts'

/** A record as read; `stored` is its raw form, which updates are compared with. */
export type ReadRecord<Data> = {
  readonly id: string
  readonly owner: string
  readonly data: Data
  readonly expiresAt: number
  readonly stored: Json
}

type New<Data> = Omit<ReadRecord<Data>, 'stored'>

export type RecordKind<Data> = {
  readonly kind: string
  readonly version: number
  /** Stores a new record. Undefined, with nothing written, while a record with its id exists. */
  put(records: Pick<RecordStorage, 'putRecord'>, record: New<Data>, now: number): Promise<ReadRecord<Data> | undefined>
  /** Throws when this version cannot read the record. */
  get(records: Pick<RecordStorage, 'getRecord'>, id: string, now: number): Promise<ReadRecord<Data> | undefined>
  /** Updates a record that nobody has changed since it was read. Undefined, with nothing written, when somebody has. */
  move(
    records: Pick<RecordStorage, 'moveRecord'>,
    record: ReadRecord<Data>,
    patch: { readonly data?: Data; readonly expiresAt?: number },
    now: number,
  ): Promise<ReadRecord<Data> | undefined>
  /** Unexpired records of an owner, at most `limit`, by id. */
  list(
    records: Pick<RecordStorage, 'listRecords'>,
    owner: string,
    at: { now: number; limit: number },
  ): Promise<readonly ReadRecord<Data>[]>
  /** A record in storage form, for work that returns records to be stored. */
  stored(record: Omit<New<Data>, 'owner'>): Omit<StoredRecord, 'owner'>
}

type Declaration<Schema extends TSchema> = {
  readonly kind: string
  /** Incremented with every schema change that older records do not fit. */
  readonly version: number
  readonly schema: Schema
  /** Converts the data of an older version to the current one. */
  upgrade?(data: Json, from: number): Json
}

type Registered = Pick<Declaration<TSchema>, 'kind' | 'version' | 'upgrade'> & {
  check(data: unknown): string | undefined
}

const registered = new Map<string, Registered>()

/**
 * Declares a kind of record. Throws when the kind is declared already, or when a later version lacks an `upgrade`.
 *
 * @example
 * const VOUCHER = recordKind({ kind: 'voucher', version: 1, schema: Type.Object({ worth: Type.String() }) })
 */
export function recordKind<Schema extends TSchema>(declared: Declaration<Schema>): RecordKind<Static<Schema>> {
  type Data = Static<Schema>
  const { kind, version, schema, upgrade } = declared
  if (registered.has(kind)) throw new RangeError(`the record kind ${kind} is declared twice`)
  if (version > 1 && !upgrade)
    throw new RangeError(`the record kind ${kind} has version ${version} and needs an upgrade() for older records`)
  let compiled: SchemaCheck<Schema> | undefined
  const own: Registered = {
    kind,
    version,
    ...(upgrade && { upgrade }),
    check(data) {
      compiled ??= schemaCheck(schema)
      const error = compiled.Check(data) ? undefined : compiled.Errors(data).First()
      return error && `${error.path || 'data'}: ${error.message}`
    },
  }
  registered.set(kind, own)
  const read = ({ id, owner, data, expiresAt }: StoredRecord): ReadRecord<Data> => ({
    id,
    owner,
    data: decode(own, data) as Data,
    expiresAt,
    stored: data,
  })
  const written = (data: Data): Json => ({ version, data: data as Json })

  return {
    kind,
    version,
    async put(records, { id, owner, data, expiresAt }, now) {
      const record = { kind, id, owner, data: written(data), expiresAt }
      return (await records.putRecord(record, now)) ? { id, owner, data, expiresAt, stored: record.data } : undefined
    },
    async get(records, id, now) {
      const record = await records.getRecord(kind, id, now)
      return record && read(record)
    },
    async move(records, { id, owner, stored, ...known }, patch, now) {
      const { data, expiresAt } = { ...known, ...patch }
      const record = { kind, id, owner, data: written(data), expiresAt }
      const isMoved = await records.moveRecord(record, stored, now)
      return isMoved ? { id, owner, data, expiresAt, stored: record.data } : undefined
    },
    list: async (records, owner, at) => (await records.listRecords(kind, owner, at)).map(read),
    stored: ({ id, data, expiresAt }) => ({ kind, id, data: written(data), expiresAt }),
  }
}

/**
 * The data of a stored record in the current version of its kind. Throws when the data is not valid, or was written by
 * a later version.
 */
function decode({ kind, version, upgrade, check }: Registered, stored: Json): Json {
  const { version: from, data } = isFields(stored) ? stored : {}
  if (typeof from !== 'number' || data === undefined) throw new Error(`a record of kind ${kind} has no version`)
  if (from > version)
    throw new Error(`a record of kind ${kind} has version ${from}; this program reads up to ${version}`)
  const current = from < version && upgrade ? upgrade(data, from) : data
  const problem = check(current)
  if (problem !== undefined) throw new Error(`a record of kind ${kind}, version ${from}, cannot be read: ${problem}`)
  return current
}

/**
 * The verbs of records, which only accept records of declared kinds, in their current version and valid under their
 * schema. A chain makes the record of `recordPaid` itself, with a storage of its own.
 */
export function checkedRecords({ putRecord, getRecord, moveRecord, listRecords }: RecordStorage): RecordStorage {
  return {
    async putRecord(record, now) {
      checkRecord(record)
      return await putRecord(record, now)
    },
    async moveRecord(record, from, now) {
      checkRecord(record)
      return await moveRecord(record, from, now)
    },
    getRecord,
    listRecords,
  }
}

function checkRecord({ kind, data }: StoredRecord): void {
  const known = registered.get(kind)
  if (!known) throw new RangeError(`the record kind ${kind} is not declared; declare it with recordKind()`)
  const { version, data: own } = isFields(data) ? data : {}
  if (version !== known.version)
    throw new RangeError(`records of kind ${kind} must be written in version ${known.version}`)
  const problem = known.check(own)
  if (problem !== undefined) throw new RangeError(`a record of kind ${kind} does not fit its schema: ${problem}`)
}
