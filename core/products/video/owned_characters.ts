/** Enrolled characters: records that map our ids to a wallet and to the vendor's ids. */
import { type Static, Type } from '@sinclair/typebox'
import { recordKind } from '../../endpoint/record_kind.ts'
import type { Call, CallStorage, RecordStorage } from '../../ports/mod.ts'

/**
 * A character that was enrolled here. Its picture is at `mediaKey`, or at `source` when it was not mirrored; `call`
 * paid for it.
 */
export const CHARACTER = recordKind({
  kind: 'character',
  version: 1,
  schema: Type.Object({
    /** The vendor's id, visible only to the payer. */
    vendorAsset: Type.String(),
    type: Type.Union([Type.Literal('portrait'), Type.Literal('face')]),
    group: Type.String(),
    name: Type.String(),
    source: Type.String(),
    mediaKey: Type.Union([Type.String(), Type.Null()]),
    createdAt: Type.Number(),
    call: Type.String(),
  }),
})
export type Character = Parameters<typeof CHARACTER.put>[1]['data']

/**
 * `tokens` of its links, newest first: after a refresh the person may still pass with the old link. `link` is null for
 * the gateway's own page.
 */
const group = Type.Object({
  name: Type.String(),
  tokens: Type.Array(Type.String()),
  link: Type.Union([Type.String(), Type.Null()]),
  vendorGroup: Type.Union([Type.String(), Type.Null()]),
})
/** The check of a real person. It has no owner until a face is enrolled. */
export const FACE_GROUP = recordKind({ kind: 'face_group', version: 1, schema: group })
/** The wallet that enrolled a face of a group. No other wallet may add one. */
export const FACE_CLAIM = recordKind({ kind: 'face_claim', version: 1, schema: group })
export type Group = Static<typeof group>

/** Paid records never expire. */
export const FOREVER = Number.MAX_SAFE_INTEGER

/**
 * The vendor's id of a character of this payer; undefined for characters of other wallets, for unpaid ones, and for
 * unknown ids.
 */
export async function vendorAssetOf(
  storage: Pick<RecordStorage, 'getRecord'> & Pick<CallStorage, 'getCall'>,
  id: string,
  { payer, now }: { payer: string; now: number },
): Promise<string | undefined> {
  const record = await CHARACTER.get(storage, id, now)
  if (record?.owner !== payer) return undefined
  const { vendorAsset, call } = record.data
  return isDelivered(await storage.getCall(call)) ? vendorAsset : undefined
}

/**
 * Whether the character has been delivered: its call is paid, or was served while its payment is in doubt. A character
 * is stored before settlement and withheld until then, like any result; a call that no longer exists was never paid.
 */
export function isDelivered(call: Call | undefined): call is Call {
  return call !== undefined && call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused'
}
