/**
 * The method `evm` of MPP (`draft-evm-charge-00`): an EIP-3009 authorization of an `exact` offer, with the nonce that
 * the challenge prescribes.
 */
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { checksummed, fieldsOf } from '../../../core/lib/mod.ts'
import { canonicalJson, type Challenge, type ChargeMethod, decodeUrl, encodeUrl } from '../../../core/mpp/mod.ts'
import { type Offer, wrongField } from '../../../core/x402/mod.ts'

const USDC_DECIMALS = 6

const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$', description: 'an address: 0x and 40 hex digits' })
const Uint = Type.String({
  pattern: '^(0|[1-9][0-9]{0,77})$',
  description: 'a whole number in decimal digits, as text',
})
const Payload = Type.Object({
  type: Type.Literal('authorization', { description: '"authorization"' }),
  from: Address,
  to: Address,
  value: Uint,
  validAfter: Uint,
  validBefore: Uint,
  nonce: Type.String({ pattern: '^0x[0-9a-fA-F]{64}$', description: '32 bytes: 0x and 64 hex digits' }),
  signature: Type.String({ pattern: '^0x([0-9a-fA-F]{2})+$', maxLength: 8_194, description: '0x and hex digits' }),
})
const isPayload = TypeCompiler.Compile(Payload)

/** The nonce that a challenge prescribes for its authorization. */
export const nonceOf = ({ id, realm }: Pick<Challenge, 'id' | 'realm'>): string =>
  `0x${bytesToHex(keccak_256(utf8ToBytes(id + realm)))}`

const requests = new WeakMap<Offer, string>()

/** The `request` of an offer. */
export function chargeRequest(offer: Offer): string {
  const known = requests.get(offer)
  if (known !== undefined) return known
  const { network, amount, asset, payTo } = offer
  const methodDetails = {
    chainId: chainIdOf(network),
    credentialTypes: ['authorization'],
    decimals: USDC_DECIMALS,
  }
  const made = encodeUrl(
    canonicalJson({ amount, currency: checksummed(asset), methodDetails, recipient: checksummed(payTo) }),
  )
  requests.set(offer, made)
  return made
}

const chainIdOf = (network: string): number => Number(network.slice('eip155:'.length))
const requestOf = ({ request }: Challenge) => {
  const { amount, recipient, methodDetails } = fieldsOf(decodeUrl(request))
  return { amount, recipient: String(recipient), network: `eip155:${String(fieldsOf(methodDetails).chainId)}` }
}

export const evmCharge: ChargeMethod = {
  name: 'evm',
  /** By an authorization of the token itself: clients know the domain of the token, and of no other contract. */
  isFor({ scheme, network, extra }) {
    const isToken = typeof extra?.name === 'string' && extra.verifyingContract === undefined
    return scheme === 'exact' && network.startsWith('eip155:') && isToken
  },
  // `unique` is base64url, which JSON does not escape.
  write: (offer, unique) => ({ request: chargeRequest(offer), opaque: encodeUrl(`{"n":"${unique}"}`) }),
  read({ challenge, payload }) {
    const error = isPayload.Check(payload) ? undefined : isPayload.Errors(payload).First()
    if (error) return `${error.path || '/'}: ${wrongField(error)}`
    const { type: _, signature, ...authorization } = payload as Static<typeof Payload>
    return { network: requestOf(challenge).network, payload: { signature, authorization } }
  },
  problem({ challenge, payload, source }, end) {
    const { amount, recipient, network } = requestOf(challenge)
    const { from, to, value, validBefore, nonce } = payload as Static<typeof Payload>
    if (to.toLowerCase() !== recipient.toLowerCase()) return `payload.to is ${to}; it must be ${recipient}`
    if (value !== amount) return `payload.value is ${value}; it must be ${String(amount)}`
    if (BigInt(validBefore) > BigInt(end)) return `payload.validBefore is ${validBefore}; it must be ${end} at most`
    if (nonce.toLowerCase() !== nonceOf(challenge)) return `payload.nonce is ${nonce}; it must be ${nonceOf(challenge)}`
    const payer = `did:pkh:${network}:${from}`.toLowerCase()
    if (source === undefined || source.toLowerCase() === payer) return undefined
    return `source is ${source.slice(0, 100)}; it must name the payer, ${from}`
  },
  isKey: ({ payload }, key) => key.toLowerCase().endsWith(String(payload.nonce).toLowerCase()),
  receipt: (network) => ({ chainId: chainIdOf(network) }),
}
