/**
 * Calls under a payment identifier (contract 1.43). An id is bound to the id of its call before that call is opened, so
 * all who race for it open the same call, which only one of them can.
 */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { Type } from '@sinclair/typebox'
import type { Paid } from '../endpoint/mod.ts'
import { type ReadRecord, recordKind } from '../endpoint/record_kind.ts'
import { isOver } from '../endpoint/records.ts'
import { ApiError } from '../http/errors.ts'
import type { Call, Storage } from '../ports/mod.ts'
import { IDENTIFIER_FIELD, IDENTIFIER_RULE, identifierIn } from '../x402/payment_identifier.ts'
import type { Payment } from '../x402/protocol.ts'

/** What an id stands for at one gateway, for one payer. */
export type Tag = { readonly id: string; readonly payer: string; readonly fingerprint: string }

const BINDING = recordKind({
  kind: 'payment_identifier',
  version: 1,
  schema: Type.Object({ call: Type.String(), fingerprint: Type.String() }),
})
type Binding = { readonly call: string; readonly fingerprint: string }

/** The id of a payment; undefined where there is none. Throws for a wrong one. */
export function identifierOf(payment: Payment): string | undefined {
  const identifier = identifierIn(payment)
  if (identifier.kind === 'none') return undefined
  if (identifier.kind === 'id') return identifier.id
  throw new ApiError('INVALID_PAYMENT_IDENTIFIER', {
    message: `${IDENTIFIER_FIELD} ${IDENTIFIER_RULE}. Nothing was charged.`,
    details: [{ path: IDENTIFIER_FIELD, message: IDENTIFIER_RULE }],
  })
}

/** The name under which the id is stored: nobody can meet another payer's, or another gateway's. */
export function tagOf({
  gateway,
  payer,
  id,
  fingerprint,
}: {
  gateway: string
  payer: string
  id: string
  fingerprint: string
}): Tag {
  return { id: bytesToHex(sha256(utf8ToBytes(JSON.stringify([gateway, payer, id])))), payer, fingerprint }
}

/**
 * The call that the tag is bound to, which may not have been opened yet, or never. Throws when the id came with another
 * request.
 */
export async function taggedCall(storage: Storage, tag: Tag, now: number): Promise<Call | undefined> {
  const stored = await BINDING.get(storage, tag.id, now)
  return stored && (await storage.getCall(bindingOf(stored, tag).call))
}

/**
 * Binds the tag to `call`, and answers with the id of the call to open: `call`, or the one that somebody else has bound
 * it to. A binding whose call is over is replaced. Throws when the id came with another request.
 */
export async function bindTag(
  storage: Storage,
  tag: Tag,
  { call, retention, now }: { call: string; retention: Paid['retention']; now: number },
): Promise<string> {
  // Never longer than the call itself is kept.
  const expiresAt = now + Math.min(retention.unclaimedMs, retention.settledMs)
  const binding: Binding = { call, fingerprint: tag.fingerprint }
  // Each further round means that somebody else has got on.
  for (;;) {
    if (await BINDING.put(storage, { id: tag.id, owner: tag.payer, data: binding, expiresAt }, now)) return call
    const stored = await BINDING.get(storage, tag.id, now)
    if (!stored) continue
    const bound = bindingOf(stored, tag)
    const known = await storage.getCall(bound.call)
    if (!known || !isOver(known, now)) return bound.call
    if (await BINDING.move(storage, stored, { data: binding, expiresAt }, now)) return call
  }
}

function bindingOf({ data: binding }: ReadRecord<Binding>, { fingerprint }: Tag): Binding {
  if (binding.fingerprint === fingerprint) return binding
  throw new ApiError('PAYMENT_IDENTIFIER_CONFLICT', {
    message: `${IDENTIFIER_FIELD} was already used with another request. Nothing was charged; choose a new id.`,
  })
}
