/**
 * A stand-in for Circle Gateway's API of batched payments (decision 69): deposits, settlements and transfers of play money on loopback.
 * It judges payments by itself, in the API's order and words, and shares no code with those who ask it.
 */
import { formatUnits, type Hex, isAddress, isAddressEqual, isHex, recoverTypedDataAddress } from 'viem'

export type TransferStatus = 'received' | 'batched' | 'confirmed' | 'completed' | 'failed'

export type BatchedTransfer = {
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

export type BatchedOptions = {
  readonly clock: { now(): number }
  /** CAIP-2; `eip155:84532`, for example. */
  readonly network: string
  readonly asset: string
  /** Circle's number of the network; that of Base and Base Sepolia unless told. */
  readonly domain?: number
  /** The wallet contract; the testnets' one unless told. */
  readonly wallet?: Hex
  readonly port?: number
  /** Transfers go on by themselves, one step in so many milliseconds; only when told, unless told. */
  readonly stepMs?: number
}

export type BatchedStandIn = {
  readonly url: string
  /** What GET /v1/x402/supported says. */
  readonly supported: {
    readonly kinds: readonly object[]
    readonly extensions: readonly string[]
    readonly signers: object
  }
  readonly transfers: readonly BatchedTransfer[]
  deposit(address: string, amount: bigint): void
  /** Sets what an address is free to spend. */
  hold(address: string, amount: bigint): void
  /** What it is free to spend, and with `owed` what is on its way to it as well. */
  balanceOf(address: string, owed?: 'owed'): bigint
  /** Moves one transfer on, or each: to the next status, or on to the one that is named. */
  advance(id?: string, to?: TransferStatus): void
  /** Every answer is an HTML page of status 503. */
  outage(on: boolean): void
  /** Settlements vanish before they are read, or after they are done with all answers about transfers, until `heal`. Resolves when one has. */
  lose(what: 'sends' | 'answers'): Promise<void>
  heal(): void
  /** How many requests have come. */
  reads(): number
  stop(): Promise<void>
}

/** An authorization must outlive its settlement by seven days. */
const MIN_VALIDITY = 604_800n
const STEPS: readonly TransferStatus[] = ['received', 'batched', 'confirmed', 'completed']
const NAME = 'GatewayWalletBatched'
const TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const

/** A request as it comes: nothing about it is certain. */
type Fields = Readonly<Record<string, unknown>>
type Request402 = {
  readonly paymentPayload: { readonly x402Version: unknown; readonly accepted: Fields; readonly payload: Fields }
  readonly paymentRequirements: Fields
}
type Asked = { readonly token?: unknown; readonly sources?: unknown } & Partial<Request402>

type Judged =
  | { readonly ok: true; readonly payment: Authorization }
  | { readonly ok: false; readonly reason: string; readonly payer?: Hex }
type Authorization = {
  readonly from: Hex
  readonly to: Hex
  readonly value: bigint
  readonly validAfter: bigint
  readonly validBefore: bigint
  readonly nonce: Hex
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
  const chainId = Number(network.split(':')[1])
  const kind = {
    name: NAME,
    version: '1',
    verifyingContract: wallet,
    assets: [{ symbol: 'USDC', address: asset, decimals: 6 }],
    minValiditySeconds: Number(MIN_VALIDITY),
  }
  const supported = { kinds: [{ x402Version: 2, scheme: 'exact', network, extra: kind }], extensions: [], signers: {} }
  const free = new Map<string, bigint>()
  const transfers: BatchedTransfer[] = []
  const nonces = new Map<string, BatchedTransfer>()
  let count = 0
  let down = false
  let losing: { readonly what: 'sends' | 'answers'; readonly seen: () => void } | undefined

  const freeOf = (address: string) => free.get(address.toLowerCase()) ?? 0n
  const give = (address: string, amount: bigint) => void free.set(address.toLowerCase(), freeOf(address) + amount)
  const isoNow = () => new Date(clock.now()).toISOString()

  // ── judging ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** What /verify looks at: everything but balance and nonce. */
  async function judge({ paymentPayload, paymentRequirements: wanted }: Request402): Promise<Judged> {
    const no = (reason: string, payer?: Hex): Judged => ({ ok: false, reason, ...(payer && { payer }) })
    const { x402Version, accepted, payload } = paymentPayload
    if (x402Version !== 2 || accepted.scheme !== 'exact' || wanted.scheme !== 'exact') return no('unsupported_scheme')
    if (accepted.network !== network || wanted.network !== network) return no('unsupported_network')
    if (!isSame(accepted.asset, asset) || !isSame(wanted.asset, asset)) return no('unsupported_asset')
    const { name, version, verifyingContract } = (wanted.extra ?? {}) as Fields
    if (name !== NAME || version !== '1' || !isSame(verifyingContract, wallet)) return no('unsupported_domain')
    const payment = readAuthorization(payload.authorization)
    const { signature } = payload
    if (!payment || !isHex(signature)) return no('invalid_payload')
    const { from, to, value, validAfter, validBefore } = payment
    if (!isSame(wanted.payTo, to)) return no('address_mismatch', from)
    if (wanted.amount !== String(value)) return no('amount_mismatch', from)
    const signing = {
      domain: { name: NAME, version: '1', chainId, verifyingContract: wallet },
      types: TYPES,
      primaryType: 'TransferWithAuthorization',
    } as const
    const signer = await recoverTypedDataAddress({ ...signing, message: payment, signature }).catch(() => undefined)
    if (!signer || !isAddressEqual(signer, from)) return no('invalid_signature', from)
    const now = BigInt(Math.floor(clock.now() / 1000))
    if (validAfter > now) return no('authorization_not_yet_valid', from)
    if (validBefore <= now) return no('authorization_expired', from)
    if (validBefore - now < MIN_VALIDITY) return no('authorization_validity_too_short', from)
    return isAddressEqual(from, to) ? no('self_transfer', from) : { ok: true, payment }
  }

  /** Takes the money at once; the seller has it when the batch is completed. No wait lies between looking and taking. */
  function take({ from, to, value, nonce }: Authorization): BatchedTransfer | string {
    if (!free.has(from.toLowerCase())) return 'wallet_not_found'
    if (freeOf(from) < value) return 'insufficient_balance'
    const used = `${from}/${nonce}`.toLowerCase()
    if (nonces.has(used)) return 'nonce_already_used'
    give(from, -value)
    const [createdAt, updatedAt] = [isoNow(), isoNow()]
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
    nonces.set(used, transfer)
    return transfer
  }

  function move(transfer: BatchedTransfer, to: TransferStatus): void {
    if (transfer.status === 'completed' || transfer.status === 'failed') return
    if (to === 'completed') give(transfer.toAddress, BigInt(transfer.amount))
    if (to === 'failed') give(transfer.fromAddress, BigInt(transfer.amount))
    if (to === 'confirmed' || to === 'completed') transfer.txHash ??= `0x${'ba'.repeat(32)}`
    transfer.status = to
    transfer.updatedAt = isoNow()
  }

  const next = ({ status }: BatchedTransfer): TransferStatus => STEPS[STEPS.indexOf(status) + 1] ?? status

  /** Makes the steps that are due by now. */
  function goOn(every: number): void {
    for (const each of transfers) {
      const steps = Math.floor((clock.now() - Date.parse(each.updatedAt)) / every)
      for (let step = 0; step < Math.min(steps, STEPS.length); step++) move(each, next(each))
    }
  }

  // ── answering ─────────────────────────────────────────────────────────────────────────────────────────────────────

  async function settle(body: Request402): Promise<object> {
    const judged = await judge(body)
    const refusal = (errorReason: string, payer: Hex | undefined) => ({
      success: false,
      errorReason,
      transaction: '',
      network,
      ...(payer && { payer }),
    })
    if (!judged.ok) return refusal(judged.reason, judged.payer)
    const { from: payer } = judged.payment
    const taken = take(judged.payment)
    return typeof taken === 'string' ? refusal(taken, payer) : { success: true, transaction: taken.id, network, payer }
  }

  async function verify(body: Request402): Promise<object> {
    const judged = await judge(body)
    return judged.ok
      ? { isValid: true, payer: judged.payment.from }
      : { isValid: false, invalidReason: judged.reason, ...(judged.payer && { payer: judged.payer }) }
  }

  function search(query: URLSearchParams): Response {
    const asked = (name: string) => query.get(name) ?? undefined
    const [from, to, nonce, status] = ['from', 'to', 'nonce', 'status'].map(asked)
    if (status && !from && !to && !nonce) return complaint('status requires one of from, to, nonce')
    const [after, before] = [asked('startDate'), asked('endDate')].map((date) => (date ? Date.parse(date) : undefined))
    const fits = (want: string | undefined, is: string) => want === undefined || want.toLowerCase() === is.toLowerCase()
    const found = transfers.filter((each) => {
      const isIt =
        fits(from, each.fromAddress) && fits(to, each.toAddress) && fits(nonce, each.nonce) && fits(status, each.status)
      const made = Date.parse(each.createdAt)
      return isIt && fits(asked('network'), each.sendingNetwork) && made >= (after ?? made) && made <= (before ?? made)
    })
    return Response.json({ transfers: found.toReversed().slice(0, Number(asked('pageSize') ?? 20)) })
  }

  function balances({ token, sources }: Asked): Response {
    if (token !== 'USDC' || !Array.isArray(sources)) return complaint('Invalid request: token, sources: Required')
    const known = (sources as readonly Fields[]).filter(
      (source) => source.domain === undefined || source.domain === domain,
    )
    return Response.json({
      token,
      balances: known.map(({ depositor }) => ({
        domain,
        depositor,
        balance: formatUnits(freeOf(String(depositor)), 6),
      })),
    })
  }

  async function answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    const route = `${request.method} ${pathname}`
    if (down) return tired()
    if (stepMs !== undefined) goOn(stepMs)
    if (route === 'GET /v1/x402/supported') return Response.json(supported)
    if (route === 'GET /v1/x402/transfers') return losing?.what === 'answers' ? tired() : search(searchParams)
    if (route.startsWith('GET /v1/x402/transfers/')) {
      const found = transfers.find(({ id }) => pathname.endsWith(`/${id}`))
      return found ? Response.json(found) : complaint('Transfer not found', 404)
    }
    const body = ((await request.json().catch(() => undefined)) ?? {}) as Asked
    if (route === 'POST /v1/balances') return balances(body)
    if (route !== 'POST /v1/x402/settle' && route !== 'POST /v1/x402/verify') return complaint('Not found', 404)
    const missing = missingIn(body)
    if (missing) return complaint(`Invalid request: ${missing}: Required`)
    const payment = body as Request402
    if (route.endsWith('/verify')) return Response.json(await verify(payment))
    const lost = losing
    if (lost?.what === 'sends') lost.seen()
    if (lost?.what === 'sends') return tired()
    const settled = await settle(payment)
    lost?.seen()
    return lost ? tired() : Response.json(settled)
  }

  const server = Bun.serve({
    port,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      count++
      const response = await answer(request)
      response.headers.set('date', new Date(clock.now()).toUTCString())
      return response
    },
  })

  return {
    url: `http://127.0.0.1:${server.port}`,
    supported,
    transfers,
    deposit: give,
    hold: (address, amount) => void free.set(address.toLowerCase(), amount),
    balanceOf(address, owed) {
      const coming = transfers.filter(
        (each) => owed && isSame(each.toAddress, address) && each.status !== 'completed' && each.status !== 'failed',
      )
      return coming.reduce((sum, { amount }) => sum + BigInt(amount), freeOf(address))
    },
    advance(id, to) {
      for (const each of transfers) if (id === undefined || each.id === id) move(each, to ?? next(each))
    },
    outage: (on) => void (down = on),
    lose: (what) => new Promise((seen) => void (losing = { what, seen })),
    heal: () => void (losing = undefined),
    reads: () => count,
    stop: () => server.stop(true),
  }
}

function tired(): Response {
  return new Response('<html>the gateway is tired</html>', { status: 503, headers: { 'content-type': 'text/html' } })
}

function complaint(message: string, status = 400): Response {
  return Response.json({ message }, { status })
}

/** The first field that the API cannot do without. */
function missingIn({ paymentPayload, paymentRequirements }: Asked): string | undefined {
  const fields: Fields = { ...paymentPayload }
  const absent = ['x402Version', 'payload', 'resource', 'accepted'].find((name) => !fields[name])
  if (absent) return `paymentPayload.${absent}`
  return paymentRequirements ? undefined : 'paymentRequirements'
}

function readAuthorization(given: unknown): Authorization | undefined {
  const { from, to, nonce, ...rest } = (given ?? {}) as Fields
  const numbers = [rest.value, rest.validAfter, rest.validBefore].map((each) =>
    typeof each === 'string' && /^\d{1,78}$/.test(each) ? BigInt(each) : undefined,
  )
  const [value, validAfter, validBefore] = numbers
  if (!isAccount(from) || !isAccount(to) || !isHex(nonce) || nonce.length !== 66) return undefined
  if (value === undefined || validAfter === undefined || validBefore === undefined) return undefined
  return { from, to, value, validAfter, validBefore, nonce }
}

function isAccount(given: unknown): given is Hex {
  return typeof given === 'string' && isAddress(given, { strict: false })
}

function isSame(given: unknown, address: string): boolean {
  return isAccount(given) && given.toLowerCase() === address.toLowerCase()
}
