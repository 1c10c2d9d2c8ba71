/**
 * State that outlives a run, and gateways of the real core, built for each run, whose ports ask the world of the run
 * that is on.
 */
import { evmFamily } from '../../adapters/chains/evm/family.ts'
import { type MemoryChain, memoryChain } from '../../adapters/chains/evm/memory.ts'
import type { Endpoint } from '../../core/endpoint/mod.ts'
import { type Usdc, usdc } from '../../core/x402/money.ts'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { calls } from '../../core/products/site/call_poll.ts'
import { chat } from '../../core/products/chat/completions.ts'
import { images } from '../../core/products/images/generations.ts'
import {
  type Gateway,
  gateway,
  type Timeouts,
  timeouts,
  type Payment,
  type Ports,
  type Storage,
} from '../../core/mod.ts'
import type { Controls } from '../../core/payment/control/controls.ts'
import type { Chain } from '../../core/ports/mod.ts'
import { scheduledStorage, scheduledVendors, type StorageHooks } from './scheduled_ports.ts'
import type { LawName } from './ledger.ts'
import { LIMITS, limited, type RunLimits } from './limits.ts'
import { POLL_SECRET, type Product, productsOf } from './products.ts'
import { ownerOf, type Process, START } from './scheduler.ts'
import type { Doors } from './mcp/doors.ts'
import type { Fleet } from './upgrades/fleet.ts'
import type { World } from './world.ts'

/**
 * Products that the buyers of the model buy; a gateway is used for many runs, so it may sell nothing for which it
 * remembers anything.
 */
const ENDPOINTS = [...images, ...calls]
/** Chat remembers deadlines, so that its gateways are made anew for each run. */
export const ALL_ENDPOINTS = [...ENDPOINTS, ...chat]

/**
 * A rule of the house, switched off by what stands behind a port, never inside core; or, with only a name, the house as
 * it is built.
 */
export type Rule = {
  readonly name: string
  readonly storage?: () => Storage
  /** Processes of several versions on one database. */
  readonly fleet?: () => Fleet
  readonly chain?: (chain: Chain, facts: ChainFacts) => Chain
  readonly timeouts?: Partial<Timeouts>
  /**
   * Pauses, a storage that goes away, clocks that differ and a node that refuses, with chat and streams among what is
   * sold.
   */
  readonly isHarsh?: boolean
  /** The same weather with crashes, and nothing that is answered before its money has moved. */
  readonly isStormy?: boolean
  /** Buyers pay by `upto`: they sign the quote, and what was used is moved. */
  readonly isByUse?: boolean
  /** Its buyers call tools at `/mcp`. */
  readonly doors?: Doors
  /** The limits of its gateways; those that are built in, which no run reaches, unless told. */
  readonly limits?: RunLimits
  /** The gateways are never told what the operator has closed. */
  readonly isOpen?: boolean
  /** The gateway never hears that a caller has gone. */
  readonly isDeaf?: boolean
  /** The laws that are judged; all of them unless told. */
  readonly breaks?: readonly LawName[]
}

export type ChainFacts = { isCancelled(payment: Payment): boolean; readonly payTo: string }

export const AS_BUILT: Rule = { name: 'as built' }
export const IN_BAD_WEATHER: Rule = { name: 'as built, in bad weather', isHarsh: true }
export const IN_STORMS: Rule = { name: 'as built, with crashes in bad weather', isStormy: true }
export const BY_USE: Rule = { name: 'as built, in bad weather, charged by use', isHarsh: true, isByUse: true }

export const WITHIN_LIMITS: Rule = { name: 'as built, within limits', limits: LIMITS }

export type Setup = {
  readonly rule: Rule
  /** One for each process that a run may start. */
  gateways: readonly Gateway[]
  /** The operator's controls of each; none where nothing is limited. */
  controls: Controls[]
  /** Gateways that remember nothing of the runs before. */
  refresh(): void
  readonly products: readonly Product[]
  readonly timeouts: Timeouts
  world: World | undefined
}

/** The same endpoints, where a chat answer costs what `charge` says. */
const chargedBy = (charge: () => Usdc): readonly Endpoint[] =>
  ALL_ENDPOINTS.map((endpoint) =>
    'cost' in endpoint ? { ...endpoint, cost: async () => charge() } : endpoint,
  ) as readonly Endpoint[]

function endpointsOf({ isHarsh, isByUse }: Rule, charge: () => Usdc): readonly Endpoint[] {
  if (isByUse) return chargedBy(charge)
  return isHarsh ? ALL_ENDPOINTS : ENDPOINTS
}

export const cashOf = ({ isByUse }: Rule): MemoryChain => memoryChain({ schemes: [isByUse ? 'upto' : 'exact'] })

const MAX_PROCESSES = 6

export function setup(rule: Rule): Setup {
  const made: Setup = {
    rule,
    gateways: [],
    controls: [],
    products: [],
    refresh: () => {},
    timeouts: { ...timeouts, ...rule.timeouts },
    world: undefined,
  }
  const world = (): World => {
    if (!made.world) throw new Error('there is no world')
    return made.world
  }
  made.world = beforeAnyRun(rule)
  const open = (index: number) => {
    const ports = portsOf(index, world)
    const limits = rule.limits && limited(rule.limits, ports)
    if (limits) made.controls.push(limits.controls)
    return gateway({
      ports,
      ...limits,
      endpoints: endpointsOf(rule, () => usdc(world().charge())),
      label: 'model',
      pollKeys: [POLL_SECRET],
      // Its buyers pay by x402, and challenges would use up random bytes of its histories.
      mpp: false,
      workerId: ownerOf(index),
      timeouts: made.timeouts,
    })
  }
  const all = () => {
    made.controls = []
    return Array.from({ length: MAX_PROCESSES }, (_, index) => open(index))
  }
  const products = productsOf(open(0), { isHarsh: rule.isHarsh === true })
  Object.assign(made, { gateways: all(), products, refresh: () => void (made.gateways = all()) })
  made.world = undefined
  return made
}

/** As much of a world as a quote needs. */
export function beforeAnyRun(rule: Rule): World {
  const processes = Array.from({ length: MAX_PROCESSES }, () => ({ skewMs: 0 }) as Process)
  const ask = <T>(_process: Process, { run }: { readonly run: () => Promise<T> }): Promise<T> => run()
  const wait = () => new Promise<void>(() => {})
  return { now: START, cash: cashOf(rule), storage: memoryStorage(), processes, ask, wait } as unknown as World
}

/**
 * Everything that a process asks goes through the world, which decides when it is done and when it is answered; the
 * books are kept on the way.
 */
function portsOf(index: number, world: () => World): Ports {
  const process = (): Process => {
    const found = world().processes[index]
    if (!found) throw new Error(`process ${index} does not run`)
    return found
  }
  const node = <T>(label: string, payment: Payment, run: (chain: Chain) => Promise<T>): Promise<T> => {
    const here = world()
    return here.ask(process(), {
      label: `${label} ${here.signedIn(payment).name}`,
      isStorage: false,
      run: () => run(here.chain),
    })
  }

  const hooks: StorageHooks = {
    opened: (...of) => world().ledgerRows.opened(...of),
    claiming(id) {
      const { ledgerRows, active } = world()
      ledgerRows.claiming(active, id)
    },
    claimed: (...of) => world().ledgerRows.claimed(...of),
    finished: (...of) => world().ledgerRows.finished(...of),
  }
  const storage = scheduledStorage((label, run) => {
    const here = world()
    return here.ask(process(), { label, isStorage: true, run: () => run(process().storage ?? here.storage) })
  }, hooks)

  const chain: Chain = {
    families: [evmFamily],
    terms: (now) => world().cash.terms(now),
    identify: (payment, offer, at) => world().chain.identify(payment, offer, at),
    verify: (payment, offer, at) => node('verify', payment, (inner) => inner.verify(payment, offer, at)),
    settle(payment, offer, at) {
      const { ledgerRows, active } = world()
      const attempt = ledgerRows.settling(active, payment)
      return node('settle', payment, (inner) => inner.settle(payment, offer, at)).finally(() =>
        ledgerRows.answered(attempt),
      )
    },
    fate: (payment, offer, at) => node('fate', payment, (inner) => inner.fate(payment, offer, at)),
  }

  return {
    storage,
    chain,
    objects: { put: async () => {}, get: async () => undefined, delete: async () => {} },
    vendors: scheduledVendors({
      ask: (label, run) => world().ask(process(), { label, isStorage: false, run }),
      fails: () => world().fails(),
      newWork: () => world().ledgerRows.newWork(),
    }),
    clock: {
      now: () => world().now + (world().processes[index]?.skewMs ?? 0),
      wait: (ms, signal) => world().wait(ms, signal),
    },
    log: { info() {}, warn() {}, alert: (message, fields) => world().ledgerRows.alerted(message, fields) },
    random: (bytes) => world().ledgerRows.random(bytes),
    countTokens: async (text) => text.length,
    background(work) {
      const { ledgerRows } = world()
      work.catch((error: Error) => ledgerRows.alerted('background work failed', { error: error.message }))
    },
  }
}
