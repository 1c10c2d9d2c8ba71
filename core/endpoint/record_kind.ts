/**
 * Records that outlive a call: each kind has a name, a version and a schema, and is declared once. What is read is
 * checked, and brought from an older version to this one; what has no declared kind cannot be stored.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import type { Json } from '../lib/json.ts'
import { isFields } from '../lib/json.ts'
import type { Storage, StoredRecord } from '../ports/mod.ts'

/** A record as it was read; `stored` is what lies in storage, with which a change is compared. */
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
  /** Stores a new record. Undefined, and nothing written, while one of its id lives. */
  put(records: Pick<Storage, 'putRecord'>, record: New<Data>, now: number): Promise<ReadRecord<Data> | undefined>
  /** Throws for a record that this version cannot read. */
  get(records: Pick<Storage, 'getRecord'>, id: string, now: number): Promise<ReadRecord<Data> | undefined>
  /** Changes a record that nobody has changed since it was read. Undefined, and nothing written, where somebody has. */
  move(
    records: Pick<Storage, 'moveRecord'>,
    record: ReadRecord<Data>,
    patch: { readonly data?: Data; readonly expiresAt?: number },
    now: number,
  ): Promise<ReadRecord<Data> | undefined>
  /** Living records of an owner, at most `limit`, in no order that means anything. */
  list(
    records: Pick<Storage, 'listRecords'>,
    owner: string,
    at: { now: number; limit: number },
  ): Promise<readonly ReadRecord<Data>[]>
  /** A record as storage takes it, for work that hands out what is to be stored. */
  stored(record: Omit<New<Data>, 'owner'>): Omit<StoredRecord, 'owner'>
}

type Declaration<Schema extends TSchema> = {
  readonly kind: string
  /** Counts up with every change of the schema that an older record does not fit. */
  readonly version: number
  readonly schema: Schema
  /** Makes of the data of an older version those of this one. */
  upgrade?(data: Json, from: number): Json
}

type Registered = Pick<Declaration<TSchema>, 'kind' | 'version' | 'upgrade'> & {
  check(data: unknown): string | undefined
}

const registered = new Map<string, Registered>()

/**
 * Declares a kind of record. Throws where the kind is declared already, or where a later version has no way to read an
 * earlier one.
 *
 * @example
 * const VOUCHER = recordKind({ kind: 'voucher', version: 1, schema: Type.Object({ worth: Type.String() }) })
 */
export function recordKind<Schema extends TSchema>(declared: Declaration<Schema>): RecordKind<Static<Schema>> {
  type Data = Static<Schema>
  const { kind, version, schema, upgrade } = declared
  if (registered.has(kind)) throw new RangeError(`the kind of record ${kind} is declared twice`)
  if (version > 1 && !upgrade)
    throw new RangeError(`records ${kind} of version ${version} need an upgrade of older ones`)
  let compiled: TypeCheck<Schema> | undefined
  const own: Registered = {
    kind,
    version,
    ...(upgrade && { upgrade }),
    check(data) {
      compiled ??= TypeCompiler.Compile(schema)
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
 * The data of a stored record in its kind's version. Throws for what is no such record, and for one that a later
 * version has written.
 */
function decode({ kind, version, upgrade, check }: Registered, stored: Json): Json {
  const { version: from, data } = isFields(stored) ? stored : {}
  if (typeof from !== 'number' || data === undefined) throw new Error(`a record ${kind} has no version`)
  if (from > version) throw new Error(`a record ${kind} is of version ${from}; this program reads up to ${version}`)
  const current = from < version && upgrade ? upgrade(data, from) : data
  const problem = check(current)
  if (problem !== undefined) throw new Error(`a record ${kind} of version ${from} cannot be read: ${problem}`)
  return current
}

/**
 * The same storage, into which nothing gets but records of declared kinds, in their current version and by their
 * schema.
 */
export function withDeclaredRecords<Some extends Storage>(storage: Some): Some {
  return {
    ...storage,
    async putRecord(record: StoredRecord, now: number) {
      checkRecord(record)
      return await storage.putRecord(record, now)
    },
    async moveRecord(record: StoredRecord, from: Json, now: number) {
      checkRecord(record)
      return await storage.moveRecord(record, from, now)
    },
  }
}

function checkRecord({ kind, data }: StoredRecord): void {
  const known = registered.get(kind)
  if (!known) throw new RangeError(`no kind of record ${kind} is declared; declare it with recordKind()`)
  const { version, data: own } = isFields(data) ? data : {}
  if (version !== known.version) throw new RangeError(`a record ${kind} is written in version ${known.version}`)
  const problem = known.check(own)
  if (problem !== undefined) throw new RangeError(`a record ${kind} does not fit its schema: ${problem}`)
}
