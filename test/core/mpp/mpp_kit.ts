/** A client of MPP on the chain in memory: reads the challenge of a 402, and writes the credential that pays it. */
import type { MemoryChain } from '../../../adapters/chains/evm/memory.ts'
import { nonceOf } from '../../../adapters/chains/evm/charge.ts'
import { endOf, readChallenges } from '../../../core/mpp/challenge.ts'
import { decodeUrl, encodeUrl } from '../../../core/mpp/codec.ts'
import type { Challenge, Credential } from '../../../core/mpp/method.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'

/** The only challenge of a 402. Throws if there is none. */
export function challengeIn(headers: Headers): Challenge {
  const [challenge, ...more] = readChallenges(headers.get('www-authenticate') ?? '')
  if (!challenge || more.length > 0) throw new Error(`not one challenge: ${headers.get('www-authenticate')}`)
  return challenge as unknown as Challenge
}

export const headerOf = (credential: object): string => `Payment ${encodeUrl(JSON.stringify(credential))}`

/** The credential of a payment that was signed with the nonce of the challenge. */
export function credentialOf(challenge: Challenge, { payload }: Payment): Credential {
  const { signature, authorization } = payload as { signature: string; authorization: Record<string, string> }
  return {
    challenge,
    payload: { type: 'authorization', ...authorization, signature } as Credential['payload'],
    source: `did:pkh:eip155:${chainIdOf(challenge)}:${authorization.from}`,
  }
}

const requestOf = ({ request }: Challenge) => decodeUrl(request) as Record<string, any>
const chainIdOf = (challenge: Challenge): number => requestOf(challenge).methodDetails.chainId

/** The offer of a challenge. The domain of the token is not in it: clients know it. */
export function offerIn(challenge: Challenge): Offer {
  const { amount, currency, recipient } = requestOf(challenge)
  return {
    scheme: 'exact',
    network: `eip155:${chainIdOf(challenge)}`,
    amount,
    asset: currency,
    payTo: recipient,
    maxTimeoutSeconds: 0,
    extra: { name: 'USDC', version: '2' },
  }
}

/** A client's credential for a challenge. */
export function payCharge(
  chain: MemoryChain,
  challenge: Challenge,
  signing: Partial<Parameters<MemoryChain['sign']>[1]> & { readonly from: string },
): Credential {
  const validBefore = BigInt(endOf(challenge) ?? 0)
  const payment = chain.sign(offerIn(challenge), { now: 0, nonce: nonceOf(challenge), validBefore, ...signing })
  return credentialOf(challenge, payment)
}
