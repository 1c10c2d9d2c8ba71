/** A gateway as its host uses it. */
import type { Free } from './free.ts'
import type { StopOptions } from './gateway_info.ts'
import type { Endpoint } from './mod.ts'
import { type Reply, json } from '../http/reply.ts'

export type Caller = {
  /** Client address for rate limits. */
  readonly ip: string
  /** Public origin, when it differs from that of the request. */
  readonly origin?: string
  /**
   * False where the origin is only what the Host header says. Sign-ins are then neither asked for nor taken, because a
   * site of another name could pass them on. Default true.
   */
  readonly isHostTrusted?: boolean
  /** Aborts when the caller disconnects; defaults to the request's own signal. */
  readonly gone?: AbortSignal
}

export type Gateway = {
  readonly name: string
  readonly endpoints: readonly Endpoint[]
  /** The endpoints that can be bought or used as the gateway is configured: what its documents show. */
  offered(): readonly Endpoint[]
  /** Answers a request. Never rejects. */
  handle(request: Request, caller: Caller): Promise<Reply>
  /** Whether there is something at this path: hosts that also serve others ask before they call `handle`. */
  matches(method: string, path: string): boolean
  /** The same as `handle`, as a web-standard Response. */
  fetch(request: Request, caller?: Partial<Caller>): Promise<Response>
  /**
   * A route of the host with the limits of the gateway's own: sizes, deadlines and memory of bodies, the endpoint's
   * rate limit, metrics under its name, and errors. The host decides which requests it is for.
   */
  mount(endpoint: Free): Gateway['handle']
  /** The OpenAPI document, the same object until what it says changes. Its origin is a placeholder. */
  openapi(): Promise<Readonly<Record<string, unknown>>>
  /**
   * Starts what the gateway does by itself: renewing leases, failing lost calls, settling what is in doubt, deleting
   * what has expired, checking its chain. Call the returned function before the process ends: it waits for the requests
   * and the work under way, 30 seconds at most, and settles what active streams have delivered.
   */
  run(): (options?: StopOptions) => Promise<void>
  /** Renews the leases of this process, so that its unfinished calls are not declared lost. */
  renew(): Promise<void>
  /** Fails calls of dead processes and reconciles payments in doubt. Call this and `renew` every few seconds. */
  maintain(): Promise<void>
  /** Fails every unfinished call of other owners. Only for a caller who knows that no other process is running. */
  takeOver(): Promise<number>
  /** Announces a shutdown: `/readyz` answers 503 from now on, and everything else continues. */
  leaveRotation(): void
  /** Stops active streams and settles what was delivered. Returns their number. For shutdown. */
  drain(): number
}

/**
 * A gateway that serves nothing any more and says so.
 *
 * @example
 * const old = retiredGateway('base-2025')
 */
export function retiredGateway(name: string): Gateway {
  const nothing = async (): Promise<void> => {}
  const handle = async () =>
    json(404, { error: 'Not found', message: 'This gateway is retired and serves no requests. Nothing was charged.' })
  return {
    name,
    endpoints: [],
    offered: () => [],
    handle,
    async fetch() {
      const { status, headers, body } = await handle()
      return new Response(body as string, { status, headers })
    },
    mount: () => handle,
    openapi: async () => ({}),
    matches: () => true,
    run: () => nothing,
    renew: nothing,
    maintain: nothing,
    takeOver: async () => 0,
    leaveRotation() {},
    drain: () => 0,
  }
}
