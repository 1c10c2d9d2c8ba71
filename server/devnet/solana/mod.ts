/**
 * The embedded Solana: a chain in this process that public x402 clients cannot distinguish from Solana's devnet
 * (genesis, mint), with a fee payer, a seller with a token account, and a funded buyer. All of it is test money under
 * keys that anybody can derive, and ends with the process.
 */
import { optional } from '../../../core/lib/mod.ts'
import { createHash } from 'node:crypto'
import { createKeyPairSignerFromPrivateKeyBytes, getBase58Decoder } from '@solana/kit'
import type { Clock } from '../../../core/mod.ts'

export const SOLANA_DEVNET = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
/** Funds of the buyer at each start, in base units: 10,000 USDC. */
export const SOLANA_BUYER_FUNDS = 10_000_000_000n

export type SolanaDevnet = {
  readonly network: typeof SOLANA_DEVNET
  /** Changes with every start, unless a port is configured. */
  readonly rpcUrl: string
  readonly mint: string
  /** A wallet with a token account. */
  readonly payTo: string
  /** The 64 bytes of a key pair in base58, as wallets export them. Funded with SOL for fees. */
  readonly feePayerKey: string
  readonly buyer: { readonly address: string; readonly privateKey: string }
  stop(): Promise<void>
}

type SolanaDevnetOptions = {
  readonly clock: Pick<Clock, 'now'>
  readonly port?: number
  readonly log?: ((line: string) => void) | undefined
}

/** A hundred million payments. */
const FEE_PAYER_LAMPORTS = 1_000_000_000_000n

/** Starts a new, empty chain. Throws when litesvm has no program for this platform. */
export async function startSolanaDevnet({
  clock,
  port = 0,
  log = () => {},
}: SolanaDevnetOptions): Promise<SolanaDevnet> {
  const [{ solanaNode }, { MINT }] = await optional('litesvm', 'the local Solana', () =>
    Promise.all([import('./node.ts'), import('./tokens.ts')]),
  ) // takes a tenth of a second, so it is loaded on demand
  const [feePayer, seller, buyer] = await Promise.all([keyOf('fee payer'), keyOf('seller'), keyOf('buyer')])
  const node = await solanaNode({ clock, port })
  node.setLag(1)
  node.airdropSol(feePayer.address, FEE_PAYER_LAMPORTS)
  node.airdropSol(buyer.address)
  await node.openAccount(seller.address)
  await node.fund(buyer.address, SOLANA_BUYER_FUNDS)
  log(`local Solana chain ready at ${node.url}; it is in memory and starts empty each time`)
  return {
    network: SOLANA_DEVNET,
    rpcUrl: node.url,
    mint: MINT,
    payTo: seller.address,
    feePayerKey: feePayer.privateKey,
    buyer,
    stop: node.stop,
  }
}

/** The key of a role. It is public: real money sent to it is lost. */
async function keyOf(role: string): Promise<{ readonly address: string; readonly privateKey: string }> {
  const seed = createHash('sha256').update(`farebox: play money of the local Solana: ${role}`).digest()
  const { address, keyPair } = await createKeyPairSignerFromPrivateKeyBytes(seed)
  const publicKey = new Uint8Array(await crypto.subtle.exportKey('raw', keyPair.publicKey))
  return { address, privateKey: getBase58Decoder().decode(Uint8Array.from([...seed, ...publicKey])) }
}
