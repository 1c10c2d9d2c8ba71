/**
 * The Machine Payments Protocol, for sellers that offer no x402: `evm/charge` by an authorization, whose nonce the
 * challenge prescribes. Reads a challenge as an offer, and writes the credential.
 */
import type { Hex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { fieldsOf } from '../../core/lib/mod.ts'
import { decodeUrl, encodeUrl, endOf, INTENT, readChallenges } from '../../core/mpp/mod.ts'
import { evmCharge, nonceOf } from '../../adapters/chains/evm/charge.ts'
import { EVM_NETWORKS } from '../../adapters/chains/evm/networks.ts'
import type { Signature } from '../buyer/journal.ts'
import type { Offer } from '../buyer/signed_payment.ts'

/** Parameters of the challenge as they were sent: the credential repeats them. */
export type Challenge = {
  readonly parameters: Readonly<Record<string, string>>
  readonly offer: Offer
  /** End of the payment, in seconds since 1970. */
  readonly expires: number
  /** Header field that carries the credential. */
  readonly header: string
}

/** The longest header that is read, in characters. */
const MAX_HEADER = 16 * 1024
const HEADERS = ['authorization', 'payment-authorization']
const REPEATED = ['id', 'realm', 'method', 'intent', 'request', 'expires', 'digest', 'description', 'header', 'opaque']

/**
 * The first challenge of a 402 that an authorization can pay.
 *
 * @param now in milliseconds since 1970
 */
export function readChallenge(header: string | null, now: number): Challenge | undefined {
  if (header === null || header.length > MAX_HEADER) return undefined
  for (const parameters of readChallenges(header)) {
    const found = challengeOf(parameters, now)
    if (found) return found
  }
  return undefined
}

function challengeOf(parameters: Readonly<Record<string, string>>, now: number): Challenge | undefined {
  const { id, realm, method, intent, request = '', header = 'Authorization' } = parameters
  const { amount, currency, recipient, methodDetails } = fieldsOf(decodeUrl(request))
  const { chainId, credentialTypes, splits } = fieldsOf(methodDetails)
  const isOurs = method === evmCharge.name && intent === INTENT && id !== undefined && realm !== undefined
  const types = Array.isArray(credentialTypes) ? credentialTypes : []
  const end = endOf(parameters) ?? 0
  const areTexts = [amount, currency, recipient].every((each) => typeof each === 'string')
  if (!isOurs || !areTexts || splits !== undefined || !types.includes('authorization')) return undefined
  if (!HEADERS.includes(header.toLowerCase()) || end * 1000 <= now) return undefined
  const offer = {
    scheme: 'exact',
    network: `eip155:${String(chainId)}`,
    amount: String(amount),
    asset: String(currency),
    payTo: String(recipient),
    maxTimeoutSeconds: Math.ceil(end - now / 1000),
  }
  return { parameters, offer, expires: end, header: header.toLowerCase() }
}

const field = (type: string, name: string) => ({ type, name })
const TYPES = {
  TransferWithAuthorization: [
    field('address', 'from'),
    field('address', 'to'),
    field('uint256', 'value'),
    field('uint256', 'validAfter'),
    field('uint256', 'validBefore'),
    field('bytes32', 'nonce'),
  ],
}

/** Signs the authorization of a challenge. Throws where the token of the network is not known. */
export async function credentialFor(
  { parameters, offer, expires }: Challenge,
  account: Pick<PrivateKeyAccount, 'address' | 'signTypedData'>,
): Promise<{ readonly payment: string; readonly signature: Signature }> {
  const { network, asset, amount, payTo } = offer
  const token = EVM_NETWORKS[network]?.usdc
  if (token?.address.toLowerCase() !== asset.toLowerCase()) throw new Error('the token is not the USDC of its network')
  const chainId = Number(network.slice('eip155:'.length))
  const { id = '', realm = '' } = parameters
  const nonce = nonceOf({ id, realm }) as Hex
  const signed = await account.signTypedData({
    domain: { name: token.name ?? 'USDC', version: '2', chainId, verifyingContract: asset as Hex },
    types: TYPES,
    primaryType: 'TransferWithAuthorization',
    message: {
      from: account.address,
      to: payTo as Hex,
      value: BigInt(amount),
      validAfter: 0n,
      validBefore: BigInt(expires),
      nonce,
    },
  })
  const credential = {
    challenge: Object.fromEntries(
      REPEATED.flatMap((name) => (parameters[name] === undefined ? [] : [[name, parameters[name]]])),
    ),
    payload: {
      type: 'authorization',
      from: account.address,
      to: payTo,
      value: amount,
      validAfter: '0',
      validBefore: String(expires),
      nonce,
      signature: signed,
    },
    source: `did:pkh:${network}:${account.address}`,
  }
  const payment = `Payment ${encodeUrl(JSON.stringify(credential))}`
  return { payment, signature: { network, asset, payer: account.address, nonce, validBefore: expires } }
}
