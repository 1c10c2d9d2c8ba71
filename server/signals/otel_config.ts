/** The standard variables of OpenTelemetry, as far as Farebox reads them. */
import type { Environment } from '../config/settings.ts'

export type TelemetryConfig = {
  /** Base URL of the collector; `/v1/traces` and `/v1/metrics` are appended. */
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  readonly serviceName: string
  /** Share of new traces that are recorded, from 0 to 1. */
  readonly sampled: number
  /** Whether a caller's `traceparent` decides about its own trace. */
  readonly isParentBased: boolean
}

const SAMPLERS: Readonly<Record<string, { readonly share?: number; readonly isParentBased: boolean }>> = {
  always_on: { share: 1, isParentBased: false },
  always_off: { share: 0, isParentBased: false },
  traceidratio: { isParentBased: false },
  parentbased_always_on: { share: 1, isParentBased: true },
  parentbased_always_off: { share: 0, isParentBased: true },
  parentbased_traceidratio: { isParentBased: true },
}

/** Undefined without an endpoint. Header values are secrets, so mistakes do not show them. */
export function readTelemetry(env: Environment, mistakes: string[]): TelemetryConfig | undefined {
  const endpoint = env.OTEL_EXPORTER_OTLP_ENDPOINT
  if (!endpoint || env.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return undefined
  const url = URL.parse(endpoint)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    mistakes.push('OTEL_EXPORTER_OTLP_ENDPOINT: must be an http or https URL, such as http://localhost:4318')
  const protocol = env.OTEL_EXPORTER_OTLP_PROTOCOL
  if (protocol && protocol !== 'http/json')
    mistakes.push(`OTEL_EXPORTER_OTLP_PROTOCOL: must be http/json, got ${JSON.stringify(protocol.slice(0, 40))}`)
  const sampler = env.OTEL_TRACES_SAMPLER || 'parentbased_always_on'
  const known = Object.hasOwn(SAMPLERS, sampler) ? SAMPLERS[sampler] : undefined
  if (!known)
    mistakes.push(
      `OTEL_TRACES_SAMPLER: must be one of ${Object.keys(SAMPLERS).join(', ')}, got ${JSON.stringify(sampler.slice(0, 40))}`,
    )
  const share = Number(env.OTEL_TRACES_SAMPLER_ARG || 1)
  if (!(share >= 0 && share <= 1)) mistakes.push('OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1')
  return {
    endpoint: endpoint.replace(/\/+$/, ''),
    headers: headersOf(env.OTEL_EXPORTER_OTLP_HEADERS ?? '', mistakes),
    serviceName: env.OTEL_SERVICE_NAME || 'farebox',
    sampled: known?.share ?? share,
    isParentBased: known?.isParentBased ?? true,
  }
}

/** `name=value,name=value`, with percent-encoded values. */
function headersOf(text: string, mistakes: string[]): Readonly<Record<string, string>> {
  const pairs = text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
  const headers: Record<string, string> = {}
  for (const pair of pairs) {
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(.*)$/.exec(pair) ?? []
    const decoded = decode(value ?? '')
    if (name === undefined || decoded === undefined)
      mistakes.push(
        'OTEL_EXPORTER_OTLP_HEADERS: must be name=value pairs, separated by commas (their values are not shown)',
      )
    else headers[name] = decoded
  }
  return headers
}

function decode(value: string): string | undefined {
  try {
    return decodeURIComponent(value)
  } catch {
    return undefined
  }
}
