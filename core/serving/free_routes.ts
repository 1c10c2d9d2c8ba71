/** Routes that open no call: the documents, the operator's, and what is given away. */
import type { Free, FreeRequest } from '../endpoint/mod.ts'
import type { RequestContext } from '../endpoint/request_context.ts'
import { addressKey } from '../http/caller_address.ts'
import { type Permit, type Window, windowSpent } from '../http/rate_limit.ts'
import type { Reply } from '../http/reply.ts'
import { type Hold, holdOn, readBody, readRaw, UNCOUNTED, whenEnded } from '../http/body_bytes.ts'
import { parseJson } from '../http/request_body.ts'
import type { UnpaidCount } from '../http/unpaid_work.ts'
import type { Engine } from '../engine.ts'
import type { Serving } from './serving.ts'

/** `path` is the one that was matched. */
type FreeCall = { readonly requestContext: RequestContext; readonly path: string; readonly search: string }

export async function answerFree(serving: Serving, endpoint: Free, called: FreeCall): Promise<Reply> {
  const { engine } = serving
  const { limits } = engine
  const { ip } = called.requestContext
  const hold = holdOn(limits.bodies, addressKey(ip))
  let retainsBody = false
  try {
    const permitted = permit(engine, endpoint, ip)
    if (permitted) await permitted
    const counting = limits.unpaidWork.from(ip)
    const reply = await endpoint.answer(freeRequest(engine, called, { endpoint, hold, counting }), {
      ...serving.freeContext,
      countTokens: counting.countTokens,
      isOperator: (authorization) => serving.isOperator(authorization, ip),
    })
    retainsBody = reply.body instanceof ReadableStream && !hold.isEmpty()
    // A stream may need the body of its request until its end.
    return retainsBody ? { ...reply, body: whenEnded(reply.body as ReadableStream<Uint8Array>, hold.release) } : reply
  } finally {
    if (!retainsBody) hold.release()
  }
}

function freeRequest(
  { settings, ports }: Engine,
  { requestContext, path, search }: FreeCall,
  { endpoint, hold, counting }: { readonly endpoint: Free; readonly hold: Hold; readonly counting: UnpaidCount },
): FreeRequest {
  const { request, params, origin, isHostTrusted } = requestContext
  const most = endpoint.maxBody ?? (endpoint.uploads ? settings.maxUpload : settings.maxBody)
  const header = (name: string) => request.headers.get(name)
  const text = async () => {
    const body = await readBody(request, most, hold)
    if (body.length > UNCOUNTED) counting.read(body.length)
    return body
  }
  return {
    method: request.method,
    path,
    params,
    get query() {
      return requestContext.query
    },
    search,
    origin,
    isHostTrusted,
    header,
    bytes: () => readRaw(request, most, hold),
    text,
    json: async () => await parseJson(await text(), header('content-type'), ports.clock),
  }
}

/** Throws where the address has used up its window. A promise only where storage has to be asked. */
function permit({ ports, limits }: Engine, { name, limit }: Free, ip: string): Promise<void> | undefined {
  if (!limit) return undefined
  const now = ports.clock.now()
  const permitted = limits.windows.take(limit.bucket ?? name, addressKey(ip), limit, now)
  if (permitted instanceof Promise) return permitted.then((answer) => requireGranted(answer, limit, now))
  requireGranted(permitted, limit, now)
  return undefined
}

function requireGranted({ granted, resetAt }: Permit, limit: Window, now: number): void {
  if (!granted) throw windowSpent(limit, resetAt, now)
}
