/** The machine-readable descriptions, derived from the endpoint registry. */
import { Type } from '@sinclair/typebox'
import { cachedWhileTrue, free, type FreeContext } from '../../endpoint/mod.ts'
import type { Reply } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import { refused } from '../../http/request_body.ts'
import { quoted } from '../../lib/text.ts'

const openapi = free({
  name: 'discovery.openapi',
  path: '/openapi.json',
  aliases: ['/.well-known/openapi.json'],
  summary: 'This API as OpenAPI 3.1',
  description:
    'Every endpoint, field, price and error, each with an example, that this gateway serves. `all=1` adds those that are not configured, marked `x-available: false`.',
  input: Type.Object({ all: Type.Optional(Type.Literal('1')) }),
  tag: 'discovery',
  output: Type.Object({
    openapi: Type.String(),
    info: Type.Object({}),
    paths: Type.Object({}),
    components: Type.Object({}),
  }),
  async answer({ origin, query }, context) {
    const all = query.get('all')
    if (all !== null && all !== '1') throw refused('all', `must be 1, got ${quoted(all)}`)
    return document(await context.gateway.openapi(origin, { all: all === '1' }), context)
  },
})

const price = Type.Object({
  mode: Type.Union([Type.Literal('fixed'), Type.Literal('dynamic')]),
  currency: Type.Literal('USD'),
})

const wellKnown = free({
  name: 'discovery.x402',
  path: '/.well-known/x402',
  summary: 'The paid endpoints, for x402 indexers',
  description: 'The metadata of x402 version 2, and the list of resources of version 1, in one document.',
  tag: 'discovery',
  output: Type.Object({
    x402Version: Type.Literal(2),
    version: Type.Literal(1, { description: 'Version of the list of resources.' }),
    name: Type.String(),
    description: Type.String(),
    instructions: Type.String(),
    serviceVersion: Type.String(),
    resources: Type.Array(Type.String({ description: 'URL; names in braces are to be filled in.' })),
    services: Type.Array(
      Type.Object({
        name: Type.String(),
        endpoint: Type.String(),
        method: Type.String(),
        description: Type.String(),
        category: Type.String(),
        pricing: price,
        payment: Type.Array(Type.Object({})),
      }),
    ),
  }),
  answer: ({ origin }, context) => document(context.gateway.wellKnown(origin), context),
})

const did = free({
  name: 'discovery.did',
  path: '/.well-known/did.json',
  summary: 'The key that signs offers and receipts',
  description: 'The did:web document of this origin. 404 where offers and receipts are not signed.',
  tag: 'discovery',
  hidden: true,
  output: Type.Object({ id: Type.String(), verificationMethod: Type.Array(Type.Object({})) }),
  answer({ origin }, context) {
    const found = context.gateway.did(origin)
    if (found !== undefined) return document(found, context)
    throw new ApiError('NOT_FOUND', { message: 'This gateway does not sign its offers and receipts.' })
  },
})

const llms = free({
  name: 'discovery.llms',
  path: '/llms.txt',
  summary: 'What is sold here, for language models',
  description: 'A short page in Markdown that leads to everything else (llmstxt.org).',
  tag: 'discovery',
  produces: 'text/markdown',
  answer: async ({ origin }, context) => text(await context.gateway.llms(origin), context),
})

const llmsFull = free({
  name: 'discovery.llms_full',
  path: '/llms-full.txt',
  summary: 'Every route with its fields, price and errors, for language models',
  description: 'The OpenAPI document as one text in Markdown.',
  tag: 'discovery',
  produces: 'text/markdown',
  answer: async ({ origin }, context) => text(await context.gateway.llmsFull(origin), context),
})

export const discovery = [openapi, wellKnown, did, llms, llmsFull]

function text(body: string, context: FreeContext): Reply {
  const headers = { 'content-type': 'text/markdown; charset=utf-8', ...cachedWhileTrue(context) }
  return { status: 200, headers, body }
}

function document(body: string, context: FreeContext): Reply {
  return { status: 200, headers: { 'content-type': 'application/json', ...cachedWhileTrue(context) }, body }
}
