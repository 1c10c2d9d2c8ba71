/** `/metrics` for Prometheus: what core's meters count, how long upstreams take, and how the process is. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Clock, Meter, Settled } from '../core/mod.ts'

/** The same vendor, each of whose answers is timed. */
export type Timed = <Vendor extends object>(name: string, vendor: Vendor) => Vendor

/** What an account holds that pays for settlements. */
export type Balance = { readonly unit: 'wei' | 'lamports'; readonly address: string; readonly amount: number }

export type Metrics = {
  /** Shows these balances of a gateway with each scrape. */
  balances(gateway: string, read: () => readonly Balance[]): void
  meterOf(gateway: string): Meter
  readonly timed: Timed
  scrape(): Promise<{ readonly type: string; readonly body: string }>
}

/** Of the library's own figures, those that mean something on this runtime. */
const OF_THE_PROCESS = /^process_|^nodejs_eventloop_lag(?:_p\d+|_max)?_seconds$|^nodejs_heap_size_/
/** Seconds: from a price that is kept to a slow picture. */
const BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 600]
const MICRO = 1_000_000
const OUTCOMES: readonly Settled[] = ['settled', 'refused', 'dead', 'unknown', 'unavailable', 'unresolved']

/** Figures of one process since its start. Labels are names of the menu, of the catalog and of the configuration: callers add none. */
export function metrics({ version, clock }: { version: string; clock: Pick<Clock, 'now'> }): Metrics {
  const register = new Registry()
  collectDefaultMetrics({ register })
  for (const { name } of register.getMetricsAsArray()) if (!OF_THE_PROCESS.test(name)) register.removeSingleMetric(name)
  new Gauge({
    name: 'farebox_info',
    help: 'One, with the version that runs.',
    labelNames: ['version'],
    registers: [register],
  }).set({ version }, 1)
  const requests = tally(
    register,
    'farebox_requests_total',
    'Requests answered, by class of status; quotes, 402, are a class of their own.',
    ['gateway', 'endpoint', 'status'],
  )
  const quotes = tally(register, 'farebox_quotes_total', 'Orders without payment that were told their price.', [
    'gateway',
    'endpoint',
  ])
  const verifications = tally(
    register,
    'farebox_verifications_total',
    'Payments judged: valid, unavailable, or the code of the refusal.',
    ['outcome'],
  )
  const calls = tally(
    register,
    'farebox_calls_total',
    'Paid calls that were opened here, and those that completed or failed here.',
    ['gateway', 'state'],
  )
  const settlements = tally(
    register,
    'farebox_settlements_total',
    'Attempts to settle: settled, refused, dead, or not known yet.',
    ['gateway', 'outcome'],
  )
  const revenue = tally(
    register,
    'farebox_revenue_usdc_total',
    'USDC that moved, by its receipts.',
    ['gateway', 'endpoint'],
    MICRO,
  )
  const upstream = new Histogram({
    name: 'farebox_upstream_seconds',
    help: 'Time of one call to a vendor; of a stream, until its first event.',
    labelNames: ['vendor'],
    buckets: BUCKETS,
    registers: [register],
  })

  const balances: { readonly gateway: string; readonly read: () => readonly Balance[] }[] = []
  balanceGauge(
    'wei',
    'farebox_relayer_balance_wei',
    'What a relayer account holds for gas, in wei, less what was spent since it was read.',
  )
  balanceGauge(
    'lamports',
    'farebox_fee_payer_balance_lamports',
    'What a Solana fee payer holds, in lamports, less what was spent since it was read.',
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

    meterOf(gateway) {
      const answered = new Map<string, (Cell | undefined)[]>()
      const quoted = new Map<string, Cell>()
      // There from the start, at zero: a rate needs a first value.
      const moved = {
        opened: calls([gateway, 'opened']),
        completed: calls([gateway, 'completed']),
        failed: calls([gateway, 'failed']),
      }
      for (const outcome of OUTCOMES) settlements([gateway, outcome])
      return {
        answered(endpoint, status) {
          const row = answered.get(endpoint) ?? kept(answered, endpoint, [])
          const at = status === 402 ? 0 : Math.floor(status / 100)
          const cell = (row[at] ??= requests([gateway, endpoint, at === 0 ? '402' : `${at}xx`]))
          cell.value++
        },
        quoted(endpoint) {
          const cell = quoted.get(endpoint) ?? kept(quoted, endpoint, quotes([gateway, endpoint]))
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
      const dressed = Object.entries(vendor).map(([verb, value]) => [
        verb,
        typeof value === 'function' ? (...asked: readonly unknown[]) => stopwatch(name, () => value(...asked)) : value,
      ])
      return Object.fromEntries(dressed) as typeof vendor
    },

    async scrape() {
      return { type: register.contentType, body: await register.metrics() }
    },
  }

  /** A failure takes its time as well. */
  async function stopwatch<T>(vendor: string, call: () => Promise<T>): Promise<T> {
    const startedAt = clock.now()
    try {
      return await call()
    } finally {
      upstream.observe({ vendor }, Math.max(0, clock.now() - startedAt) / 1000)
    }
  }
}

// ── counting ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Cell = { value: number }

/** A counter whose cells are plain numbers: the library hashes all labels with each increment, which a quote shall not wait for. */
function tally(
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
      kept(cells, key, {
        value: 0,
        labels: Object.fromEntries(labelNames.map((label, index) => [label, labels[index] ?? ''])),
      })
    )
  }
}

function kept<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): Value {
  map.set(key, value)
  return value
}
