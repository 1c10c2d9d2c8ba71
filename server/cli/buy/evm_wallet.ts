/** A wallet of an EVM chain. Loaded when there is something to sign. */
import { createPublicClient, erc20Abi, http, parseAbi, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { fieldsOf, optional } from '../../../core/lib/mod.ts'
import { MARGIN_S } from '../../buyer/journal.ts'
import type { Signer } from '../../proxy/mod.ts'
import { BUY_COMMAND, type Offer, type Wallet, type WalletOptions } from './gateway.ts'

const AUTHORIZATION_STATE = parseAbi(['function authorizationState(address, bytes32) view returns (bool)'])

export async function evmWallet(key: Hex, { rpcUrl, offer: { asset } }: WalletOptions): Promise<Wallet> {
  const { ExactEvmScheme } = await optional('@x402/evm', BUY_COMMAND, () => import('@x402/evm'))
  const account = privateKeyToAccount(key)
  return {
    address: account.address,
    scheme: { network: 'eip155:*', client: new ExactEvmScheme(account) },
    async balance() {
      if (!rpcUrl) return undefined
      return await createPublicClient({ transport: http(rpcUrl) }).readContract({
        address: asset as Hex,
        abi: erc20Abi,
        functionName: 'balanceOf',
        args: [account.address],
      })
    },
    async isUnspent({ network, asset: token, payer, nonce, validBefore }) {
      if (!rpcUrl) return false
      const client = createPublicClient({ transport: http(rpcUrl) })
      const [chainId, { number, timestamp }] = await Promise.all([client.getChainId(), client.getBlock()])
      if (network !== `eip155:${chainId}` || timestamp <= BigInt(validBefore + MARGIN_S)) return false
      const isUsed = await client.readContract({
        address: token as Hex,
        abi: AUTHORIZATION_STATE,
        functionName: 'authorizationState',
        args: [payer as Hex, nonce as Hex],
        blockNumber: number,
      })
      return !isUsed
    },
  }
}

// ── upto: a transfer by Permit2 of what was used, at most of the price ──────────────────────────────────────────────

/** Permit2, at one address on every network. */
const PERMIT2 = '0x000000000022D473030F116dDEE9F6B43aC78BA3'
/** By this extension a seller takes the permit that a wallet without an allowance signs, for the price alone. */
const SPONSORING = 'eip2612GasSponsoring'
const NODE = { timeout: 5_000, retryCount: 1 }

type Options = { readonly offer: Offer; readonly rpcUrl: string | undefined }

/** Whether Permit2 may move the price of an offer, or the seller brings the permit for it on chain. Never rejects. */
export async function takesUpto(
  key: string,
  { offer, rpcUrl, extensions }: Options & { readonly extensions: Readonly<Record<string, unknown>> },
): Promise<boolean> {
  if (rpcUrl === undefined) return false
  if (Object.hasOwn(extensions, SPONSORING)) return true
  const { address } = privateKeyToAccount(key as Hex)
  const call = { abi: erc20Abi, functionName: 'allowance', args: [address, PERMIT2] } as const
  const node = createPublicClient({ transport: http(rpcUrl, NODE) })
  const allowed = await node.readContract({ address: offer.asset as Hex, ...call }).catch(() => 0n)
  return allowed >= BigInt(offer.amount)
}

export async function uptoSigner(key: string, { rpcUrl }: Pick<Options, 'rpcUrl'>): Promise<Pick<Signer, 'sign'>> {
  const { toClientEvmSigner } = await optional('@x402/evm', 'farebox proxy', () => import('@x402/evm'))
  const { UptoEvmScheme } = await import('@x402/evm/upto/client')
  const node = createPublicClient({ transport: http(rpcUrl, NODE) })
  const client = new UptoEvmScheme(toClientEvmSigner(privateKeyToAccount(key as Hex), node as never))
  return {
    async sign(offer, extensions) {
      // No other extension: one of them asks for a transaction.
      const declared = Object.hasOwn(extensions, SPONSORING) ? { [SPONSORING]: extensions[SPONSORING] } : {}
      const made = await client.createPaymentPayload(2, offer as never, { extensions: declared } as never)
      return { payload: fieldsOf(made.payload), extensions: fieldsOf(made.extensions) }
    },
  }
}
