/**
 * The load generator of the chat bench, a process of its own: raw sockets, one request at a time on each, prebuilt
 * bytes. It knows streams, and takes an answer for good only when all of it came. One JSON command per line on stdin,
 * one JSON line each on stdout; ends with its stdin.
 */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { EVENTS, LAST_WORDS } from './upstream.ts'

/**
 * `file` holds a JSON list of raw HTTP requests, sent round and round for `ms`; with `isOnce` each once at most. With
 * `isHeld` every connection sends one, has its first bytes, and stays open until the next command. With `isInLanes`
 * each connection sends only its own, every so many, because they follow one another.
 */
export type Command = {
  readonly port: number
  readonly connections: number
  readonly file: string
  readonly ms: number
  readonly isStream: boolean
  readonly isOnce?: boolean
  readonly isOpen?: boolean
  readonly isInLanes?: boolean
}

export type Measured = {
  readonly good: number
  /** By connection, where each has its lane. */
  readonly goodOf: readonly number[]
  /**
   * All others, by status or by what was missing; `closed` is a connection that ended without a whole answer, `silent`
   * one that gave none in time.
   */
  readonly bad: Readonly<Record<string, number>>
  /** The first answer that was not good. */
  readonly complaint: string
  readonly seconds: number
  /** Until the whole answer was there, in milliseconds. */
  readonly p50: number
  readonly p99: number
  /** Until the first byte of the body. */
  readonly first: number
  /** Share of one core that the generator itself used: near 1, it was the bottleneck. */
  readonly busy: number
}

/** A request that is not answered so long after the end never will be. */
const GRACE_MS = 10_000

type Line = {
  open: Buffer[]
  size: number
  bodyAt: number
  end: 'unknown' | 'chunked' | number
  unsent: string
  sentAt: number
  firstAt: number
  isWaiting: boolean
  readonly lane: number
}

const nothing = () => ({ open: [], size: 0, bodyAt: 0, end: 'unknown' as const, firstAt: 0 })

let openSockets: readonly Bun.Socket<Line>[] = []

async function measure({
  port,
  connections,
  file,
  ms,
  isStream,
  isOnce = false,
  isOpen = false,
  isInLanes = false,
}: Command): Promise<Measured> {
  for (const socket of openSockets) socket.terminate()
  openSockets = []
  const requests = JSON.parse(readFileSync(file, 'utf8')) as readonly string[]
  const latencies: number[] = []
  const firsts: number[] = []
  const bad: Record<string, number> = {}
  let good = 0
  let sent = 0
  let complaint = ''
  const open = new Set<Bun.Socket<Line>>()
  const { promise: over, resolve: done } = Promise.withResolvers<void>()
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  const endsAt = startedAt + ms
  let lastAt = startedAt
  const most = isOnce ? requests.length : Number.POSITIVE_INFINITY
  const goodOf = Array.from({ length: isInLanes ? connections : 0 }, () => 0)
  const hasMore = () => sent < most && performance.now() < endsAt

  function next(socket: Bun.Socket<Line>): void {
    const { lane } = socket.data
    const own = isInLanes ? requests[lane + connections * (goodOf[lane] ?? 0)] : requests[sent % requests.length]
    if (!hasMore() || own === undefined) return void socket.end()
    sent++
    Object.assign(socket.data, nothing(), { isWaiting: true, sentAt: performance.now() })
    push(socket, own)
  }

  /** Requests are ASCII: a character is a byte. */
  function push(socket: Bun.Socket<Line>, text: string): void {
    const written = text === '' ? 0 : socket.write(text)
    socket.data.unsent = text.slice(Math.max(0, written))
  }

  function fail(kind: string, text: string): void {
    bad[kind] = (bad[kind] ?? 0) + 1
    complaint ||= text.slice(0, 2_000)
  }

  function answered(socket: Bun.Socket<Line>): void {
    const { data } = socket
    lastAt = performance.now()
    data.isWaiting = false
    latencies.push(lastAt - data.sentAt)
    firsts.push(data.firstAt - data.sentAt)
    const text = Buffer.concat(data.open).toString('latin1')
    const missing = isOpen
      ? missed(text, { isStream: false, words: 'data: ' })
      : missed(text, { isStream, words: LAST_WORDS })
    if (missing) fail(missing, text)
    if (!missing) good++
    if (isInLanes && missing) return void socket.end()
    if (isInLanes) goodOf[data.lane] = (goodOf[data.lane] ?? 0) + 1
    if (!isOpen) return next(socket)
    if (good + (bad.closed ?? 0) === connections) done()
  }

  const connect = (lane: number) =>
    Bun.connect<Line>({
      hostname: '127.0.0.1',
      port,
      socket: {
        open(socket) {
          open.add(socket)
          socket.data = { ...nothing(), unsent: '', sentAt: 0, isWaiting: false, lane }
          next(socket)
        },
        data(socket, chunk) {
          const { data } = socket
          if (!data.isWaiting) return
          data.open.push(Buffer.from(chunk))
          data.size += chunk.length
          if (isWhole(data, isOpen)) answered(socket)
        },
        drain: (socket) => push(socket, socket.data.unsent),
        close(socket) {
          open.delete(socket)
          if (socket.data.isWaiting) fail('closed', 'the connection ended without a whole answer')
          if (socket.data.isWaiting && hasMore() && !isInLanes) return void connect(socket.data.lane)
          if (open.size === 0) done()
        },
        error(_socket, error) {
          complaint ||= error.message
        },
      },
    })

  await Promise.all(Array.from({ length: connections }, (_, lane) => connect(lane)))
  const limit = setTimeout(() => {
    for (const socket of open)
      if (socket.data.isWaiting) fail('silent', `no whole answer within ${GRACE_MS} ms of the end`)
    done()
    for (const socket of open) {
      socket.data.isWaiting = false
      socket.terminate()
    }
  }, ms + GRACE_MS)
  await over
  clearTimeout(limit)
  if (isOpen) openSockets = [...open]
  const seconds = (lastAt - startedAt) / 1000
  const { user, system } = process.cpuUsage(cpu)
  latencies.sort((a, b) => a - b)
  firsts.sort((a, b) => a - b)
  return {
    good,
    goodOf,
    bad,
    complaint,
    seconds,
    p50: at(latencies, 0.5),
    p99: at(latencies, 0.99),
    first: at(firsts, 0.5),
    busy: (user + system) / 1e6 / seconds,
  }
}

/**
 * Notes where the body begins and when its first byte came; true when all of it is there, or, of a held stream, its
 * first bytes.
 */
function isWhole(data: Line, isOpen: boolean): boolean {
  if (data.end === 'unknown') {
    const bytes = data.open.length === 1 ? data.open[0] : Buffer.concat(data.open)
    const end = bytes?.indexOf('\r\n\r\n') ?? -1
    if (!bytes || end === -1) return false
    const length = /\r\ncontent-length: (\d+)/i.exec(bytes.toString('latin1', 0, end))?.[1]
    data.bodyAt = end + 4
    data.end = length === undefined ? 'chunked' : Number(length)
  }
  if (data.firstAt === 0 && data.size > data.bodyAt) data.firstAt = performance.now()
  if (isOpen) return data.firstAt > 0
  if (data.end !== 'chunked') return data.size >= data.bodyAt + data.end
  return endsWith(data.open, '0\r\n\r\n') && data.size > data.bodyAt
}

/** The last chunk is empty. What stands before it is JSON or events, and never ends so. */
function endsWith(open: readonly Buffer[], end: string): boolean {
  const last = open.at(-1)
  if (!last) return false
  const tail = last.length >= end.length ? last : Buffer.concat(open.slice(-end.length))
  return tail.toString('latin1', Math.max(0, tail.length - end.length)) === end
}

/** The part that an answer lacks; undefined when it is good. */
function missed(text: string, { isStream, words }: { isStream: boolean; words: string }): string | undefined {
  const status = text.slice(9, 12)
  if (status !== '200') return status
  if (!isStream) return text.includes(words) ? undefined : 'cut short'
  // A text may be split between two pieces; the events may not be fewer.
  const events = text.split('data: ').length - 1
  return events === EVENTS && text.includes('[DONE]') ? undefined : `${events} events`
}

const at = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

if (import.meta.main) {
  for await (const line of createInterface({ input: process.stdin }))
    console.log(JSON.stringify(await measure(JSON.parse(line))))
}
