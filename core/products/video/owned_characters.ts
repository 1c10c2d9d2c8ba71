/** Characters that a wallet has enrolled for video: our ids, bound to it, and what their vendor calls them. */
import type { Call, Storage } from '../../ports/mod.ts'

export const ASSET = 'asset'
/** A real person's check, from its beginning; nobody's until a face of it is enrolled. */
export const FACE_GROUP = 'realface_group'
/** The wallet that has enrolled a face of a group. No other may add one. */
export const FACE_CLAIM = 'realface_claim'
/** What was paid for is kept for good. */
export const FOREVER = Number.MAX_SAFE_INTEGER

/** One that was enrolled here. Its picture is at `mediaKey`, or where `source` says when it was not mirrored; `call` paid for it. */
export type Character = {
  /** What its vendor calls it; shown to nobody but its payer. */
  readonly vendorAsset: string
  readonly type: 'portrait' | 'face'
  readonly group: string
  readonly name: string
  readonly source: string
  readonly mediaKey: string | null
  readonly createdAt: number
  readonly call: string
}

/** The vendor's own id of a character of this payer; undefined for anybody else's, for one that waits to be paid, and for none. */
export async function enrolledAs(
  storage: Pick<Storage, 'getRecord' | 'getCall'>,
  id: string,
  { payer, now }: { payer: string; now: number },
): Promise<string | undefined> {
  const record = await storage.getRecord(ASSET, id, now)
  if (record?.owner !== payer) return undefined
  const { vendorAsset, call } = record.data as Character
  return isGiven(await storage.getCall(call)) ? vendorAsset : undefined
}

/**
 * Whether the call that made a character has given it away: paid, or served while its payment is in doubt. It is kept before its money moves, and until then
 * withheld like any other result; a call that is gone was never paid.
 */
export function isGiven(call: Call | undefined): call is Call {
  return call !== undefined && call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused'
}
