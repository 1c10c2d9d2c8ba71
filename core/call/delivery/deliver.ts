/** Steps 9 to 12 of a paid call: work, result, settlement and reply, by the delivery of its endpoint. */
import type { Engine } from '../../engine.ts'
import type { Sold } from '../../endpoint/mod.ts'
import type { RequestContext } from '../../endpoint/request_context.ts'
import type { Reply } from '../../http/reply.ts'
import { serveFreeAnswer, serveFreeWork } from './free.ts'
import { deliverHybrid } from './hybrid.ts'
import { deliverInline } from './inline.ts'
import { deliverJob } from './job.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { deliverStream } from './stream.ts'

export function deliver(engine: Engine, { endpoint, ...opened }: OpenedCall): Promise<Reply> {
  switch (endpoint.delivery) {
    case 'inline':
      return deliverInline(engine, { ...opened, endpoint })
    case 'hybrid':
      return deliverHybrid(engine, { ...opened, endpoint })
    case 'job':
      return deliverJob(engine, { ...opened, endpoint })
    case 'upstream_job':
      return import('./upstream_job.ts').then((job) => job.deliverUpstreamJob(engine, { ...opened, endpoint }))
    case 'stream':
      return deliverStream(engine, { ...opened, endpoint })
  }
}

/** Serves a free order. No call is opened and nothing is stored. Throws an ApiError when the work fails. */
export function serveFree(
  engine: Engine,
  order: { readonly endpoint: Sold; readonly input: unknown; readonly requestContext: RequestContext },
): Promise<Reply> {
  const { endpoint } = order
  return endpoint.delivery === 'stream'
    ? serveFreeAnswer(engine, { ...order, endpoint })
    : serveFreeWork(engine, { ...order, endpoint })
}
