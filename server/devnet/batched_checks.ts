/** The checks of a batched payment, in the order and with the codes of Circle Gateway's API. */
import { type Hex, isAddress, isAddressEqual, isHex, recoverTypedDataAddress } from 'viem'

/** In seconds: an authorization must be valid for seven days after its settlement. */
export const MIN_VALIDITY = 604_800n
export const NAME = 'GatewayWalletBatched'
const TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const

/** An unvalidated JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>
export type PaymentRequest = {
  readonly paymentPayload: {
    readonly x402Version: unknown
    readonly accepted: JsonObject
    readonly payload: JsonObject
  }
  readonly paymentRequirements: JsonObject
}
type Verification =
  | { readonly ok: true; readonly payment: Authorization }
  | { readonly ok: false; readonly reason: string; readonly payer?: Hex }
export type Authorization = {
  readonly from: Hex
  readonly to: Hex
  readonly value: bigint
  readonly validAfter: bigint
  readonly validBefore: bigint
  readonly nonce: Hex
}

type Checking = Readonly<Record<'network' | 'asset' | 'wallet', string>> & {
  readonly clock: { now(): number }
  readonly chainId: number
  readonly wallet: Hex
}

/** The checks of /verify: all but balance and nonce. */
export async function check(
  api: Checking,
  { paymentPayload, paymentRequirements: requirements }: PaymentRequest,
): Promise<Verification> {
  const { clock, network, asset, wallet, chainId } = api
  const invalid = (reason: string, payer?: Hex): Verification => ({ ok: false, reason, ...(payer && { payer }) })
  const { x402Version, accepted, payload } = paymentPayload
  if (x402Version !== 2 || accepted.scheme !== 'exact' || requirements.scheme !== 'exact')
    return invalid('unsupported_scheme')
  if (accepted.network !== network || requirements.network !== network) return invalid('unsupported_network')
  if (!isSame(accepted.asset, asset) || !isSame(requirements.asset, asset)) return invalid('unsupported_asset')
  const { name, version, verifyingContract } = (requirements.extra ?? {}) as JsonObject
  if (name !== NAME || version !== '1' || !isSame(verifyingContract, wallet)) return invalid('unsupported_domain')
  const payment = readAuthorization(payload.authorization)
  const { signature } = payload
  if (!payment || !isHex(signature)) return invalid('invalid_payload')
  const { from, to, value, validAfter, validBefore } = payment
  if (!isSame(requirements.payTo, to)) return invalid('address_mismatch', from)
  if (requirements.amount !== String(value)) return invalid('amount_mismatch', from)
  const typedData = {
    domain: { name: NAME, version: '1', chainId, verifyingContract: wallet },
    types: TYPES,
    primaryType: 'TransferWithAuthorization',
  } as const
  const signer = await recoverTypedDataAddress({ ...typedData, message: payment, signature }).catch(() => undefined)
  if (!signer || !isAddressEqual(signer, from)) return invalid('invalid_signature', from)
  const now = BigInt(Math.floor(clock.now() / 1000))
  if (validAfter > now) return invalid('authorization_not_yet_valid', from)
  if (validBefore <= now) return invalid('authorization_expired', from)
  if (validBefore - now < MIN_VALIDITY) return invalid('authorization_validity_too_short', from)
  return isAddressEqual(from, to) ? invalid('self_transfer', from) : { ok: true, payment }
}

function readAuthorization(authorization: unknown): Authorization | undefined {
  const { from, to, nonce, ...rest } = (authorization ?? {}) as JsonObject
  const numbers = [rest.value, rest.validAfter, rest.validBefore].map((each) =>
    typeof each === 'string' && /^\d{1,78}$/.test(each) ? BigInt(each) : undefined,
  )
  const [value, validAfter, validBefore] = numbers
  if (!isAccount(from) || !isAccount(to) || !isHex(nonce) || nonce.length !== 66) return undefined
  if (value === undefined || validAfter === undefined || validBefore === undefined) return undefined
  return { from, to, value, validAfter, validBefore, nonce }
}

function isAccount(value: unknown): value is Hex {
  return typeof value === 'string' && isAddress(value, { strict: false })
}

export function isSame(value: unknown, address: string): boolean {
  return isAccount(value) && value.toLowerCase() === address.toLowerCase()
}
