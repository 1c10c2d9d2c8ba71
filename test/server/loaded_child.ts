/** A gateway in a process of its own, for tests that limit what a process may have. Says its port. */
import { systemClock } from '../../adapters/local.ts'
import { parseConfig } from '../../server/config/mod.ts'
import { inFlight, listen } from '../../server/listen.ts'
import type { Wired } from '../../server/wiring/mod.ts'
import { kit } from '../kit.ts'

const read = parseConfig('', { PORT: '0' })
if (!read.ok) throw new Error('a bad configuration')
const { gateway, log } = kit({ ports: { clock: systemClock } })
const config = {
  name: 'base',
  label: 'base',
  hosts: [],
  catalog: 'full',
  hidden: [],
  retired: false,
  paymentMethods: [],
} as const
const wired = { gateways: [{ gateway, config }], devnet: undefined, metrics: undefined } as unknown as Wired
const warn = (message: string, fields?: Record<string, unknown>) =>
  console.error(JSON.stringify({ message, ...fields }))
console.log(listen(read.config, wired, { log: { ...log, warn, access() {}, flush() {} }, requests: inFlight() }).url)
