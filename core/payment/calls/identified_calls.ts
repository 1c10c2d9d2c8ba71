/**
 * Calls under a payment identifier (contract 1.43). An identifier is bound to a call id before the call is opened, so
 * concurrent requests try to open the same call, and one succeeds.
 */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { Type } from '@sinclair/typebox'
import type { Paid } from '../../endpoint/mod.ts'
import { type ReadRecord, recordKind } from '../../endpoint/record_kind.ts'
import { isOver } from '../../endpoint/records.ts'
import { ApiError } from '../../http/errors.ts'
import { unquoted } from '../../lib/text.ts'
import type { Call, CallStorage, RecordStorage } from '../../ports/mod.ts'
import { IDENTIFIER_FIELD, IDENTIFIER_RULE, identifierIn } from '../../x402/payment_identifier.ts'
import type { Payment } from '../../x402/protocol.ts'

/** The meaning of an identifier, per gateway and payer. `field`: where the request has it, for errors. */
export type Tag = {
  readonly id: string
  readonly payer: string
  readonly fingerprint: string
  readonly field?: string | undefined
}

const BINDING = recordKind({
  kind: 'payment_identifier',
  version: 1,
  schema: Type.Object({ call: Type.String(), fingerprint: Type.String() }),
})
type Binding = { readonly call: string; readonly fingerprint: string }

/** The payment identifier; undefined when there is none. Throws when it is malformed. */
export function identifierOf(payment: Payment): string | undefined {
  const identifier = identifierIn(payment)
  if (identifier.kind === 'none') return undefined
  if (identifier.kind === 'id') return identifier.id
  throw new ApiError('INVALID_PAYMENT_IDENTIFIER', {
    message: `${IDENTIFIER_FIELD} ${IDENTIFIER_RULE}. Nothing was charged.`,
    details: [{ path: IDENTIFIER_FIELD, message: IDENTIFIER_RULE }],
  })
}

/** Header in which an order with an API key names its purchase (contract 23.20). */
export const PURCHASE_FIELD = 'Idempotency-Key'
const PURCHASE = /^[\x21-\x7e]{1,255}$/

/** The identifier of an order with an API key; undefined without one. No payment identifier contains a slash. */
export function purchaseOf({ headers }: Pick<Request, 'headers'>): string | undefined {
  const header = headers.get(PURCHASE_FIELD)
  if (header === null) return undefined
  const id = unquoted(header)
  if (PURCHASE.test(id)) return `key/${id}`
  const rule = 'must be 1 to 255 visible characters of ASCII'
  throw new ApiError('INVALID_PAYMENT_IDENTIFIER', {
    message: `${PURCHASE_FIELD} ${rule}. Nothing was charged.`,
    details: [{ path: PURCHASE_FIELD, message: rule }],
  })
}

/** The key under which it is stored. It cannot collide with another payer's or another gateway's. */
export function tagOf({ gateway, id, ...rest }: Tag & { readonly gateway: string }): Tag {
  return { ...rest, id: bytesToHex(sha256(utf8ToBytes(JSON.stringify([gateway, rest.payer, id])))) }
}

/** The call that the tag is bound to, if it has been opened. Throws when the identifier came with another request. */
export async function taggedCall(
  storage: CallStorage & RecordStorage,
  tag: Tag,
  now: number,
): Promise<Call | undefined> {
  const stored = await BINDING.get(storage, tag.id, now)
  return stored && (await storage.getCall(bindingOf(stored, tag).call))
}

/**
 * Binds the tag to `call` and returns the id of the call to open: `call`, or the one that a concurrent request has
 * bound. A binding whose call is over is replaced. Throws when the identifier came with another request.
 */
export async function bindTag(
  storage: CallStorage & RecordStorage,
  tag: Tag,
  { call, retention, now }: { call: string; retention: Paid['retention']; now: number },
): Promise<string> {
  // Never longer than the retention of the call itself.
  const expiresAt = now + Math.min(retention.unclaimedMs, retention.settledMs)
  const binding: Binding = { call, fingerprint: tag.fingerprint }
  // Each further round means that a concurrent request made progress.
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

function bindingOf({ data: binding }: ReadRecord<Binding>, { fingerprint, field = IDENTIFIER_FIELD }: Tag): Binding {
  if (binding.fingerprint === fingerprint) return binding
  throw new ApiError('PAYMENT_IDENTIFIER_CONFLICT', {
    message: `${field} was already used with another request. Nothing was charged; choose a new id.`,
    headers: { 'x-should-retry': 'false' },
  })
}
