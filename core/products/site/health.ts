/** Health of the gateway from recorded results: makes no upstream calls and exposes no request data. */
import { Type } from '@sinclair/typebox'
import { free, type FreeContext } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { type GatewayFacts, DEGRADED_AFTER, type ProviderStatus } from '../../endpoint/gateway_info.ts'
import { listModels } from './models.ts'

const LIMIT = { requests: 60, windowMs: 60_000, bucket: 'health' }
const FRESH = { 'cache-control': 'no-store' }

const time = (description: string) => Type.Union([Type.String({ description }), Type.Null()])
const status = Type.Union([Type.Literal('ok'), Type.Literal('degraded'), Type.Literal('starting')], {
  description: `starting: its chain has not been checked yet. degraded: at least the last ${DEGRADED_AFTER} requests failed, or payments cannot be settled on one of its chains.`,
})
const statusFields = {
  last_success_at: time('Null when there was none since the start, or since the last request of a buyer.'),
  last_failure_at: time('Null when there was none since the start.'),
  failures_in_a_row: Type.Integer(),
}

const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())
const statusOf = ({ lastOkAt, lastFailureAt, failuresInARow }: ProviderStatus) => ({
  last_success_at: iso(lastOkAt),
  last_failure_at: iso(lastFailureAt),
  failures_in_a_row: failuresInARow,
})
const isDegraded = ({ failuresInARow }: ProviderStatus): boolean => failuresInARow >= DEGRADED_AFTER

function chainStatus({ isReady, closed, healthStatus }: GatewayFacts): 'ok' | 'degraded' | 'starting' {
  if (closed()) return 'degraded'
  if (!isReady()) return 'starting'
  return healthStatus.isVerificationUnavailable() || isDegraded(healthStatus.chain()) ? 'degraded' : 'ok'
}

type Modelled = { readonly id: string; readonly status: 'available' | 'degraded' } & ReturnType<typeof statusOf>

/** Only listed models: models that are not configured have no public health. */
function modelsOf(context: FreeContext): readonly Modelled[] {
  const { data } = JSON.parse(listModels(context).body as string) as { data: readonly { id: string }[] }
  return data.map(({ id }) => {
    const providerStatus = context.gateway.healthStatus.model(id)
    return { id, status: isDegraded(providerStatus) ? 'degraded' : 'available', ...statusOf(providerStatus) }
  })
}

const uptime = ({ startedAt }: GatewayFacts, now: number): number => Math.floor((now - startedAt) / 1000)

const up = free({
  name: 'health',
  path: '/api/health',
  summary: 'Whether the gateway is up',
  tag: 'health',
  limit: LIMIT,
  output: Type.Object({
    status: Type.Literal('ok'),
    ready: Type.Boolean({
      description: 'Whether it can sell: its chain has been checked and payments can be verified.',
    }),
    gateway: Type.String(),
    network: Type.String(),
    version: Type.String(),
    uptime_seconds: Type.Integer(),
    timestamp: Type.String(),
  }),
  answer(_request, { gateway, clock }) {
    const now = clock.now()
    return json(
      200,
      {
        status: 'ok',
        ready: gateway.isReady() && !gateway.healthStatus.isVerificationUnavailable(),
        gateway: gateway.name,
        network: gateway.label,
        version: gateway.version,
        uptime_seconds: uptime(gateway, now),
        timestamp: new Date(now).toISOString(),
      },
      FRESH,
    )
  },
})

const overview = free({
  name: 'health.overview',
  path: '/api/v1/health/overview',
  summary: 'Health of the gateway, its chain and its models',
  tag: 'health',
  limit: LIMIT,
  output: Type.Object({
    object: Type.Literal('health.overview'),
    status,
    gateway: Type.String(),
    network: Type.String(),
    version: Type.String(),
    uptime_seconds: Type.Integer(),
    chain: Type.Object({ status }),
    models: Type.Object({ total: Type.Integer(), available: Type.Integer(), degraded: Type.Integer() }),
    timestamp: Type.String(),
  }),
  answer(_request, context) {
    const { gateway, clock } = context
    const now = clock.now()
    const all = modelsOf(context)
    const available = all.filter((model) => model.status === 'available').length
    const chain = chainStatus(gateway)
    const areAllAvailable = available === all.length
    const { name, label: network, version } = gateway
    const models = { total: all.length, available, degraded: all.length - available }
    const overall = chain === 'ok' && !areAllAvailable ? 'degraded' : chain
    return json(
      200,
      {
        object: 'health.overview',
        status: overall,
        gateway: name,
        network,
        version,
        uptime_seconds: uptime(gateway, now),
        chain: { status: chain },
        models,
        timestamp: iso(now),
      },
      FRESH,
    )
  },
})

const chain = free({
  name: 'health.chain',
  path: '/api/v1/health/chain',
  summary: 'Whether the chain answers',
  description: 'From the results of recent payments; makes no chain calls.',
  tag: 'health',
  limit: LIMIT,
  output: Type.Object({
    object: Type.Literal('health.chain'),
    status,
    reason: Type.Union(
      [
        Type.Literal('no_gas'),
        Type.Literal('no_key'),
        Type.Literal('clock'),
        Type.Literal('newer_schema'),
        Type.Literal('storage'),
        Type.Literal('verification_unavailable'),
        Type.Null(),
      ],
      {
        description:
          "Why nothing is sold: no_gas, the accounts that pay for settlements are low; no_key, other replicas hold every key; clock, the clock of this process is not the database's; newer_schema, a newer version has upgraded the database and this replica has to be updated; storage, the database file of this process is damaged or cannot be flushed; verification_unavailable, the chain has not answered for 15 seconds or more.",
      },
    ),
    detail: Type.Optional(Type.String({ description: "A description of the reason. Only with the operator's token." })),
    networks: Type.Array(
      Type.Object({ network: Type.String(), label: Type.String(), scheme: Type.String(), asset: Type.String() }),
    ),
    ...statusFields,
    timestamp: Type.String(),
  }),
  answer({ header }, { gateway, clock, isOperator }) {
    const closed = gateway.closed()
    const why = {
      reason:
        closed?.code ??
        (gateway.healthStatus.isVerificationUnavailable() ? ('verification_unavailable' as const) : null),
      ...(closed && isOperator(header('authorization')) && { detail: closed.reason }),
    }
    const networks = gateway
      .terms()
      .map(({ network, scheme, asset }) => ({ network, label: gateway.label, scheme, asset }))
    return json(
      200,
      {
        object: 'health.chain',
        status: chainStatus(gateway),
        ...why,
        networks,
        ...statusOf(gateway.healthStatus.chain()),
        timestamp: iso(clock.now()),
      },
      FRESH,
    )
  },
})

const models = free({
  name: 'health.models',
  path: '/api/v1/health/models',
  summary: 'Whether each model answers',
  description: 'From the results of recent calls; makes no provider calls.',
  tag: 'health',
  limit: LIMIT,
  output: Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        id: Type.String(),
        status: Type.Union([Type.Literal('available'), Type.Literal('degraded')]),
        ...statusFields,
      }),
    ),
    timestamp: Type.String(),
  }),
  answer: (_request, context) =>
    json(200, { object: 'list', data: modelsOf(context), timestamp: iso(context.clock.now()) }, FRESH),
})

const regions = free({
  name: 'health.regions',
  path: '/api/v1/health/regions',
  summary: 'Where this gateway is served from',
  description: 'A gateway reports only itself, as one region.',
  tag: 'health',
  limit: LIMIT,
  output: Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(Type.Object({ id: Type.String(), status, network: Type.String() })),
    timestamp: Type.String(),
  }),
  answer(_request, { gateway, clock }) {
    return json(
      200,
      {
        object: 'list',
        data: [{ id: gateway.name, status: chainStatus(gateway), network: gateway.label }],
        timestamp: iso(clock.now()),
      },
      FRESH,
    )
  },
})

/** Answered by the process alone: whoever monitors it restarts a process that does not answer. */
const alive = free({
  name: 'livez',
  path: '/livez',
  summary: 'Whether the process answers',
  tag: 'health',
  hidden: true,
  output: Type.Object({ status: Type.Literal('ok') }),
  answer: () => json(200, { status: 'ok' }, FRESH),
})

const check = Type.Object({ name: Type.String(), ok: Type.Boolean(), reason: Type.Optional(Type.String()) })

const ready = free({
  name: 'readyz',
  path: '/readyz',
  summary: 'Whether the gateway accepts requests',
  description:
    '503 until its chain has been checked, while it cannot settle, while its storage does not answer, and while the process stops. With `?sells` also while its chain does not answer.',
  tag: 'health',
  hidden: true,
  output: Type.Object({
    status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]),
    reason: Type.Optional(
      Type.String({
        description:
          'Why not, as a code: stopping, storage, starting, verification_unavailable or that of health/chain.',
      }),
    ),
    reasons: Type.Optional(Type.Array(Type.String(), { description: "Only with the operator's token." })),
    checks: Type.Optional(Type.Array(check, { description: "Only with `?verbose` and the operator's token." })),
  }),
  async answer({ header, query }, { gateway, isOperator }) {
    const found = await readiness(gateway, query.has('sells'))
    const checks = found.map(({ code: _, ...check }) => check)
    const isReady = checks.every(({ ok }) => ok)
    const code = found.find(({ ok }) => !ok)?.code
    const details = isOperator(header('authorization')) && {
      reasons: checks.flatMap(({ reason }) => reason ?? []),
      ...(query.has('verbose') && { checks }),
    }
    return json(
      isReady ? 200 : 503,
      { status: isReady ? 'ready' : 'not_ready', ...(code && { reason: code }), ...details },
      FRESH,
    )
  },
})

type Check = { readonly name: string; readonly ok: boolean; readonly code: string; readonly reason?: string }

/**
 * It leaves out the state of vendors: a vendor that is down would take every replica out of rotation at once. So is a
 * chain that does not answer, unless the question is whether this one gateway sells.
 */
async function readiness(
  { isDraining, isReady, isStorageReachable, closed, healthStatus }: GatewayFacts,
  sells: boolean,
): Promise<readonly Check[]> {
  const check = (name: string, code: string, reason: string | undefined): Check =>
    reason === undefined ? { name, code, ok: true } : { name, code, ok: false, reason }
  const why = closed()
  const isUnchecked = !why && !isReady()
  const isSilent = sells && healthStatus.isVerificationUnavailable()
  return [
    check('process', 'stopping', isDraining() ? 'the process is stopping' : undefined),
    check('storage', 'storage', (await isStorageReachable()) ? undefined : 'the storage does not answer'),
    check('chain', why?.code ?? 'starting', why?.reason ?? (isUnchecked ? 'no chain has been checked yet' : undefined)),
    ...(sells
      ? [check('sales', 'verification_unavailable', isSilent ? 'the chain has not answered for 15 seconds' : undefined)]
      : []),
  ]
}

export const health = [up, overview, chain, models, regions, alive, ready]
