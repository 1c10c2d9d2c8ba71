/** How the gateways of a process are: whether they sell, their accounts and their models. */
import type { Gateway } from '../../core/mod.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import type { AccountReport } from './accounts.ts'

type StatusSources = {
  readonly version: string
  readonly gateways: readonly {
    readonly gateway: Pick<Gateway, 'fetch' | 'name'>
    readonly config: Pick<GatewayConfig, 'label' | 'retired' | 'paymentMethods'>
  }[]
  readonly clock: { now(): number }
  /** Reads why a gateway does not sell, which is told to the operator only. */
  readonly token: string
  accounts(): readonly AccountReport[]
  isStorageReachable(): Promise<boolean>
  /** Why the clock cannot be trusted. */
  clockTrouble(): string | undefined
}

type ChainHealth = { status?: string; reason?: string | null; detail?: string }
type ModelHealth = {
  readonly id: string
  readonly status: string
  readonly last_success_at: string | null
  readonly last_failure_at: string | null
  readonly failures_in_a_row: number
}

/** An address of its own, so that buyers do not use up the rate limit of the health routes. */
const IP = 'operator'

export function statusReport({ version, gateways, clock, token, ...sources }: StatusSources) {
  const startedAt = clock.now()

  async function healthOf<Body>(gateway: Pick<Gateway, 'fetch'>, route: string): Promise<Body | undefined> {
    const headers = { authorization: `Bearer ${token}` }
    const reply = await gateway.fetch(new Request(`http://localhost/api/v1/health/${route}`, { headers }), { ip: IP })
    if (reply.ok) return (await reply.json()) as Body
    await reply.body?.cancel()
    return undefined
  }

  return async () => {
    const sellers = gateways.filter(({ config }) => !config.retired)
    const [isStorageReachable, models, ...chains] = await Promise.all([
      sources.isStorageReachable(),
      sellers[0] && healthOf<{ data: readonly ModelHealth[] }>(sellers[0].gateway, 'models'),
      ...gateways.map(({ gateway, config }) => (config.retired ? undefined : healthOf<ChainHealth>(gateway, 'chain'))),
    ] as const)
    return {
      version,
      started_at: new Date(startedAt).toISOString(),
      storage: isStorageReachable ? 'ok' : 'unreachable',
      clock: sources.clockTrouble() ?? 'ok',
      gateways: gateways.map(({ gateway: { name }, config }, index) => ({
        name,
        label: config.label,
        networks: config.paymentMethods.flatMap((method) =>
          method.kind === 'batched' ? method.networks : [method.network],
        ),
        // A gateway may hide its health routes.
        status: config.retired ? 'retired' : (chains[index]?.status ?? 'unknown'),
        reason: chains[index]?.reason ?? null,
        detail: chains[index]?.detail ?? null,
      })),
      accounts: sources.accounts(),
      // Vendors are shared by the gateways of a process.
      models: models?.data ?? [],
    }
  }
}
