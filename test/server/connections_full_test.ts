/** Connections are bounded, so that a process never runs out of descriptors. */
import { describe, expect, test } from 'bun:test'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Connection, defaultLimits, excess } from '../../server/http/connections.ts'

const from = (address: string, count: number, first = 0): Connection[] =>
  Array.from({ length: count }, (_, at) => ({ fd: first + at, address, port: first + at }))
const judged = (open: readonly Connection[], more: Partial<Parameters<typeof excess>[1]> = {}) =>
  excess(open, {
    total: 10,
    perAddress: 5,
    seenAt: ({ fd }) => fd,
    isBusy: () => false,
    isExempt: () => false,
    ...more,
  }).map(({ fd }) => fd)

describe('excess()', () => {
  test('is nothing up to the limits', () => {
    expect(judged([...from('192.0.2.1', 5), ...from('192.0.2.2', 5, 10)])).toEqual([])
  })

  test('takes from an address that has more than its own limit, the oldest without a request first', () => {
    expect(judged([...from('192.0.2.1', 7), ...from('192.0.2.2', 2, 10)])).toEqual([0, 1])
    expect(judged(from('192.0.2.1', 7), { isBusy: ({ fd }) => fd < 5 })).toEqual([5, 6])
  })

  test('takes of those with a request the newest', () => {
    expect(judged(from('192.0.2.1', 7), { isBusy: () => true })).toEqual([6, 5])
  })

  test('takes from everybody where there are too many in all', () => {
    const open = Array.from({ length: 13 }, (_, at) => from(`192.0.2.${at}`, 1, at)).flat()
    expect(judged(open)).toEqual([0, 1, 2])
    expect(judged(open, { isBusy: ({ fd }) => fd !== 7 })).toEqual([7, 12, 11])
  })

  test('counts an IPv6 /64 as one address, and lets proxies have as many as there may be in all', () => {
    expect(judged([...from('2001:db8::1', 3), ...from('2001:db8::2', 3, 10)])).toEqual([0])
    expect(judged(from('192.0.2.1', 12), { isExempt: () => true })).toEqual([0, 1])
  })
})

test('the usual limits leave a quarter of the descriptors free, and at least 64', () => {
  expect([defaultLimits(400), defaultLimits(200), defaultLimits(1_024), defaultLimits(1_000_000)]).toEqual([
    { total: 300, perAddress: 150 },
    { total: 136, perAddress: 68 },
    { total: 768, perAddress: 384 },
    { total: 20_000, perAddress: 10_000 },
  ])
})

const path = '/api/v1/chat/completions'
const openings = {
  'nothing but one byte': 'P',
  'one byte of a body': `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{`,
}
for (const [what, bytes] of Object.entries(openings)) {
  test.skipIf(process.platform !== 'linux')(
    `health answers a process of 400 descriptors while 600 connections have sent ${what}`,
    async () => {
      const child = Bun.spawn(
        ['sh', '-c', `ulimit -n 400; exec "${process.execPath}" ${import.meta.dir}/loaded_child.ts`],
        { stdout: 'pipe', stderr: 'ignore' },
      )
      const sockets: Socket[] = []
      try {
        const url = new URL(new TextDecoder().decode((await child.stdout.getReader().read()).value).trim())
        const opening = Array.from({ length: 600 }, async () => {
          const socket = connect({ port: Number(url.port), host: url.hostname })
          socket.on('error', () => {})
          sockets.push(socket)
          await once(socket, 'connect')
          socket.write(bytes)
        })
        await Promise.allSettled(opening)
        for (let at = 0; at < 5; at++)
          expect((await fetch(new URL('/api/health', url), { headers: { connection: 'close' } })).status).toBe(200)
        // The rest has been closed when no more than the limit of one address are left.
        const open = () => sockets.filter(({ closed, readableEnded }) => !closed && !readableEnded)
        while (open().length > 150) await Promise.race(open().map((socket) => once(socket, 'close')))
        expect(open().length).toBeGreaterThan(100)
      } finally {
        for (const socket of sockets) socket.destroy()
        child.kill('SIGKILL')
        await child.exited
      }
    },
    60_000,
  )
}
