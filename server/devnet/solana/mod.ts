/**
 * The embedded Solana: a chain in this process that a public x402 client cannot tell from Solana's devnet (genesis,
 * mint), with a fee payer, a seller whose account is open, and a buyer with money. All of it is play money, of keys
 * that anybody can derive, and ends with the process.
 */
import { optional } from '../../../core/lib/optional.ts'
import { createHash } from 'node:crypto'
import { createKeyPairSignerFromPrivateKeyBytes, getBase58Decoder } from '@solana/kit'
import type { Clock } from '../../../core/mod.ts'

export const SOLANA_DEVNET = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
/** What the buyer gets at each start, in base units: 10,000 USDC. */
export const SOLANA_BUYER_FUNDS = 10_000_000_000n

export type SolanaDevnet = {
  readonly network: typeof SOLANA_DEVNET
  /** Changes with every start, unless a port was given. */
  readonly rpcUrl: string
  readonly mint: string
  /** A wallet, whose token account is open. */
  readonly payTo: string
  /** The 64 bytes of a key pair in base58, as wallets export them. It has SOL for fees. */
  readonly feePayerKey: string
  readonly buyer: { readonly address: string; readonly privateKey: string }
  stop(): Promise<void>
}

export type SolanaDevnetOptions = {
  readonly clock: Pick<Clock, 'now'>
  readonly port?: number
  readonly log?: ((line: string) => void) | undefined
}

/** A hundred million payments. */
const FEE_PAYER_LAMPORTS = 1_000_000_000_000n

/**
 * Starts the chain anew: nothing of an older one is known to it. Throws where litesvm has no program for this platform.
 */
export async function startSolanaDevnet({
  clock,
  port = 0,
  log = () => {},
}: SolanaDevnetOptions): Promise<SolanaDevnet> {
  const [{ solanaNode }, { MINT }] = await optional('litesvm', 'the local Solana', () =>
    Promise.all([import('./node.ts'), import('./tokens.ts')]),
  ) // a tenth of a second that others need not wait
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
