/** Whether a request came through a proxy, by the headers that proxies, tunnels and content networks add. */

const ADDED =
  /^(?:forwarded|via|cdn-loop|x-forwarded(?:-.+)?|x-real-ip|x-original-.+|x-proxyuser-ip|cf-.+|(?:.+-)?client-ip|x-amzn-.+|x-envoy-.+|x-azure-.+|x-appengine-.+|x-arr-.+)$/

/** Names of headers are lower-case in `Headers`. */
export function isForwarded(headers: Headers): boolean {
  for (const name of headers.keys()) if (ADDED.test(name)) return true
  return false
}
