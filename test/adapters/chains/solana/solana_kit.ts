/** A local Solana for tests, transactions built as told, and the hands that the chain laws need. */
import { getTransferCheckedInstruction } from '@solana-program/token'
import {
  AccountRole,
  type Address,
  address,
  appendTransactionMessageInstructions,
  type Blockhash,
  compileTransaction,
  createKeyPairSignerFromPrivateKeyBytes,
  createTransactionMessage,
  getAddressDecoder,
  getBase58Decoder,
  getTransactionEncoder,
  type Instruction,
  type KeyPairSigner,
  partiallySignTransaction,
  pipe,
  setTransactionMessageFeePayer,
  setTransactionMessageLifetimeUsingBlockhash,
} from '@solana/kit'
import { solanaChain, type SolanaChain, type SolanaConfig } from '../../../../adapters/chains/solana/mod.ts'
import { tokenAccount } from '../../../../adapters/chains/solana/exact/payload.ts'
import { TOKEN } from '../../../../adapters/chains/solana/node/reads.ts'
import type { Offer, Payment } from '../../../../core/x402/protocol.ts'
import { SLOT_MS } from '../../../../server/devnet/solana/ledger.ts'
import { solanaNode, type SolanaNode } from '../../../../server/devnet/solana/node.ts'
import { MINT } from '../../../../server/devnet/solana/tokens.ts'
import type { ChainHarness, Forgery, Payer, Signing, Ways } from '../../../conformance/chains.ts'
import type { Subject } from '../../../conformance/law.ts'

export const NETWORK = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
export const COMPUTE_BUDGET = address('ComputeBudget111111111111111111111111111111')
const MEMO = address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
export const LIGHTHOUSE = address('L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95')
const NOON = Date.UTC(2030, 0, 1, 12)
/**
 * Everybody's key: whoever likes signs for it, any message, with the base point for R and one for S. WebCrypto does not
 * mind.
 */
export const NOBODY = getAddressDecoder().decode(Uint8Array.from({ length: 32 }, (_, i) => (i === 0 ? 1 : 0)))
export const ANYBODYS = Uint8Array.from({ length: 64 }, (_, i) => [0x58, ...Array<number>(31).fill(0x66), 1][i] ?? 0)
/** Order of the group of Ed25519. */
export const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n

export type Key = KeyPairSigner & { /** 64 bytes in base58. */ readonly secret: string; readonly bytes: Uint8Array }

let made = 0

export async function newKey(): Promise<Key> {
  const seed = new Uint8Array(32).fill(7)
  new DataView(seed.buffer).setUint32(0, ++made)
  const signer = await createKeyPairSignerFromPrivateKeyBytes(seed)
  const bytes = Uint8Array.from([
    ...seed,
    ...new Uint8Array(await crypto.subtle.exportKey('raw', signer.keyPair.publicKey)),
  ])
  return { ...signer, bytes, secret: getBase58Decoder().decode(bytes) }
}

/** A node whose time stands still until it is told. */
export function solanaWorld(): Promise<SolanaNode> {
  return solanaNode({ clock: { now: () => NOON } })
}

/** One JSON-RPC call, around every trouble of the line. */
export async function ask<T = unknown>(
  node: Pick<SolanaNode, 'url'>,
  method: string,
  ...params: readonly unknown[]
): Promise<T> {
  const response = await fetch(node.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { result, error } = (await response.json()) as { result?: T; error?: { message: string } }
  if (error) throw new Error(error.message)
  return result as T
}

export async function blockhashOf(node: SolanaNode, commitment = 'processed'): Promise<Blockhash> {
  const { value } = await ask<{ value: { blockhash: Blockhash } }>(node, 'getLatestBlockhash', { commitment })
  return value.blockhash
}

// ── transactions ────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * A transaction to be built. Those of `signers` sign who must; whoever else must is left out, as the fee payer is by
 * clients.
 */
export type Draft = {
  readonly version?: 'legacy' | 0
  readonly feePayer: Address
  readonly blockhash: string
  readonly instructions: readonly Instruction[]
  readonly signers: readonly KeyPairSigner[]
}

/** The bytes of a transaction, unsigned where nobody signs. */
export async function chatFormatOf({
  version = 0,
  feePayer,
  blockhash,
  instructions,
  signers,
}: Draft): Promise<Uint8Array> {
  const message = pipe(
    createTransactionMessage({ version: version as 0 }),
    (made) => setTransactionMessageFeePayer(feePayer, made),
    (made) =>
      setTransactionMessageLifetimeUsingBlockhash(
        { blockhash: blockhash as Blockhash, lastValidBlockHeight: 0n },
        made,
      ),
    (made) => appendTransactionMessageInstructions(instructions, made),
  )
  const compiled = compileTransaction(message)
  const wanted = signers.filter((signer) => signer.address in compiled.signatures)
  const signed = await partiallySignTransaction(
    wanted.map(({ keyPair }) => keyPair),
    compiled,
  )
  return Uint8Array.from(getTransactionEncoder().encode(signed))
}

export const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')

export function unitLimit(units: number): Instruction {
  const data = Buffer.alloc(5, 2)
  data.writeUInt32LE(units, 1)
  return { programAddress: COMPUTE_BUDGET, data: Uint8Array.from(data) }
}

export function unitPrice(microlamports: bigint): Instruction {
  const data = Buffer.alloc(9, 3)
  data.writeBigUInt64LE(microlamports, 1)
  return { programAddress: COMPUTE_BUDGET, data: Uint8Array.from(data) }
}

export const memo = (text: string): Instruction => ({ programAddress: MEMO, data: new TextEncoder().encode(text) })
export const readonly = (account: Address) => ({ address: account, role: AccountRole.READONLY })
export const writable = (account: Address) => ({ address: account, role: AccountRole.WRITABLE })
export const signing = (account: Address) => ({ address: account, role: AccountRole.READONLY_SIGNER })

type Sending = {
  readonly from: Address
  readonly to: string
  readonly amount: bigint
  readonly mint?: Address
  readonly source?: Address
  readonly destination?: Address
}

/** TransferChecked from wallet to wallet. */
export async function transfer({ from, to, amount, mint = MINT, ...given }: Sending): Promise<Instruction> {
  const source = given.source ?? (await tokenAccount(from, mint, TOKEN))
  const destination = given.destination ?? (await tokenAccount(to, mint, TOKEN))
  const built = getTransferCheckedInstruction({ source, mint, destination, authority: from, amount, decimals: 6 })
  const [a, b, c] = built.accounts
  return { ...built, accounts: [a, b, c, signing(from)] }
}

let memos = 0

/** The payment of the official client for an offer; with a prescribed memo, that of the client of MPP. */
export async function draftOf(
  node: SolanaNode,
  payer: KeyPairSigner,
  offer: Offer,
  options: { to?: string; amount?: bigint } = {},
): Promise<Draft> {
  const moved = await transfer({
    from: payer.address,
    to: options.to ?? offer.payTo,
    amount: options.amount ?? BigInt(offer.amount),
  })
  const { memo: prescribed } = offer.extra ?? {}
  return {
    feePayer: offer.extra?.feePayer as Address,
    blockhash: await blockhashOf(node, 'confirmed'),
    instructions:
      typeof prescribed === 'string'
        ? [unitPrice(1n), unitLimit(200_000), moved, memo(prescribed)]
        : [unitLimit(20_000), unitPrice(1n), moved, memo(`memo ${++memos}`)],
    signers: [payer],
  }
}

export const paymentOf = (offer: Offer, transaction: unknown): Payment => ({
  x402Version: 2,
  accepted: offer,
  payload: { transaction },
})

// ── the harness ─────────────────────────────────────────────────────────────────────────────────────────────────────

export type SolanaHarness = ChainHarness & {
  readonly chain: SolanaChain
  readonly config: SolanaConfig
  readonly node: SolanaNode
  readonly feePayer: Key
  key(payer: Payer): Key
}

const STRANGER = address('Vote111111111111111111111111111111111111111')

/** One checked chain on the shared node, with a fee payer and a recipient of its own. */
export async function solanaHarness(node: SolanaNode, change: Partial<SolanaConfig> = {}): Promise<SolanaHarness> {
  const [feePayer, seller] = [await newKey(), await newKey()]
  node.airdropSol(feePayer.address)
  await node.openAccount(seller.address)
  const config: SolanaConfig = {
    network: NETWORK,
    rpcUrl: node.url,
    mint: MINT,
    payTo: seller.address,
    feePayerKeys: [feePayer.secret],
    pollMs: 1,
    resendMs: 8,
    ...change,
  }
  const chain = solanaChain(config)
  const checked = await chain.check({ now: node.now() })
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  const [terms] = chain.terms(node.now())
  if (!terms) throw new Error('no terms')
  const offer: Offer = { ...terms, amount: '10000', maxTimeoutSeconds: 60 }
  const keys = new Map<string, Key>()
  const key = ({ address }: Payer) => keys.get(address) as Key
  const account = await tokenAccount(STRANGER, MINT, TOKEN)

  return {
    chain,
    config,
    node,
    feePayer,
    key,
    offer,
    now: node.now,
    ways: waysOf(account),
    async payer(balance = 1_000_000n) {
      const made = await newKey()
      keys.set(made.address, made)
      await node.fund(made.address, balance)
      return { address: made.address }
    },
    async sign(payer, wanted, { to, value, forge }: Signing = {}) {
      const draft = await draftOf(node, key(payer), wanted, {
        ...(to !== undefined && { to }),
        ...(value !== undefined && { amount: value }),
      })
      return paymentOf(wanted, base64(bent(await chatFormatOf(draft), forge)))
    },
    balanceOf: node.balanceOf,
    fund: (payer, balance) => node.fund(payer.address, balance),
    transfersIn: async (transaction) =>
      node
        .transfersIn(transaction)
        .map(({ from, to, value }) => ({ from: from.toLowerCase(), to: to.toLowerCase(), value })),
    cancel: () => Promise.reject(new Error('what is signed on Solana cannot be taken back')),
    async submit(payment) {
      await ask(node, 'sendTransaction', await cosigned(payment, feePayer), { encoding: 'base64', skipPreflight: true })
    },
    mineAt: async (seconds) => node.setTime(Math.max(seconds * 1000, node.now() + SLOT_MS)),
    reads: () => node.reads(),
    outage: node.outage,
    drop: node.drop,
    recover: node.recover,
    mark: node.mark,
    rewind: node.rewind,
  }
}

/** The payment's transaction with the fee payer's signature, as another replica would send it. */
export async function cosigned(payment: Payment, feePayer: Key): Promise<string> {
  const bytes = Buffer.from(String(payment.payload.transaction), 'base64')
  const message = bytes.subarray(1 + 64 * (bytes[0] ?? 0))
  bytes.set(new Uint8Array(await crypto.subtle.sign('Ed25519', feePayer.keyPair.privateKey, message)), 1)
  return base64(bytes)
}

/** The payer's signature stands second, at 65. */
function bent(transaction: Uint8Array, forge: Forgery | undefined): Uint8Array {
  const bytes = Uint8Array.from(transaction)
  if (forge === 'another key') bytes.set(bytes.subarray(65, 97).toReversed(), 65)
  if (forge === 'high s') bytes.set(highS(bytes.subarray(97, 129)), 97)
  if (forge === 'too short') return bytes.subarray(0, -1)
  return forge === 'too long' ? Uint8Array.from([...bytes, 0]) : bytes
}

/** The same number modulo the order of the group. */
export function highS(s: Uint8Array): Uint8Array {
  const number = s.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n) + ORDER
  return Uint8Array.from({ length: 32 }, (_, i) => Number((number >> BigInt(8 * i)) & 255n))
}

/** A minute and a half of slots: a blockhash has run out, and its end is finalized. */
function waysOf(account: string): Ways {
  return {
    stranger: STRANGER,
    printed: account,
    spellings: (address) => [address],
    notAddresses: (address) => [
      '',
      'alice',
      `${address.slice(0, -1)}0`,
      `${address}11`,
      `1${address}`,
      '1'.repeat(31),
      '1'.repeat(33),
      `0x${'ab'.repeat(20)}`,
    ],
    malformed({ payload }) {
      const transaction = String(payload.transaction)
      const bytes = Buffer.from(transaction, 'base64')
      const formats = [
        new Uint8Array(),
        bytes.subarray(0, 65),
        bytes.subarray(0, 129),
        Buffer.concat([bytes, bytes]),
        Buffer.alloc(1232),
        Buffer.alloc(1233),
        Buffer.alloc(200, 255),
      ]
      const texts = [
        '!',
        'AA',
        `${transaction.slice(0, -4)}====`,
        transaction.replace(/.$/, '*'),
        ...formats.map(base64),
      ]
      return [
        {},
        { signature: transaction },
        { transaction: null },
        { transaction: 1 },
        { transaction: [transaction] },
        { transaction: { transaction } },
        ...texts.map((text) => ({ transaction: text })),
      ]
    },
    lifeSeconds: 90,
  }
}

export async function solanaSubject(node: SolanaNode): Promise<Subject<SolanaHarness>> {
  const harness = await solanaHarness(node)
  return {
    open: async () => harness,
    async close() {
      harness.chain.close()
      node.recover()
      node.outage(false)
      node.rewind(false)
    },
  }
}

const NO_WINDOW = 'the life of a payment is that of its blockhash; solana_test.ts has its laws'
const NO_CANCEL = 'what is signed on Solana cannot be taken back'

/** Laws of EIP-3009 that have no meaning here, or another one. */
export const EXCEPT = {
  'identify() tells the payer, the key of the authorization and the end of its life':
    'its key is the hash of a message; solana_test.ts has this law',
  'identify() gives one key and one payer, however the addresses are spelled':
    'base58 has one spelling; solana_test.ts bends what can be bent',
  'identify() looks at neither time nor value, and bears the largest numbers there are':
    'it has no times, and 64 bits for its value; solana_test.ts has this law',
  'identify() refuses a signature over another domain name': 'its messages have no domain',
  'verify() refuses an expired authorization': NO_WINDOW,
  'verify() refuses less than six seconds of life': NO_WINDOW,
  'verify() accepts exactly six seconds of life': NO_WINDOW,
  'verify() refuses an authorization that outlives the log search, and accepts one that ends with it (contract 1.50)':
    NO_WINDOW,
  'verify() refuses an authorization that is not yet valid': NO_WINDOW,
  'verify() refuses an authorization that was canceled': NO_CANCEL,
  'settle() of a canceled authorization is refused': NO_CANCEL,
  'fate() of a canceled authorization is dead': NO_CANCEL,
  'fate() of a nonce that was spent on somebody else is dead': 'it has no nonce',
  'fate() of an unused authorization is dead from the second of its end on, and not before': NO_WINDOW,
  'fate() stays dead, whatever comes after': `${NO_CANCEL}; solana_test.ts has this law`,
}
