/** Finds the endpoint for a method and a path (decision 30). */
import { boundedMap } from '../lib/bounded_map.ts'
import { type Endpoint, type Free, type Sold, methodsOf, isSold } from '../endpoint/mod.ts'

export type Match =
  | { kind: 'found'; endpoint: Endpoint; params: Readonly<Record<string, string>> }
  /**
   * A probe of a paid or free endpoint: answered with the default quote, or with one of zero (contract 10.14, 1.53).
   */
  | { kind: 'discover'; endpoint: Sold | Free; params: Readonly<Record<string, string>> }
  | { kind: 'options'; allow: string }
  | { kind: 'wrong_method'; allow: string }
  /** `nearby` are the endpoints that are not hidden, most similar path first. */
  | { kind: 'unknown'; nearby: readonly Endpoint[] }

export type Router = {
  readonly endpoints: readonly Endpoint[]
  readonly sold: ReadonlyMap<string, Sold>
  /** `path` is the percent-encoded pathname of the URL; segments are decoded here, once. */
  match(method: string, path: string): Match
}

type Route = { readonly segments: readonly string[]; readonly byMethod: Map<string, Endpoint> }
type Params = Readonly<Record<string, string>>
type Found = { readonly route: Route; readonly params: Params }

const menus = new WeakMap<readonly Endpoint[], Router>()

/** Builds the router of a list of endpoints. Throws when two endpoints share a method and path, or a name. */
export function router(endpoints: readonly Endpoint[]): Router {
  const known = menus.get(endpoints) ?? routerOf(endpoints)
  menus.set(endpoints, known)
  return known
}

function routerOf(endpoints: readonly Endpoint[]): Router {
  const fixed = new Map<string, Route>()
  const open = new Map<string, Route>()
  const names = new Set<string>()
  for (const endpoint of endpoints) {
    if (names.has(endpoint.name)) throw new RangeError(`two endpoints are called ${endpoint.name}`)
    names.add(endpoint.name)
    for (const path of [endpoint.path, ...(endpoint.aliases ?? [])]) add(path, endpoint)
  }

  function add(path: string, endpoint: Endpoint): void {
    const routes = path.includes('{') ? open : fixed
    const shape = path.replace(/\{[^}]*\}/g, (name) => (name.endsWith('...}') ? '{...}' : '{}'))
    const route = routes.get(shape) ?? { segments: path.slice(1).split('/'), byMethod: new Map() }
    for (const method of methodsOf(endpoint)) {
      if (route.byMethod.has(method)) throw new RangeError(`two endpoints at ${method} ${path}`)
      route.byMethod.set(method, endpoint)
    }
    routes.set(shape, route)
  }

  const exactly = new Map([...fixed].map(([path, route]): [string, Found] => [path, { route, params: NO_PARAMS }]))
  const openRoutes = [...open.values()].sort((a, b) => literals(b) - literals(a))
  const openRoutesOf = bySegment(openRoutes)

  /** The paths with parameters that were called last: a price feed is called with few. */
  const lately = boundedMap<Found>(MAX_REMEMBERED)

  function find(path: string): Found | undefined {
    const exact = exactly.get(path) ?? lately.get(path)
    if (exact) return exact
    const found = search(path)
    if (!found || path.length > MAX_REMEMBERED_LENGTH) return found
    lately.set(path, found)
    return found
  }

  function search(path: string): Found | undefined {
    const given = path.slice(1).split('/')
    for (const route of openRoutesOf(given[INDEXED])) {
      const params = read(route.segments, given)
      if (params) return { route, params: Object.freeze(params) }
    }
    return undefined
  }

  function match(method: string, path: string): Match {
    const found = find(path)
    if (!found) return { kind: 'unknown', nearby: nearby(path) }
    const { byMethod } = found.route
    const { params } = found
    const discovered = byMethod.get('GET') ?? byMethod.get('POST')
    if (discovered && isDiscovery(method, discovered, byMethod))
      return { kind: 'discover', endpoint: discovered, params }
    const endpoint = byMethod.get(method === 'HEAD' ? 'GET' : method)
    if (endpoint) return { kind: 'found', endpoint, params }
    const allow = allowed(byMethod)
    return method === 'OPTIONS' ? { kind: 'options', allow } : { kind: 'wrong_method', allow }
  }

  function nearby(path: string): readonly Endpoint[] {
    const given = path.split('/')
    const listed = endpoints.filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden)
    const ranked = listed.map((endpoint) => ({ endpoint, near: shared(given, endpoint.path.split('/')) }))
    ranked.sort((a, b) => b.near - a.near)
    return ranked.map(({ endpoint }) => endpoint)
  }

  const sold = endpoints.filter(isSold)
  return { endpoints, sold: new Map(sold.map((endpoint) => [endpoint.name, endpoint])), match }
}

const NO_PARAMS: Params = Object.freeze({})
const MAX_REMEMBERED = 1_000
const MAX_REMEMBERED_LENGTH = 200

/** The segment that tells products apart: `/api/v1/crypto`. */
const INDEXED = 2

/** Returns the routes that may match a path by its indexed segment, in the order of `routes`. */
function bySegment(routes: readonly Route[]): (segment: string | undefined) => readonly Route[] {
  const fits = (segment?: string) => (route: Route) => {
    const own = route.segments[INDEXED]
    return (
      own === segment || own?.startsWith('{') || route.segments.slice(0, INDEXED).some((each) => each.startsWith('{'))
    )
  }
  const names = new Set(routes.flatMap(({ segments }) => segments[INDEXED] ?? []))
  const index = new Map([...names].map((name) => [name, routes.filter(fits(name))]))
  const others = routes.filter(fits())
  return (segment) => index.get(segment ?? '') ?? others
}

/** HEAD never buys. A GET is a probe unless the path serves GET. */
function isDiscovery(
  method: string,
  endpoint: Endpoint,
  byMethod: ReadonlyMap<string, Endpoint>,
): endpoint is Sold | Free {
  if (endpoint.kind === 'free') return endpoint.discoverable === true && (method === 'HEAD' || method === 'OPTIONS')
  return isSold(endpoint) && (method === 'HEAD' || (method === 'GET' && !byMethod.has('GET')))
}

/** Matches `{name}`, `{rest...}` and `{rest...}:verb`; undefined when the path does not match or is badly encoded. */
function read(segments: readonly string[], given: readonly string[]): Params | undefined {
  const params: Record<string, string> = {}
  for (const [index, segment] of segments.entries()) {
    if (!segment.startsWith('{')) {
      if (segment !== given[index]) return undefined
      continue
    }
    const [name = '', suffix = ''] = segment.slice(1).split('}', 2)
    const isRest = name.endsWith('...')
    const value = decode(isRest ? given.slice(index) : given.slice(index, index + 1))
    if (!value?.endsWith(suffix) || value.length === suffix.length) return undefined
    params[isRest ? name.slice(0, -3) : name] = value.slice(0, value.length - suffix.length)
    if (isRest) return params
  }
  return segments.length === given.length ? params : undefined
}

function decode(segments: readonly string[]): string | undefined {
  try {
    return segments.map(decodeURIComponent).join('/')
  } catch {
    return undefined
  }
}

/** Number of fixed parts of a route: its literal segments, and the suffix after a name in the last one. */
function literals({ segments }: Route): number {
  const last = segments.at(-1) ?? ''
  const hasSuffix = last.startsWith('{') && !last.endsWith('}')
  return segments.filter((segment) => !segment.startsWith('{')).length + (hasSuffix ? 0.5 : 0)
}

function allowed(byMethod: ReadonlyMap<string, Endpoint>): string {
  const methods = new Set([...byMethod.keys(), 'OPTIONS'])
  const post = byMethod.get('POST')
  if (methods.has('GET') || (post && isSold(post))) methods.add('GET').add('HEAD')
  return [...methods].sort().join(', ')
}

/** Similarity of two paths, with leading segments first. */
function shared(a: readonly string[], b: readonly string[]): number {
  let leading = 0
  while (leading < a.length && a[leading] === b[leading]) leading++
  return leading * 10 + b.filter((segment) => a.includes(segment)).length - Math.abs(a.length - b.length)
}
