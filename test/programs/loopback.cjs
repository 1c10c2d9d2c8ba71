/** For NODE_OPTIONS=--require: a program of the tests reaches this machine alone, and learns it at once. */
const dns = require('node:dns')
const { lookup } = dns

dns.lookup = (host, options, done = options) => {
  if (host === 'localhost') return lookup(host, options, done)
  const error = Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND', hostname: host })
  process.nextTick(done, error)
  return {}
}
