/**
 * The `bazaar` extension, which tells indexers how to call a paid endpoint, in 402 bodies and discovery documents (x402
 * extension bazaar; contract 1.5; decision 44).
 */
import type { Endpoint, Free, Offering, Sold } from '../endpoint/mod.ts'
import { namesIn, trialOf } from '../endpoint/samples.ts'

type Fields = Readonly<Record<string, unknown>>

/** Maximum length of the JSON, since every 402 includes it. */
const MAX = 2_000

/** The declaration of an endpoint as JSON. If it is too long, the field types are left out first, then the example. */
export function bazaarOf(endpoint: Sold | Free, offering: Offering): string {
  const { path, query, body } = trialOf(endpoint, offering)
  const method = endpoint.kind === 'free' || endpoint.from === 'query' ? 'GET' : endpoint.method
  const whole = {
    type: 'http',
    method,
    ...some('pathParams', path),
    ...some('queryParams', query),
    ...(body !== undefined && { bodyType: 'json', body }),
  }
  const bare = { type: 'http', method, ...(body !== undefined && { bodyType: 'json', body: {} }) }
  const ways = [
    { input: whole, schema: schemaOf(whole) },
    { input: whole, schema: schemaOf(whole, 'shallow') },
    { input: bare, schema: schemaOf(bare) },
  ]
  const written = ways.map(({ input, schema }) => JSON.stringify({ info: { input }, schema, ...template(endpoint) }))
  return inAscii(written.find((text) => text.length <= MAX) ?? written.at(-1) ?? '')
}

/** The shortest form, for headers: how to call, and that input and output exist; OpenAPI has the details. */
export function briefBazaarOf(endpoint: Sold | Free): string {
  const isGet = endpoint.kind === 'free' || endpoint.from === 'query'
  const input = isGet
    ? { type: 'http', method: 'GET' }
    : { type: 'http', method: endpoint.method, bodyType: 'json', body: {} }
  const properties = {
    input: { properties: isGet ? { queryParams: {} } : { body: {} } },
    output: { properties: { example: {} } },
  }
  return JSON.stringify({ info: { input }, schema: { properties } })
}

/** JSON in ASCII. */
const inAscii = (json: string): string =>
  json.replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

const some = (name: string, values: Fields): Fields => (Object.keys(values).length > 0 ? { [name]: values } : {})

/** A path with parameters is one resource for all values. */
function template({ path }: Endpoint): Fields {
  return namesIn(path).length > 0 ? { routeTemplate: path.replaceAll(/\{(\w+)(?:\.{3})?\}/g, ':$1') } : {}
}

/** Indexers want to know that there is one; OpenAPI describes it. */
const OUTPUT = { type: 'object', properties: { example: { type: 'object' } } }

/** A minimal JSON Schema of `info`; OpenAPI describes the fields. */
function schemaOf({ type, method, bodyType, ...parts }: Fields, depth: 'deep' | 'shallow' = 'deep'): Fields {
  const properties = {
    type: { const: type },
    method: { const: method },
    ...(bodyType !== undefined && { bodyType: { const: bodyType } }),
    ...(bodyType === undefined && { queryParams: { type: 'object' } }),
    ...typesOf(parts, depth),
  }
  const input = { type: 'object', properties, required: ['type', 'method'] }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { input, output: OUTPUT },
    required: ['input'],
  }
}

const typesOf = (values: Fields, depth: 'deep' | 'shallow'): Fields =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typeOf(value, depth)]))

function typeOf(value: unknown, depth: 'deep' | 'shallow'): Fields {
  if (typeof value === 'number') return { type: Number.isInteger(value) ? 'integer' : 'number' }
  if (Array.isArray(value)) return { type: 'array' }
  if (typeof value !== 'object' || value === null) return { type: typeof value }
  if (depth === 'shallow') return { type: 'object' }
  const fields = typesOf(value as Fields, depth)
  return Object.keys(fields).length > 0 ? { type: 'object', properties: fields } : { type: 'object' }
}
