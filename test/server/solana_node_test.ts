/** The local Solana, asked as public clients ask it. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  type Address,
  address,
  type Base64EncodedWireTransaction,
  createKeyPairSignerFromPrivateKeyBytes,
  createSolanaRpc,
  getBase64EncodedWireTransaction,
  getBase64Encoder,
  getTransactionDecoder,
  type KeyPairSigner,
  partiallySignTransaction,
  type Signature,
} from '@solana/kit'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import type { Commitment } from '../../server/devnet/solana_ledger.ts'
import { solanaNode, type SolanaNode } from '../../server/devnet/solana_node.ts'
import { SOLANA_DEVNET } from '../../server/devnet/solana.ts'
import { accountOf, MINT } from '../../server/devnet/solana_tokens.ts'

const NOON = Date.UTC(2030, 0, 1, 12)
const CENT = 10_000n
const clock = { now: () => NOON }

let node: SolanaNode
let feePayer: KeyPairSigner
let seller: Address

beforeAll(async () => {
  node = await solanaNode({ clock })
  feePayer = await wallet()
  seller = (await wallet()).address
  node.airdropSol(feePayer.address)
  await node.openAccount(seller)
})

afterAll(() => node.stop())

let made = 0
const wallet = () => createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(++made))

async function buyer(balance = 1_000_000n): Promise<KeyPairSigner> {
  const signer = await wallet()
  await node.fund(signer.address, balance)
  return signer
}

const rpc = () => createSolanaRpc(node.url)
const status = async (signature: Signature) => (await rpc().getSignatureStatuses([signature]).send()).value[0]
const tokensOf = async (owner: string, commitment: Commitment) => {
  const { value } = await rpc().getTokenAccountBalance(await accountOf(address(owner)), { commitment }).send()
  return BigInt(value.amount)
}

/** What the official client sends, and the fee payer signs. */
async function payment(payer: KeyPairSigner, amount = CENT): Promise<Base64EncodedWireTransaction> {
  const client = new ExactSvmScheme(payer, { rpcUrl: node.url })
  const extra = { feePayer: feePayer.address }
  const { payload } = await client.createPaymentPayload(2, { scheme: 'exact', network: SOLANA_DEVNET, amount: String(amount), asset: MINT, payTo: seller, maxTimeoutSeconds: 60, extra })
  return await signed(payload['transaction'] as string, feePayer)
}

async function signed(wire: string, by: KeyPairSigner): Promise<Base64EncodedWireTransaction> {
  const transaction = getTransactionDecoder().decode(getBase64Encoder().encode(wire))
  return getBase64EncodedWireTransaction(await partiallySignTransaction([by.keyPair], transaction))
}

const send = (wire: Base64EncodedWireTransaction) => rpc().sendTransaction(wire, { encoding: 'base64', skipPreflight: true }).send()

/** As a client without a library reads it. */
async function ask(method: string, ...params: readonly unknown[]): Promise<{ result?: unknown; error?: { code: number; message: string; data?: { err: unknown; logs: string[] } } }> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  return (await (await fetch(node.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).json()) as object
}

test('a payment of the official client lands once, however often it is sent, and moves its tokens', async () => {
  const payer = await buyer()
  const [before, lamports] = [await node.balanceOf(seller), node.lamportsOf(feePayer.address)]
  const wire = await payment(payer)
  const [signature, ...again] = await Promise.all([send(wire), send(wire), send(wire)])
  expect(again).toEqual([signature, signature])
  expect([await node.balanceOf(payer.address), await node.balanceOf(seller)]).toEqual([1_000_000n - CENT, before + CENT])
  expect(node.transfersIn(signature)).toEqual([{ from: payer.address, to: seller, value: CENT }])
  const found = await rpc().getTransaction(signature, { encoding: 'json', maxSupportedTransactionVersion: 0, commitment: 'confirmed' }).send()
  expect(found?.meta).toMatchObject({ err: null, fee: lamports - node.lamportsOf(feePayer.address) })
})
