/**
 * The x402 extension `payment-identifier`: one id, one request, one call (x402 extension payment-identifier; contract 1.43). An id is bound to the id of its call before
 * that call is opened, so all who race for it open the same call, which only one of them can.
 */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { isOver } from '../payment/settle.ts'
import type { Paid } from '../endpoint/mod.ts'
import { ApiError } from '../http/errors.ts'
import type { Call, StoredRecord, Storage } from '../ports/mod.ts'
import { IDENTIFIER, Identifier, type Payment } from './protocol.ts'

/** What an id stands for at one gateway, for one payer. */
export type Tag = { readonly id: string; readonly payer: string; readonly fingerprint: string }

type Binding = { readonly call: string; readonly fingerprint: string }

const isIdentifier = TypeCompiler.Compile(Identifier)

const FIELD = `extensions.${IDENTIFIER}.info.id`
const ALLOWED = 'must be 16 to 128 characters of A-Z, a-z, 0-9, _ and -'

/** The id of a payment; undefined where there is none, for official clients echo the declaration without one. Throws for a wrong one. */
export function identifierOf({ extensions }: Payment): string | undefined {
  const id = inside(inside(inside(extensions, IDENTIFIER), 'info'), 'id')
  if (id === undefined) return undefined
  if (isIdentifier.Check(id)) return id
  throw new ApiError('INVALID_PAYMENT_IDENTIFIER', {
    message: `${FIELD} ${ALLOWED}. Nothing was charged.`,
    details: [{ path: FIELD, message: ALLOWED }],
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

/** The call that the tag is bound to, which may not have been opened yet, or never. Throws when the id came with another request. */
export async function taggedCall(storage: Storage, tag: Tag, now: number): Promise<Call | undefined> {
  const held = await storage.getOwned(IDENTIFIER, tag.id, now)
  return held && (await storage.getCall(bindingOf(held, tag).call))
}

/**
 * Binds the tag to `call`, and answers with the id of the call to open: `call`, or the one that somebody else has bound it to. A binding
 * whose call is over is replaced. Throws when the id came with another request.
 */
export async function bindTag(
  storage: Storage,
  tag: Tag,
  { call, keep, now }: { call: string; keep: Paid['retention']; now: number },
): Promise<string> {
  // Never longer than the call itself is kept.
  const expiresAt = now + Math.min(keep.unclaimedMs, keep.settledMs)
  const binding: Binding = { call, fingerprint: tag.fingerprint }
  const record: StoredRecord = { kind: IDENTIFIER, id: tag.id, owner: tag.payer, data: binding, expiresAt }
  // Each further round means that somebody else has got on.
  for (;;) {
    if (await storage.putOwned(record, now)) return call
    const held = await storage.getOwned(IDENTIFIER, tag.id, now)
    if (!held) continue
    const bound = bindingOf(held, tag)
    const known = await storage.getCall(bound.call)
    if (!known || !isOver(known, now)) return bound.call
    if (await storage.moveOwned(record, held.data, now)) return call
  }
}

function bindingOf({ data }: StoredRecord, { fingerprint }: Tag): Binding {
  const binding = data as Binding
  if (binding.fingerprint === fingerprint) return binding
  throw new ApiError('PAYMENT_IDENTIFIER_CONFLICT', {
    message: `${FIELD} was already used with another request. Nothing was charged; choose a new id.`,
  })
}

function inside(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
  return (value as Record<string, unknown>)[key]
}
