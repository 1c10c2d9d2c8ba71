import { isSold, type Sold } from '../../core/endpoint/mod.ts'
import { endpoints, type Endpoint } from '../../core/mod.ts'
import { isFull } from '../scope.ts'

/** Traits of an endpoint that the engine sees: two endpoints of one behaviour take the same way through it. */
function behaviourOf(endpoint: Sold): string {
  const { delivery, method, from, order, unknownFields, errorFormat, uploads } = endpoint
  const common = [delivery, method, from, order, unknownFields, errorFormat, uploads]
  if (endpoint.delivery === 'stream') return common.join()
  const { verbatim, isStillValid: stands, arrange, methods, effects } = endpoint
  return [...common, ...[verbatim, stands, arrange, methods, effects].map((each) => each !== undefined)].join()
}

/**
 * One endpoint of each behaviour; in full, every endpoint. `beside` are endpoints of the test's own, which always take
 * part.
 */
export function representatives(...beside: readonly Endpoint[]): readonly Endpoint[] {
  if (isFull) return [...endpoints, ...beside]
  const chosen = new Map<string, Endpoint>()
  for (const endpoint of endpoints) {
    if (!isSold(endpoint)) continue
    const behaviour = behaviourOf(endpoint)
    if (!chosen.has(behaviour)) chosen.set(behaviour, endpoint)
  }
  return [...chosen.values(), ...beside]
}

/**
 * One endpoint of each delivery, for gateways that differ in their chain and catalog alone; in full, every endpoint.
 */
export function oneOfEachDelivery(): readonly Endpoint[] {
  if (isFull) return endpoints
  const chosen = new Map<string, Endpoint>()
  for (const endpoint of endpoints) {
    if (!isSold(endpoint)) continue
    const { delivery, errorFormat } = endpoint
    const key = `${delivery} ${errorFormat === (delivery === 'stream' ? 'chat' : 'market')}`
    if (!chosen.has(key)) chosen.set(key, endpoint)
  }
  return [...chosen.values()]
}
