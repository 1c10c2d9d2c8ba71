/**
 * One gateway: its endpoints over one set of ports, as a function from Request to Reply (decision 124). Programs that
 * embed Farebox start here.
 */
import { drainStreams } from './call/delivery/deliveries.ts'
import type { Endpoint } from './endpoint/mod.ts'
import type { Caller, Gateway } from './endpoint/gateway.ts'
import { withHealthStatus } from './endpoint/health_status.ts'
import { attemptLimit, operatorCheck } from './http/attempts.ts'
import type { Reply } from './http/reply.ts'
import { buildEngine } from './lifecycle/build_engine.ts'
import { maintenance } from './lifecycle/maintenance.ts'
import { activity, startRunning } from './lifecycle/running.ts'
import type { Setup } from './lifecycle/setup.ts'
import { SetupError, setupProblems } from './lifecycle/setup_problems.ts'
import { sharedOf } from './lifecycle/shared_by_gateways.ts'
import { visibleEndpoints } from './lifecycle/visible_endpoints.ts'
import { type Retention, retention as usualRetention } from './payment/retention.ts'
import { catalog as contractCatalog } from './products/catalog.ts'
import { endpoints as everything } from './products/mod.ts'
import { changelog } from './products/site/changelog_data.ts'
import { isUnder } from './serving/base_path.ts'
import { type Described, describe } from './serving/facts.ts'
import { respond } from './serving/respond.ts'
import { mounted, route } from './serving/route.ts'
import { router } from './serving/router.ts'
import type { Serving } from './serving/serving.ts'

/**
 * Builds a gateway that can sell. Checks the setup, that storage answers, and that the chain is what the configuration
 * says: its id, the token, the accounts, the gas. Rejects with a SetupError that lists every problem. A node that does
 * not answer is not a mistake: the gateway answers 503 to buyers until it does, while `run` asks again.
 *
 * @example
 * const chain = memoryChain()
 * const farebox = await createGateway({ ports: localPorts({ chain, images }) })
 * const stop = farebox.run()
 * await stop()
 */
export async function createGateway(setup: Setup): Promise<Gateway> {
  const problems = [...setupProblems(setup, everything)]
  if (!setup?.ports?.chain || !setup.ports.storage?.getRecord || !setup.ports.clock) throw new SetupError(problems)
  const { chain, storage, clock, log } = setup.ports
  const now = clock.now()
  const [checked, answer] = await Promise.allSettled([chain.check?.({ now }), storage.getRecord('start', 'probe', now)])
  if (checked.status === 'rejected') problems.push(`ports.chain: ${(checked.reason as Error).message}`)
  if (answer.status === 'rejected') problems.push(`ports.storage: ${(answer.reason as Error).message}`)
  const result = checked.status === 'fulfilled' ? checked.value : undefined
  if (result?.kind === 'wrong') problems.push(...result.problems)
  if (problems.length > 0) throw new SetupError(problems)
  const built = gateway(setup)
  if (result?.kind === 'ready') for (const warning of result.warnings) log.warn(warning, { gateway: built.name })
  if (result?.kind === 'unavailable')
    log.warn('a chain is unreachable; its gateway answers 503 until it responds', {
      gateway: built.name,
      reason: result.reason,
    })
  return built
}

/**
 * The same as createGateway(), at once and without asking the chain or storage. For tests, and for programs that check
 * their chain themselves: until `chain.check` has passed, such a gateway sells nothing. Throws SetupError.
 *
 * @example
 * const farebox = gateway({ ports: localPorts({ chain: memoryChain(), images }) })
 */
export function gateway(setup: Setup): Gateway {
  return customGateway({
    ...setup,
    catalog: setup.catalog ?? contractCatalog(),
    endpoints: setup.endpoints ?? everything,
    changes: changelog,
  })
}

/** The settings of a gateway that sells the given products alone, from an empty catalog unless one is given. */
export type CustomSetup = Setup & {
  readonly endpoints: readonly Endpoint[]
  /** The changelog of its documents. */
  readonly changes?: Described['changes']
}

/**
 * A gateway of these products alone: a bundler leaves out the built-in ones.
 *
 * @example
 * const farebox = customGateway({ ports, endpoints: endpoints.filter(({ name }) => name === 'health') })
 */
export function customGateway(setup: CustomSetup): Gateway {
  const problems = setupProblems(setup, setup.endpoints ?? [])
  if (problems.length > 0) throw new SetupError(problems)
  const { name = 'default', version = '0.0.0', contact, changes = [], signer, bareV1 = false } = setup
  const { ports, healthStatus } = withHealthStatus(setup.ports, name)
  const retention: Retention = { ...usualRetention, ...setup.retention }
  const routes = router(visibleEndpoints(setup.endpoints, setup, retention))
  const { endpoints, sold } = routes
  const underWay = activity(ports.background)
  const shared = sharedOf(setup.ports.storage)
  const names = new Set(endpoints.map(({ name }) => name))
  const withBackground = { ...ports, background: underWay.background }
  const engine = buildEngine(setup, { sold, names, ports: withBackground, retention, shared })
  const { basePath, workerId } = engine.gateway
  const { clock, chain, storage, objects, log } = engine.ports
  let isDraining = false
  const leaveRotation = () => void (isDraining = true)
  const described = { endpoints, version, contact, changes, signer, healthStatus, isDraining: () => isDraining }
  const serving: Serving = {
    ...describe(engine, described),
    engine,
    routes,
    isOperator: operatorCheck(setup.operatorToken, attemptLimit(clock)),
    activity: underWay,
    bareV1,
  }
  const { maintain, takeOver } = maintenance(engine)
  const { renew } = engine.calls.active
  const drain = () => drainStreams(engine)
  shared.engines.set(engine.gateway.name, engine)
  shared.workers.add(workerId)

  const handle = (request: Request, caller: Caller): Promise<Reply> => respond(serving, { request, caller }, route)

  async function fetch(request: Request, caller: Partial<Caller> = {}): Promise<Response> {
    const { status, headers, body } = await handle(request, { ip: '', ...caller })
    return new Response(body as BodyInit | null, { status, headers })
  }

  return {
    name,
    endpoints,
    offered: serving.documents.offered,
    matches: (method, path) =>
      basePath === '' ? routes.match(method, path).kind !== 'unknown' : isUnder(path, basePath),
    handle,
    fetch,
    mount(endpoint) {
      const found = mounted(endpoint)
      return (request, caller) => respond(serving, { request, caller }, found)
    },
    openapi: serving.documents.described,
    run: () =>
      startRunning({
        name,
        workerId,
        chain,
        storage,
        shared,
        objects,
        clock,
        log,
        retention,
        leaseMs: engine.settings.timeouts.workLeaseMs,
        renew,
        maintain,
        takeOver: () => takeOver(shared.workers),
        leaveRotation,
        drain: () => void drain(),
        idle: underWay.idle,
      }),
    renew,
    maintain,
    takeOver: () => takeOver(),
    leaveRotation,
    drain,
  }
}
