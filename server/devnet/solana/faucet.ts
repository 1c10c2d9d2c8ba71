/** The local Solana's source of SOL, and the authority of its mint. */
import { createHash } from 'node:crypto'
import {
  AccountRole,
  type Address,
  appendTransactionMessageInstructions,
  type Blockhash,
  createKeyPairSignerFromPrivateKeyBytes,
  createTransactionMessage,
  getTransactionEncoder,
  pipe,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { MEMO_PROGRAM, SYSTEM_PROGRAM } from './tokens.ts'

export type Faucet = {
  readonly address: Address
  /** A signed transaction that gives lamports. No two are equal. */
  give(to: Address, lamports: bigint, at: { blockhash: string }): Promise<Uint8Array>
}

export async function solanaFaucet(): Promise<Faucet> {
  const signer = await createKeyPairSignerFromPrivateKeyBytes(
    createHash('sha256').update('farebox: faucet of the local Solana').digest(),
  )
  let given = 0

  async function give(to: Address, lamports: bigint, { blockhash }: { blockhash: string }): Promise<Uint8Array> {
    const memo = { programAddress: MEMO_PROGRAM, data: new TextEncoder().encode(`airdrop ${++given}`) }
    const message = pipe(
      createTransactionMessage({ version: 0 }),
      (made) => setTransactionMessageFeePayerSigner(signer, made),
      (made) =>
        setTransactionMessageLifetimeUsingBlockhash(
          { blockhash: blockhash as Blockhash, lastValidBlockHeight: 0n },
          made,
        ),
      (made) => appendTransactionMessageInstructions([transfer(signer.address, to, lamports), memo], made),
    )
    return Uint8Array.from(getTransactionEncoder().encode(await signTransactionMessageWithSigners(message)))
  }

  return { address: signer.address, give }
}

/** The third instruction of the system program: its number, then lamports. */
function transfer(from: Address, to: Address, lamports: bigint) {
  const data = Buffer.alloc(12)
  data.writeUInt32LE(2)
  data.writeBigUInt64LE(lamports, 4)
  const accounts = [
    { address: from, role: AccountRole.WRITABLE_SIGNER },
    { address: to, role: AccountRole.WRITABLE },
  ]
  return { programAddress: SYSTEM_PROGRAM, accounts, data: Uint8Array.from(data) }
}
