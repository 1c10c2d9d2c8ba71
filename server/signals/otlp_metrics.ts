/** The metrics of the process in the words of OTLP: cumulative, with the names of otel_names.ts. */
import type { HistogramSeries, Metrics } from '../metrics.ts'
import { METRICS, NAMES } from './otel_names.ts'
import { attributesOf, nanos, type OtlpMetric } from './otlp.ts'

type Labels = Readonly<Record<string, string | number | undefined>>
type Value = { readonly value: number; readonly labels: Labels; readonly metricName?: string }
type Found = { readonly name: string; readonly help: string; readonly type: string; readonly values: readonly Value[] }
type Times = { readonly startMs: number; readonly nowMs: number }

/** `startMs` is when counting began. */
export async function otlpMetrics(
  { register, histograms }: Pick<Metrics, 'register' | 'histograms'>,
  times: Times,
): Promise<readonly OtlpMetric[]> {
  const found = (await register.getMetricsAsJSON()) as unknown as readonly Found[]
  const own = grouped(histograms())
  return [...found.flatMap((metric) => metricOf(metric, times)), ...own.map((series) => histogramOf(series, times))]
}

function grouped(series: readonly HistogramSeries[]): readonly (readonly HistogramSeries[])[] {
  const names = [...new Set(series.map(({ name }) => name))]
  return names.map((name) => series.filter((each) => each.name === name))
}

const nameOf = (name: string): string => METRICS[name]?.name ?? name.replaceAll('_', '.')

function attributes(name: string, labels: Labels) {
  const named = METRICS[name]?.labels ?? { gateway: NAMES.gateway, endpoint: NAMES.endpoint }
  return attributesOf(
    Object.fromEntries(
      Object.entries(labels).flatMap(([label, value]) =>
        value === undefined ? [] : [[(named as Record<string, string>)[label] ?? label, value]],
      ),
    ),
  )
}

function metricOf({ name, help, type, values }: Found, { startMs, nowMs }: Times): readonly OtlpMetric[] {
  const common = { name: nameOf(name), description: help, ...(METRICS[name] && { unit: METRICS[name].unit }) }
  const times = { startTimeUnixNano: nanos(startMs), timeUnixNano: nanos(nowMs) }
  if (values.length === 0) return []
  if (type === 'histogram') return [{ ...common, histogram: { aggregationTemporality: 2, dataPoints: points() } }]
  const dataPoints = values.map(({ value, labels }) => ({
    ...times,
    attributes: attributes(name, labels),
    asDouble: value,
  }))
  if (type === 'counter') return [{ ...common, sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints } }]
  return type === 'gauge' ? [{ ...common, gauge: { dataPoints } }] : []

  /** Prometheus counts each bucket with all below it, OTLP each alone. */
  function points() {
    const keyOf = ({ labels: { le: _, ...labels } }: Value) => JSON.stringify(labels)
    return [...new Set(values.map(keyOf))].map((key) => {
      const mine = values.filter((value) => keyOf(value) === key)
      const buckets = mine.filter(({ metricName = '' }) => metricName.endsWith('_bucket'))
      const valueOf = (suffix: string) => mine.find(({ metricName = '' }) => metricName.endsWith(suffix))?.value ?? 0
      return {
        ...times,
        attributes: attributes(name, JSON.parse(key) as Labels),
        count: String(valueOf('_count')),
        sum: valueOf('_sum'),
        explicitBounds: buckets.flatMap(({ labels: { le } }) => (le === '+Inf' ? [] : [Number(le)])),
        bucketCounts: buckets.map(({ value }, index) => String(value - (buckets[index - 1]?.value ?? 0))),
      }
    })
  }
}

function histogramOf(series: readonly HistogramSeries[], { startMs, nowMs }: Times): OtlpMetric {
  const [{ name, help }] = series as [HistogramSeries]
  const dataPoints = series.map(({ labels, buckets, counts, sum }) => ({
    startTimeUnixNano: nanos(startMs),
    timeUnixNano: nanos(nowMs),
    attributes: attributes(name, labels),
    count: String(counts.reduce((total, count) => total + count, 0)),
    sum,
    explicitBounds: buckets,
    bucketCounts: counts.map(String),
  }))
  return {
    name: nameOf(name),
    description: help,
    unit: METRICS[name]?.unit ?? '1',
    histogram: { aggregationTemporality: 2, dataPoints },
  }
}
