/** A gateway, as its host sees it. */
import type { Endpoint } from './mod.ts'
import { type Reply, json } from '../http/reply.ts'

export type Caller = {
  /** Address for rate windows. */
  readonly ip: string
  /** Public origin, where it is another one than the request's own. */
  readonly origin?: string
  /** Aborts when the caller has gone; the request's own signal unless told. */
  readonly gone?: AbortSignal
}

export type Gateway = {
  readonly name: string
  readonly endpoints: readonly Endpoint[]
  /** Those of them that can be bought or used as it is configured: what its documents show. */
  offered(): readonly Endpoint[]
  /** Answers a request. Never rejects. */
  handle(request: Request, caller: Caller): Promise<Reply>
  /** The same as a web-standard Response. */
  fetch(request: Request, caller?: Partial<Caller>): Promise<Response>
  /** Says that this process is alive: its unfinished calls are safe for another work lease. */
  renew(): Promise<void>
  /** Fails what dead processes lost, and finds out about money in doubt. Both are to be called every few seconds. */
  maintain(): Promise<void>
  /** Fails every unfinished call of any other owner: for one who knows that no other process is alive. */
  takeOver(): Promise<number>
  /** The process is about to stop: `/readyz` is 503 from now on, and all else goes on. */
  leaveRotation(): void
  /** Ends every stream that is under way, paid for as far as it went: for a process that has to stop. */
  drain(): void
}

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
    renew: nothing,
    maintain: nothing,
    takeOver: async () => 0,
    leaveRotation() {},
    drain() {},
  }
}
