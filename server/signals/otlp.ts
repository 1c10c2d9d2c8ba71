/**
 * Sends spans and metrics to a collector: OTLP over HTTP as JSON. A bounded queue, batches, and retries where the
 * protocol allows them. Nothing waits for it.
 */
import type { Clock, Log } from '../../core/mod.ts'
import type { TelemetryConfig } from './otel_config.ts'

type Attributes = Readonly<Record<string, string | number | boolean>>
export type Span = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: 1 | 2 | 3
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Attributes
  readonly error?: string
}

/** The metrics of an export, as the protocol words them. */
export type OtlpMetric = Readonly<Record<string, unknown>> & { readonly name: string }

export type Exporter = {
  add(span: Span): void
  /** Sends what is queued, and the metrics. */
  flush(): Promise<void>
  close(): Promise<void>
}

type ExporterOptions = Pick<TelemetryConfig, 'endpoint' | 'headers' | 'serviceName'> & {
  readonly version: string
  readonly instance: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: () => Promise<readonly OtlpMetric[]>
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
}

const MAX_QUEUED = 4_096
const MAX_BATCH = 512
const SPANS_EVERY_MS = 5_000
const METRICS_EVERY_MS = 60_000
const TIMEOUT_MS = 10_000
const MAX_ATTEMPTS = 4
const RETRIED = [429, 502, 503, 504]
/** How long a process that stops may take for its last spans. */
const CLOSE_MS = 3_000

export function exporter(options: ExporterOptions): Exporter {
  const { endpoint, serviceName, version, instance, clock, log, metrics } = options
  const stopped = new AbortController()
  let queue: Span[] = []
  let dropped = 0
  let isFailing = false
  let metricsAt = clock.now()
  const resource = {
    attributes: attributesOf({
      'service.name': serviceName,
      'service.version': version,
      'service.instance.id': instance,
    }),
  }
  const scope = { name: 'farebox', version }
  const running = (async () => {
    while (!stopped.signal.aborted) {
      await clock.wait(SPANS_EVERY_MS, stopped.signal)
      await sendSpans()
      if (clock.now() - metricsAt >= METRICS_EVERY_MS) await sendMetrics()
    }
  })()

  return {
    add(span) {
      if (queue.length >= MAX_QUEUED) dropped++
      else queue.push(span)
    },
    flush,
    async close() {
      stopped.abort()
      const over = new AbortController()
      await Promise.race([running.then(flush), clock.wait(CLOSE_MS, over.signal)])
      over.abort()
    },
  }

  async function flush(): Promise<void> {
    await sendSpans()
    await sendMetrics()
  }

  async function sendSpans(): Promise<void> {
    while (queue.length > 0) {
      const spans = queue.slice(0, MAX_BATCH)
      queue = queue.slice(MAX_BATCH)
      const scopeSpans = [{ scope, spans: spans.map(spanOf) }]
      if (!(await send('traces', { resourceSpans: [{ resource, scopeSpans }] }))) dropped += spans.length
    }
  }

  async function sendMetrics(): Promise<void> {
    metricsAt = clock.now()
    const found = (await metrics?.()) ?? []
    if (found.length === 0) return
    await send('metrics', { resourceMetrics: [{ resource, scopeMetrics: [{ scope, metrics: found }] }] })
  }

  /** Whether it was accepted. An outage is logged when it begins and when it ends. */
  async function send(signal: 'traces' | 'metrics', body: unknown): Promise<boolean> {
    const text = JSON.stringify(body)
    for (let attempt = 1; ; attempt++) {
      const { status, reason, retryAfter } = await post(`${endpoint}/v1/${signal}`, text, options)
      if (status >= 200 && status < 300) {
        if (isFailing) log.info('telemetry is exported again', { dropped_spans: dropped })
        if (isFailing) dropped = 0
        isFailing = false
        return true
      }
      if (attempt === MAX_ATTEMPTS || !(status === 0 || RETRIED.includes(status)) || stopped.signal.aborted) {
        if (!isFailing) log.warn('telemetry could not be exported; spans are dropped', { signal, reason })
        isFailing = true
        return false
      }
      const backoff = 1_000 * 2 ** (attempt - 1) * (0.5 + Math.random() / 2)
      await clock.wait(retryAfter ?? backoff, stopped.signal)
    }
  }
}

async function post(
  url: string,
  body: string,
  { headers, fetch = globalThis.fetch }: Pick<ExporterOptions, 'headers' | 'fetch'>,
): Promise<{ status: number; reason: string; retryAfter?: number }> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    await response.body?.cancel()
    const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
    return {
      status: response.status,
      reason: `HTTP ${response.status}`,
      ...(seconds >= 0 && { retryAfter: Math.min(60, seconds) * 1_000 }),
    }
  } catch (error) {
    const { code, name } = error as Error & { code?: string }
    return { status: 0, reason: code ?? name }
  }
}

// ── the JSON of the protocol ────────────────────────────────────────────────────────────────────────────────────────

/** Times are text: nanoseconds since 1970 have more digits than a JSON number. */
export const nanos = (ms: number): string => `${Math.round(ms * 1_000)}000`

function spanOf({ startMs, endMs, attributes, error, ...span }: Span) {
  return {
    ...span,
    startTimeUnixNano: nanos(startMs),
    endTimeUnixNano: nanos(Math.max(startMs, endMs)),
    attributes: attributesOf(attributes),
    status: error === undefined ? {} : { code: 2, message: error },
  }
}

export function attributesOf(attributes: Attributes) {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: valueOf(value) }))
}

function valueOf(value: string | number | boolean) {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
}
