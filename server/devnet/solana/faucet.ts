/** The faucet of the local Solana chain, which is also the authority of its USDC mint. */
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

type Faucet = {
  readonly address: Address
  /** A signed transaction that transfers lamports. A memo makes each one unique. */
  give(to: Address, lamports: bigint, at: { blockhash: string }): Promise<Uint8Array>
}

export async function solanaFaucet(): Promise<Faucet> {
  const signer = await createKeyPairSignerFromPrivateKeyBytes(
    createHash('sha256').update('farebox: faucet of the local Solana').digest(),
  )
  let count = 0

  async function give(to: Address, lamports: bigint, { blockhash }: { blockhash: string }): Promise<Uint8Array> {
    const memo = { programAddress: MEMO_PROGRAM, data: new TextEncoder().encode(`airdrop ${++count}`) }
    const message = pipe(
      createTransactionMessage({ version: 0 }),
      (draft) => setTransactionMessageFeePayerSigner(signer, draft),
      (draft) =>
        setTransactionMessageLifetimeUsingBlockhash(
          { blockhash: blockhash as Blockhash, lastValidBlockHeight: 0n },
          draft,
        ),
      (draft) => appendTransactionMessageInstructions([transfer(signer.address, to, lamports), memo], draft),
    )
    return Uint8Array.from(getTransactionEncoder().encode(await signTransactionMessageWithSigners(message)))
  }

  return { address: signer.address, give }
}

/** Instruction 2 of the system program: its number, then the lamports. */
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
