/** Tasks of a buyer: orders, signatures, answers. He keeps to the contract, and writes everything down. */
import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Chance } from '../simulation/chance.ts'
import type { EvmScheme } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { decodeHeader, encodePayment, GENERATIONS } from '../server/clients/payer.ts'
import { type Demand, endOf, type Payers, type Signed } from './payers.ts'
import type { Replica } from './replicas.ts'
import { taking, worksIn } from './talker.ts'

type Kind = 'picture' | 'slow picture' | 'video' | 'chat' | 'stream' | 'one-shot'
type Sale = { readonly kind: Kind; readonly scheme: EvmScheme; readonly isTool?: true }

const [EXACT, UPTO, CHANNEL] = ['exact', 'upto', 'batch-settlement'] as const
/** The product, how it is paid, and whether it is ordered through `/mcp`. */
const SALES = {
  picture: { kind: 'picture', scheme: EXACT },
  'slow picture': { kind: 'slow picture', scheme: EXACT },
  tool: { kind: 'slow picture', scheme: EXACT, isTool: true },
  video: { kind: 'video', scheme: EXACT },
  chat: { kind: 'chat', scheme: EXACT },
  stream: { kind: 'stream', scheme: EXACT },
  'one-shot': { kind: 'one-shot', scheme: EXACT },
  'chat by upto': { kind: 'chat', scheme: UPTO },
  'stream by upto': { kind: 'stream', scheme: UPTO },
  'tool by upto': { kind: 'chat', scheme: UPTO, isTool: true },
  'picture by channel': { kind: 'picture', scheme: CHANNEL },
  'video by channel': { kind: 'video', scheme: CHANNEL },
  'chat by channel': { kind: 'chat', scheme: CHANNEL },
  'stream by channel': { kind: 'stream', scheme: CHANNEL },
  'tool by channel': { kind: 'chat', scheme: CHANNEL, isTool: true },
  'slow tool by channel': { kind: 'slow picture', scheme: CHANNEL, isTool: true },
} as const satisfies Readonly<Record<string, Sale>>
export type Ware = keyof typeof SALES
export const WARES = Object.keys(SALES) as readonly Ware[]

const saleOf = (ware: Ware): Sale => SALES[ware]

/** Wares whose answer may be read before its money has moved (contract 1.47). Channels are charged before it leaves. */
export function isAfterReply(ware: Ware): boolean {
  const { kind, scheme } = saleOf(ware)
  return scheme !== CHANNEL && (kind === 'chat' || kind === 'stream' || kind === 'one-shot')
}

export type Task = {
  readonly ware: Ware
  readonly buyer: PrivateKeyAccount
  readonly path: string
  readonly body: string
  /** Everything signed for it, in order: what pays, and what only proves the wallet. */
  readonly signed: Signed[]
  /** The different answers that were read whole: more than one is more than was ordered. */
  readonly works: Set<string>
  /** In micro-USDC; 0 until it was quoted. */
  quote: bigint
  /** The poll URL that was given last, used as it is. */
  poll: string | undefined
  /** `part`: no more of the answer exists than what was read. `refused`: told that the wallet does not pay. */
  end: 'whole' | 'part' | 'refused' | 'left' | undefined
  /** Bytes of an answer that broke off. */
  partBytes: number
  readonly answers: Map<string, number>
  /** Why the last payment was refused. */
  refusal: string | undefined
  readonly oddities: string[]
}

type Wish = {
  readonly ware: Ware
  readonly buyer: PrivateKeyAccount
  readonly ms: number
  readonly about: string
}

const VIDEOS = '/api/v1/videos/generations'
const CHAT = '/api/v1/chat/completions'
const NODES = '/api/v1/rpc/ethereum-mainnet'
/** A tenth of so many tokens is quoted: about 0.01 USDC. */
const MAX_TOKENS = 64_000

export function newTask({ ware, buyer, ms, about }: Wish): Task {
  const order = orderOf(ware, { ms, about })
  return {
    ware,
    buyer,
    ...order,
    signed: [],
    works: new Set(),
    quote: 0n,
    poll: undefined,
    end: undefined,
    partBytes: 0,
    answers: new Map(),
    refusal: undefined,
    oddities: [],
  }
}

function orderOf(ware: Ware, { ms, about }: { ms: number; about: string }): { path: string; body: string } {
  const { kind } = saleOf(ware)
  const json = JSON.stringify
  if (kind === 'picture')
    return { path: GENERATIONS, body: json({ model: 'vendor-d/image-cv4', prompt: about, size: '512x512' }) }
  if (kind === 'slow picture')
    return { path: GENERATIONS, body: json({ model: 'vendor-e/image-pro', prompt: about, size: '1024x1024' }) }
  if (kind === 'video')
    return { path: VIDEOS, body: json({ model: 'vendor-c/video-1', prompt: about, duration_seconds: 1 }) }
  if (kind === 'one-shot')
    return { path: NODES, body: json({ jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] }) }
  const messages = [{ role: 'user', content: taking(ms, about) }]
  return {
    path: CHAT,
    body: json({
      model: 'vendor-h/chat-4',
      messages,
      max_tokens: MAX_TOKENS,
      ...(kind === 'stream' && { stream: true }),
    }),
  }
}

export type Walk = {
  readonly replicas: readonly Replica[]
  readonly payers: Payers
  readonly chance: Chance
  readonly waitMs: number
  /** The replica that is asked first; any of them unless told. */
  readonly first?: number
  /** Ends at the first refusal: this wallet will not pay. */
  readonly isFickle?: boolean
}

const POLL_MS = 400
/** Longer than a replica is ever frozen. */
const ANSWER_MS = 40_000
/** A gateway takes no authorization in its last six seconds. */
const LAST_MS = 7_000
const PROOFS = 3

/** Ends when the answer is there, or patience is at an end. Never rejects. */
export async function run(task: Task, walk: Walk): Promise<void> {
  const until = performance.now() + walk.waitMs
  let turn = walk.first ?? walk.chance.below(walk.replicas.length)
  while (task.end === undefined && performance.now() < until) {
    const at = walk.replicas[turn++ % walk.replicas.length]!
    await step(task, at, walk).catch((error: Error) => task.oddities.push(`the buyer failed: ${error.message}`))
  }
  task.end ??= 'left'
}

type Heard = { readonly status: number; readonly headers: Headers; readonly text: string; readonly isBroken: boolean }

/** One request, and what it means. */
async function step(task: Task, at: Replica, walk: Walk): Promise<void> {
  const rest = () => pause(POLL_MS / 2 + walk.chance.below(POLL_MS))
  const { poll } = task
  const payment = paymentOf(task)
  const heard = await request(at, task, { payment, ...(poll === undefined ? {} : { poll }) })
  count(task, heard)
  if (!heard) return void (await rest())
  if (heard.status === 200) {
    await read(task, heard, walk)
    return void (task.end === undefined && (await rest()))
  }
  const body = bodyOf(heard)
  if (heard.status === 402) return await refused(task, { heard, body, walk, rest })
  if (heard.status === 202) {
    task.poll = body.poll_url ?? poll
    return void (await rest())
  }
  const isGone = poll !== undefined && (heard.status === 404 || heard.status === 410)
  if (isGone) task.poll = undefined
  // A job that came to nothing is 500 and says that it costs nothing; an unexpected error is 500 INTERNAL.
  const isUnmade = heard.status === 500 && isJob(task) && String(body.details).endsWith('Nothing was charged.')
  const isWeather = heard.status > 500 || heard.status === 429 || isGone || isUnmade
  if (!isWeather) task.oddities.push(`${heard.status} ${heard.text.slice(0, 300)}`)
  await rest()
}

/** Proof for the next request: the fresh proof where one was asked for, else what was signed for the order. */
function paymentOf({ signed }: Task): Signed | undefined {
  return signed.at(-1)
}

type Refusal = { readonly heard: Heard; readonly body: any; readonly walk: Walk; rest(): Promise<void> }

async function refused(task: Task, { heard, body, walk, rest }: Refusal): Promise<void> {
  const { signed, poll, buyer, ware } = task
  const { scheme } = saleOf(ware)
  const payment = paymentOf(task)
  if (payment) task.refusal = [body.error, body.details].flat().join(', ')
  const isElsewhere = typeof body.poll_url === 'string' && body.poll_url !== poll
  if (payment && isElsewhere) {
    task.poll = body.poll_url
    // The wallet does not pay: what is withheld stays with the seller.
    if (walk.isFickle && body.code !== 'PAYMENT_REPLAY') task.end = 'refused'
    return
  }
  if (walk.isFickle && payment && body.code !== 'PAYMENT_REPLAY') return void (task.end = 'refused')
  const demand: Demand = decodeHeader(heard.headers.get('payment-required'))
  const isCorrected = payment !== undefined && (await walk.payers.correct(buyer, payment, demand))
  const proofs = task.answers.get('fresh signature') ?? 0
  const isPlain = payment === undefined || isCorrected || isOver(payment) || (poll !== undefined && proofs < PROOFS)
  if (!isPlain) return await rest()
  // The same correction again and again would be a loop of the gateway's.
  if (isCorrected && (task.answers.get('corrected') ?? 0) > 0) await rest()
  const next = await walk.payers.sign(buyer, scheme, demand)
  signed.push(next)
  if (payment) note(task, isCorrected ? 'corrected' : 'fresh signature')
  else task.quote = BigInt(next.accepted.amount)
}

/** The result of a 200: the answer, whole or in part, or that there is none. */
async function read(task: Task, { text, headers, isBroken }: Heard, { payers }: Pick<Walk, 'payers'>): Promise<void> {
  const isStream = headers.get('content-type')?.startsWith('text/event-stream') === true
  const works = isJob(task) ? picturesIn(text) : worksIn(text)
  for (const work of works) task.works.add(work)
  const [payment, receipt] = [paymentOf(task), headers.get('payment-response')]
  if (payment && receipt !== null) await payers.note(task.buyer, payment, receipt)
  if (works.length > 0) return void (task.end = 'whole')
  // A job that failed cost nothing, and its authorization is free again.
  if (!isStream && /"status":"failed"/.test(text)) return void (task.poll = undefined)
  task.partBytes += text.length
  // Paid as far as it went: what was kept of it is all that there is.
  if (isStream && !isBroken && (headers.has('payment-response') || RECEIPT.test(text))) task.end = 'part'
}

const RECEIPT = /^: payment-response /im
const JOBS: readonly Kind[] = ['picture', 'slow picture', 'video']
const isJob = ({ ware }: Task): boolean => JOBS.includes(saleOf(ware).kind)

/** A job that delivers names its call. */
function picturesIn(text: string): readonly string[] {
  const { id, status, data } = JSON.parse(text)
  return data?.[0]?.url && status !== 'failed' ? [String(id)] : []
}

/** The request that a buyer of ill will sends while another one with the same payment is still being answered. */
export async function again(task: Task, at: Replica): Promise<void> {
  const heard = await request(at, task, { payment: task.signed[0] })
  count(task, heard, 'again ')
  if (heard?.status === 200) for (const work of worksIn(heard.text)) task.works.add(work)
}

type Sent = { readonly payment: Signed | undefined; readonly poll?: string }

/** Undefined when nothing was heard. A stream is read to its end, or to where it breaks. */
async function request(at: Replica, task: Task, sent: Sent): Promise<Heard | undefined> {
  const { path, body, ware } = task
  const { payment, poll } = sent
  const { origin } = at
  // A demand of a tool does not say where a call is that was ordered before: the HTTP API does.
  const isRepeated = (task.answers.get('402 to be paid') ?? 0) > 1 || task.answers.has('lost')
  const isKnown = payment !== undefined && poll === undefined && isRepeated
  if (saleOf(ware).isTool && !isKnown) return await callTool(at, task, sent)
  const headers = {
    'content-type': 'application/json',
    ...(payment && { 'payment-signature': encodePayment(payment) }),
  }
  const init: RequestInit = poll === undefined ? { method: 'POST', body, headers } : { headers }
  try {
    const response = await fetch(origin + (poll ?? path), { ...init, signal: AbortSignal.timeout(ANSWER_MS) })
    let text = ''
    let isBroken = false
    try {
      const decoder = new TextDecoder()
      for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true })
    } catch {
      isBroken = true
    }
    const { status } = response
    return isBroken && status !== 200 ? undefined : { status, headers: response.headers, text, isBroken }
  } catch {
    return undefined
  }
}

/** The same through `/mcp`: the order is a call of a tool, and so is the question for its result. */
async function callTool({ origin }: Replica, task: Task, { payment, poll }: Sent): Promise<Heard | undefined> {
  const params = {
    ...(poll === undefined
      ? { name: isJob(task) ? 'images_generations' : 'chat_completions', arguments: JSON.parse(task.body) }
      : { name: 'collect_result', arguments: { poll_url: poll } }),
    ...(payment && { _meta: { 'x402/payment': payment } }),
  }
  try {
    const response = await fetch(`${origin}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    const answer = await response.text()
    if (!response.ok) return { status: response.status, headers: response.headers, text: answer, isBroken: false }
    const json = answer.startsWith('{')
      ? answer
      : answer
          .split('\n')
          .find((line) => line.startsWith('data: {'))
          ?.slice(6)
    return json === undefined ? undefined : heardOfTool(JSON.parse(json))
  } catch {
    return undefined
  }
}

/** Status that the HTTP API would have given: the result of a tool has no status. */
function heardOfTool({ result, error }: { result?: any; error?: unknown }): Heard | undefined {
  const headers = new Headers()
  if (!result) return { status: 500, headers, text: JSON.stringify(error), isBroken: false }
  const body = result.structuredContent ?? {}
  const receipt = result._meta?.['x402/payment-response']
  if (receipt) headers.set('payment-response', encodePayment(receipt))
  const text = JSON.stringify(body)
  const heard = (status: number): Heard => ({ status, headers, text, isBroken: false })
  if (body.accepts) {
    headers.set('payment-required', btoa(text))
    return heard(402)
  }
  if (body.poll_url !== undefined && !body.data) return heard(202)
  if (!result.isError) return heard(200)
  if (body.code === 'INTERNAL') return heard(500)
  return heard(body.code === 'NOT_FOUND' ? 404 : 503)
}

function bodyOf({ text }: Heard): any {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    return {}
  }
}

const isOver = (payment: Signed): boolean => endOf(payment) - LAST_MS < Date.now()

function count(task: Task, heard: Heard | undefined, how = ''): void {
  if (!heard) return note(task, `${how}lost`)
  const why = heard.status === 402 ? ` ${bodyOf(heard).code ?? 'to be paid'}` : ''
  const isPart = heard.status === 200 && !isJob(task) && worksIn(heard.text).length === 0
  note(task, `${how}${heard.status}${isPart ? ' part' : ''}${why}`)
}

function note({ answers }: Task, what: string): void {
  answers.set(what, (answers.get(what) ?? 0) + 1)
}

const COLLECT_MS = 60_000

/**
 * Asks for what `paid` has paid, as the contract allows it: the poll URL as given, else the same request; with a fresh
 * signature where that is asked for. Undefined when it comes, else what was said last.
 */
export async function collect(
  task: Task,
  { replicas, payers, paid }: Pick<Walk, 'replicas' | 'payers'> & { readonly paid: Signed },
): Promise<string | undefined> {
  const copy: Task = {
    ...task,
    signed: [paid],
    works: new Set(),
    answers: new Map(),
    end: undefined,
    oddities: [],
  }
  const oddities: string[] = []
  const until = performance.now() + COLLECT_MS
  for (let turn = 0; performance.now() < until && copy.signed.length < 2 + PROOFS; turn++) {
    const payment = copy.signed.at(-1)
    const heard = await request(replicas[turn % replicas.length]!, copy, {
      payment,
      ...(copy.poll === undefined ? {} : { poll: copy.poll }),
    })
    oddities.push(`${heard?.status} ${heard ? heard.text.slice(0, 120) : ''}`)
    if (heard?.status === 200) return undefined
    if (heard?.status !== 402) {
      await pause(POLL_MS)
      continue
    }
    const body = bodyOf(heard)
    const isElsewhere = typeof body.poll_url === 'string' && body.poll_url !== copy.poll
    if (isElsewhere) copy.poll = body.poll_url
    if (isElsewhere) continue
    const demand: Demand = decodeHeader(heard.headers.get('payment-required'))
    await payers.correct(copy.buyer, copy.signed.at(-1)!, demand)
    copy.signed.push(await payers.sign(copy.buyer, saleOf(copy.ware).scheme, demand))
    task.signed.push(copy.signed.at(-1)!)
  }
  return oddities.at(-1)
}
