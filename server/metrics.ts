/** Prometheus metrics: the counters of core's meter, upstream latency, balances and process figures. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Clock, Meter, Settled } from '../core/mod.ts'
import { DRAIN_PHASES, type DrainPhase } from './drain.ts'

/** Wraps a vendor so that each of its calls is timed. */
export type Timed = <Vendor extends object>(name: string, vendor: Vendor) => Vendor

/** Balance of an account that pays the fees of settlements. */
export type Balance = { readonly unit: 'wei' | 'lamports'; readonly address: string; readonly amount: number }

export type Metrics = {
  /** Adds balances of a gateway, read at each scrape. */
  balances(gateway: string, read: () => readonly Balance[]): void
  meterOf(gateway: string): Meter
  /** The phase of a shutdown. */
  drainPhase(phase: DrainPhase): void
  readonly timed: Timed
  scrape(): Promise<{ readonly type: string; readonly body: string }>
}

/** The default metrics of prom-client that are meaningful on Bun. */
const PROCESS_METRICS = /^process_|^nodejs_eventloop_lag(?:_p\d+|_max)?_seconds$|^nodejs_heap_size_/
/** In seconds: from a cached price to a slow image. */
const BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 600]
const MICRO_USDC = 1_000_000
const OUTCOMES: readonly Settled[] = ['settled', 'refused', 'dead', 'unknown', 'unavailable', 'unresolved']

/** Metrics of one process since its start. Labels come from endpoints and configuration, never from callers. */
export function metrics({ version, clock }: { version: string; clock: Pick<Clock, 'now'> }): Metrics {
  const register = new Registry()
  collectDefaultMetrics({ register })
  for (const { name } of register.getMetricsAsArray())
    if (!PROCESS_METRICS.test(name)) register.removeSingleMetric(name)
  new Gauge({
    name: 'farebox_info',
    help: 'Always 1. The label has the running version.',
    labelNames: ['version'],
    registers: [register],
  }).set({ version }, 1)
  let phase: DrainPhase = 'serving'
  const phases: Gauge = new Gauge({
    name: 'farebox_drain_phase',
    help: '1 for the phase that the process is in: serving, lame_duck, draining or settling.',
    labelNames: ['phase'],
    registers: [register],
    collect() {
      for (const each of DRAIN_PHASES) phases.set({ phase: each }, each === phase ? 1 : 0)
    },
  })
  const requests = createCounter(
    register,
    'farebox_requests_total',
    'HTTP requests by status class. 402 is counted separately.',
    ['gateway', 'endpoint', 'status'],
  )
  const quotes = createCounter(
    register,
    'farebox_quotes_total',
    'Requests without a payment that were answered with a price.',
    ['gateway', 'endpoint'],
  )
  const verifications = createCounter(
    register,
    'farebox_verifications_total',
    'Verified payments by outcome: valid, unavailable, or the error code.',
    ['outcome'],
  )
  const calls = createCounter(
    register,
    'farebox_calls_total',
    'Paid calls that this process opened, completed or failed.',
    ['gateway', 'state'],
  )
  const settlements = createCounter(register, 'farebox_settlements_total', 'Settlement attempts by outcome.', [
    'gateway',
    'outcome',
  ])
  const revenue = createCounter(
    register,
    'farebox_revenue_usdc_total',
    'USDC received in settled payments.',
    ['gateway', 'endpoint'],
    MICRO_USDC,
  )
  const upstream = new Histogram({
    name: 'farebox_upstream_seconds',
    help: 'Duration of vendor calls in seconds. For a stream, the time to its first event.',
    labelNames: ['vendor'],
    buckets: BUCKETS,
    registers: [register],
  })

  const balances: { readonly gateway: string; readonly read: () => readonly Balance[] }[] = []
  balanceGauge(
    'wei',
    'farebox_relayer_balance_wei',
    'Gas balance of a relayer account in wei: the last value read, minus gas spent since.',
  )
  balanceGauge(
    'lamports',
    'farebox_fee_payer_balance_lamports',
    'Balance of a Solana fee payer in lamports: the last value read, minus fees spent since.',
  )

  function balanceGauge(unit: Balance['unit'], name: string, help: string): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: ['gateway', 'address'],
      registers: [register],
      collect() {
        gauge.reset()
        for (const { gateway, read } of balances) {
          for (const each of read()) if (each.unit === unit) gauge.set({ gateway, address: each.address }, each.amount)
        }
      },
    })
  }

  return {
    balances: (gateway, read) => void balances.push({ gateway, read }),
    drainPhase: (next) => void (phase = next),

    meterOf(gateway) {
      const answered = new Map<string, (Cell | undefined)[]>()
      const quoted = new Map<string, Cell>()
      // Created at zero, because a rate needs a first value.
      const moved = {
        opened: calls([gateway, 'opened']),
        completed: calls([gateway, 'completed']),
        failed: calls([gateway, 'failed']),
      }
      for (const outcome of OUTCOMES) settlements([gateway, outcome])
      return {
        answered(endpoint, status) {
          const row = answered.get(endpoint) ?? insert(answered, endpoint, [])
          const statusClass = status === 402 ? 0 : Math.floor(status / 100)
          const cell = (row[statusClass] ??= requests([
            gateway,
            endpoint,
            statusClass === 0 ? '402' : `${statusClass}xx`,
          ]))
          cell.value++
        },
        quoted(endpoint) {
          const cell = quoted.get(endpoint) ?? insert(quoted, endpoint, quotes([gateway, endpoint]))
          cell.value++
        },
        judged: (outcome) => void verifications([outcome]).value++,
        moved: (work) => void moved[work].value++,
        attempted(endpoint, outcome, paid) {
          settlements([gateway, outcome]).value++
          if (paid) revenue([gateway, endpoint]).value += Number(paid)
        },
      }
    },

    timed(name, vendor) {
      const entries = Object.entries(vendor).map(([key, value]) => [
        key,
        typeof value === 'function' ? (...args: readonly unknown[]) => timedAnswer(name, () => value(...args)) : value,
      ])
      return Object.fromEntries(entries) as typeof vendor
    },

    async scrape() {
      return { type: register.contentType, body: await register.metrics() }
    },
  }

  /** Times promises only: an answer from memory, such as `isFull`, stays synchronous and is not counted. */
  function timedAnswer(vendor: string, call: () => unknown): unknown {
    const startedAt = clock.now()
    const answer = call()
    return answer instanceof Promise ? measure(vendor, startedAt, answer) : answer
  }

  /** Failures are timed too. */
  async function measure<T>(vendor: string, startedAt: number, answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } finally {
      upstream.observe({ vendor }, Math.max(0, clock.now() - startedAt) / 1000)
    }
  }
}

// ── counters ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Cell = { value: number }

/** A counter that increments plain numbers: prom-client hashes all labels at each increment, too slow for quotes. */
function createCounter(
  register: Registry,
  name: string,
  help: string,
  labelNames: readonly string[],
  unit = 1,
): (labels: readonly string[]) => Cell {
  const cells = new Map<string, Cell & { readonly labels: Readonly<Record<string, string>> }>()
  const counter = new Counter({
    name,
    help,
    labelNames: [...labelNames],
    registers: [register],
    collect() {
      counter.reset()
      for (const { labels, value } of cells.values()) counter.inc({ ...labels }, value / unit)
    },
  })
  return (labels) => {
    const key = labels.join('\n')
    return (
      cells.get(key) ??
      insert(cells, key, {
        value: 0,
        labels: Object.fromEntries(labelNames.map((label, index) => [label, labels[index] ?? ''])),
      })
    )
  }
}

function insert<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): Value {
  map.set(key, value)
  return value
}
