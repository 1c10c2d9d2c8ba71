/** Prometheus metrics: the counters of core's meter, upstream latency, balances and process figures. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Clock, Meter, Settled } from '../core/mod.ts'
import { DRAIN_PHASES, type DrainPhase } from './drain.ts'

/** Wraps a vendor so that each of its calls is timed. */
export type Timed = <Vendor extends object>(name: string, vendor: Vendor) => Vendor

/** Balance of an account that pays the fees of settlements. */
export type Balance = { readonly unit: 'wei' | 'lamports'; readonly address: string; readonly amount: number }

/** Figures that are read at each scrape. */
type Figures = {
  /** Work in progress beside requests: jobs, streams, settlements and mirrored media. */
  backgroundWork(): number
  /** Relayer keys by whether this process holds their lease. */
  relayerLeases(): readonly { readonly gateway: string; readonly address: string; readonly isLeased: boolean }[]
  /** Payments whose outcome is not known yet, by gateway. */
  unresolved(): Promise<Readonly<Record<string, number>>>
  isStorageReachable(): Promise<boolean>
  /** Milliseconds by which this machine is ahead of the database; undefined where they share a clock. */
  clockSkew(): number | undefined
}

export type Metrics = {
  /** The series that are not in the Prometheus text, for export to elsewhere. */
  readonly register: Pick<Registry, 'getMetricsAsJSON'>
  histograms(): readonly HistogramSeries[]
  /** Adds balances of a gateway, read at each scrape. */
  balances(gateway: string, read: () => readonly Balance[]): void
  meterOf(gateway: string): Meter
  /** The phase of a shutdown. */
  drainPhase(phase: DrainPhase): void
  readonly timed: Timed
  /** Adds figures of the process, read at each scrape. */
  watch(figures: Figures): void
  scrape(): Promise<{ readonly type: string; readonly body: string }>
}

/** The default metrics of prom-client that are meaningful on Bun. */
const PROCESS_METRICS = /^process_|^nodejs_eventloop_lag(?:_p\d+|_max)?_seconds$|^nodejs_heap_size_/
/** In seconds: from a cached price to a slow image. */
const BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 600]
/** In seconds, of requests and of first tokens. */
const REQUEST_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const FIRST_TOKEN_BUCKETS = [0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60]
/** Powers of four, as in the conventions of OpenTelemetry. */
const TOKEN_BUCKETS = Array.from({ length: 11 }, (_, power) => 4 ** power)
const MICRO_USDC = 1_000_000
const OUTCOMES: readonly Settled[] = ['settled', 'refused', 'dead', 'unknown', 'unavailable', 'unresolved']

/** The counters and histograms of a process. */
type Series = ReturnType<typeof seriesIn>

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
  const drainPhase = drainGauge(register)
  const series = seriesIn(register)
  const balances = balanceGauges(register)
  return {
    register,
    histograms: () => series.histograms.flatMap((histogram) => histogram.series()),
    watch: (figures) => watchFigures(register, figures),
    balances: (gateway, read) => void balances.push({ gateway, read }),
    drainPhase,
    meterOf: (gateway) => meterOf(series, gateway),
    timed: (name, vendor) => timedVendor(series, clock, { name, vendor }),
    async scrape() {
      return {
        type: register.contentType,
        body: (await register.metrics()) + series.histograms.map(({ text }) => text()).join(''),
      }
    },
  }
}

/** A gauge of the phase of the process. Gives what sets it. */
function drainGauge(register: Registry): (next: DrainPhase) => void {
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
  return (next) => void (phase = next)
}

function seriesIn(register: Registry) {
  const durations = createHistogram(
    'farebox_request_duration_seconds',
    'Time until a request was answered, or its stream began, in seconds. 402 and free documents included.',
    ['gateway', 'endpoint'],
    REQUEST_BUCKETS,
  )
  const firstTokens = createHistogram(
    'farebox_first_token_seconds',
    'Time from a request to the first part of its streamed answer, in seconds.',
    ['gateway', 'endpoint'],
    FIRST_TOKEN_BUCKETS,
  )
  const tokens = createHistogram(
    'farebox_tokens',
    'Tokens of a paid answer, as its vendor reported them.',
    ['gateway', 'endpoint', 'type'],
    TOKEN_BUCKETS,
  )
  return { ...countersIn(register), durations, firstTokens, tokens, histograms: [durations, firstTokens, tokens] }
}

function countersIn(register: Registry) {
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
  const refunds = createCounter(
    register,
    'farebox_refunds_usdc_total',
    'USDC of channels that was sent back to its payers.',
    ['gateway'],
    MICRO_USDC,
  )
  const upstream = new Histogram({
    name: 'farebox_upstream_seconds',
    help: 'Duration of vendor calls in seconds. For a stream, the time to its first event.',
    labelNames: ['vendor'],
    buckets: BUCKETS,
    registers: [register],
  })
  return { requests, quotes, verifications, calls, settlements, revenue, refunds, upstream }
}

type Balances = { readonly gateway: string; readonly read: () => readonly Balance[] }[]

/** Gauges of what is read from this list, which gateways are added to. */
function balanceGauges(register: Registry): Balances {
  const balances: Balances = []
  const add = (unit: Balance['unit'], name: string, help: string): void => {
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
  add(
    'wei',
    'farebox_relayer_balance_wei',
    'Gas balance of a relayer account in wei: the last value read, minus gas spent since.',
  )
  add(
    'lamports',
    'farebox_fee_payer_balance_lamports',
    'Balance of a fee payer in lamports: the last value read, minus fees spent since.',
  )
  return balances
}

function meterOf(series: Series, gateway: string): Meter {
  const { requests, quotes, verifications, calls, settlements, revenue, refunds, durations, firstTokens, tokens } =
    series
  const answered = new Map<string, (Cell | undefined)[]>()
  const quoted = new Map<string, Cell>()
  const took = new Map<string, Observer>()
  // Created at zero, because a rate needs a first value.
  const moved = {
    opened: calls([gateway, 'opened']),
    completed: calls([gateway, 'completed']),
    failed: calls([gateway, 'failed']),
  }
  for (const outcome of OUTCOMES) settlements([gateway, outcome])
  return {
    answered(endpoint, status, ms) {
      const observe = took.get(endpoint) ?? insert(took, endpoint, durations.of([gateway, endpoint]))
      observe(ms / 1000)
      const row = answered.get(endpoint) ?? insert(answered, endpoint, [])
      const statusClass = status === 402 ? 0 : Math.floor(status / 100)
      const cell = (row[statusClass] ??= requests([gateway, endpoint, statusClass === 0 ? '402' : `${statusClass}xx`]))
      cell.value++
    },
    quoted(endpoint) {
      const cell = quoted.get(endpoint) ?? insert(quoted, endpoint, quotes([gateway, endpoint]))
      cell.value++
    },
    judged: (outcome) => void verifications([outcome]).value++,
    moved: (work) => void moved[work].value++,
    streamBegan: (endpoint, ms) => firstTokens.of([gateway, endpoint])(ms / 1000),
    tokensUsed(endpoint, { input, output }) {
      tokens.of([gateway, endpoint, 'input'])(input)
      tokens.of([gateway, endpoint, 'output'])(output)
    },
    refunded: (amount) => void (refunds([gateway]).value += Number(amount)),
    attempted(endpoint, outcome, paid) {
      settlements([gateway, outcome]).value++
      if (paid) revenue([gateway, endpoint]).value += Number(paid)
    },
  }
}

/** The vendor with its calls timed. Promises only: an answer from memory, such as `isFull`, stays synchronous. */
function timedVendor<Vendor extends object>(
  { upstream }: Series,
  clock: Pick<Clock, 'now'>,
  { name, vendor }: { readonly name: string; readonly vendor: Vendor },
): Vendor {
  const timed = (call: () => unknown): unknown => {
    const startedAt = clock.now()
    const answer = call()
    return answer instanceof Promise ? measured(answer, startedAt) : answer
  }
  /** Failures are timed too. */
  async function measured<T>(answer: Promise<T>, startedAt: number): Promise<T> {
    try {
      return await answer
    } finally {
      upstream.observe({ vendor: name }, Math.max(0, clock.now() - startedAt) / 1000)
    }
  }
  const entries = Object.entries(vendor).map(([key, value]) => [
    key,
    typeof value === 'function' ? (...args: readonly unknown[]) => timed(() => value(...args)) : value,
  ])
  return Object.fromEntries(entries) as Vendor
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

// ── figures of the process ──────────────────────────────────────────────────────────────────────────────────────────

function watchFigures(register: Registry, figures: Figures): void {
  const registers = [register]
  new Gauge({
    name: 'farebox_background_work',
    help: 'Work in progress beside requests: jobs, streams, settlements and mirrored media.',
    registers,
    collect() {
      this.set(figures.backgroundWork())
    },
  })
  new Gauge({
    name: 'farebox_relayer_lease_held',
    help: '1 for a relayer key whose lease this process holds, else 0.',
    labelNames: ['gateway', 'address'],
    registers,
    collect() {
      this.reset()
      for (const { gateway, address, isLeased } of figures.relayerLeases())
        this.set({ gateway, address }, isLeased ? 1 : 0)
    },
  })
  new Gauge({
    name: 'farebox_storage_reachable',
    help: '1 while the storage answers, else 0.',
    registers,
    async collect() {
      this.set((await figures.isStorageReachable()) ? 1 : 0)
    },
  })
  new Gauge({
    name: 'farebox_unresolved_payments',
    help: 'Payments whose outcome is not known yet, in the whole ledger; counted up to 1000.',
    labelNames: ['gateway'],
    registers,
    async collect() {
      this.reset()
      const counts = await figures.unresolved().catch(() => ({}))
      for (const [gateway, count] of Object.entries(counts)) this.set({ gateway }, count)
    },
  })
  new Gauge({
    name: 'farebox_clock_skew_seconds',
    help: 'Seconds by which this machine is ahead of the database; absent with SQLite, which has no clock of its own.',
    registers,
    collect() {
      const skew = figures.clockSkew()
      this.reset()
      if (skew === undefined) this.remove()
      if (skew !== undefined) this.set(skew / 1000)
    },
  })
}

// ── histograms ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Observer = (value: number) => void

/** One histogram with its labels; `counts` has an entry for each bucket, and one for what is above. */
export type HistogramSeries = {
  readonly name: string
  readonly help: string
  readonly labels: Readonly<Record<string, string>>
  readonly buckets: readonly number[]
  readonly counts: readonly number[]
  readonly sum: number
}

/** A histogram whose observers know their labels: prom-client hashes all labels at each observation. */
function createHistogram(name: string, help: string, labelNames: readonly string[], buckets: readonly number[]) {
  type Mutable = { readonly labels: Readonly<Record<string, string>>; readonly counts: number[]; sum: number }
  const known = new Map<string, { readonly data: Mutable; readonly observe: Observer }>()

  function of(labels: readonly string[]): Observer {
    const key = labels.join('\n')
    const found = known.get(key)
    if (found) return found.observe
    const data: Mutable = {
      labels: Object.fromEntries(labelNames.map((label, index) => [label, labels[index] ?? ''])),
      counts: Array.from({ length: buckets.length + 1 }, () => 0),
      sum: 0,
    }
    const observe = (value: number) => {
      let bucket = 0
      while (bucket < buckets.length && value > (buckets[bucket] as number)) bucket++
      data.counts[bucket] = (data.counts[bucket] as number) + 1
      data.sum += value
    }
    known.set(key, { data, observe })
    return observe
  }

  const series = (): readonly HistogramSeries[] =>
    [...known.values()].map(({ data }) => ({ name, help, buckets, ...data }))

  function text(): string {
    const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`]
    for (const { labels, counts, sum } of series()) {
      const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escaped(value)}"`)
      let total = 0
      for (const [index, count] of counts.entries()) {
        total += count
        lines.push(`${name}_bucket{${[...pairs, `le="${buckets[index] ?? '+Inf'}"`].join(',')}} ${total}`)
      }
      lines.push(`${name}_sum{${pairs.join(',')}} ${sum}`, `${name}_count{${pairs.join(',')}} ${total}`)
    }
    return `${lines.join('\n')}\n`
  }

  return { of, series, text }
}

const escaped = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')
