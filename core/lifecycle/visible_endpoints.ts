/** The endpoints of a gateway as its setup changes them: without the hidden ones, mounted, with its retention. */
import { type Endpoint, isSold } from '../endpoint/mod.ts'
import { type Retention, retentionOf } from '../payment/retention.ts'
import type { Setup } from './setup.ts'
import { hides } from './setup_problems.ts'

export function visibleEndpoints(
  endpoints: readonly Endpoint[],
  { hidden = [], basePath = '', retention: changed }: Setup,
  retention: Retention,
): readonly Endpoint[] {
  const mounted = endpoints.filter((endpoint) => !hidden.some((name) => hides(name)(endpoint))).map(under(basePath))
  return changed ? mounted.map((endpoint) => withRetention(endpoint, retention)) : mounted
}

/** The endpoint with its poll URLs under the path of the host's mount. */
function under(basePath: string): (endpoint: Endpoint) => Endpoint {
  return (endpoint) =>
    basePath === '' || !isSold(endpoint)
      ? endpoint
      : { ...endpoint, job: { ...endpoint.job, poll: basePath + endpoint.job.poll, basePath } }
}

const withRetention = (endpoint: Endpoint, retention: Retention): Endpoint =>
  isSold(endpoint) ? { ...endpoint, retention: retentionOf(endpoint, retention) } : endpoint
