/** Parameters and bodies of the operations of the OpenAPI document. */
import { type Endpoint, type Free, type Sold, isSold } from '../endpoint/mod.ts'
import { namesIn, type Trial } from '../endpoint/samples.ts'

type Fields = Readonly<Record<string, unknown>>

export function requestOf(endpoint: Endpoint, method: string, trial: Trial): Fields {
  const names = namesIn(endpoint.path)
  const input = endpoint.kind === 'poll' ? undefined : endpoint.input
  const isBody = isSold(endpoint) ? endpoint.from === 'body' : method === 'POST' && input !== undefined
  const properties = (input?.properties ?? {}) as Readonly<Record<string, Fields>>
  const required: readonly string[] = input?.required ?? []
  const inPath = names.map((name) =>
    parameter('path', name, { schema: properties[name], isRequired: true, example: trial.path[name] }),
  )
  const undeclared = Object.keys(properties).filter((name) => !isBody && !names.includes(name))
  const inQuery = [...new Set([...undeclared, ...Object.keys(isBody ? {} : trial.query)])].map((name) => {
    return parameter('query', name, {
      schema: properties[name],
      isRequired: required.includes(name),
      example: trial.query[name],
    })
  })
  const paying = endpoint.kind === 'free' ? [] : [{ $ref: '#/components/parameters/payment' }]
  const parameters = [...inPath, ...inQuery, ...paying]
  return {
    ...(parameters.length > 0 && { parameters }),
    ...(isBody && input && { requestBody: bodyOf(endpoint as Sold | Free, trial) }),
    ...(!isBody && isSold(endpoint) && method === 'POST' && { requestBody: fieldsBodyOf(endpoint, trial) }),
  }
}

function parameter(
  where: 'path' | 'query',
  name: string,
  {
    schema = { type: 'string' },
    isRequired,
    example,
  }: { schema: Fields | undefined; isRequired: boolean; example: string | undefined },
): Fields {
  const { description, ...rest } = schema
  return {
    name,
    in: where,
    required: isRequired,
    ...(description !== undefined && { description }),
    schema: rest,
    ...(example !== undefined && { example }),
  }
}

/** The same fields as the JSON body, with files in place of data URIs. */
const FORM = {
  schema: {
    type: 'object',
    description:
      'The fields of the JSON body as form fields, with files where it has data URIs; several files of one field are written `name[]`.',
  },
}

/** A POST may have its fields in the body instead of the query. */
function bodyOf(endpoint: Sold | Free, { body, query }: Trial): Fields {
  const isStrict = endpoint.kind === 'sold' && endpoint.unknownFields === 'refused'
  const schema =
    endpoint.kind === 'sold' && endpoint.delivery === 'stream'
      ? { ...endpoint.input, additionalProperties: true }
      : { ...withoutPath(endpoint), ...(isStrict && { additionalProperties: false }) }
  const isOptional = endpoint.kind === 'free' && endpoint.method === 'GET'
  const form = endpoint.kind === 'sold' && endpoint.multipart ? { 'multipart/form-data': FORM } : {}
  return { required: !isOptional, content: { 'application/json': { schema, example: body ?? query }, ...form } }
}

/** The body of a POST whose fields are in the query: it may have them instead. */
function fieldsBodyOf(endpoint: Sold, { query }: Trial): Fields {
  const { required: _, ...schema } = withoutPath(endpoint)
  return { required: false, content: { 'application/json': { schema, example: query } } }
}

/** The body without the path parameters. */
function withoutPath({ input, path }: Sold | Free): Fields {
  const names = namesIn(path)
  const properties = Object.fromEntries(
    Object.entries(input?.properties ?? {}).filter(([name]) => !names.includes(name)),
  )
  return {
    ...input,
    properties,
    ...(input?.required && { required: input.required.filter((name) => !names.includes(name)) }),
  }
}
