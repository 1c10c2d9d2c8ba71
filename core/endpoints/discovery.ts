/** The machine-readable descriptions, both derived from the menu. */
import { free, type Reply } from '../endpoint.ts'

const openapi = free({
  name: 'discovery.openapi',
  path: '/openapi.json',
  summary: 'This API as OpenAPI 3.1',
  tag: 'discovery',
  answer: ({ origin }, { gateway }) => document(gateway.openapi(origin)),
})

const wellKnown = free({
  name: 'discovery.x402',
  path: '/.well-known/x402',
  summary: 'What is for sale here, for x402 indexers',
  tag: 'discovery',
  answer: ({ origin }, { gateway }) => document(gateway.wellKnown(origin)),
})

export const discovery = [openapi, wellKnown]

function document(body: string): Reply {
  return { status: 200, headers: { 'content-type': 'application/json', 'cache-control': 'public, max-age=60' }, body }
}
