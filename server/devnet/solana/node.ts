/**
 * A Solana node on loopback, for the local chain and for tests: JSON-RPC over a ledger in memory, with controls over
 * the chain. Nothing is persisted. Slots follow the given clock: with a stopped clock, only `advance` and `setTime`
 * make new ones.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Address, address } from '@solana/kit'
import type { Clock } from '../../../core/mod.ts'
import { RpcError } from './errors.ts'
import { solanaFaucet } from './faucet.ts'
import { type Commitment, type Landed, SLOT_MS, type SolanaLedger, solanaLedger } from './ledger.ts'
import { type SolanaRpc, solanaRpc } from './rpc.ts'
import { accountOf, MINT, mintAccount, mintOf, tokenAccount, tokenOf, walletAccount } from './tokens.ts'
import { parse, type Parsed } from './transaction.ts'
import { LAST_EPOCH } from './views.ts'

type Transfer = { readonly from: string; readonly to: string; readonly value: bigint }
/** Replaces a result: gets the true result and the call's parameters, and may throw an RpcError. */
type FakeReply = (truth: unknown, params: readonly unknown[]) => unknown

type Outage = boolean | 'busy' | 'silent'

export type SolanaNode = {
  readonly url: string
  stop(): Promise<void>

  // ── money; changes apply at every commitment ──

  /** Sets an owner's USDC balance, and opens the token account if necessary. */
  fund(owner: string, baseUnits: bigint): Promise<void>
  /** Opens an empty token account for an owner; does nothing if it exists. */
  openAccount(owner: string): Promise<void>
  /** Deletes an owner's token account with its balance. */
  closeAccount(owner: string): Promise<void>
  /** Freezes an owner's token account, as the issuer can: no transfer from or to it succeeds. */
  freeze(owner: string): Promise<void>
  /** Adds lamports to an address: by default 1 SOL. */
  airdropSol(to: string, lamports?: bigint): void
  /** An owner's USDC in base units, in the newest state; 0 without an account. */
  balanceOf(owner: string): Promise<bigint>
  lamportsOf(address: string): bigint
  /** USDC that a transaction moved, by owner; empty when it failed or never landed. */
  transfersIn(signature: string): readonly Transfer[]
  /** The outcome of a transaction in the newest state, whatever the node reports. */
  landed(signature: string): Landed | undefined

  // ── time ──

  /** The chain's time in milliseconds. */
  now(): number
  /** Advances by this many slots of 400 ms. */
  advance(slots: number): void
  /** Throws when time would go back. */
  setTime(ms: number): void
  /** As the node sees it; by default the newest. */
  slot(commitment?: Commitment): number
  /** Slots that confirmed is behind processed; initially 0. Finalized is always 31 behind confirmed. */
  setLag(slots: number): void
  /** Slots until a transaction lands, if its blockhash is still valid then; initially 0. */
  setDelay(slots: number): void

  // ── trouble ──

  /** Number of calls that have reached the node, counting each call of a batch; of one method, or of all. */
  reads(method?: string): number
  /** Requests are disconnected, refused with 429, or never answered. */
  outage(how: Outage): void
  /**
   * Until `heal`: sends are lost before they arrive, or arrive while their replies and all statuses are lost, or are
   * accepted and never land. Resolves when one was lost.
   */
  drop(what: 'sends' | 'answers' | 'landings'): Promise<void>
  recover(): void
  /**
   * Marks the current state and begins the next slot; `rewind(true)` shows the marked state again, as a node that is
   * behind does.
   */
  mark(): void
  rewind(on: boolean): void
  /**
   * Switches to another fork: transactions that were processed and not confirmed never happened. Requires a lag.
   * Returns their signatures.
   */
  fork(): readonly string[]
  /** Replaces the results of a method from now on; without a replacement, restores it. */
  fakeReply(method: string, make?: FakeReply): void
}

type SolanaNodeOptions = {
  readonly clock: Pick<Clock, 'now'>
  /** Loopback port; by default 0, a free one. */
  readonly port?: number
}

type Call = {
  readonly jsonrpc?: string
  readonly id?: unknown
  readonly method?: string
  readonly params?: readonly unknown[]
}

/** As on public nodes: larger requests are refused with 413. */
const MAX_BODY = 50 * 1024
const SOL = 1_000_000_000n
const RECEIPTS = ['getSignatureStatuses', 'getTransaction', 'getSignaturesForAddress']

type NodeState = {
  readonly answer: SolanaRpc
  readonly counts: Map<string, number>
  readonly fakeReplies: Map<string, FakeReply>
  out: Outage
  dropping: 'sends' | 'answers' | 'landings' | undefined
  onDropped: () => void
}

/** Starts a node with the USDC mint and a faucet. Resolves when it answers. */
export async function solanaNode({ clock, port = 0 }: SolanaNodeOptions): Promise<SolanaNode> {
  const ledger = solanaLedger(clock)
  const faucet = await solanaFaucet()
  ledger.put(walletAccount(faucet.address, 1_000_000n * SOL))
  ledger.put(mintAccount({ authority: faucet.address, supply: 0n }))

  const submit = (parsed: Parsed): void => {
    if (state.dropping !== 'landings') ledger.submit(parsed)
  }
  const airdrop = async (to: Address, lamports: bigint): Promise<string> => {
    const parsed = parse(await faucet.give(to, lamports, { blockhash: ledger.blockhashOf(ledger.slotOf('processed')) }))
    submit(parsed)
    return parsed.signature
  }
  const state: NodeState = {
    answer: solanaRpc(ledger, { submit, airdrop }),
    counts: new Map(),
    fakeReplies: new Map(),
    out: false,
    dropping: undefined,
    onDropped() {},
  }
  const server = createServer(
    (request, response) => void serve(state, request, response).catch(() => request.socket.destroy()),
  )
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const money: Money = { ledger, authority: faucet.address }
  return {
    url,
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
    fund: (owner, amount) => setTokens(money, owner, () => ({ amount })),
    openAccount: (owner) => setTokens(money, owner, (balance) => (balance === undefined ? { amount: 0n } : undefined)),
    freeze: (owner) => setTokens(money, owner, (balance = 0n) => ({ amount: balance, isFrozen: true })),
    async closeAccount(owner) {
      await setTokens(money, owner, (balance) => (balance === undefined ? undefined : { amount: 0n }))
      ledger.put(walletAccount(await accountOf(address(owner)), 0n))
    },
    airdropSol: (to, lamports = SOL) =>
      ledger.put(walletAccount(address(to), (newest(ledger, address(to))?.lamports ?? 0n) + lamports)),
    balanceOf: async (owner) => tokenOf(newest(ledger, await accountOf(address(owner))))?.amount ?? 0n,
    lamportsOf: (at) => newest(ledger, address(at))?.lamports ?? 0n,
    transfersIn: (signature) => transfersOf(ledger.landed(signature)),
    landed: ledger.landed,

    now: ledger.now,
    advance: (slots) => ledger.setTime(ledger.now() + slots * SLOT_MS),
    setTime: ledger.setTime,
    slot: (commitment = 'processed') => ledger.slotOf(commitment),
    setLag: ledger.setLag,
    setDelay: ledger.setDelay,

    reads: (method) =>
      method === undefined
        ? [...state.counts.values()].reduce((all, count) => all + count, 0)
        : (state.counts.get(method) ?? 0),
    outage: (how) => void (state.out = how),
    drop(what) {
      state.dropping = what
      return new Promise((resolve) => (state.onDropped = resolve))
    },
    recover() {
      state.dropping = undefined
      state.onDropped = () => {}
    },
    mark: ledger.mark,
    rewind: ledger.rewind,
    fork: ledger.fork,
    fakeReply: (method, make) => void (make ? state.fakeReplies.set(method, make) : state.fakeReplies.delete(method)),
  }
}

async function serve(state: NodeState, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const end = (status: number, body: string) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(body)
  if (request.method !== 'POST') return end(405, 'Used HTTP Method is not allowed. POST is required')
  if (!request.headers['content-type']?.startsWith('application/json'))
    return end(415, 'Supplied content type is not allowed. Content-Type: application/json is required')
  const text = await textOf(request)
  if (text === undefined) return end(413, 'Request body too large')
  const { calls, isBatch } = callsIn(text) ?? {}
  if (!calls) return end(200, '{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}')
  const methods = calls.map(({ method = '' }) => method)
  for (const method of methods) state.counts.set(method, (state.counts.get(method) ?? 0) + 1)
  const isSending = methods.includes('sendTransaction')
  if (state.out === 'busy')
    return end(
      429,
      '{"jsonrpc":"2.0","error":{"code":429,"message":"Too many requests for a specific RPC call"},"id":null}',
    )
  if (state.out === 'silent') return
  if (state.out || (state.dropping === 'sends' && isSending)) return hangUp()
  const replies = await Promise.all(calls.map((call) => reply(state, call)))
  if (state.dropping === 'answers' && (isSending || methods.some((method) => RECEIPTS.includes(method))))
    return hangUp()
  if (state.dropping === 'landings' && isSending) state.onDropped()
  const answers = replies.filter((each) => each !== undefined)
  end(
    200,
    answers.length > 0
      ? JSON.stringify(isBatch ? answers : answers[0]).replaceAll(`"${LAST_EPOCH}"`, '18446744073709551615')
      : '',
  )

  function hangUp(): void {
    request.socket.destroy()
    if (isSending) state.onDropped()
  }
}

/** Undefined for a notification, which has no reply. */
async function reply(state: NodeState, { jsonrpc, id, method, params = [] }: Call): Promise<object | undefined> {
  if (id === undefined && method !== undefined) return undefined
  if (method === undefined || jsonrpc !== '2.0' || !Array.isArray(params))
    return { jsonrpc: '2.0', error: { code: -32600, message: 'Invalid request' }, id: id ?? null }
  try {
    const truth = await state.answer(method, params)
    const fakeReply = state.fakeReplies.get(method)
    return { jsonrpc: '2.0', result: fakeReply ? await fakeReply(truth, params) : truth, id }
  } catch (error) {
    const { code, message, data } = error instanceof RpcError ? error : new RpcError(-32603, String(error))
    return { jsonrpc: '2.0', error: { code, message, ...(data !== undefined && { data }) }, id }
  }
}

type Money = { readonly ledger: SolanaLedger; readonly authority: Address }

const newest = (ledger: SolanaLedger, at: Address) => ledger.account(at, ledger.tip())

async function setTokens(
  { ledger, authority }: Money,
  owner: string,
  change: (balance: bigint | undefined) => { amount: bigint; isFrozen?: boolean } | undefined,
): Promise<void> {
  const at = await accountOf(address(owner))
  const balance = tokenOf(newest(ledger, at))?.amount
  const wanted = change(balance)
  if (!wanted) return
  ledger.put(tokenAccount(at, { owner: address(owner), ...wanted }))
  const supply = (mintOf(newest(ledger, MINT))?.supply ?? 0n) + wanted.amount - (balance ?? 0n)
  ledger.put(mintAccount({ authority, supply }))
}

const [TRANSFER, TRANSFER_CHECKED] = [3, 12]

/**
 * Only what the token program was told to move: a plain transfer names source and destination, a checked one also the
 * mint between them.
 */
function transfersOf(landed: Landed | undefined): Transfer[] {
  if (!landed || landed.err !== null) return []
  const { message, inner, before, after } = landed
  const all = message.instructions.flatMap((instruction, i) => [
    instruction,
    ...inner.filter(({ index }) => index === i).flatMap(({ instructions }) => instructions),
  ])
  const balance = (index = -1) => before[index]?.tokens ?? after[index]?.tokens
  return all.flatMap(({ accounts, data }) => {
    const bytes = Buffer.from(data)
    const from = balance(accounts[0])
    const to = balance(bytes[0] === TRANSFER ? accounts[1] : accounts[2])
    const isTransfer = bytes[0] === TRANSFER || bytes[0] === TRANSFER_CHECKED
    return isTransfer && from?.mint === MINT && to
      ? [{ from: from.owner, to: to.owner, value: bytes.readBigUInt64LE(1) }]
      : []
  })
}

/** Undefined when the text is not JSON. Anything that is not a call is treated as one without a method. */
function callsIn(text: string): { readonly calls: readonly Call[]; readonly isBatch: boolean } | undefined {
  try {
    const body = JSON.parse(text) as unknown
    const isBatch = Array.isArray(body) && body.length > 0
    return {
      isBatch,
      calls: (isBatch ? body : [body]).map((call: unknown) => (typeof call === 'object' && call !== null ? call : {})),
    }
  } catch {
    return undefined
  }
}

async function textOf(request: IncomingMessage): Promise<string | undefined> {
  let text = ''
  for await (const chunk of request) {
    text += String(chunk)
    if (text.length > MAX_BODY) return undefined
  }
  return text
}
