/**
 * Spans of requests, vendor calls and settlements. Prompts, answers, wallets and keys are in none of them. Loaded only
 * where a collector is configured.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { portOf } from '../../core/lib/mod.ts'
import type { Chain, Clock, Meter } from '../../core/mod.ts'
import { masked } from '../log.ts'
import type { Timed } from '../metrics.ts'
import type { TelemetryConfig } from './otel_config.ts'
import { NAMES } from './otel_names.ts'
import type { Exporter, Span } from './otlp.ts'

export type Tracing = {
  /** Runs a request in a span of its own, the child of its `traceparent`. */
  request(request: Request, answer: () => Response | Promise<Response>): Promise<Response>
  readonly timed: Timed
  /** The same chain with a span for each verification and settlement. */
  chain(chain: Chain, gateway: string): Chain
  /** Adds the endpoint and the outcome to the span of the request. */
  meter(gateway: string, meter: Meter, routes: ReadonlyMap<string, string>): Meter
}

type Active = {
  readonly traceId: string
  readonly spanId: string
  readonly isSampled: boolean
  name?: string
  readonly attributes: Record<string, string | number | boolean>
}

type TracingOptions = Pick<TelemetryConfig, 'sampled' | 'isParentBased'> & {
  readonly exporter: Pick<Exporter, 'add'>
  readonly clock: Pick<Clock, 'now'>
}

const hex = (bytes: number): string => randomBytes(bytes).toString('hex')
const [SERVER, CLIENT] = [2, 3] as const

/** Where spans go, and the span that is active. */
type Tracer = TracingOptions & { readonly active: AsyncLocalStorage<Active> }

export function tracing(options: TracingOptions): Tracing {
  const tracer: Tracer = { ...options, active: new AsyncLocalStorage<Active>() }
  return {
    request: (request, answer) => tracedRequest(tracer, request, answer),
    timed: (name, vendor) => tracedVendor(tracer, name, vendor),
    chain: (chain, gateway) => tracedChain(tracer, chain, gateway),
    meter: (gateway, meter, routes) => tracedMeter(tracer, meter, { gateway, routes }),
  }
}

function tracedMeter(
  tracer: Tracer,
  meter: Meter,
  { gateway, routes }: { readonly gateway: string; readonly routes: ReadonlyMap<string, string> },
): Meter {
  return portOf<Meter>({
    answered(endpoint, status, ms) {
      const span = tracer.active.getStore()
      const route = routes.get(endpoint)
      if (span) {
        Object.assign(span.attributes, { [NAMES.gateway]: gateway, [NAMES.endpoint]: endpoint })
        if (route !== undefined) Object.assign(span, { name: route })
        if (route !== undefined) span.attributes[NAMES.route] = route
      }
      meter.answered(endpoint, status, ms)
    },
    quoted: meter.quoted,
    judged: meter.judged,
    attempted: meter.attempted,
    refunded: meter.refunded,
    moved: meter.moved,
    streamBegan: meter.streamBegan,
    tokensUsed: meter.tokensUsed,
  })
}

async function tracedRequest(
  tracer: Tracer,
  request: Request,
  answer: () => Response | Promise<Response>,
): Promise<Response> {
  const { active, clock, exporter, isParentBased } = tracer
  const parent = parentOf(request.headers.get('traceparent'))
  const span: Active = {
    traceId: parent?.traceId ?? hex(16),
    spanId: hex(8),
    isSampled: parent && isParentBased ? parent.isSampled : isChosen(tracer),
    attributes: {},
  }
  if (!span.isSampled) return await answer()
  const startMs = clock.now()
  const response = await active.run(span, answer)
  const { pathname, protocol, host } = new URL(request.url)
  const { status } = response
  exporter.add({
    traceId: span.traceId,
    spanId: span.spanId,
    ...(parent && { parentSpanId: parent.spanId }),
    name: span.name === undefined ? request.method : `${request.method} ${span.name}`,
    kind: SERVER,
    startMs,
    endMs: clock.now(),
    attributes: {
      [NAMES.method]: request.method,
      [NAMES.path]: masked(pathname),
      [NAMES.scheme]: protocol.slice(0, -1),
      [NAMES.serverAddress]: host,
      [NAMES.status]: status,
      ...span.attributes,
    },
    // A 4xx is not an error of the server, a 402 least of all.
    ...(status >= 500 && { error: `HTTP ${status}` }),
  })
  return response
}

function tracedVendor<T extends object>(tracer: Tracer, name: string, vendor: T): T {
  const wrapped = Object.entries(vendor).map(([verb, value]: [string, unknown]) => [
    verb,
    typeof value === 'function'
      ? (...args: readonly unknown[]) => {
          const reply: unknown = value(...args)
          return reply instanceof Promise ? spanned(tracer, vendorSpan(name, verb, args[0]), { work: reply }) : reply
        }
      : value,
  ])
  return Object.fromEntries(wrapped) as T
}

function tracedChain(tracer: Tracer, chain: Chain, gateway: string): Chain {
  return portOf<Chain>({
    families: chain.families,
    balance: chain.balance,
    terms: chain.terms,
    closed: chain.closed,
    check: chain.check,
    refresh: chain.refresh,
    proves: chain.proves,
    hasSigned: chain.hasSigned,
    identify: chain.identify,
    verify: (payment, offer, at) =>
      spanned(tracer, chainSpan('verify', gateway, offer), {
        work: chain.verify(payment, offer, at),
        outcome: ({ kind }) => ({ [NAMES.outcome]: kind }),
      }),
    secure: chain.secure,
    settle: (payment, offer, at) =>
      spanned(tracer, chainSpan('settle', gateway, offer), {
        work: chain.settle(payment, offer, at),
        outcome: (settlement) => ({
          [NAMES.outcome]: settlement.kind,
          ...(settlement.kind === 'settled' && { [NAMES.transaction]: settlement.receipt.transaction }),
        }),
      }),
    drawDown: chain.drawDown,
    fate: chain.fate,
    refund: chain.refund,
    apiKeys: chain.apiKeys,
  })
}

function isChosen({ sampled }: Tracer): boolean {
  return sampled >= 1 || (sampled > 0 && Math.random() < sampled)
}

/** Work without a request, such as a job or a sweep, begins a trace of its own. */
async function spanned<T>(
  tracer: Tracer,
  { name, attributes }: Pick<Span, 'name' | 'attributes'>,
  { work, outcome = () => ({}) }: { work: Promise<T>; outcome?: (result: T) => Span['attributes'] },
): Promise<T> {
  const { active, clock, exporter } = tracer
  const parent = active.getStore()
  if (!(parent?.isSampled ?? isChosen(tracer))) return await work
  const startMs = clock.now()
  const end = (more: Pick<Span, 'error'> & { readonly attributes: Span['attributes'] }) =>
    exporter.add({
      traceId: parent?.traceId ?? hex(16),
      spanId: hex(8),
      ...(parent && { parentSpanId: parent.spanId }),
      name,
      kind: CLIENT,
      startMs,
      endMs: clock.now(),
      ...more,
      attributes: { ...attributes, ...more.attributes },
    })
  try {
    const result = await work
    end({ attributes: outcome(result) })
    return result
  } catch (error) {
    // Only the class: a vendor's message may quote the prompt.
    const kind = codeOf(error)
    end({ attributes: { [NAMES.errorType]: kind }, error: kind })
    throw error
  }
}

function codeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  if (typeof code === 'string') return code
  return typeof name === 'string' ? name : 'error'
}

/** The names of GenAI inference for chat, and plain ones for other products. */
function vendorSpan(vendor: string, verb: string, order: unknown): Pick<Span, 'name' | 'attributes'> {
  const { model, stream, format } = (order ?? {}) as { model?: unknown; stream?: unknown; format?: unknown }
  const isChat = verb === 'ask' && typeof format === 'string'
  const operation = isChat ? 'chat' : verb
  return {
    name: typeof model === 'string' ? `${operation} ${model}` : `${operation} ${vendor}`,
    attributes: {
      [NAMES.operation]: operation,
      [NAMES.provider]: PROVIDERS[vendor] ?? vendor,
      ...(typeof model === 'string' && { [NAMES.requestModel]: model }),
      ...(isChat && typeof stream === 'boolean' && { [NAMES.requestStream]: stream }),
    },
  }
}

/** Names of the conventions that differ from those of our accounts. */
const PROVIDERS: Readonly<Record<string, string>> = { gemini: 'gcp.gemini', google: 'gcp.gemini', xai: 'x_ai' }

function chainSpan(
  verb: 'verify' | 'settle',
  gateway: string,
  { network, scheme }: { readonly network: string; readonly scheme: string },
): Pick<Span, 'name' | 'attributes'> {
  return {
    name: `x402 ${verb}`,
    attributes: { [NAMES.gateway]: gateway, [NAMES.network]: network, [NAMES.paymentScheme]: scheme },
  }
}

/** W3C Trace Context, version 00 and later ones that extend it. */
function parentOf(header: string | null): { traceId: string; spanId: string; isSampled: boolean } | undefined {
  const [, version, traceId, spanId, flags] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/.exec(header ?? '') ?? []
  if (!traceId || !spanId || !flags || version === 'ff' || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}
