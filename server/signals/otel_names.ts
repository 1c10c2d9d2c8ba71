/**
 * Every name that goes to a collector. Those of GenAI are still in development and may change: then here. Ours begin
 * with `x402.`.
 */
export const NAMES = {
  method: 'http.request.method',
  path: 'url.path',
  scheme: 'url.scheme',
  route: 'http.route',
  status: 'http.response.status_code',
  serverAddress: 'server.address',
  errorType: 'error.type',
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  requestModel: 'gen_ai.request.model',
  requestStream: 'gen_ai.request.stream',
  gateway: 'x402.gateway',
  endpoint: 'x402.endpoint',
  network: 'x402.network',
  paymentScheme: 'x402.scheme',
  outcome: 'x402.outcome',
  transaction: 'x402.transaction',
} as const

type MetricNames = { readonly name: string; readonly unit: string; readonly labels: Readonly<Record<string, string>> }

const ENDPOINT = { gateway: NAMES.gateway, endpoint: NAMES.endpoint } as const

/** Metrics that the conventions know; the others keep their Prometheus name, with dots. */
export const METRICS: Readonly<Record<string, MetricNames>> = {
  farebox_request_duration_seconds: { name: 'http.server.request.duration', unit: 's', labels: ENDPOINT },
  farebox_first_token_seconds: { name: 'gen_ai.server.time_to_first_token', unit: 's', labels: ENDPOINT },
  farebox_tokens: {
    name: 'gen_ai.client.token.usage',
    unit: '{token}',
    labels: { ...ENDPOINT, type: 'gen_ai.token.type' },
  },
  farebox_upstream_seconds: { name: 'gen_ai.client.operation.duration', unit: 's', labels: { vendor: NAMES.provider } },
}
