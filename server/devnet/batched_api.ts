/**
 * Simulates Circle Gateway's API for batched payments (decision 69) on loopback: deposits, settlements and transfers of
 * test money. It verifies payments independently, in the API's order and with its error codes, and shares no code with
 * its clients.
 */
import { formatUnits, type Hex } from 'viem'
import {
  type Authorization,
  check,
  isSame,
  type JsonObject,
  MIN_VALIDITY,
  NAME,
  type PaymentRequest,
} from './batched_checks.ts'

type TransferStatus = 'received' | 'batched' | 'confirmed' | 'completed' | 'failed'

type BatchedTransfer = {
  readonly id: string
  status: TransferStatus
  readonly token: 'USDC'
  readonly sendingNetwork: string
  readonly recipientNetwork: string
  readonly fromAddress: Hex
  readonly toAddress: Hex
  readonly amount: string
  readonly nonce: Hex
  txHash: Hex | null
  readonly createdAt: string
  updatedAt: string
}

type BatchedOptions = {
  readonly clock: { now(): number }
  /** CAIP-2 id, such as `eip155:84532`. */
  readonly network: string
  readonly asset: string
  /** Circle's domain number of the network. Default: that of Base and Base Sepolia. */
  readonly domain?: number
  /** Address of the wallet contract. Default: the testnets' one. */
  readonly wallet?: Hex
  readonly port?: number
  /** Milliseconds after which a transfer advances one status. Default: transfers advance only by `advance`. */
  readonly stepMs?: number
}

export type BatchedStandIn = {
  readonly url: string
  /** The response to GET /v1/x402/supported. */
  readonly supported: {
    readonly kinds: readonly object[]
    readonly extensions: readonly string[]
    readonly signers: object
  }
  readonly transfers: readonly BatchedTransfer[]
  deposit(address: string, amount: bigint): void
  /** Sets the available balance of an address. */
  setBalance(address: string, amount: bigint): void
  /** The available balance; with `with_incoming`, including incoming transfers that are not completed. */
  balanceOf(address: string, scope?: 'with_incoming'): bigint
  /** Advances one transfer, or all of them, to the next status or to `to`. */
  advance(id?: string, to?: TransferStatus): void
  /** While on, every response is an HTML page with status 503. */
  outage(on: boolean): void
  /**
   * Until `heal`, settle requests are lost: with `sends` before they are processed, with `answers` afterwards, together
   * with all responses about transfers. Resolves when one was lost.
   */
  drop(what: 'sends' | 'answers'): Promise<void>
  recover(): void
  /** The number of requests received. */
  reads(): number
  stop(): Promise<void>
}

const STEPS: readonly TransferStatus[] = ['received', 'batched', 'confirmed', 'completed']
type RequestBody = { readonly token?: unknown; readonly sources?: unknown } & Partial<PaymentRequest>

type BatchedApi = Required<Pick<BatchedOptions, 'clock' | 'network' | 'asset' | 'domain' | 'wallet'>> & {
  readonly stepMs: number | undefined
  readonly chainId: number
  readonly supported: BatchedStandIn['supported']
  /** Available balances by address in lower case. */
  readonly available: Map<string, bigint>
  readonly transfers: BatchedTransfer[]
  readonly nonces: Map<string, BatchedTransfer>
  isDown: boolean
  loss: { readonly what: 'sends' | 'answers'; readonly onLost: () => void } | undefined
}

export function startBatchedApi({
  clock,
  network,
  asset,
  domain = 6,
  wallet = '0x0077777d7EBA4688BDeF3E311b846F25870A19B9',
  port = 0,
  stepMs,
}: BatchedOptions): BatchedStandIn {
  const kind = {
    name: NAME,
    version: '1',
    verifyingContract: wallet,
    assets: [{ symbol: 'USDC', address: asset, decimals: 6 }],
    minValiditySeconds: Number(MIN_VALIDITY),
  }
  const supported = { kinds: [{ x402Version: 2, scheme: 'exact', network, extra: kind }], extensions: [], signers: {} }
  const api: BatchedApi = {
    clock,
    network,
    asset,
    domain,
    wallet,
    stepMs,
    chainId: Number(network.split(':')[1]),
    supported,
    available: new Map(),
    transfers: [],
    nonces: new Map(),
    isDown: false,
    loss: undefined,
  }
  let count = 0

  const server = Bun.serve({
    port,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      count++
      const response = await handle(api, request)
      response.headers.set('date', new Date(clock.now()).toUTCString())
      return response
    },
  })

  return {
    url: `http://127.0.0.1:${server.port}`,
    supported,
    transfers: api.transfers,
    deposit: (address, amount) => credit(api, address, amount),
    setBalance: (address, amount) => void api.available.set(address.toLowerCase(), amount),
    balanceOf(address, scope) {
      const incoming = api.transfers.filter(
        (each) => scope && isSame(each.toAddress, address) && each.status !== 'completed' && each.status !== 'failed',
      )
      return incoming.reduce((sum, { amount }) => sum + BigInt(amount), availableOf(api, address))
    },
    advance(id, to) {
      for (const each of api.transfers) if (id === undefined || each.id === id) setStatus(api, each, to ?? next(each))
    },
    outage: (on) => void (api.isDown = on),
    drop: (what) => new Promise((onLost) => void (api.loss = { what, onLost })),
    recover: () => void (api.loss = undefined),
    reads: () => count,
    stop: () => server.stop(true),
  }
}

function availableOf(api: BatchedApi, address: string): bigint {
  const { available } = api
  return available.get(address.toLowerCase()) ?? 0n
}

function credit(api: BatchedApi, address: string, amount: bigint): void {
  const { available } = api
  available.set(address.toLowerCase(), availableOf(api, address) + amount)
}

function isoNow(api: BatchedApi): string {
  const { clock } = api
  return new Date(clock.now()).toISOString()
}

/**
 * Debits the payer at once; the seller is credited when the batch completes. Synchronous, so that the checks and the
 * debit are atomic. Returns an error code on failure.
 */
function createTransfer(api: BatchedApi, { from, to, value, nonce }: Authorization): BatchedTransfer | string {
  const { network, available, transfers, nonces } = api
  if (!available.has(from.toLowerCase())) return 'wallet_not_found'
  if (availableOf(api, from) < value) return 'insufficient_balance'
  const nonceKey = `${from}/${nonce}`.toLowerCase()
  if (nonces.has(nonceKey)) return 'nonce_already_used'
  credit(api, from, -value)
  const [createdAt, updatedAt] = [isoNow(api), isoNow(api)]
  const ends = { sendingNetwork: network, recipientNetwork: network, fromAddress: from, toAddress: to }
  const transfer: BatchedTransfer = {
    id: crypto.randomUUID(),
    status: 'received',
    token: 'USDC',
    ...ends,
    amount: String(value),
    nonce,
    txHash: null,
    createdAt,
    updatedAt,
  }
  transfers.push(transfer)
  nonces.set(nonceKey, transfer)
  return transfer
}

function setStatus(api: BatchedApi, transfer: BatchedTransfer, to: TransferStatus): void {
  if (transfer.status === 'completed' || transfer.status === 'failed') return
  if (to === 'completed') credit(api, transfer.toAddress, BigInt(transfer.amount))
  if (to === 'failed') credit(api, transfer.fromAddress, BigInt(transfer.amount))
  if (to === 'confirmed' || to === 'completed') transfer.txHash ??= `0x${'ba'.repeat(32)}`
  transfer.status = to
  transfer.updatedAt = isoNow(api)
}

const next = ({ status }: BatchedTransfer): TransferStatus => STEPS[STEPS.indexOf(status) + 1] ?? status

/** Advances transfers by the steps that are due. */
function advanceDue(api: BatchedApi, every: number): void {
  const { clock, transfers } = api
  for (const each of transfers) {
    const steps = Math.floor((clock.now() - Date.parse(each.updatedAt)) / every)
    for (let step = 0; step < Math.min(steps, STEPS.length); step++) setStatus(api, each, next(each))
  }
}

async function settle(api: BatchedApi, body: PaymentRequest): Promise<object> {
  const { network } = api
  const verification = await check(api, body)
  const failure = (errorReason: string, payer: Hex | undefined) => ({
    success: false,
    errorReason,
    transaction: '',
    network,
    ...(payer && { payer }),
  })
  if (!verification.ok) return failure(verification.reason, verification.payer)
  const { from: payer } = verification.payment
  const transfer = createTransfer(api, verification.payment)
  return typeof transfer === 'string'
    ? failure(transfer, payer)
    : { success: true, transaction: transfer.id, network, payer }
}

async function verify(api: BatchedApi, body: PaymentRequest): Promise<object> {
  const verification = await check(api, body)
  return verification.ok
    ? { isValid: true, payer: verification.payment.from }
    : { isValid: false, invalidReason: verification.reason, ...(verification.payer && { payer: verification.payer }) }
}

function search(api: BatchedApi, query: URLSearchParams): Response {
  const { transfers } = api
  const parameter = (name: string) => query.get(name) ?? undefined
  const [from, to, nonce, status] = ['from', 'to', 'nonce', 'status'].map(parameter)
  if (status && !from && !to && !nonce) return errorReply('status requires one of from, to, nonce')
  const [after, before] = [parameter('startDate'), parameter('endDate')].map((date) =>
    date ? Date.parse(date) : undefined,
  )
  const matches = (filter: string | undefined, value: string) =>
    filter === undefined || filter.toLowerCase() === value.toLowerCase()
  const found = transfers.filter((each) => {
    const isMatch =
      matches(from, each.fromAddress) &&
      matches(to, each.toAddress) &&
      matches(nonce, each.nonce) &&
      matches(status, each.status)
    const createdAt = Date.parse(each.createdAt)
    return (
      isMatch &&
      matches(parameter('network'), each.sendingNetwork) &&
      createdAt >= (after ?? createdAt) &&
      createdAt <= (before ?? createdAt)
    )
  })
  return Response.json({ transfers: found.toReversed().slice(0, Number(parameter('pageSize') ?? 20)) })
}

function balances(api: BatchedApi, { token, sources }: RequestBody): Response {
  const { domain } = api
  if (token !== 'USDC' || !Array.isArray(sources)) return errorReply('Invalid request: token, sources: Required')
  const known = (sources as readonly JsonObject[]).filter(
    (source) => source.domain === undefined || source.domain === domain,
  )
  return Response.json({
    token,
    balances: known.map(({ depositor }) => ({
      domain,
      depositor,
      balance: formatUnits(availableOf(api, String(depositor)), 6),
    })),
  })
}

async function handle(api: BatchedApi, request: Request): Promise<Response> {
  const { supported, transfers, stepMs } = api
  const { pathname, searchParams } = new URL(request.url)
  const route = `${request.method} ${pathname}`
  if (api.isDown) return unavailable()
  if (stepMs !== undefined) advanceDue(api, stepMs)
  if (route === 'GET /v1/x402/supported') return Response.json(supported)
  if (route === 'GET /v1/x402/transfers')
    return api.loss?.what === 'answers' ? unavailable() : search(api, searchParams)
  if (route.startsWith('GET /v1/x402/transfers/')) {
    const found = transfers.find(({ id }) => pathname.endsWith(`/${id}`))
    return found ? Response.json(found) : errorReply('Transfer not found', 404)
  }
  const body = ((await request.json().catch(() => undefined)) ?? {}) as RequestBody
  if (route === 'POST /v1/balances') return balances(api, body)
  if (route !== 'POST /v1/x402/settle' && route !== 'POST /v1/x402/verify') return errorReply('Not found', 404)
  const missing = missingField(body)
  if (missing) return errorReply(`Invalid request: ${missing}: Required`)
  const payment = body as PaymentRequest
  if (route.endsWith('/verify')) return Response.json(await verify(api, payment))
  const current = api.loss
  if (current?.what === 'sends') {
    current.onLost()
    return unavailable()
  }
  const settled = await settle(api, payment)
  current?.onLost()
  return current ? unavailable() : Response.json(settled)
}

function unavailable(): Response {
  return new Response('<html>503 Service Unavailable</html>', { status: 503, headers: { 'content-type': 'text/html' } })
}

function errorReply(message: string, status = 400): Response {
  return Response.json({ message }, { status })
}

/** The first required field that is missing. */
function missingField({ paymentPayload, paymentRequirements }: RequestBody): string | undefined {
  const fields: JsonObject = { ...paymentPayload }
  const missing = ['x402Version', 'payload', 'resource', 'accepted'].find((name) => !fields[name])
  if (missing) return `paymentPayload.${missing}`
  return paymentRequirements ? undefined : 'paymentRequirements'
}
