/**
 * The x402 extension `payment-identifier`: one id, one request, one call (contract 1.43; decision 34). Reads the id
 * from a payment.
 */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { IDENTIFIER, Identifier, type Payment } from './protocol.ts'

const isIdentifier = TypeCompiler.Compile(Identifier)

/** Where a payment carries it. */
export const IDENTIFIER_FIELD = `extensions.${IDENTIFIER}.info.id`
export const IDENTIFIER_RULE = 'must be 16 to 128 characters of A-Z, a-z, 0-9, _ and -'

export type PaymentIdentifier =
  /** Official clients echo the declaration without an id. */
  { readonly kind: 'none' } | { readonly kind: 'id'; readonly id: string } | { readonly kind: 'malformed' }

/** Reads the id of a payment. */
export function identifierIn({ extensions }: Payment): PaymentIdentifier {
  const id = inside(inside(inside(extensions, IDENTIFIER), 'info'), 'id')
  if (id === undefined) return { kind: 'none' }
  return isIdentifier.Check(id) ? { kind: 'id', id } : { kind: 'malformed' }
}

function inside(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
  return (value as Record<string, unknown>)[key]
}
