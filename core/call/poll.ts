/** A poll: finds the call and what its caller has shown of being its wallet, then collects it. */
import type { Engine } from '../engine.ts'
import type { Polled, Sold } from '../endpoint/mod.ts'
import { isForgotten } from '../endpoint/records.ts'
import type { Body } from '../endpoint/demands.ts'
import * as replies from '../endpoint/replies.ts'
import { paymentHeader, proofOf, type RequestContext } from '../endpoint/request_context.ts'
import { ApiError } from '../http/errors.ts'
import type { Reply } from '../http/reply.ts'
import { keyIn } from '../identity/poll_urls.ts'
import type { Call } from '../ports/mod.ts'
import type { SignedInAs } from '../x402/sign_in.ts'
import { collect } from './collect.ts'
import type { RunningFields } from './poll_payment_required.ts'
import { type PollJudged, pollProofs } from '../identity/poll_proofs.ts'

/** A request to a poll route; `id` is of the call. */
type Polling = { readonly route: Polled; readonly requestContext: RequestContext; readonly id: string }

export async function poll(engine: Engine, polling: Polling): Promise<Reply> {
  const { endpoint, found } = await findCall(engine, polling)
  const { requestContext } = polling
  const evidence = await evidenceOf(engine, polling, { endpoint, found })
  return await collect(engine, {
    endpoint,
    found,
    requestContext,
    running: (call: Call, fields?: RunningFields) => replies.running(endpoint, call, fields),
    ...evidence,
  })
}

type Found = { readonly endpoint: Sold; readonly found: Call }

async function findCall(engine: Engine, { route, requestContext, id }: Polling): Promise<Found> {
  const { ports, gateway, products, identity } = engine
  const now = ports.clock.now()
  const found = await ports.storage.getCall(id)
  const isOurs = found && (route.of === 'all' || route.of.includes(found.endpoint))
  const endpoint = isOurs ? products.sold.get(found.endpoint) : undefined
  if (!found || !endpoint || found.gateway !== gateway.name || isForgotten(found, now)) throw unknownJob(route)
  await identity.pollUrls.check(route, endpoint, { id, query: requestContext.query, now })
  return { endpoint, found }
}

/** A caller with an invalid proof gets the same answer as a stranger (contract 2.18). */
const unknownJob = (route: Polled): ApiError =>
  new ApiError(route.signedQuery ? 'INVALID_JOB_ID' : 'JOB_NOT_FOUND', {
    message: 'There is no such job here: it never existed, or has expired.',
  })

/** Proofs that the caller has shown without paying. */
async function evidenceOf(
  engine: Engine,
  { route, requestContext, id }: Polling,
  { endpoint, found }: Found,
): Promise<{ readonly isProven: boolean; readonly isKeyed: boolean; readonly more?: Body }> {
  const proofs = pollProofs(engine.money, engine.identity.pollUrls)
  const isProof = ({ kind }: PollJudged) => kind === 'proof'
  const { request } = requestContext
  // HEAD must change nothing and reveal nothing, so it proves nothing.
  const signature =
    request.method === 'HEAD' ? undefined : engine.ports.chain.proves && proofOf(request, { job: endpoint.job, id })
  if (signature && !isProof(await proofs.signature(found, signature))) throw unknownJob(route)
  const signedIn = await signedInWith(engine, requestContext)
  const isSignedIn = signedIn.kind === 'wallet'
  if (isSignedIn && !isProof(await proofs.signIn(found, signedIn.wallet))) throw unknownJob(route)
  return {
    isProven: signature !== undefined || isSignedIn,
    isKeyed: isProof(await proofs.pollKey(found, keyIn(requestContext.query))),
    ...(signedIn.kind === 'refused' && { more: { details: signedIn.reason } }),
  }
}

/** A payment says more than a sign-in, and HEAD must change nothing: a sign-in is used up. */
async function signedInWith({ identity }: Engine, requestContext: RequestContext): Promise<SignedInAs> {
  const { request } = requestContext
  if (request.method === 'HEAD' || paymentHeader(request) !== null) return { kind: 'none' }
  return await identity.signIns.wallet(request.headers, requestContext)
}
