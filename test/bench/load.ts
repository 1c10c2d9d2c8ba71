/**
 * The load generator, a process of its own: raw sockets, one request at a time on each, prebuilt bytes. `fetch` would
 * measure itself. Reads one JSON command per line from stdin, answers with one JSON line on stdout, ends with its
 * stdin.
 */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

/**
 * `file` holds a JSON list of raw HTTP requests: sent round and round for `ms`, or, without `ms`, each once. `length`
 * is that of every good body, where it is known.
 */
export type Command = {
  readonly port: number
  readonly connections: number
  readonly file: string
  readonly ms?: number
  readonly wanted: number
  readonly length?: number
}

export type Measured = {
  /**
   * Answers with the wanted status, and all others by status; `length` is a body of another length, `closed` is a
   * connection that ended without an answer, `silent` one that gave none in time.
   */
  readonly good: number
  readonly bad: Readonly<Record<string, number>>
  /** The first answer that was not wanted. */
  readonly complaint: string
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  /** Share of one core that the generator itself used: near 1, it was the bottleneck. */
  readonly busy: number
}

/** One run may take so long; what is not answered by then never will be. */
const LIMIT_MS = 20_000

type Line = { partial: Buffer | undefined; unsent: string; sentAt: number; isWaiting: boolean }

async function measure({ port, connections, file, ms, wanted, length }: Command): Promise<Measured> {
  const requests = JSON.parse(readFileSync(file, 'utf8')) as readonly string[]
  const latencies: number[] = []
  const bad: Record<string, number> = {}
  let good = 0
  let sent = 0
  let complaint = ''
  const open = new Set<Bun.Socket<Line>>()
  let done: () => void = () => {}
  const over = new Promise<void>((resolve) => (done = resolve))
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  const endsAt = startedAt + (ms ?? LIMIT_MS)
  const last = ms === undefined ? requests.length : Infinity

  const connect = () =>
    Bun.connect<Line>({
      hostname: '127.0.0.1',
      port,
      socket: {
        open(socket) {
          open.add(socket)
          socket.data = { partial: undefined, unsent: '', sentAt: 0, isWaiting: false }
          next(socket)
        },
        data(socket, chunk) {
          const line = socket.data
          const bytes = line.partial ? Buffer.concat([line.partial, chunk]) : chunk
          const answer = read(bytes)
          line.partial = answer ? undefined : Buffer.from(bytes)
          if (!answer) return
          line.isWaiting = false
          latencies.push(performance.now() - line.sentAt)
          const isWhole = length === undefined || length === answer.length
          if (answer.status === wanted && isWhole) good++
          if (answer.status === wanted && !isWhole) fail('length', answer.text())
          if (answer.status !== wanted) fail(String(answer.status), answer.text())
          next(socket)
        },
        drain(socket) {
          push(socket, socket.data.unsent)
        },
        close(socket) {
          open.delete(socket)
          if (socket.data.isWaiting) fail('closed', 'the connection ended without an answer')
          if (socket.data.isWaiting && hasMore()) return void connect()
          if (open.size === 0) done()
        },
        error(_socket, error) {
          complaint ||= error.message
        },
      },
    })

  const hasMore = () => sent < last && performance.now() < endsAt

  function next(socket: Bun.Socket<Line>): void {
    if (!hasMore()) return void socket.end()
    const request = requests[sent++ % requests.length] ?? ''
    socket.data.isWaiting = true
    socket.data.sentAt = performance.now()
    push(socket, request)
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

  await Promise.all(Array.from({ length: connections }, connect))
  const limit = setTimeout(() => {
    for (const socket of open) if (socket.data.isWaiting) fail('silent', `no answer within ${LIMIT_MS} ms`)
    done()
    for (const socket of open) {
      socket.data.isWaiting = false
      socket.terminate()
    }
  }, LIMIT_MS)
  await over
  clearTimeout(limit)
  const seconds = (performance.now() - startedAt) / 1000
  const { user, system } = process.cpuUsage(cpu)
  latencies.sort((a, b) => a - b)
  return {
    good,
    bad,
    complaint,
    seconds,
    p50: at(latencies, 0.5),
    p99: at(latencies, 0.99),
    busy: (user + system) / 1e6 / seconds,
  }
}

/** Undefined until the whole answer is there. */
function read(bytes: Buffer): { status: number; length: number; text(): string } | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = bytes.toString('latin1', 0, end)
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1]
  if (length === undefined) throw new Error(`an answer without a content-length:\n${head}`)
  if (bytes.length < end + 4 + Number(length)) return undefined
  const text = () => `${head.split('\r\n', 1)[0]} ${bytes.toString('utf8', end + 4)} ${errorIn(head)}`
  return { status: Number(head.slice(9, 12)), length: Number(length), text }
}

/** The peer says why in its challenge only. */
function errorIn(head: string): string {
  const required = /\r\npayment-required: (\S+)/i.exec(head)?.[1]
  return required ? String(JSON.parse(atob(required)).error) : ''
}

const at = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

if (import.meta.main) {
  for await (const line of createInterface({ input: process.stdin }))
    console.log(JSON.stringify(await measure(JSON.parse(line))))
}
