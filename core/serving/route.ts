/** Finds the endpoint of a request and calls it. */
import { handlePaid } from '../call/paid_call.ts'
import { discover } from '../call/payment_required.ts'
import { poll } from '../call/poll.ts'
import { refund } from '../call/refund.ts'
import { type Free, isSold, type Polled, type Sold } from '../endpoint/mod.ts'
import { paymentHeader, type RequestContext, requestContextOf, requireOnePayment } from '../endpoint/request_context.ts'
import { trialOf } from '../endpoint/samples.ts'
import type { Engine } from '../engine.ts'
import type { Reply } from '../http/reply.ts'
import { requestUrl } from '../http/request_url.ts'
import { openKey } from '../identity/api_keys.ts'
import type { OpenedKey } from '../ports/mod.ts'
import { unknownPath, wrongMethod } from '../http/routing_errors.ts'
import { withoutBase } from './base_path.ts'
import { acceptsFile, fileReply } from './file_reply.ts'
import { answerFree } from './free_routes.ts'
import type { Arrived } from './respond.ts'
import type { Match } from './router.ts'
import type { Found, Serving } from './serving.ts'

/**
 * Notes in `found` which endpoint it is. A plain function: each asynchronous one between the socket and the answer
 * costs as much as the check of a body.
 */
export function route(serving: Serving, { request, caller: from }: Arrived, found: Found): Reply | Promise<Reply> {
  const { engine, documents, offering } = serving
  const { basePath } = engine.gateway
  const methods = engine.charges?.methods
  const url = withoutBase(requestUrl(request), basePath)
  const caller = basePath === '' ? from : { ...from, origin: (from.origin ?? url.origin) + basePath }
  const path = serving.bareV1 && url.path.startsWith('/v1/') ? `/api${url.path}` : url.path
  const match = serving.routes.match(request.method, path)
  if ('endpoint' in match) found.name = match.endpoint.name
  if (match.kind === 'discover') {
    const { endpoint, params: given } = match
    const params = isSold(endpoint) && isTemplate(given) ? trialOf(endpoint, offering).path : given
    return probe(
      engine,
      endpoint,
      requestContextOf(request, url, { caller, params, methods, bazaar: documents.bazaar }),
    )
  }
  if (match.kind !== 'found') return notFound(serving, match, { request, path })
  const { endpoint, params } = match
  const bazaar = endpoint.kind === 'poll' ? NO_BAZAAR : documents.bazaar
  const requestContext = requestContextOf(request, url, { caller, params, methods, bazaar })
  if (endpoint.kind !== 'poll') found.errorFormat = endpoint.errorFormat ?? 'plain'
  if (endpoint.kind !== 'free') requireOnePayment(request)
  const keyed = endpoint.kind === 'free' ? undefined : openKey(engine.ports.chain, requestContext)
  if (keyed && endpoint.kind !== 'free') {
    const contextOf = (apiKey: OpenedKey) => requestContextOf(request, url, { caller, params, methods, bazaar, apiKey })
    const answer = answerKeyed(engine, { endpoint, keyed, id: params.id ?? '' }, contextOf)
    return asAccepted(engine, endpoint, { request, answer })
  }
  if (endpoint.kind === 'poll') return poll(engine, { route: endpoint, requestContext, id: params.id ?? '' })
  if (endpoint.kind === 'free') return answerFree(serving, endpoint, { requestContext, path, search: url.search })
  if (isTemplate(params) && paymentHeader(request) === null)
    return probe(engine, endpoint, { ...requestContext, params: trialOf(endpoint, offering).path })
  return asAccepted(engine, endpoint, { request, answer: handlePaid(engine, { endpoint, requestContext }) })
}

/** The answer, or the file that it names where the client accepts only that. */
function asAccepted(
  { ports: { objects } }: Engine,
  endpoint: Sold | Polled,
  { request, answer }: { readonly request: Request; readonly answer: Reply | Promise<Reply> },
): Reply | Promise<Reply> {
  const file = endpoint.kind === 'poll' ? undefined : endpoint.file
  if (!file || !acceptsFile(request.headers, file.kind)) return answer
  return Promise.resolve(answer).then((reply) => fileReply(reply, objects, file.folder))
}

type Keyed = { readonly endpoint: Sold | Polled; readonly keyed: Promise<OpenedKey>; readonly id: string }

/** An order or a poll that brings an API key, which is wiped at the end unless a stream still needs it. */
async function answerKeyed(
  engine: Engine,
  { endpoint, keyed, id }: Keyed,
  contextOf: (apiKey: OpenedKey) => RequestContext,
): Promise<Reply> {
  const apiKey = await keyed
  try {
    const requestContext = contextOf(apiKey)
    if (endpoint.kind === 'poll') return await poll(engine, { route: endpoint, requestContext, id })
    return await handlePaid(engine, { endpoint, requestContext })
  } finally {
    apiKey.end()
  }
}

/** A route of the host, which decides itself which requests it is for. */
export function mounted(endpoint: Free): typeof route {
  return (serving, { request, caller }, found) => {
    found.name = endpoint.name
    found.errorFormat = endpoint.errorFormat ?? 'plain'
    const url = requestUrl(request)
    const requestContext = requestContextOf(request, url, { caller, params: {}, bazaar: NO_BAZAAR })
    return answerFree(serving, endpoint, { requestContext, path: url.path, search: url.search })
  }
}

/** The 402 for a probe, at the default price. A refund may be arrived for on any route. */
function probe(engine: Engine, endpoint: Sold | Free, requestContext: RequestContext): Promise<Reply> {
  return refund(engine, { endpoint, requestContext }) ?? discover(engine, { endpoint, requestContext })
}

function notFound(
  { engine, documents }: Serving,
  match: Exclude<Match, { kind: 'found' | 'discover' }>,
  { request, path }: { readonly request: Request; readonly path: string },
): Reply {
  const { basePath } = engine.gateway
  if (match.kind === 'options') return { status: 204, headers: { allow: match.allow }, body: null }
  if (match.kind === 'wrong_method') throw wrongMethod(request.method, basePath + path, match.allow)
  const nearby = match.nearby.filter((endpoint) => documents.offered().includes(endpoint))
  throw unknownPath(path, nearby, basePath)
}

/** Polls and routes of the host are not advertised. */
const NO_BAZAAR = () => undefined

/** Indexers request paths as the documents write them, braces included (contract 19.14). */
function isTemplate(params: Readonly<Record<string, string>>): boolean {
  for (const name in params) if (params[name] === `{${name}}`) return true
  return false
}
