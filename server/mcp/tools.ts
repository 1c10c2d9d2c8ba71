/** The tools of MCP, derived from the OpenAPI document of a gateway: what it sells as it is configured, and no more. */
import type { JSONObject } from '@modelcontextprotocol/server'
import { fieldsOf, isFields, objectsOf } from '../../core/lib/mod.ts'

/** A JSON Schema whose value is an object. */
type ObjectSchema = {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, JSONObject>>
  readonly required?: string[]
  readonly additionalProperties?: boolean
}

type Tool = {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: ObjectSchema
  readonly annotations: { readonly readOnlyHint: boolean; readonly openWorldHint: boolean }
}

/** A request of the HTTP API. `path` has its query. */
type ApiRequest = { readonly method: string; readonly path: string; readonly body?: string }

/** A tool, and the request of the HTTP API that a call of it stands for. */
type Operation = { readonly tool: Tool; request(args: Readonly<Record<string, unknown>>): ApiRequest }

/** Free operations that an agent needs in order to choose: what is for sale, and what becomes of a job. */
const MODELS = 'models'
const FREE = new Set([MODELS, 'audio.voices'])

const COLLECT = 'collect_result'

/** Tools by name. */
export type Operations = ReadonlyMap<string, Operation>

/** Letters of a name that some clients refuse: with a dot in one name they refuse every tool, or every request. */
const NOT_IN_NAMES = /[^a-zA-Z0-9_-]/g
const MAX_NAME = 64

/** Name of the tool of an operation: `images_generations` of `images.generations`. */
export const toolName = (operationId: string): string => operationId.replace(NOT_IN_NAMES, '_').slice(0, MAX_NAME)

/**
 * One tool for each product of the document that is paid, the free ones that help to choose, and the tool that
 * collects a job. The same in another format or by another method has none of its own. Yields to other requests after
 * each: some have large schemas.
 */
export async function operationsOf(document: unknown): Promise<Operations> {
  const { paths, components } = fieldsOf(document)
  const whole = withoutReferences({ components: fieldsOf(components) })
  const found = new Map<string, Operation>()
  for (const described of withoutVariants(fieldsOf(paths))) {
    const name = unusedName(described.name, found)
    found.set(name, operation({ ...described, name }, whole))
    await new Promise<void>((resolve) => void setImmediate(resolve))
  }
  return found.set(COLLECT, COLLECTING)
}

/** The operations that become tools. A POST before the GET that sells the same: a body takes any argument. */
function withoutVariants(paths: Readonly<Record<string, unknown>>): readonly Described[] {
  const offered = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(fieldsOf(methods)).flatMap(([method, value]) => {
      const fields = fieldsOf(value)
      const isPaid = isFields(fields['x-payment-info'])
      const name = String(fields.operationId)
      if (fields['x-alias-of'] !== undefined || (!isPaid && !FREE.has(name))) return []
      return [{ path, method, fields, isPaid, name }]
    }),
  )
  const names = new Set(offered.map(({ name }) => name))
  const originals = offered.filter(({ fields }) => !names.has(String(fields['x-variant-of'])))
  return originals.map((original) => {
    const isTwin = ({ path, method, fields }: Described) =>
      path === original.path && method === 'post' && fields['x-variant-of'] === original.name
    return { ...(offered.find(isTwin) ?? original), name: original.name }
  })
}

function unusedName(operationId: string, taken: ReadonlyMap<string, unknown>): string {
  const name = toolName(operationId)
  for (let count = 1; ; count++) {
    const suffix = count === 1 ? '' : `_${count}`
    const tried = name.slice(0, MAX_NAME - suffix.length) + suffix
    if (tried !== COLLECT && !taken.has(tried)) return tried
  }
}

/**
 * The tools with these names, or with these words before the first underscore, and those by which an agent chooses a
 * model and collects a result.
 */
export function selectedTools(operations: Operations, words: readonly string[]): Operations {
  const chosen = new Set([...words, MODELS, COLLECT])
  return new Map([...operations].filter(([name]) => wordsOf(name).some((word) => chosen.has(word))))
}

/** The first of these words that selects no tool, and the words that would; undefined where each selects one. */
export function unknownTool(operations: Operations, words: readonly string[]) {
  const known = new Set([...operations.keys()].flatMap(wordsOf))
  const word = words.find((each) => !known.has(each))
  return word === undefined ? undefined : { word, known: [...known] }
}

const wordsOf = (name: string) => [name, name.split('_', 1)[0] ?? name]

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
  readonly name: string
  readonly path: string
  readonly method: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly isPaid: boolean
}
type Resolve = (schema: unknown) => Readonly<Record<string, unknown>>

function operation({ name, path, method, fields, isPaid }: Described, resolve: Resolve): Operation {
  const { summary, description, requestBody } = fields
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
      name,
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
