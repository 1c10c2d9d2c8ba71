/** The tools of MCP, derived from the OpenAPI document of a gateway: what it sells as it is configured, and no more. */
import type { JSONObject } from '@modelcontextprotocol/server'
import { fieldsOf, isFields, objectsOf } from '../../core/lib/mod.ts'

/** A JSON Schema whose value is an object. */
export type ObjectSchema = {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, JSONObject>>
  readonly required?: string[]
  readonly additionalProperties?: boolean
}

export type Tool = {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: ObjectSchema
  readonly annotations: { readonly readOnlyHint: boolean; readonly openWorldHint: boolean }
}

/** A request of the HTTP API. `path` has its query. */
export type ApiRequest = { readonly method: string; readonly path: string; readonly body?: string }

/** A tool, and the request of the HTTP API that a call of it stands for. */
export type Operation = { readonly tool: Tool; request(args: Readonly<Record<string, unknown>>): ApiRequest }

/** Free operations that an agent needs in order to choose: what is for sale, and what becomes of a job. */
const FREE = new Set(['models', 'audio.voices'])

export const COLLECT = 'collect_result'

/** Tools by name. */
export type Operations = ReadonlyMap<string, Operation>

/**
 * Every paid operation of the document, the free ones that help to choose, and the tool that collects a job. Yields to
 * other requests after each: some have large schemas.
 */
export async function operationsOf(document: unknown): Promise<Operations> {
  const { paths, components } = fieldsOf(document)
  const whole = withoutReferences({ components: fieldsOf(components) })
  const found: Operation[] = []
  for (const [path, methods] of Object.entries(fieldsOf(paths)))
    for (const [method, value] of Object.entries(fieldsOf(methods))) {
      const fields = fieldsOf(value)
      const { operationId } = fields
      const isPaid = isFields(fields['x-payment-info'])
      if (typeof operationId !== 'string' || operationId.includes('.alias_')) continue
      if (!isPaid && !FREE.has(operationId)) continue
      found.push(operation({ path, method, fields, isPaid }, whole))
      await new Promise<void>((resolve) => void setImmediate(resolve))
    }
  return new Map([...found, COLLECTING].map((each) => [each.tool.name, each]))
}

const COLLECTING: Operation = {
  tool: {
    name: COLLECT,
    title: 'Collect the result of a job',
    description:
      'Asks for the result of a call that answered with a poll_url. Wait a few seconds between two questions. ' +
      'A finished job is charged by the question that finds it finished; one that was paid for is not charged again.',
    inputSchema: {
      type: 'object',
      properties: { poll_url: { type: 'string', description: 'The poll_url of the answer, unchanged.' } },
      required: ['poll_url'],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: false, openWorldHint: false },
  },
  request({ poll_url }) {
    const url = URL.canParse(String(poll_url), 'http://gateway')
      ? new URL(String(poll_url), 'http://gateway')
      : undefined
    if (!url?.pathname.startsWith('/api/v1/'))
      throw new RangeError(`poll_url: must be the poll_url of an answer, got ${JSON.stringify(poll_url)}`)
    return { method: 'GET', path: url.pathname + url.search }
  },
}

type Described = {
  readonly path: string
  readonly method: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly isPaid: boolean
}
type Resolve = (schema: unknown) => Readonly<Record<string, unknown>>

function operation({ path, method, fields, isPaid }: Described, resolve: Resolve): Operation {
  const { operationId, summary, description, requestBody } = fields
  const parameters = objectsOf(fields.parameters)
    .map(resolve)
    .filter((parameter) => parameter.in === 'path' || parameter.in === 'query')
  const body = resolve(fieldsOf(fieldsOf(fieldsOf(requestBody).content)['application/json']).schema)
  // A tool has one answer, so nothing is streamed.
  const { stream: _, ...inBody } = fieldsOf(body.properties)
  const properties = Object.fromEntries([
    ...parameters.map((parameter) => [parameter.name, described(parameter)]),
    ...Object.entries(inBody),
  ]) as Readonly<Record<string, JSONObject>>
  const required = [
    ...parameters.filter((parameter) => parameter.required === true).map((parameter) => String(parameter.name)),
    ...(Array.isArray(body.required) ? body.required.map(String) : []),
  ].filter((name, index, all) => name in properties && all.indexOf(name) === index)
  return {
    tool: {
      name: String(operationId),
      title: String(summary),
      description: [description ?? summary, isPaid ? priced(fieldsOf(fields['x-payment-info'])) : 'Free.'].join(' '),
      inputSchema: { type: 'object', properties, ...(required.length > 0 && { required }) },
      annotations: { readOnlyHint: !isPaid, openWorldHint: isPaid },
    },
    request(args) {
      const sent = new Set<string>()
      const inPath = path.replace(/\{(\w+)(?:\.{3})?\}/g, (_segment, name: string) => {
        sent.add(name)
        if (args[name] === undefined) throw new RangeError(`${name}: is required`)
        return String(args[name]).split('/').map(encodeURIComponent).join('/')
      })
      const query = new URLSearchParams()
      for (const { name } of parameters.filter((parameter) => parameter.in === 'query')) {
        sent.add(String(name))
        if (args[String(name)] !== undefined) query.set(String(name), String(args[String(name)]))
      }
      const full = query.size === 0 ? inPath : `${inPath}?${query}`
      if (method === 'get') return { method: 'GET', path: full }
      const rest = Object.entries(args).filter(([name]) => !sent.has(name) && name !== 'stream')
      return { method: method.toUpperCase(), path: full, body: JSON.stringify(Object.fromEntries(rest)) }
    },
  }
}

function described({ schema, description }: Readonly<Record<string, unknown>>): object {
  return { ...fieldsOf(schema), ...(typeof description === 'string' && { description }) }
}

function priced(info: Readonly<Record<string, unknown>>): string {
  const { mode, amount, min, max, currency } = fieldsOf(info.price)
  if (mode === 'fixed') return `Price: ${amount} ${currency} per call.`
  return `Price: ${min} to ${max} ${currency} per call, quoted exactly for each call.`
}

/** Replaces `$ref`, which a tool's schema cannot follow, by what it names. A schema within itself becomes any value. */
function withoutReferences(document: Readonly<Record<string, unknown>>): Resolve {
  const named = (reference: string): unknown =>
    reference
      .slice(2)
      .split('/')
      .reduce((value: unknown, key) => fieldsOf(value)[key], document)
  function inlined(value: unknown, within: readonly string[]): unknown {
    if (Array.isArray(value)) return value.map((each) => inlined(each, within))
    if (!isFields(value)) return value
    const reference = value.$ref
    if (typeof reference === 'string')
      return within.includes(reference) ? {} : inlined(named(reference), [...within, reference])
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, inlined(each, within)]))
  }
  return (schema) => fieldsOf(inlined(schema, []))
}
