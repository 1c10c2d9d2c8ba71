/** Authorizations that came with a poll and were sent, although a refusal may free them again (contract 1.41). */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { Type } from '@sinclair/typebox'
import { recordKind } from '../../endpoint/record_kind.ts'
import type { Authorization, RecordStorage } from '../../ports/mod.ts'

/** A refused authorization may be free again, but its reverted transfer is public on the chain. */
const SENT = recordKind({ kind: 'sent_authorization', version: 1, schema: Type.Object({}) })
/** How long a record outlives its authorization, in milliseconds: longer than any authorization is valid. */
const RETENTION_MS = 3 * 86_400_000

/**
 * Records an authorization before it is sent. The one that opened a call needs no record: the payment status of the
 * call shows it.
 */
export async function noteHandedOut(
  storage: RecordStorage,
  { key, payer, expiresAt }: Authorization,
  now: number,
): Promise<void> {
  await SENT.put(storage, { id: idOf(key), owner: payer, data: {}, expiresAt: expiresAt + RETENTION_MS }, now)
}

export async function isNotedHandedOut(storage: RecordStorage, key: string, now: number): Promise<boolean> {
  return (await SENT.get(storage, idOf(key), now)) !== undefined
}

const idOf = (key: string): string => bytesToHex(sha256(utf8ToBytes(key)))
