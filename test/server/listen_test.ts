import { expect, test } from 'bun:test'
import { parseConfig } from '../../server/config/mod.ts'
import { inFlight, listen } from '../../server/listen.ts'
import type { Wired } from '../../server/wiring/mod.ts'
import { kit } from '../kit.ts'

test('a port that is taken is told with its setting, and then nothing listens', () => {
  const read = parseConfig('', { PORT: '0' })
  if (!read.ok) throw new Error('a bad configuration')
  const taken = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('mine') })
  const { gateway, log } = kit()
  const config = {
    name: 'nano',
    label: 'nano',
    hosts: [],
    port: taken.port ?? 0,
    catalog: 'full',
    hidden: [],
    retired: false,
    paymentMethods: [],
  } as const
  const wired = { gateways: [{ gateway, config }], devnet: undefined, metrics: undefined } as unknown as Wired
  const options = { log: { ...log, access() {}, flush() {} }, requests: inFlight() }
  expect(() => listen(read.config, wired, options)).toThrow(
    `Port ${taken.port} on 127.0.0.1 is already in use. Stop the other process, or set the port of gateway nano to another port`,
  )
  expect(() => listen({ ...read.config, port: taken.port ?? 0 }, wired, options)).toThrow('or set PORT to another port')
  taken.stop(true)
})
