/**
 * Between the replicas and the node: a wire that loses, delays and repeats, and that can be stopped at a chosen
 * message.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Hex, keccak256 } from 'viem'
import type { Chance } from '../simulation/chance.ts'

/**
 * asked: the node does not know it yet. answered: the node has acted, the replica does not know. told: the replica may
 * know.
 */
type Point = 'asked' | 'answered' | 'told'
export type Moment = {
  readonly replica: string
  readonly point: Point
  readonly question: string
  readonly answer: string
}
/** May hold a message back; `cut` ends its connection instead. */
export type Watcher = (moment: Moment) => Promise<'cut' | 'go'> | undefined

/** One transaction that a replica has sent. */
type Broadcast = { readonly replica: string; readonly raw: string; isWithNode: boolean; isReceiptSent: boolean }

export type RpcProxy = {
  urlOf(replica: string): string
  /** Each message, question or answer, meets trouble with this chance; 0 is a good wire. */
  setTrouble(share: number): void
  /** This share of questions is answered 429, unasked; 0 is a node without limits. */
  setLimited(share: number): void
  watch(watcher: Watcher | undefined): void
  /** By hash, everything that was ever sent. */
  readonly broadcasts: ReadonlyMap<Hex, Broadcast>
  /** Whether this replica has ever asked about something; `needle` in lower case. */
  hasRequested(replica: string, needle: string): boolean
  readonly counts: { messages: number; dropped: number; delayed: number; repeated: number; limited: number }
  close(): void
}

/** `silentShare` of what is dropped leaves its connection open and says nothing; the rest closes it. */
export type ProxyOptions = {
  readonly upstream: string
  readonly chance: Chance
  readonly slowMs: number
  readonly silentShare: number
}

type Trouble = 'dropped' | 'delayed' | 'repeated' | undefined

export async function rpcProxy({ upstream, chance, slowMs, silentShare }: ProxyOptions): Promise<RpcProxy> {
  const counts = { messages: 0, dropped: 0, delayed: 0, repeated: 0, limited: 0 }
  const broadcasts = new Map<Hex, Broadcast>()
  const questions = new Map<string, string[]>()
  let share = 0
  let limitedShare = 0
  let watcher: Watcher | undefined

  const server = createServer(
    (request, response) => void carry(request, response).catch(() => request.socket.destroy()),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  async function carry(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const replica = (request.url ?? '').slice(1)
    const question = await textOf(request)
    note(replica, question)
    const hangUp = () => void request.socket.destroy()
    const drop = () => (chance.isLucky(silentShare) ? undefined : hangUp())
    const stop = async (point: Point, answer = '') => (await watcher?.({ replica, point, question, answer })) === 'cut'

    if (await stop('asked')) return hangUp()
    if (chance.isLucky(limitedShare)) {
      counts.limited++
      return void response.writeHead(429, { 'content-type': 'application/json', 'retry-after': '1' }).end(TOO_MANY)
    }
    const there = await trouble()
    if (there === 'dropped') return drop()
    for (const sent of sentIn(question)) known(replica, sent).isWithNode = true
    const first = await ask(question)
    const answer = there === 'repeated' ? await ask(question) : first

    if (await stop('answered', answer)) return hangUp()
    const back = await trouble()
    if (back === 'dropped') return drop()
    const reply = back === 'repeated' ? await ask(question) : answer
    response.writeHead(200, { 'content-type': 'application/json' }).end(reply)
    for (const [hash, broadcast] of broadcasts) if (isReceiptOf(reply, hash)) broadcast.isReceiptSent = true
    await stop('told', reply)
  }

  async function ask(question: string): Promise<string> {
    const response = await fetch(upstream, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: question,
    })
    return await response.text()
  }

  /** Over HTTP a message that arrives twice is a question asked twice: the later answer counts. */
  async function trouble(): Promise<Trouble> {
    counts.messages++
    if (!chance.isLucky(share)) return undefined
    const kind = chance.pick(['dropped', 'delayed', 'repeated'] as const)
    counts[kind]++
    if (kind === 'delayed') await pause(chance.below(slowMs))
    return kind
  }

  function note(replica: string, question: string): void {
    const all = questions.get(replica) ?? []
    if (all.length === 0) questions.set(replica, all)
    all.push(question.toLowerCase())
    if (all.length > 400) all.shift()
    for (const raw of sentIn(question)) known(replica, raw)
  }

  function known(replica: string, raw: Hex): Broadcast {
    const hash = keccak256(raw)
    const broadcast = broadcasts.get(hash) ?? {
      replica,
      raw: raw.toLowerCase(),
      isWithNode: false,
      isReceiptSent: false,
    }
    broadcasts.set(hash, broadcast)
    return broadcast
  }

  return {
    urlOf: (replica) => `http://127.0.0.1:${port}/${replica}`,
    setTrouble: (chosen) => void (share = chosen),
    setLimited: (chosen) => void (limitedShare = chosen),
    watch: (chosen) => void (watcher = chosen),
    broadcasts,
    hasRequested: (replica, needle) => questions.get(replica)?.some((question) => question.includes(needle)) ?? false,
    counts,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

const TOO_MANY = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32005, message: 'Too many requests' } })

/** The signed transactions of a question. */
export function sentIn(question: string): readonly Hex[] {
  if (!question.includes('eth_sendRawTransaction')) return []
  type Call = { method: string; params: readonly unknown[] }
  const parsed = JSON.parse(question) as Call | readonly Call[]
  const calls = [parsed].flat() as readonly Call[]
  return calls.filter(({ method }) => method.startsWith('eth_sendRawTransaction')).map(({ params }) => params[0] as Hex)
}

const isReceiptOf = (answer: string, hash: Hex): boolean => answer.includes('"logsBloom"') && answer.includes(hash)

/** Whether the replica can read a receipt in this answer. */
export const holdsReceipt = (answer: string): boolean =>
  answer.includes('"logsBloom"') && answer.includes('"effectiveGasPrice"')

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  return text
}
