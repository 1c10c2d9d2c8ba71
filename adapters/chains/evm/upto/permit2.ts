/** Calls, digests and events of Permit2 and of the proxy of the scheme `upto`. */
import { encodeFunctionData, hashTypedData } from 'viem'
import { checksummed } from '../../../../core/lib/mod.ts'
import type { Payment, Receipt } from '../../../../core/x402/mod.ts'
import { type Hex, isHex, lower, word } from '../../lib/hex.ts'
import { PERMIT2, type Upto, UPTO_PROXY } from './payload.ts'
import { uptoProxyAbi } from '../node/x402_contracts.ts'
import type { ContractCall } from '../node/multicall.ts'
import type { ChainReceipt } from '../node/token.ts'

const TYPES = {
  PermitWitnessTransferFrom: [
    { name: 'permitted', type: 'TokenPermissions' },
    { name: 'spender', type: 'address' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
    { name: 'witness', type: 'Witness' },
  ],
  TokenPermissions: [
    { name: 'token', type: 'address' },
    { name: 'amount', type: 'uint256' },
  ],
  Witness: [
    { name: 'to', type: 'address' },
    { name: 'facilitator', type: 'address' },
    { name: 'validAfter', type: 'uint256' },
  ],
} as const

/** Digest that the owner signs. Permit2's domain has no version. */
export function permitDigest(
  { token, amount, nonce, deadline, to, facilitator, validAfter }: Upto,
  chainId: number,
): Hex {
  return hashTypedData({
    domain: { name: 'Permit2', chainId, verifyingContract: PERMIT2 },
    types: TYPES,
    primaryType: 'PermitWitnessTransferFrom',
    message: {
      permitted: { token, amount },
      spender: UPTO_PROXY,
      nonce,
      deadline,
      witness: { to, facilitator, validAfter },
    },
  })
}

/** An ERC-2612 permit by which a wallet without an allowance lets Permit2 move the token. */
type TokenPermit = {
  readonly value: bigint
  readonly deadline: bigint
  readonly r: Hex
  readonly s: Hex
  readonly v: number
}

/** The permit that came with the payment; undefined where there is none for exactly this payment. */
export function tokenPermitOf({ extensions }: Payment, upto: Upto): TokenPermit | undefined {
  const info = (extensions as { [EIP2612]?: { info?: Record<string, unknown> } } | undefined)?.[EIP2612]?.info
  if (!info) return undefined
  const { from, asset, spender, amount, deadline, signature } = info
  const isOurs =
    isAddress(from, upto.from) && isAddress(asset, upto.token) && isAddress(spender, PERMIT2) && isUint(deadline)
  if (!isOurs || amount !== String(upto.amount) || !isHex(signature) || signature.length !== 132) return undefined
  return {
    value: upto.amount,
    deadline: BigInt(deadline),
    r: `0x${signature.slice(2, 66)}`,
    s: `0x${signature.slice(66, 130)}`,
    v: Number.parseInt(signature.slice(130), 16),
  }
}

const EIP2612 = 'eip2612GasSponsoring'
const isAddress = (value: unknown, address: Hex): boolean => typeof value === 'string' && lower(value) === address
const isUint = (value: unknown): value is string => typeof value === 'string' && /^[0-9]{1,77}$/.test(value)

/** Moves `amount` of what was signed. Only the facilitator that was signed may send it. */
export function settleCall(upto: Upto, amount: bigint, tokenPermit?: TokenPermit): ContractCall {
  const { from, token, nonce, deadline, to, facilitator, validAfter, signature } = upto
  const permit = { permitted: { token, amount: upto.amount }, nonce, deadline }
  const rest = [permit, amount, from, { to, facilitator, validAfter }, signature] as const
  const data = tokenPermit
    ? encodeFunctionData({ abi: uptoProxyAbi, functionName: 'settleWithPermit', args: [tokenPermit, ...rest] })
    : encodeFunctionData({ abi: uptoProxyAbi, functionName: 'settle', args: [...rest] })
  return { to: UPTO_PROXY, data }
}

/** nonceBitmap(owner, word) and allowance(owner, Permit2). */
export const bitmapCall = ({ from, nonce }: Upto): ContractCall => ({
  to: PERMIT2,
  data: `0x4fe02b44${word(from)}${word(nonce >> 8n)}`,
})
export const allowanceCall = ({ from, token }: Upto): ContractCall => ({
  to: token,
  data: `0xdd62ed3e${word(from)}${word(PERMIT2)}`,
})

/** Whether the nonce of an authorization is set in its word of the bitmap. */
export const isNonceUsed = (bitmap: bigint, { nonce }: Upto): boolean => ((bitmap >> (nonce & 0xffn)) & 1n) === 1n

export const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/** The transfer to the payee in a transaction that is known to be this payment's. */
export function transferIn(receipt: ChainReceipt, upto: Upto, network: string): Receipt | undefined {
  if (!receipt.success) return undefined
  const log = receipt.logs.find(
    ({ address, topics }) =>
      address === upto.token &&
      topics[0] === TRANSFER &&
      topics[1]?.slice(2) === word(upto.from) &&
      topics[2]?.slice(2) === word(upto.to),
  )
  if (!log) return undefined
  return {
    transaction: receipt.transactionHash,
    network,
    payer: checksummed(upto.from),
    amount: BigInt(log.data).toString(),
    block: receipt.block,
  }
}

/** Whether the calldata of a transaction settles exactly this authorization. */
export const isSettlementOf = (input: unknown, upto: Upto): boolean =>
  isHex(input) && lower(input).includes(upto.signature.slice(2)) && lower(input).includes(word(upto.nonce))
