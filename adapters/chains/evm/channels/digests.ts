/** Digests under the settlement contract's EIP-712 domain: channels, vouchers, claims, refunds. */
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils'
import { keccak, portableKeccak } from '../node/keccak.ts'
import { type Hex, lower, word } from '../../lib/hex.ts'
import { boundedMap } from '../../../../core/lib/mod.ts'
import { domainSeparator } from '../exact/eip3009.ts'
import { BATCH_SETTLEMENT } from '../node/x402_contracts.ts'

/** The parameters of a channel; hex in lower case. They cannot change: other parameters are another channel. */
export type ChannelConfig = {
  readonly payer: Hex
  /** Signs vouchers. */
  readonly payerAuthorizer: Hex
  readonly receiver: Hex
  /** Signs claims and refunds. */
  readonly receiverAuthorizer: Hex
  readonly token: Hex
  /** In seconds. */
  readonly withdrawDelay: number
  readonly salt: Hex
}

/** A row of a batch of claims: as much as was charged, which is at most what was signed. */
type ClaimRow = { readonly channelId: Hex; readonly ceiling: bigint; readonly charged: bigint }

const hash = (bytes: Uint8Array): string => bytesToHex(keccak(bytes))
/** Portable: a start loads no optional package. */
const typeHash = (text: string): string => bytesToHex(portableKeccak(utf8ToBytes(text)))
const hashWords = (words: readonly (string | bigint)[]): string =>
  hash(hexToBytes(words.map((each) => word(each)).join('')))

const CLAIM_ENTRY = 'ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)'
const CHANNEL_TYPE = typeHash(
  'ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)',
)
const VOUCHER_TYPE = typeHash('Voucher(bytes32 channelId,uint128 maxClaimableAmount)')
const REFUND_TYPE = typeHash('Refund(bytes32 channelId,uint256 nonce,uint128 amount)')
const CLAIM_TYPE = typeHash(CLAIM_ENTRY)
const CLAIM_BATCH_TYPE = typeHash(`ClaimBatch(ClaimEntry[] claims)${CLAIM_ENTRY}`)

/** The id of a channel and the digest of a voucher are hashed once; each step of a call needs them again. */
const MAX_IDS = 5_000
const MAX_VOUCHERS = 5_000

export type ChannelDigests = ReturnType<typeof createDigests>

const byChain = new Map<number, ChannelDigests>()

/** The digests of one chain; all adapters of a process share what was hashed. */
export function channelDigests(chainId: number): ChannelDigests {
  const made = byChain.get(chainId) ?? createDigests(chainId)
  byChain.set(chainId, made)
  return made
}

function createDigests(chainId: number) {
  const separator = domainSeparator({ name: 'x402 Batch Settlement', version: '1' }, chainId, BATCH_SETTLEMENT)
  const ids = boundedMap<Hex>(MAX_IDS)
  const vouchers = boundedMap<Hex>(MAX_VOUCHERS)
  const digest = (content: string): Hex => `0x${hash(hexToBytes(`1901${separator.slice(2)}${content}`))}`

  function channelId(config: ChannelConfig): Hex {
    const { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt } = config
    const words = [payer, payerAuthorizer, receiver, receiverAuthorizer, token, BigInt(withdrawDelay), salt]
    const key = words.map((each) => word(each)).join('')
    const known = ids.get(key)
    if (known) return known
    const id = digest(hashWords([CHANNEL_TYPE, ...words]))
    ids.set(key, id)
    return id
  }

  function voucher(id: Hex, ceiling: bigint): Hex {
    const key = `${id} ${ceiling}`
    const known = vouchers.get(key)
    if (known) return known
    const made = digest(hashWords([VOUCHER_TYPE, id, ceiling]))
    vouchers.set(key, made)
    return made
  }

  return {
    channelId,
    voucher,
    refund: (id: Hex, { nonce, amount }: { nonce: bigint; amount: bigint }): Hex =>
      digest(hashWords([REFUND_TYPE, id, nonce, amount])),
    claims(rows: readonly ClaimRow[]): Hex {
      const entries = rows.map((row) => hashWords([CLAIM_TYPE, row.channelId, row.ceiling, row.charged]))
      return digest(hashWords([CLAIM_BATCH_TYPE, hashWords(entries)]))
    },
    /** The nonce of a deposit's authorization binds it to its channel. */
    depositNonce: (id: Hex, salt: Hex): Hex => `0x${hashWords([lower(id), salt])}`,
  }
}
