/** The `exact` scheme on EVM networks: a transfer of USDC that the owner signs and the gateway sends (EIP-3009). */
import type { Offer } from '../lib/x402.ts'

/** Typed data as `eth_signTypedData_v4` takes it. Some wallets sign an empty domain unless its type is there. */
export function transferOf(offer: Offer, from: string) {
  const { name, version } = offer.extra as { readonly name: string; readonly version: string }
  const now = Math.floor(Date.now() / 1000)
  const authorization = {
    from,
    to: offer.payTo,
    value: offer.amount,
    validAfter: '0',
    validBefore: String(now + offer.maxTimeoutSeconds),
    nonce: hex(crypto.getRandomValues(new Uint8Array(32))),
  }
  const typedData = {
    types: {
      EIP712Domain: [
        { name: 'name', type: 'string' },
        { name: 'version', type: 'string' },
        { name: 'chainId', type: 'uint256' },
        { name: 'verifyingContract', type: 'address' },
      ],
      TransferWithAuthorization: [
        { name: 'from', type: 'address' },
        { name: 'to', type: 'address' },
        { name: 'value', type: 'uint256' },
        { name: 'validAfter', type: 'uint256' },
        { name: 'validBefore', type: 'uint256' },
        { name: 'nonce', type: 'bytes32' },
      ],
    },
    primaryType: 'TransferWithAuthorization' as const,
    domain: { name, version, chainId: chainIdOf(offer), verifyingContract: offer.asset },
    message: authorization,
  }
  return { authorization, typedData }
}

/** `eip155:8453` is 8453. */
export const chainIdOf = ({ network }: Pick<Offer, 'network'>): number => Number(network.split(':')[1])

const hex = (bytes: Uint8Array): string => `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
