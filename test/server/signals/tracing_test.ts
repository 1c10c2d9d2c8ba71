/** Traces and metrics as a collector gets them. */
import { afterAll, describe, expect, test } from 'bun:test'
import { endpoints } from '../../../core/mod.ts'
import { metrics } from '../../../server/metrics.ts'
import { readTelemetry } from '../../../server/signals/otel_config.ts'
import { exporter, type Span } from '../../../server/signals/otlp.ts'
import { otlpMetrics } from '../../../server/signals/otlp_metrics.ts'
import { tracing } from '../../../server/signals/tracing.ts'
import { FOX, GENERATIONS, kit, ORIGIN, START, testClock, testLog } from '../../kit.ts'

const routes = new Map(endpoints.map(({ name, path }) => [name, path] as const))

function traced({ sampled = 1, isParentBased = true } = {}) {
  const spans: Span[] = []
  const clock = testClock()
  const traces = tracing({ exporter: { add: (span) => void spans.push(span) }, clock, sampled, isParentBased })
  const counted = metrics({ version: '1', clock })
  const subject = kit({
    ports: { clock, meter: traces.meter('main', counted.meterOf('main'), routes) },
    wrap: (inner) => ({
      ...inner,
      chain: traces.chain(inner.chain, 'main'),
      vendors: {
        ...inner.vendors,
        images(row) {
          const vendor = inner.vendors.images(row)
          return vendor && traces.timed('openai', vendor)
        },
      },
    }),
  })
  const send = async (path: string, init: RequestInit = {}) => {
    const request = new Request(ORIGIN + path, init)
    return await traces.request(request, () => subject.gateway.fetch(request, { ip: '192.0.2.1' }))
  }
  return { ...subject, spans, send, traces, counted }
}

const ORDER = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(FOX) }
const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7'

describe('a request', () => {
  test('is a server span with its route, and a 402 is no error', async () => {
    const { spans, send } = traced()
    expect((await send(GENERATIONS, ORDER)).status).toBe(402)
    expect(spans).toEqual([
      expect.objectContaining({
        name: `POST ${GENERATIONS}`,
        kind: 2,
        attributes: {
          'http.request.method': 'POST',
          'http.route': GENERATIONS,
          'http.response.status_code': 402,
          'url.path': GENERATIONS,
          'url.scheme': 'http',
          'server.address': 'farebox.test',
          'x402.endpoint': 'images.generations',
          'x402.gateway': 'main',
        },
      }),
    ])
    expect(spans[0]?.error).toBeUndefined()
    expect(spans[0]?.traceId).toMatch(/^[0-9a-f]{32}$/)
  })

  test('belongs to the trace of its caller, and is not recorded where the caller does not record', async () => {
    const { spans, send } = traced()
    await send('/livez', { headers: { traceparent: `${PARENT}-01` } })
    await send('/livez', { headers: { traceparent: `${PARENT}-00` } })
    expect(spans).toHaveLength(1)
    expect(spans[0]).toMatchObject({ traceId: PARENT.slice(3, 35), parentSpanId: PARENT.slice(36) })
  })

  test.each(['', 'nonsense', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, `ff${PARENT.slice(2)}-01`])(
    'with the traceparent %j begins a trace of its own',
    async (traceparent) => {
      const { spans, send } = traced()
      await send('/livez', { headers: { traceparent } })
      expect(spans[0]?.parentSpanId).toBeUndefined()
    },
  )

  test('has children for the verification, the vendor and the settlement, without prompt, wallet or key', async () => {
    const { spans, buyer, traces } = traced()
    const alice = buyer()
    const request = new Request(`${ORIGIN}${GENERATIONS}`, { method: 'POST' })
    await traces.request(request, async () => {
      await alice.buy()
      return new Response()
    })
    expect(spans.map(({ name }) => name)).toEqual([
      'x402 verify',
      'generate gpt-image-2.5-flare',
      'x402 settle',
      `POST ${GENERATIONS}`,
    ])
    const root = spans.at(-1)
    for (const span of spans.slice(0, -1))
      expect(span).toMatchObject({ traceId: root?.traceId, parentSpanId: root?.spanId, kind: 3 })
    expect(spans[2]?.attributes).toMatchObject({ 'x402.outcome': 'settled', 'x402.network': 'eip155:84532' })
    const text = JSON.stringify(spans).toLowerCase()
    expect(text).not.toContain('fox')
    expect(text).not.toContain(alice.wallet.toLowerCase())
  })

  test('is not recorded when nothing is sampled', async () => {
    const { spans, send } = traced({ sampled: 0 })
    await send('/livez')
    expect(spans).toEqual([])
  })
})

// ── the exporter ────────────────────────────────────────────────────────────────────────────────────────────────────

const servers: { stop(now: boolean): Promise<void> }[] = []
afterAll(async () => void (await Promise.all(servers.map((server) => server.stop(true)))))

function collector(statuses: number[] = []) {
  const received: { path: string; headers: Headers; body: any }[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname: path } = new URL(request.url)
      received.push({ path, headers: request.headers, body: await request.json() })
      return Response.json({}, { status: statuses.shift() ?? 200 })
    },
  })
  servers.push(server)
  return { received, endpoint: server.url.origin }
}

const SPAN: Span = {
  traceId: 'a'.repeat(32),
  spanId: 'b'.repeat(16),
  name: 'GET /livez',
  kind: 2,
  startMs: START,
  endMs: START + 12,
  attributes: { 'http.response.status_code': 200, sampled: true, share: 0.5, text: 'x' },
}

function exporting(endpoint: string, extra: Partial<Parameters<typeof exporter>[0]> = {}) {
  const [clock, log] = [testClock(), testLog()]
  const options = {
    endpoint,
    headers: { 'api-key': 'k' },
    serviceName: 'shop',
    version: '1',
    instance: 'i',
    clock,
    log,
  }
  return { clock, log, made: exporter({ ...options, ...extra }) }
}

describe('the exporter', () => {
  test('sends OTLP as JSON: hexadecimal ids, times and integers as text', async () => {
    const { received, endpoint } = collector()
    const { made } = exporting(endpoint)
    made.add(SPAN)
    await made.flush()
    expect(received.map(({ path }) => path)).toEqual(['/v1/traces'])
    expect(received[0]?.headers.get('api-key')).toBe('k')
    const [{ resource, scopeSpans }] = received[0]?.body.resourceSpans ?? []
    expect(resource.attributes[0]).toEqual({ key: 'service.name', value: { stringValue: 'shop' } })
    expect(scopeSpans[0].spans).toEqual([
      {
        traceId: 'a'.repeat(32),
        spanId: 'b'.repeat(16),
        name: 'GET /livez',
        kind: 2,
        startTimeUnixNano: `${START}000000`,
        endTimeUnixNano: `${START + 12}000000`,
        attributes: [
          { key: 'http.response.status_code', value: { intValue: '200' } },
          { key: 'sampled', value: { boolValue: true } },
          { key: 'share', value: { doubleValue: 0.5 } },
          { key: 'text', value: { stringValue: 'x' } },
        ],
        status: {},
      },
    ])
    await made.close()
  })

  test('sends nothing when there is nothing to send', async () => {
    const { received, endpoint } = collector()
    const { made } = exporting(endpoint)
    await made.flush()
    await made.close()
    expect(received).toEqual([])
  })

  test.each([429, 502, 503, 504])('sends again after %d', async (status) => {
    const { received, endpoint } = collector([status])
    const clock = { ...testClock(), wait: async () => {} }
    const { made } = exporting(endpoint, {
      clock: { ...testClock(), wait: (ms) => (ms < 5_000 ? clock.wait() : new Promise(() => {})) },
    })
    made.add(SPAN)
    await made.flush()
    expect(received).toHaveLength(2)
  })

  test('drops what a collector refuses, and says so once', async () => {
    const { received, endpoint } = collector([400, 413, 400])
    const { made, log } = exporting(endpoint)
    for (let n = 0; n < 3; n++) {
      made.add(SPAN)
      await made.flush()
    }
    expect(received).toHaveLength(3)
    expect(log.lines.map(({ level }) => level)).toEqual(['warn'])
    await made.close()
  })

  test('keeps a bounded number of spans', async () => {
    const { received, endpoint } = collector()
    const { made } = exporting(endpoint)
    for (let n = 0; n < 5_000; n++) made.add(SPAN)
    await made.flush()
    const sent = received.map(({ body }) => body.resourceSpans[0].scopeSpans[0].spans.length)
    expect(sent.reduce((sum, count) => sum + count, 0)).toBe(4_096)
    expect(Math.max(...sent)).toBe(512)
    await made.close()
  })

  test('sends metrics under the names of the conventions, each bucket alone', async () => {
    const clock = testClock()
    const counted = metrics({ version: '1', clock })
    const meter = counted.meterOf('main')
    for (const ms of [3, 30, 30]) meter.answered('images.generations', 402, ms)
    meter.tokensUsed?.('chat.completions', { input: 7, output: 70 })
    const found = await otlpMetrics(counted, { startMs: START, nowMs: START + 1_000 })
    const named = (name: string): any => found.find((metric) => metric.name === name)
    const [point] = named('http.server.request.duration').histogram.dataPoints
    expect([point.count, point.bucketCounts.slice(0, 5), point.explicitBounds.slice(0, 4)]).toEqual([
      '3',
      ['1', '0', '0', '2', '0'],
      [0.005, 0.01, 0.025, 0.05],
    ])
    expect(named('gen_ai.client.token.usage').histogram.dataPoints).toHaveLength(2)
    expect(named('farebox.requests.total').sum).toMatchObject({ isMonotonic: true, aggregationTemporality: 2 })
  })
})

test('the variables of OpenTelemetry are read, and mistakes are named without values', () => {
  const read = (env: Record<string, string>) => {
    const mistakes: string[] = []
    return { config: readTelemetry(env, mistakes), mistakes }
  }
  const OTEL_EXPORTER_OTLP_ENDPOINT = 'http://localhost:4318/'
  expect(read({})).toEqual({ config: undefined, mistakes: [] })
  expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED: 'true' }).config).toBeUndefined()
  expect(
    read({
      OTEL_EXPORTER_OTLP_ENDPOINT,
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%20b, x=1',
      OTEL_SERVICE_NAME: 'shop',
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.1',
    }),
  ).toEqual({
    config: {
      endpoint: 'http://localhost:4318',
      headers: { 'api-key': 'a b', x: '1' },
      serviceName: 'shop',
      sampled: 0.1,
      isParentBased: false,
    },
    mistakes: [],
  })
  const wrong = read({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'localhost:4318',
    OTEL_EXPORTER_OTLP_HEADERS: 'secret',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_TRACES_SAMPLER: 'sometimes',
    OTEL_TRACES_SAMPLER_ARG: '2',
  })
  expect(wrong.mistakes.map((mistake) => mistake.split(':', 1)[0])).toEqual([
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'OTEL_EXPORTER_OTLP_PROTOCOL',
    'OTEL_TRACES_SAMPLER',
    'OTEL_TRACES_SAMPLER_ARG',
    'OTEL_EXPORTER_OTLP_HEADERS',
  ])
  expect(wrong.mistakes.join()).not.toContain('secret')
})
