/** Keeping others waiting: batches of messages to /mcp, and uploads that do not end. */
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Attack, Outcome } from './attack.ts'
import { ATTACKER, CUSTOMER, type Order, ORDERS, post } from './caller.ts'
import type { Target } from './target.ts'

/** What a quote may take while somebody else is a burden, on a machine that is busy with both. */
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
  return { tried: PROBES, refused, note: `the slowest quote of a customer took ${Math.round(slowest)} ms` }
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
  const outcome = await probed(target, ORDERS.chat)
  stop.abort()
  await flooding
  return outcome
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

/** Uploads of one address that announce twenty megabytes each, and send nothing more. */
async function uploads(target: Target): Promise<Outcome> {
  const { hostname, port } = new URL(target.origin)
  const sockets: Socket[] = []
  for (let i = 0; i < 8; i++) {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => undefined)
    socket.write(
      `POST ${LARGE.path} HTTP/1.1\r\nhost: ${hostname}\r\nx-forwarded-for: ${ATTACKER}\r\n` +
        'content-type: application/json\r\ncontent-length: 20000000\r\n\r\n{"model":',
    )
    sockets.push(socket)
  }
  await pause(1_000)
  const outcome = await probed(target, LARGE)
  for (const socket of sockets) socket.destroy()
  return outcome
}

export const attacks: readonly Attack[] = [
  { family: 'stall', name: 'batches of messages to /mcp', run: batches },
  { family: 'stall', name: 'uploads that announce much and send nothing', run: uploads },
]
