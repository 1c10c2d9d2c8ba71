/** The local Solana, asked as public clients ask it. */
import { afterEach, expect, test } from 'bun:test'
import {
  type Address,
  address,
  type Base64EncodedWireTransaction,
  createKeyPairSignerFromBytes,
  createKeyPairSignerFromPrivateKeyBytes,
  createSolanaRpc,
  getBase58Encoder,
  getBase64Decoder,
  getBase64EncodedWireTransaction,
  getBase64Encoder,
  getTransactionDecoder,
  type KeyPairSigner,
  lamports,
  partiallySignTransaction,
  type Signature,
  signature,
  type TransactionMessageBytesBase64,
} from '@solana/kit'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { SOLANA_BUYER_FUNDS, SOLANA_DEVNET, startSolanaDevnet } from '../../../server/devnet/solana/mod.ts'
import { BLOCKHASH_LIFE, type Commitment, ROOT_DEPTH } from '../../../server/devnet/solana/ledger.ts'
import { solanaNode, type SolanaNode } from '../../../server/devnet/solana/node.ts'
import { accountOf, MINT } from '../../../server/devnet/solana/tokens.ts'

const NOON = Date.UTC(2030, 0, 1, 12)
const CENT = 10_000n
const RICH = 1_000_000n
const LAMPORTS = 1_000_000_000n
/** Two signatures, and the official client's bid of one microlamport for each of 20,000 units. */
const FEE = 10_001n

const open: { stop(): Promise<void> }[] = []
afterEach(async () => void (await Promise.all(open.splice(0).map((each) => each.stop()))))

/** A node of its own, under a clock that stands still. */
async function world() {
  const node = await solanaNode({ clock: { now: () => NOON } })
  open.push(node)
  const [feePayer, buyer, seller] = [await wallet(1), await wallet(2), (await wallet(3)).address]
  node.airdropSol(feePayer.address, LAMPORTS)
  await node.fund(buyer.address, RICH)
  await node.openAccount(seller)
  const rpc = createSolanaRpc(node.url)
  const pay = async (amount = CENT) =>
    signedBy(feePayer, await halfSigned(buyer, { node, feePayer: feePayer.address, seller, amount }))
  const half = () => halfSigned(buyer, { node, feePayer: feePayer.address, seller, amount: CENT })
  const send = (transaction: Base64EncodedWireTransaction) =>
    rpc.sendTransaction(transaction, { encoding: 'base64', skipPreflight: true }).send()
  const ask = (method: string, ...params: readonly unknown[]) =>
    post(node.url, { jsonrpc: '2.0', id: 1, method, params })
  const status = async (of: Signature) =>
    (await rpc.getSignatureStatuses([of]).send()).value[0]?.confirmationStatus ?? null
  const balanceOf = async (owner: string, commitment: Commitment) =>
    BigInt((await rpc.getTokenAccountBalance(await accountOf(address(owner)), { commitment }).send()).value.amount)
  return { node, rpc, feePayer, buyer, seller, pay, half, send, ask, status, balanceOf }
}

const wallet = (seed: number) => createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(seed))

/** Transaction of the official client: the fee payer's signature is missing. */
async function halfSigned(
  buyer: KeyPairSigner,
  {
    node,
    feePayer,
    seller,
    amount,
  }: { node: Pick<SolanaNode, 'url'>; feePayer: Address; seller: string; amount: bigint },
): Promise<string> {
  const client = new ExactSvmScheme(buyer, { rpcUrl: node.url })
  const { payload } = await client.createPaymentPayload(2, {
    scheme: 'exact',
    network: SOLANA_DEVNET,
    amount: String(amount),
    asset: MINT,
    payTo: seller,
    maxTimeoutSeconds: 60,
    extra: { feePayer },
  })
  return payload['transaction'] as string
}

async function signedBy(feePayer: KeyPairSigner, half: string): Promise<Base64EncodedWireTransaction> {
  const transaction = getTransactionDecoder().decode(getBase64Encoder().encode(half))
  return getBase64EncodedWireTransaction(await partiallySignTransaction([feePayer.keyPair], transaction))
}

type Reply = {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { code: number; message: string; data?: unknown }
}

async function post(url: string, body: unknown): Promise<Reply> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return (await response.json()) as Reply
}

const isCutOff = (asking: Promise<unknown>) =>
  asking.then(
    () => false,
    () => true,
  )

test('a payment of the official client lands once, however often it is sent, and moves its tokens', async () => {
  const { node, rpc, feePayer, buyer, seller, pay, send } = await world()
  const transaction = await pay()
  const { messageBytes } = getTransactionDecoder().decode(getBase64Encoder().encode(transaction))
  expect(
    (await rpc.getFeeForMessage(getBase64Decoder().decode(messageBytes) as TransactionMessageBytesBase64).send()).value,
  ).toBe(lamports(FEE))
  const [id, ...again] = await Promise.all([send(transaction), send(transaction), send(transaction)])
  expect([...again, await send(transaction)]).toEqual([id, id, id])
  expect([await node.balanceOf(buyer.address), await node.balanceOf(seller)]).toEqual([RICH - CENT, CENT])
  expect(node.lamportsOf(feePayer.address)).toBe(LAMPORTS - FEE)
  expect(node.transfersIn(id)).toEqual([{ from: buyer.address, to: seller, value: CENT }])

  const found = await rpc
    .getTransaction(id, { encoding: 'json', maxSupportedTransactionVersion: 0, commitment: 'confirmed' })
    .send()
  expect(found?.transaction.signatures[0]).toBe(id)
  expect(found?.meta).toMatchObject({ err: null, fee: FEE })
  const amounts = (balances: readonly { owner?: string; uiTokenAmount: { amount: string } }[] = []) =>
    balances.map(({ owner, uiTokenAmount }) => [owner, uiTokenAmount.amount]).sort()
  expect(amounts(found?.meta?.preTokenBalances)).toEqual(
    [
      [buyer.address, String(RICH)],
      [seller, '0'],
    ].sort(),
  )
  expect(amounts(found?.meta?.postTokenBalances)).toEqual(
    [
      [buyer.address, String(RICH - CENT)],
      [seller, String(CENT)],
    ].sort(),
  )
  const listed = await rpc.getSignaturesForAddress(await accountOf(address(seller))).send()
  expect(listed).toMatchObject([
    { signature: id, err: null, memo: expect.stringMatching(/^\[32\] [0-9a-f]{32}$/), blockTime: BigInt(NOON / 1000) },
  ])
})

test('kit reads the mint, the accounts and the clock of the chain', async () => {
  const { node, rpc, buyer, seller } = await world()
  const at = await accountOf(address(buyer.address))
  const read = { encoding: 'jsonParsed', commitment: 'confirmed' } as const
  expect(await rpc.getHealth().send()).toBe('ok')
  expect(SOLANA_DEVNET).toEndWith((await rpc.getGenesisHash().send()).slice(0, 32))
  expect((await rpc.getAccountInfo(MINT, read).send()).value?.data).toMatchObject({
    program: 'spl-token',
    parsed: { type: 'mint', info: { decimals: 6, supply: String(RICH) } },
  })
  expect((await rpc.getTokenSupply(MINT).send()).value).toMatchObject({ amount: String(RICH), uiAmountString: '1' })
  expect((await rpc.getTokenAccountsByOwner(address(buyer.address), { mint: MINT }, read).send()).value).toMatchObject([
    { pubkey: at, account: { lamports: lamports(2_039_280n) } },
  ])
  expect((await rpc.getMultipleAccounts([at, address(seller)], { encoding: 'base64' }).send()).value).toMatchObject([
    { space: 165n },
    null,
  ])
  expect(await rpc.getMinimumBalanceForRentExemption(165n).send()).toBe(lamports(2_039_280n))
  const slot = await rpc.getSlot({ commitment: 'processed' }).send()
  expect(slot).toBe(BigInt(node.slot()))
  const { context, value } = await rpc.getLatestBlockhash().send()
  const epoch = await rpc.getEpochInfo().send()
  expect([context.slot, value.lastValidBlockHeight, epoch.blockHeight]).toEqual([
    slot,
    (await rpc.getBlockHeight().send()) + BigInt(BLOCKHASH_LIFE),
    await rpc.getBlockHeight().send(),
  ])
  expect(epoch.blockHeight).toBeLessThan(slot)
  expect(Number(await rpc.getBlockTime(slot).send())).toBe(NOON / 1000)
  for (let i = 0; i < 2; i++) await rpc.requestAirdrop(address(seller), lamports(LAMPORTS)).send()
  expect((await rpc.getBalance(address(seller), { commitment: 'confirmed' }).send()).value).toBe(
    lamports(2n * LAMPORTS),
  )
})

test('a blockhash lives for 150 slots; what is sent later never lands, and only a preflight says so', async () => {
  const { node, buyer, pay, send, ask } = await world()
  const [inTime, late] = [await pay(), await pay()]
  node.advance(BLOCKHASH_LIFE)
  await send(inTime)
  expect(await node.balanceOf(buyer.address)).toBe(RICH - CENT)
  node.advance(1)
  const refused = {
    code: -32002,
    message: 'Transaction simulation failed: Blockhash not found',
    data: { err: 'BlockhashNotFound', logs: [] },
  }
  expect(
    (await ask('sendTransaction', late, { encoding: 'base64', preflightCommitment: 'processed' })).error,
  ).toMatchObject(refused)
  expect(node.landed(await send(late))).toBeUndefined()
  expect(await node.balanceOf(buyer.address)).toBe(RICH - CENT)
})

test('a preflight refuses what has landed, and what would fail; unchecked it fails in its block, and the fee is taken', async () => {
  const { node, rpc, feePayer, pay, send, ask } = await world()
  const [good, greedy] = [await pay(), await pay(RICH + 1n)]
  const checked = (transaction: string) =>
    ask('sendTransaction', transaction, { encoding: 'base64', preflightCommitment: 'confirmed' })
  await send(good)
  expect((await checked(good)).error).toMatchObject({
    code: -32002,
    message: 'Transaction simulation failed: This transaction has already been processed',
    data: { err: 'AlreadyProcessed' },
  })
  const reason = { InstructionError: [2, { Custom: 1 }] }
  const refused = await checked(greedy)
  expect(refused.error).toMatchObject({
    code: -32002,
    message: 'Transaction simulation failed: Error processing Instruction 2: custom program error: 0x1',
    data: { err: reason },
  })
  const id = await send(greedy)
  expect((await rpc.getSignatureStatuses([id]).send()).value[0]).toMatchObject({
    err: { InstructionError: [2n, { Custom: 1n }] },
  })
  expect(node.landed(id)).toMatchObject({ err: reason, fee: FEE })
  expect(node.transfersIn(id)).toEqual([])
  expect(node.lamportsOf(feePayer.address)).toBe(LAMPORTS - 2n * FEE)
})

test('simulateTransaction() needs the missing signature only when told to look, and moves nothing', async () => {
  const { node, rpc, buyer, seller, half } = await world()
  const transaction = (await half()) as Base64EncodedWireTransaction
  const simulate = (options: object) =>
    rpc
      .simulateTransaction(transaction, { encoding: 'base64', commitment: 'confirmed', ...options } as {
        encoding: 'base64'
      })
      .send()
  const at = await accountOf(address(seller))
  const seen = await simulate({ accounts: { addresses: [at], encoding: 'jsonParsed' } })
  expect(seen.value).toMatchObject({
    err: null,
    unitsConsumed: expect.any(BigInt),
    accounts: [{ data: { parsed: { info: { tokenAmount: { amount: String(CENT) } } } } }],
  })
  expect(await isCutOff(simulate({ sigVerify: true }))).toBe(true)
  node.advance(BLOCKHASH_LIFE + 1)
  expect((await simulate({})).value.err).toBe('BlockhashNotFound')
  expect((await simulate({ replaceRecentBlockhash: true })).value.err).toBeNull()
  expect(await node.balanceOf(buyer.address)).toBe(RICH)
})

test('what has landed is processed, then confirmed, then finalized, and each commitment reads its own past', async () => {
  const { node, rpc, buyer, pay, send, status, balanceOf } = await world()
  const transaction = await pay()
  node.setLag(2)
  const id = await send(transaction)
  const read = async () => [
    await status(id),
    await balanceOf(buyer.address, 'processed'),
    await balanceOf(buyer.address, 'confirmed'),
    await balanceOf(buyer.address, 'finalized'),
  ]
  const after = RICH - CENT
  expect(await read()).toEqual(['processed', after, RICH, RICH])
  const poll = () =>
    rpc.getTransaction(id, { encoding: 'base64', maxSupportedTransactionVersion: 0, commitment: 'confirmed' }).send()
  expect(await poll()).toBeNull()
  node.advance(2)
  expect(await read()).toEqual(['confirmed', after, after, RICH])
  expect((await poll())?.transaction).toEqual([transaction, 'base64'])
  node.advance(ROOT_DEPTH)
  expect(await read()).toEqual(['finalized', after, after, after])
  node.advance(300)
  expect(await status(id)).toBeNull()
  expect(
    (await rpc.getSignatureStatuses([id], { searchTransactionHistory: true }).send()).value[0]?.confirmationStatus,
  ).toBe('finalized')
})

test('a fork takes back what was only processed; on its way again, it lands where its blockhash lives', async () => {
  const { node, buyer, pay, send, status } = await world()
  const transaction = await pay()
  node.setLag(1)
  node.advance(1)
  const id = await send(transaction)
  expect(await status(id)).toBe('processed')
  expect(node.fork()).toEqual([id])
  expect([await status(id), await node.balanceOf(buyer.address)]).toEqual([null, RICH])
  node.setDelay(3)
  await send(transaction)
  node.advance(2)
  expect(await status(id)).toBeNull()
  node.advance(2)
  expect([await status(id), await node.balanceOf(buyer.address)]).toEqual(['confirmed', RICH - CENT])
})

test('a node may be down, lose sends, answers or landings, fall behind, and lie', async () => {
  const { node, rpc, buyer, pay, send, status, balanceOf, ask } = await world()
  const [one, two, three] = [await pay(), await pay(), await pay()]
  node.outage(true)
  const before = node.reads()
  expect(await isCutOff(rpc.getSlot().send())).toBe(true)
  node.outage('silent')
  const caller = new AbortController()
  const silent = isCutOff(rpc.getSlot().send({ abortSignal: caller.signal }))
  while (node.reads() - before < 2) await new Promise((resolve) => setImmediate(resolve))
  caller.abort()
  expect(await silent).toBe(true)
  node.outage('busy')
  expect(await isCutOff(rpc.getSlot().send())).toBe(true)
  node.outage(false)
  expect([node.reads() - before, node.reads('getSlot'), node.reads('sendTransaction')]).toEqual([3, 3, 0])

  const gone = node.drop('sends')
  expect(await isCutOff(send(one))).toBe(true)
  await gone
  expect(await node.balanceOf(buyer.address)).toBe(RICH)
  void node.drop('landings')
  expect(node.landed(await send(one))).toBeUndefined()
  void node.drop('answers')
  expect(await isCutOff(send(one))).toBe(true)
  expect(await node.balanceOf(buyer.address)).toBe(RICH - CENT)
  node.recover()

  node.mark()
  const id = await send(two)
  expect(await status(id)).toBe('confirmed')
  node.rewind(true)
  expect([await status(id), await balanceOf(buyer.address, 'confirmed')]).toEqual([null, RICH - CENT])
  expect((await ask('getSlot', { commitment: 'processed', minContextSlot: node.slot() + 1 })).error).toMatchObject({
    code: -32016,
  })
  node.rewind(false)
  expect([await status(id), await balanceOf(buyer.address, 'confirmed')]).toEqual(['confirmed', RICH - 2n * CENT])

  await node.freeze(buyer.address)
  expect(node.landed(await send(three))).toMatchObject({ err: { InstructionError: [2, { Custom: 17 }] } })
  node.fakeReply('getSignatureStatuses', () => ({ context: { slot: 1 }, value: [null] }))
  expect(await status(id)).toBeNull()
})

test('calls in a batch are answered each, and what is no call in the words of JSON-RPC', async () => {
  const { node, ask } = await world()
  const batch = [
    { jsonrpc: '2.0', id: 'a', method: 'getHealth' },
    { jsonrpc: '2.0', method: 'getHealth' },
    { id: 2 },
    { jsonrpc: '2.0', id: 3, method: 'getNothing' },
  ]
  expect(await post(node.url, batch)).toEqual([
    { jsonrpc: '2.0', id: 'a', result: 'ok' },
    { jsonrpc: '2.0', id: 2, error: { code: -32600, message: 'Invalid request' } },
    { jsonrpc: '2.0', id: 3, error: { code: -32601, message: 'Method not found' } },
  ] as never)
  expect((await post(node.url, 'not json')).error?.code).toBe(-32700)
  expect((await post(node.url, [])).error?.code).toBe(-32600)
  for (const params of [['alice'], [MINT, { commitment: 'soon' }], [MINT, { encoding: 'rot13' }]])
    expect((await ask('getAccountInfo', ...params)).error?.code).toBe(-32602)
  expect((await ask('sendTransaction', 'AQ==', { encoding: 'base64' })).error?.code).toBe(-32602)
  expect((await ask('getSignatureStatuses', Array(257).fill('1'))).error?.message).toBe(
    'Too many inputs provided; max 256',
  )
  expect((await fetch(node.url, { method: 'POST', body: '{}' })).status).toBe(415)
})

test('the local chain has a funded buyer, a fee payer, and a seller whose account is open', async () => {
  let now = NOON
  const devnet = await startSolanaDevnet({ clock: { now: () => now } })
  open.push(devnet)
  const key = (secret: string) => createKeyPairSignerFromBytes(getBase58Encoder().encode(secret))
  const [buyer, feePayer] = [await key(devnet.buyer.privateKey), await key(devnet.feePayerKey)]
  expect([String(buyer.address), devnet.mint]).toEqual([devnet.buyer.address, MINT])
  const half = await halfSigned(buyer, {
    node: { url: devnet.rpcUrl },
    feePayer: feePayer.address,
    seller: devnet.payTo,
    amount: CENT,
  })
  const rpc = createSolanaRpc(devnet.rpcUrl)
  const id = signature(await rpc.sendTransaction(await signedBy(feePayer, half), { encoding: 'base64' }).send())
  const status = async () => (await rpc.getSignatureStatuses([id]).send()).value[0]?.confirmationStatus
  expect(await status()).toBe('processed')
  now += 400
  expect(await status()).toBe('confirmed')
  const left = await rpc.getTokenAccountBalance(await accountOf(buyer.address)).send()
  expect(BigInt(left.value.amount)).toBe(SOLANA_BUYER_FUNDS - CENT)
})
