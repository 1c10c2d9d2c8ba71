/** What a facilitator's JSON means. Reasons are open strings of many dialects: a few are known, none is repeated unless it is a plain word. */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { PaymentCode } from '../../../core/ports/mod.ts'
import { type Hex, lower } from '../evm/hex.ts'

/** VerifyResponse, SettleResponse and the list of kinds (x402 v2 specification, VerifyResponse and SettleResponse; decision 64), as far as something is decided by them. */
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

export type VerifyReply =
  | { readonly kind: 'valid' }
  | { readonly kind: 'refused'; readonly code: PaymentCode; readonly word: string }

export type SettleReply = {
  readonly success: boolean
  readonly word: string
  readonly transaction: Hex | undefined
  /** What it calls the transaction, whatever that is on its chain. */
  readonly named: string | undefined
  /** It refuses this payment, and nothing of it can have been sent. */
  readonly isRefusal: boolean
}

/** The facilitator's own failure, or its disagreement with our offer, which `check` should have found: no fault of the payment's. */
const ITS_OWN =
  /^(unexpected|unknown|internal|unsupported)_|^invalid_(scheme|network|x402_version|payment_requirements)$|rate_limit|unavailable/

/**
 * Reasons that leave open whether something was sent, now or before. Facilitators have said `internal_error` (BofAI/x402 issue 82) and, on
 * CDP, `settle_exact_node_failure` (its troubleshooting page) of transfers that landed, and named no hash.
 */
const MAY_LAND =
  /pending|timed?_?out|confirm|receipt|node_|onchain|transaction_(failed|state)|broadcast|already|used_or_canceled|duplicate/

/** Decides on the JSON, then on the status: a refusal counts with any status, a yes only with a good one. Undefined is no verdict. */
export function readVerifyReply(body: unknown, isOk: boolean): VerifyReply | undefined {
  if (!verified.Check(body)) return undefined
  if (body.isValid) return isOk ? { kind: 'valid' } : undefined
  const said = plain(body.invalidReason)
  if (ITS_OWN.test(said)) return undefined
  return { kind: 'refused', code: codeOf(said), word: wordOf(body.invalidReason) }
}

/** Undefined says nothing about what was sent. */
export function readSettleReply(body: unknown, isOk: boolean): SettleReply | undefined {
  if (!settled.Check(body) || (body.success && !isOk)) return undefined
  const said = plain(body.errorReason)
  const { transaction } = body
  const hash =
    typeof transaction === 'string' && /^0x[0-9a-fA-F]{64}$/.test(transaction) ? lower(transaction) : undefined
  // something that is no hash may still be a name for what was sent
  const isNamed = transaction !== undefined && transaction !== null && transaction !== ''
  const isRefusal = !body.success && !isNamed && said !== '' && !MAY_LAND.test(said) && !ITS_OWN.test(said)
  return {
    success: body.success,
    word: wordOf(body.errorReason),
    transaction: hash,
    named: typeof transaction === 'string' ? transaction : undefined,
    isRefusal,
  }
}

/** Whether one of the kinds is an EIP-3009 payment of `exact` in our domain; undefined when the body is no list of kinds. */
export function readSupported(
  body: unknown,
  ours: { network: string; asset: string; domain: { name: string; version: string } },
): boolean | undefined {
  if (!supported.Check(body)) return undefined
  return body.kinds.filter(isKind).some(({ x402Version, scheme, network, extra }) => {
    const isNetwork = network === ours.network || network === `${ours.network.split(':', 1)[0]}:*`
    return x402Version === 2 && scheme === 'exact' && isNetwork && fits(extra ?? {}, ours)
  })
}

/** Who pays the fees of exact payments on a Solana cluster; undefined when the body is no list of kinds. */
export type SolanaSupport = {
  readonly isSupported: boolean
  /** The one that it names for offers, perhaps another one each time. */ readonly named: string | undefined
  readonly signers: readonly string[]
}

export function readSolanaSupport(body: unknown, network: string): SolanaSupport | undefined {
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

/** Most say nothing here. Some list one network several times, once per token or way to pay; Circle's batches sign for a wallet contract. */
function fits(
  extra: Record<string, unknown>,
  { asset, domain }: { asset: string; domain: { name: string; version: string } },
): boolean {
  const agrees = (said: unknown, our: string) => typeof said !== 'string' || lower(said) === lower(our)
  const isDomain = agrees(extra.name, domain.name) && agrees(extra.version, domain.version)
  return isDomain && agrees(extra.verifyingContract, asset) && agrees(extra.assetTransferMethod, 'eip3009')
}

function isKind(value: unknown): value is Static<typeof Kind> {
  return kind.Check(value)
}

/** Contract 1.21, over the words of decision 67 and its older and foreign spellings. */
function codeOf(said: string): PaymentCode {
  if (/insufficient_(funds|balance)|expired|valid_(before|after)|not_yet_valid|too_short/.test(said))
    return 'PAYMENT_UNFUNDED'
  return /already|used_or_canceled|duplicate/.test(said) ? 'PAYMENT_REPLAY' : 'PAYMENT_INVALID'
}

/** Any reason in the shape of the known ones. */
function plain(reason: unknown): string {
  if (typeof reason !== 'string') return ''
  return reason
    .slice(0, 200)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '')
}

/** Shown only when it can be nothing but a word of the vocabulary: a hostile or careless reply quotes keys, addresses or whole requests. */
function wordOf(reason: unknown): string {
  const isWord =
    typeof reason === 'string' && reason.length <= 100 && /^[a-z]+\d{0,4}(_([a-z]+\d{0,4}|\d{1,4}))*$/.test(reason)
  return isWord ? reason : 'no reason that can be shown'
}
