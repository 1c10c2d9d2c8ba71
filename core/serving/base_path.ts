/** The path under which a host mounts the gateway. */
import type { RequestUrl } from '../http/request_url.ts'

export const isUnder = (path: string, basePath: string): boolean =>
  basePath !== '' && (path === basePath || path.startsWith(`${basePath}/`))

/** The URL of a request without the path of the host's mount, which some hosts take off themselves. */
export function withoutBase(url: RequestUrl, basePath: string): RequestUrl {
  return isUnder(url.path, basePath) ? { ...url, path: url.path.slice(basePath.length) || '/' } : url
}
