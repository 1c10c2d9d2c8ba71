/** Keeping others waiting: batches of messages to /mcp, and uploads that do not end. */
import { existsSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Attack, Outcome } from './attack.ts'
import { ATTACKER, CUSTOMER, type Order, ORDERS, post } from './caller.ts'
import type { Target } from './target.ts'

/** Longest time of a quote while somebody else is a burden, on a machine that is busy with both. */
const LIMIT_MS = 2_000
const PROBES = 20
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** Unpaid orders of a customer, one after the other, while the attack goes on. */
async function probed(target: Target, order: Order): Promise<Outcome> {
  let [slowest, refused] = [0, 0]
  const endAt = performance.now() + 30_000
  for (let i = 0; i < PROBES && performance.now() < endAt; i++) {
    const startedAt = performance.now()
    const { status } = await post(target, { ...order, ip: CUSTOMER })
    const took = performance.now() - startedAt
    slowest = Math.max(slowest, took)
    if (status === 402 && took < LIMIT_MS) refused++
    await pause(100)
  }
  return {
    tried: PROBES,
    refused,
    note: `${refused} quotes of a customer, the slowest after ${Math.round(slowest)} ms`,
  }
}

/** Most memory that a gateway may have had under such an attack, in megabytes. */
const LIMIT_MB = 600

/** The most memory that a process has had, in megabytes; undefined where the system does not tell. */
function peakOf(pid: number): number | undefined {
  const path = `/proc/${pid}/status`
  const [, kilobytes] = (existsSync(path) && /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(path, 'utf8'))) || []
  return kilobytes === undefined ? undefined : Math.round(Number(kilobytes) / 1024)
}

/** About nine kilobytes of messages a second, each of which asks for the list of tools; no batch may have more. */
async function batches(target: Target): Promise<Outcome> {
  const stop = new AbortController()
  const messages = Array.from({ length: 100 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'tools/list' }))
  const flooding = (async () => {
    while (!stop.signal.aborted) {
      void fetch(`${target.origin}/mcp`, {
        method: 'POST',
        signal: stop.signal,
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'x-forwarded-for': ATTACKER,
        },
        body: JSON.stringify(messages),
      })
        .then((response) => response.arrayBuffer())
        .catch(() => undefined)
      await pause(500)
    }
  })()
  await pause(3_000)
  const { tried, refused, note } = await probed(target, ORDERS.chat)
  stop.abort()
  await flooding
  const peak = peakOf(target.process.pid)
  const isTooMuch = peak !== undefined && peak > LIMIT_MB
  return { tried, refused: isTooMuch ? 0 : refused, note: `${note}; ${peak ?? 'unknown'} MB of memory at most` }
}

/** A picture of a megabyte to be edited. */
const LARGE: Order = {
  path: '/api/v1/images/image2image',
  body: {
    model: 'vendor-a/image-1',
    prompt: 'the same fox, in summer',
    image: `data:image/png;base64,${PNG.replace('==', '')}${'A'.repeat(1_000_002)}`,
  },
}

/** Bytes of an upload that are sent and announced. Three of them, counted with their copies, are the memory for all. */
const UPLOAD = { sent: 29_700_000, announced: 29_800_000 }

/** Uploads of one address that send nearly all that they announce, and then nothing more. */
async function uploads(target: Target): Promise<Outcome> {
  const { hostname, port } = new URL(target.origin)
  const sockets: Socket[] = []
  const body = Buffer.alloc(UPLOAD.sent, `{"model":"`)
  for (let i = 0; i < 3; i++) {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => undefined)
    socket.write(
      `POST ${LARGE.path} HTTP/1.1\r\nhost: ${hostname}\r\nx-forwarded-for: ${ATTACKER}\r\n` +
        `content-type: application/json\r\ncontent-length: ${UPLOAD.announced}\r\n\r\n`,
    )
    sockets.push(socket)
    // A body that is refused is not read to its end.
    await Promise.race([new Promise((sent) => void socket.write(body, sent)), pause(3_000)])
  }
  const outcome = await probed(target, LARGE)
  for (const socket of sockets) socket.destroy()
  return outcome
}

export const attacks: readonly Attack[] = [
  { family: 'stall', name: 'batches of messages to /mcp', run: batches },
  { family: 'stall', name: 'uploads that stop before their end', run: uploads },
]
