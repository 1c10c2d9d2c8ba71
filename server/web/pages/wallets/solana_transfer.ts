/** The `exact` scheme on Solana: a transfer of USDC in a transaction whose fee the gateway pays, and which it sends. */
import { findAssociatedTokenPda, getTransferCheckedInstruction, TOKEN_PROGRAM_ADDRESS } from '@solana-program/token'
import {
  type Address,
  address,
  appendTransactionMessageInstructions,
  type Blockhash,
  compileTransaction,
  createKeyPairFromBytes,
  createNoopSigner,
  createTransactionMessage,
  getBase58Decoder,
  getBase58Encoder,
  getTransactionDecoder,
  getTransactionEncoder,
  type Instruction,
  partiallySignTransaction,
  pipe,
  setTransactionMessageFeePayer,
  setTransactionMessageLifetimeUsingBlockhash,
  signBytes,
} from '@solana/kit'
import type { Offer } from '../lib/x402.ts'

/** Enough for the transfer and its memo. A wallet that adds guards raises it. */
const COMPUTE_UNITS = 40_000
/** In microlamports a unit: the gateway pays it. */
const UNIT_PRICE = 1n
const USDC_DECIMALS = 6

const COMPUTE_BUDGET = address('ComputeBudget111111111111111111111111111111')
const MEMO = address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')

/** The transaction that pays an offer, before anybody has signed it. */
export async function transferOf(
  { asset, payTo, amount, extra }: Offer,
  { from, blockhash }: { readonly from: string; readonly blockhash: string },
): Promise<Uint8Array> {
  const { feePayer, memo } = extra as { readonly feePayer: string; readonly memo?: string }
  const mint = address(asset)
  const [source, destination] = await Promise.all([tokenAccount(from, mint), tokenAccount(payTo, mint)])
  const instructions = [
    computeUnitLimit(COMPUTE_UNITS),
    computeUnitPrice(UNIT_PRICE),
    getTransferCheckedInstruction({
      source,
      mint,
      destination,
      authority: createNoopSigner(address(from)),
      amount: BigInt(amount),
      decimals: USDC_DECIMALS,
    }),
    { programAddress: MEMO, data: new TextEncoder().encode(memo ?? uniqueMemo()) },
  ]
  const message = pipe(
    createTransactionMessage({ version: 0 }),
    (made) => setTransactionMessageFeePayer(address(feePayer), made),
    (made) =>
      // The height is not part of what is signed.
      setTransactionMessageLifetimeUsingBlockhash(
        { blockhash: blockhash as Blockhash, lastValidBlockHeight: 0n },
        made,
      ),
    (made) => appendTransactionMessageInstructions(instructions, made),
  )
  return Uint8Array.from(getTransactionEncoder().encode(compileTransaction(message)))
}

/** Signs a transaction with a key pair in base58. Only the play wallet does: real keys stay in wallets. */
export async function signTransaction(transaction: Uint8Array, key: string): Promise<Uint8Array> {
  const signed = await partiallySignTransaction([await keyPair(key)], getTransactionDecoder().decode(transaction))
  return Uint8Array.from(getTransactionEncoder().encode(signed))
}

/** Signs a text with a key pair in base58; the signature is in base58. */
export async function signText(text: string, key: string): Promise<string> {
  const { privateKey } = await keyPair(key)
  return base58(await signBytes(privateKey, new TextEncoder().encode(text)))
}

export const base58 = (bytes: Uint8Array | ArrayLike<number>): string =>
  getBase58Decoder().decode(Uint8Array.from(bytes))

const keyPair = (key: string) => createKeyPairFromBytes(new Uint8Array(getBase58Encoder().encode(key)))

async function tokenAccount(owner: string, mint: Address): Promise<Address> {
  const [account] = await findAssociatedTokenPda({ owner: address(owner), mint, tokenProgram: TOKEN_PROGRAM_ADDRESS })
  return account
}

function computeUnitLimit(units: number): Instruction {
  const data = new DataView(new ArrayBuffer(5))
  data.setUint8(0, 2)
  data.setUint32(1, units, true)
  return { programAddress: COMPUTE_BUDGET, data: new Uint8Array(data.buffer) }
}

function computeUnitPrice(microlamports: bigint): Instruction {
  const data = new DataView(new ArrayBuffer(9))
  data.setUint8(0, 3)
  data.setBigUint64(1, microlamports, true)
  return { programAddress: COMPUTE_BUDGET, data: new Uint8Array(data.buffer) }
}

/** Two equal payments under one blockhash would be one transaction, and the second a replay. */
function uniqueMemo(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
