/**
 * Parses facilitators' replies. Reasons are free text that differs by implementation: a few are known, and only plain
 * codes are repeated.
 */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { PaymentCode } from '../../../core/ports/mod.ts'
import { type Hex, lower } from '../lib/hex.ts'

/** The members that decide something (x402 v2, VerifyResponse, SettleResponse and supported kinds; decision 64). */
const Verified = Type.Object({ isValid: Type.Boolean(), invalidReason: Type.Optional(Type.Unknown()) })
const Settled = Type.Object({
  success: Type.Boolean(),
  errorReason: Type.Optional(Type.Unknown()),
  transaction: Type.Optional(Type.Unknown()),
})
const Kind = Type.Object({
  x402Version: Type.Unknown(),
  scheme: Type.String(),
  network: Type.String(),
  extra: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
})
const Supported = Type.Object({ kinds: Type.Array(Type.Unknown()) })

const verified = TypeCompiler.Compile(Verified)
const settled = TypeCompiler.Compile(Settled)
const kind = TypeCompiler.Compile(Kind)
const supported = TypeCompiler.Compile(Supported)

type VerifyReply =
  | { readonly kind: 'valid' }
  | { readonly kind: 'refused'; readonly code: PaymentCode; readonly reason: string }

export type SettleReply = {
  readonly success: boolean
  readonly reason: string
  readonly transaction: Hex | undefined
  /** The facilitator's name for the transaction, in the notation of its chain. */
  readonly named: string | undefined
  /** It refuses this payment, and nothing can have been sent. */
  readonly isRefusal: boolean
}

/** Failures of the facilitator, or of our offer, which `check` should have found: not the payment's fault. */
const FACILITATOR_ERRORS =
  /^(unexpected|unknown|internal|unsupported)_|^invalid_(scheme|network|x402_version|payment_requirements)$|rate_limit|unavailable/

/**
 * Reasons after which something may have been sent. Facilitators have answered `internal_error` (BofAI/x402 issue 82)
 * and, on CDP, `settle_exact_node_failure` (its troubleshooting page) for transfers that landed, without a hash.
 */
const MAY_LAND =
  /pending|timed?_?out|confirm|receipt|node_|onchain|transaction_(failed|state)|broadcast|already|used_or_canceled|duplicate/

/**
 * Parses a verdict. A refusal counts with any HTTP status, an approval only with a good one. Undefined without a
 * verdict.
 */
export function parseVerifyReply(body: unknown, isOk: boolean): VerifyReply | undefined {
  if (!verified.Check(body)) return undefined
  if (body.isValid) return isOk ? { kind: 'valid' } : undefined
  const normalized = normalize(body.invalidReason)
  if (FACILITATOR_ERRORS.test(normalized)) return undefined
  return { kind: 'refused', code: paymentCodeOf(normalized), reason: printableReason(body.invalidReason) }
}

/** Parses a settlement reply. Undefined means it says nothing about what was sent. */
export function parseSettleReply(body: unknown, isOk: boolean): SettleReply | undefined {
  if (!settled.Check(body) || (body.success && !isOk)) return undefined
  const normalized = normalize(body.errorReason)
  const { transaction } = body
  const hash =
    typeof transaction === 'string' && /^0x[0-9a-fA-F]{64}$/.test(transaction) ? lower(transaction) : undefined
  // A value that is not a hash may still name what was sent.
  const isNamed = transaction !== undefined && transaction !== null && transaction !== ''
  const isRefusal =
    !body.success && !isNamed && normalized !== '' && !MAY_LAND.test(normalized) && !FACILITATOR_ERRORS.test(normalized)
  return {
    success: body.success,
    reason: printableReason(body.errorReason),
    transaction: hash,
    named: typeof transaction === 'string' ? transaction : undefined,
    isRefusal,
  }
}

/**
 * Whether one of the kinds is an EIP-3009 payment of `exact` in our domain; undefined when the body is not a list of
 * kinds.
 */
export function parseSupported(
  body: unknown,
  ours: { network: string; asset: string; domain: { name: string; version: string } },
): boolean | undefined {
  if (!supported.Check(body)) return undefined
  return body.kinds.filter(isKind).some(({ x402Version, scheme, network, extra }) => {
    const isNetwork = network === ours.network || network === `${ours.network.split(':', 1)[0]}:*`
    return x402Version === 2 && scheme === 'exact' && isNetwork && matchesOffer(extra ?? {}, ours)
  })
}

/** The fee payers of exact payments on a Solana cluster. */
type SolanaSupport = {
  readonly isSupported: boolean
  /** The fee payer that it names for offers; some name another one each time. */
  readonly named: string | undefined
  readonly signers: readonly string[]
}

/** Undefined when the body is not a list of kinds. */
export function parseSolanaSupport(body: unknown, network: string): SolanaSupport | undefined {
  if (!supported.Check(body)) return undefined
  const networks = [network, `${network.split(':', 1)[0]}:*`]
  const ours = body.kinds
    .filter(isKind)
    .filter((each) => each.x402Version === 2 && each.scheme === 'exact' && networks.includes(each.network))
  const named = ours.map(({ extra }) => extra?.feePayer).find((feePayer) => typeof feePayer === 'string')
  const listed = (body as { signers?: Readonly<Record<string, unknown>> | null }).signers
  const signers = networks.flatMap((name) => listed?.[name] ?? []).filter((signer) => typeof signer === 'string')
  return {
    isSupported: ours.length > 0,
    named,
    signers: [...new Set([...signers, ...(named === undefined ? [] : [named])])].sort(),
  }
}

/**
 * Most facilitators give no details. Some list a network once per token or method; Circle's batches sign for a wallet
 * contract.
 */
function matchesOffer(
  extra: Record<string, unknown>,
  { asset, domain }: { asset: string; domain: { name: string; version: string } },
): boolean {
  const agrees = (actual: unknown, expected: string) => typeof actual !== 'string' || lower(actual) === lower(expected)
  const isDomain = agrees(extra.name, domain.name) && agrees(extra.version, domain.version)
  return isDomain && agrees(extra.verifyingContract, asset) && agrees(extra.assetTransferMethod, 'eip3009')
}

function isKind(value: unknown): value is Static<typeof Kind> {
  return kind.Check(value)
}

/** Maps a reason to the codes of contract 1.21, over the reasons of decision 67 and older or foreign spellings. */
function paymentCodeOf(normalized: string): PaymentCode {
  if (/insufficient_(funds|balance)|expired|valid_(before|after)|not_yet_valid|too_short/.test(normalized))
    return 'PAYMENT_UNFUNDED'
  return /already|used_or_canceled|duplicate/.test(normalized) ? 'PAYMENT_REPLAY' : 'PAYMENT_INVALID'
}

/** Normalizes a reason to the shape of the known ones. */
function normalize(reason: unknown): string {
  if (typeof reason !== 'string') return ''
  return reason
    .slice(0, 200)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '')
}

/**
 * Repeats a reason only if it is a plain code: a hostile or careless reply may quote keys, addresses or whole requests.
 */
function printableReason(reason: unknown): string {
  const isWord =
    typeof reason === 'string' && reason.length <= 100 && /^[a-z]+\d{0,4}(_([a-z]+\d{0,4}|\d{1,4}))*$/.test(reason)
  return isWord ? reason : 'no printable reason'
}
