import { expect, test } from 'bun:test'
import { parseConfig } from '../../server/config/mod.ts'
import { inFlight, listen } from '../../server/listen.ts'
import type { Wired } from '../../server/wiring/mod.ts'
import { kit } from '../kit.ts'

/** One gateway, which sells. */
function wiredWith(settings: { readonly port?: number }): Wired {
  const config = {
    name: 'nano',
    label: 'nano',
    hosts: [],
    catalog: 'full',
    hidden: [],
    retired: false,
    paymentMethods: [],
    ...settings,
  } as const
  return { gateways: [{ gateway: kit().gateway, config }], devnet: undefined, metrics: undefined } as unknown as Wired
}

function optionsOf(): Parameters<typeof listen>[2] {
  return { log: { ...kit().log, access() {}, flush() {} }, requests: inFlight() }
}

test('a port that is taken is told with its setting, and then nothing listens', () => {
  const read = parseConfig('', { PORT: '0' })
  if (!read.ok) throw new Error('a bad configuration')
  const taken = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('mine') })
  const wired = wiredWith({ port: taken.port ?? 0 })
  const options = optionsOf()
  expect(() => listen(read.config, wired, options)).toThrow(
    `Port ${taken.port} on 127.0.0.1 is already in use. Stop the other process, or set the port of gateway nano to another port`,
  )
  expect(() => listen({ ...read.config, port: taken.port ?? 0 }, wired, options)).toThrow('or set PORT to another port')
  taken.stop(true)
})

test('an address of another machine is told with the setting HOST and what is allowed', () => {
  const read = parseConfig('', { PORT: '0', HOST: '192.0.2.1' })
  if (!read.ok) throw new Error('a bad configuration')
  expect(() => listen(read.config, wiredWith({}), optionsOf())).toThrow(
    'Cannot listen on 192.0.2.1, which is no address or name of this machine (EADDRNOTAVAIL). Set HOST to an IP address',
  )
})

test.each(['127.0.0.1', '0.0.0.0', '::1', '::', 'fe80::1%eth0', 'localhost', 'gateway-1.internal', '::ffff:10.0.0.1'])(
  'HOST may be %s',
  (host) => expect(parseConfig('', { HOST: host }).ok).toBe(true),
)

test.each(['999.1.1.1', '10.0.0', '[::1]', 'localhost:80', 'http://localhost', 'two words', '*', '1.2.3.4.5'])(
  'HOST may not be %s',
  (host) => expect(parseConfig('', { HOST: host }).ok).toBe(false),
)
