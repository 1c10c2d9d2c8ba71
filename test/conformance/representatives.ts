import { endpoints, type Endpoint } from '../../core/mod.ts'
import { isFull } from '../scope.ts'

type Sold = Exclude<Endpoint, { kind: 'free' | 'poll' }>

/** What the engine can tell about an endpoint: two endpoints of one behaviour take the same way through it. */
function behaviourOf(endpoint: Sold): string {
  const { kind, method, from, order, unknownFields, errorFormat, uploads } = endpoint
  const common = [kind, method, from, order, unknownFields, errorFormat, uploads]
  if (endpoint.kind !== 'paid') return common.join()
  const { inline, verbatim, pollUpstream, stands, arrange, methods } = endpoint
  const has = [inline, verbatim, pollUpstream, stands, arrange, methods, endpoint.effects].map(
    (each) => each !== undefined,
  )
  return [...common, ...has].join()
}

/** One endpoint of each behaviour; in full, every endpoint. `beside` are endpoints of the test's own, which always take part. */
export function representatives(...beside: readonly Endpoint[]): readonly Endpoint[] {
  if (isFull) return [...endpoints, ...beside]
  const chosen = new Map<string, Endpoint>()
  for (const endpoint of endpoints) {
    if (endpoint.kind === 'free' || endpoint.kind === 'poll') continue
    const behaviour = behaviourOf(endpoint)
    if (!chosen.has(behaviour)) chosen.set(behaviour, endpoint)
  }
  return [...chosen.values(), ...beside]
}

/** One endpoint of each delivery, for gateways that differ in their chain and catalog alone; in full, every endpoint. */
export function oneOfEachDelivery(): readonly Endpoint[] {
  if (isFull) return endpoints
  const chosen = new Map<string, Endpoint>()
  for (const endpoint of endpoints) {
    if (endpoint.kind === 'free' || endpoint.kind === 'poll') continue
    const delivery =
      endpoint.kind === 'paid'
        ? [endpoint.inline === true, endpoint.pollUpstream !== undefined, endpoint.errorFormat === 'market']
        : [endpoint.errorFormat === 'chat']
    const key = `${endpoint.kind} ${delivery.join()}`
    if (!chosen.has(key)) chosen.set(key, endpoint)
  }
  return [...chosen.values()]
}
