/** Permit2 as the tests of it sign and ask. */
import { parseAbi } from 'viem'

export const permit2Abi = parseAbi([
  'struct TokenPermissions { address token; uint256 amount; }',
  'struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }',
  'struct TransferDetails { address to; uint256 requestedAmount; }',
  'function permitWitnessTransferFrom(PermitTransferFrom permit, TransferDetails transferDetails, address owner, bytes32 witness, string witnessTypeString, bytes signature)',
  'function nonceBitmap(address owner, uint256 word) view returns (uint256)',
  'function invalidateUnorderedNonces(uint256 word, uint256 mask)',
])

const WITNESS = [
  { name: 'to', type: 'address' },
  { name: 'facilitator', type: 'address' },
  { name: 'validAfter', type: 'uint256' },
] as const

const TRANSFER = [
  { name: 'permitted', type: 'TokenPermissions' },
  { name: 'spender', type: 'address' },
  { name: 'nonce', type: 'uint256' },
  { name: 'deadline', type: 'uint256' },
] as const
const TOKEN_PERMISSIONS = [
  { name: 'token', type: 'address' },
  { name: 'amount', type: 'uint256' },
] as const

/** The types of a payer's signature that lets `upto` move tokens. */
export const uptoTypes = {
  PermitWitnessTransferFrom: [...TRANSFER, { name: 'witness', type: 'Witness' }],
  TokenPermissions: TOKEN_PERMISSIONS,
  Witness: WITNESS,
} as const

/** A deposit by Permit2, for one channel. */
export const depositTypes = {
  PermitWitnessTransferFrom: [...TRANSFER, { name: 'witness', type: 'DepositWitness' }],
  TokenPermissions: TOKEN_PERMISSIONS,
  DepositWitness: [{ name: 'channelId', type: 'bytes32' }],
} as const
