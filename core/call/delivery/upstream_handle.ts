/** The record of a job that runs at its vendor. */
import { Type } from '@sinclair/typebox'
import { recordKind } from '../../endpoint/record_kind.ts'
import type { Json } from '../../lib/json.ts'
import type { Call, CallStorage, RecordStorage } from '../../ports/mod.ts'

/** `missed`: when fetching the result first and last failed. */
export const HANDLE = recordKind({
  kind: 'upstream_job',
  version: 1,
  schema: Type.Object({
    handle: Type.String(),
    failure: Type.Optional(Type.Unsafe<Readonly<Record<string, Json>>>(Type.Object({}))),
    missed: Type.Optional(Type.Object({ since: Type.Number(), last: Type.Number() })),
  }),
})
export type Handle = Parameters<typeof HANDLE.put>[1]['data']

/** Fields that a failed call adds to its reply. */
export async function upstreamFailure(
  storage: CallStorage & RecordStorage,
  { id }: Pick<Call, 'id'>,
  now: number,
): Promise<Readonly<Record<string, Json>>> {
  const record = await HANDLE.get(storage, id, now)
  return record?.data.failure ?? {}
}
