/** Authorizations that came with a poll and were handed out, although they may be free again after a refusal (contract 1.41). */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import type { Authorization, Storage } from '../ports/mod.ts'

/** A refused one may be free again, but a transfer that reverted is on the chain for everybody to read. */
const KIND = 'handed_out'
/** Longer than an authorization may live, which is its offer's time and a day. */
const KEEP_MS = 3 * 86_400_000

/** Notes it before it is handed out. The authorization that opened a call needs no note: the call itself remembers. */
export async function noteHandedOut(
  storage: Storage,
  { key, payer, expiresAt }: Authorization,
  now: number,
): Promise<void> {
  await storage.putRecord({ kind: KIND, id: idOf(key), owner: payer, data: true, expiresAt: expiresAt + KEEP_MS }, now)
}

export async function isNotedHandedOut(storage: Storage, key: string, now: number): Promise<boolean> {
  return (await storage.getRecord(KIND, idOf(key), now)) !== undefined
}

const idOf = (key: string): string => bytesToHex(sha256(utf8ToBytes(key)))
