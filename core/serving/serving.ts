/** Parts that serve the requests of a gateway. */
import type { Documents } from '../discovery/mod.ts'
import type { FreeContext } from '../endpoint/mod.ts'
import type { Offering } from '../endpoint/offering.ts'
import type { Engine } from '../engine.ts'
import type { ErrorFormat } from '../http/error_formats.ts'
import type { Router } from './router.ts'

export type Serving = {
  readonly engine: Engine
  readonly routes: Router
  readonly documents: Documents
  readonly offering: Offering
  /** Parts that endpoints without a call are given, beside what depends on the request. */
  readonly freeContext: Omit<FreeContext, 'isOperator'>
  /** Whether an `Authorization` header from this address is the operator's. */
  isOperator(authorization: string | null, ip: string): boolean
  /** Counts the requests under way. */
  readonly activity: { begin(): void; end(): void }
  /** Serves `/v1/*` like `/api/v1/*` (contract 3.8). */
  readonly bareV1: boolean
}

/** Facts of a request once its endpoint is known: for the metrics, and for its errors. */
export type Found = { name: string; errorFormat: ErrorFormat }
