/** Pages for browsers: the API reference, the icon and robots.txt. */
import { cachedWhileTrue, free } from '../../endpoint/mod.ts'
import { favicon } from './favicon.ts'

const page = free({
  name: 'docs',
  path: '/docs',
  summary: 'This API as a page to read',
  tag: 'discovery',
  produces: 'text/html',
  async answer({ origin }, context) {
    const { gateway } = context
    const { html, policy } = await gateway.docs(origin)
    const headers = {
      'content-type': 'text/html; charset=utf-8',
      ...cachedWhileTrue(context),
      'content-security-policy': policy,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    }
    return { status: 200, headers, body: html }
  },
})

const ICON = favicon()

const icon = free({
  name: 'docs.favicon',
  path: '/favicon.ico',
  summary: 'The icon of this gateway',
  tag: 'discovery',
  hidden: true,
  answer: () => ({
    status: 200,
    headers: {
      'content-type': 'image/x-icon',
      'cache-control': 'public, max-age=86400',
      'x-content-type-options': 'nosniff',
    },
    body: ICON,
  }),
})

/** Hosted media and wallet data are private; the documentation is public. */
const ROBOTS = 'User-agent: *\nAllow: /\nDisallow: /api/media/\nDisallow: /api/v1/wallet/\n'

const robots = free({
  name: 'docs.robots',
  path: '/robots.txt',
  summary: 'Rules for crawlers',
  tag: 'discovery',
  hidden: true,
  answer: () => ({
    status: 200,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'public, max-age=86400' },
    body: ROBOTS,
  }),
})

export const docs = [page, icon, robots]
