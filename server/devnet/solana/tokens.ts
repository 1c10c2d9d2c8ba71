/** Encodes and decodes devnet USDC: the mint and token accounts. */
import {
  AccountState,
  findAssociatedTokenPda,
  getMintDecoder,
  getMintEncoder,
  getTokenDecoder,
  getTokenEncoder,
  type Mint,
  type Token,
  TOKEN_PROGRAM_ADDRESS,
} from '@solana-program/token'
import { type Address, address, type EncodedAccount, lamports } from '@solana/kit'

/** Circle's USDC on Solana's devnet: public clients refuse any other asset there. */
export const MINT = address('4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU')
export const DECIMALS = 6
export const SYSTEM_PROGRAM = address('11111111111111111111111111111111')
export const MEMO_PROGRAM = address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
/** The rent-exempt balance of token accounts and mints, as in `getMinimumBalanceForRentExemption`. */
const RENT = { mint: 1_461_600n, token: 2_039_280n }
const MINT_BYTES = 82
const TOKEN_BYTES = 165

/** Balances of an account: always lamports, and tokens if it is a token account. */
export type Holding = {
  readonly lamports: bigint
  readonly tokens?: { readonly mint: Address; readonly owner: Address; readonly amount: bigint }
}

/** The address of an owner's USDC account, whether or not it exists. */
export async function accountOf(owner: Address): Promise<Address> {
  const [found] = await findAssociatedTokenPda({ owner, mint: MINT, tokenProgram: TOKEN_PROGRAM_ADDRESS })
  return found
}

export function mintAccount({ authority, supply }: { authority: Address; supply: bigint }): EncodedAccount {
  const data = getMintEncoder().encode({
    mintAuthority: authority,
    supply,
    decimals: DECIMALS,
    isInitialized: true,
    freezeAuthority: authority,
  })
  return programAccount(MINT, RENT.mint, data)
}

export function tokenAccount(
  at: Address,
  { owner, amount, isFrozen = false }: { owner: Address; amount: bigint; isFrozen?: boolean },
): EncodedAccount {
  const state = isFrozen ? AccountState.Frozen : AccountState.Initialized
  const none = { delegate: null, isNative: null, delegatedAmount: 0n, closeAuthority: null }
  return programAccount(at, RENT.token, getTokenEncoder().encode({ mint: MINT, owner, amount, state, ...none }))
}

/** A plain wallet account. Zero lamports delete it. */
export function walletAccount(at: Address, amount: bigint): EncodedAccount {
  return {
    address: at,
    lamports: lamports(amount),
    data: new Uint8Array(),
    executable: false,
    programAddress: SYSTEM_PROGRAM,
    space: 0n,
  }
}

function programAccount(at: Address, rent: bigint, data: ArrayLike<number>): EncodedAccount {
  return {
    address: at,
    lamports: lamports(rent),
    data: Uint8Array.from(data),
    executable: false,
    programAddress: TOKEN_PROGRAM_ADDRESS,
    space: BigInt(data.length),
  }
}

export function tokenOf(account: EncodedAccount | undefined): Token | undefined {
  if (account?.programAddress !== TOKEN_PROGRAM_ADDRESS || account.data.length !== TOKEN_BYTES) return undefined
  return getTokenDecoder().decode(account.data)
}

export function mintOf(account: EncodedAccount | undefined): Mint | undefined {
  if (account?.programAddress !== TOKEN_PROGRAM_ADDRESS || account.data.length !== MINT_BYTES) return undefined
  return getMintDecoder().decode(account.data)
}

export function holdingOf(account: EncodedAccount | undefined): Holding {
  const token = tokenOf(account)
  const tokens = token && { mint: token.mint, owner: token.owner, amount: token.amount }
  return { lamports: account?.lamports ?? 0n, ...(tokens && { tokens }) }
}
