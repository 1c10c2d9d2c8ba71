/**
 * A service made of an OpenAPI document of test/vectors: it judges every request by the document, and answers with its
 * examples.
 */
import { afterAll, beforeAll } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'

type Fields = Readonly<Record<string, any>>

/**
 * Started once for a test file; `url()` once its tests run. Without its credentials 401, without a path 404, else 422
 * with what is wrong.
 */
export function byOpenapi(document: string): { url(): string } {
  const api: Fields = JSON.parse(readFileSync(join(import.meta.dirname, '../../../vectors', document), 'utf8'))
  const ajv = new Ajv2020({ strict: false, coerceTypes: false, validateFormats: false })
  ajv.addSchema(api, 'api')
  const followed = (node: Fields = {}): Fields =>
    typeof node.$ref === 'string'
      ? followed(
          node.$ref
            .slice(2)
            .split('/')
            .reduce<any>((at, step) => at[step], api),
        )
      : node
  /** References within a part are those of the whole document. */
  const located = (part: unknown) => JSON.parse(JSON.stringify(part).replaceAll('"#/', '"api#/')) as object
  const errorsOf = (schema: unknown, value: unknown): readonly unknown[] => {
    const check = ajv.compile(located(schema))
    return check(value) ? [] : (check.errors ?? [])
  }
  const answer = (status: number, body: unknown) => Response.json(body, { status })

  async function answerTo(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url)
    for (const [path, operations] of Object.entries<Fields>(api.paths)) {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string)
      const found = new RegExp(`^${path.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '([^/]+)')}$`).exec(pathname)
      const operation = operations[request.method.toLowerCase()] as Fields | undefined
      if (!found || !operation) continue
      if (!isAllowed(operation, request)) return answer(401, { status: 401, detail: 'Invalid security scheme used' })
      const values = new Map(names.map((name, index) => [name, decodeURIComponent(found[index + 1] ?? '')]))
      const apiErrors = [
        ...parameterFaults(operations, operation, { values, request }),
        ...(await bodyFaults(operation, request)),
      ]
      if (apiErrors.length > 0)
        return answer(422, { status: 422, detail: 'Your request is not valid', validation: apiErrors })
      const [status, reply] = Object.entries<Fields>(operation.responses)[0] ?? ['500', {}]
      const { example, examples, schema } = followed(reply).content?.['application/json'] ?? {}
      const body = example ?? Object.values<Fields>(examples ?? {})[0]?.value
      const wrong = schema && body !== undefined ? errorsOf(schema, body) : []
      if (wrong.length > 0) return answer(500, { detail: 'the example is not what the document says', wrong })
      return body === undefined ? new Response(null, { status: Number(status) }) : answer(Number(status), body)
    }
    return answer(404, { status: 404, detail: `Route not resolved, no path matched: ${request.method} ${pathname}` })
  }

  function isAllowed(operation: Fields, request: Request): boolean {
    const wanted: readonly Fields[] = operation.security ?? api.security ?? []
    return (
      wanted.length === 0 ||
      wanted.some((each) =>
        Object.keys(each).every((name) => {
          const { type, scheme, in: where, name: header } = api.components.securitySchemes[name] as Fields
          if (type === 'apiKey' && where === 'header') return request.headers.has(header)
          return new RegExp(`^${scheme} .`, 'i').test(request.headers.get('authorization') ?? '')
        }),
      )
    )
  }

  function parameterFaults(
    operations: Fields,
    operation: Fields,
    at: { values: ReadonlyMap<string, string>; request: Request },
  ): readonly unknown[] {
    const parameters: readonly Fields[] = [...(operations.parameters ?? []), ...(operation.parameters ?? [])].map(
      followed,
    )
    return parameters.flatMap(({ name, in: where, required, schema }) => {
      const sources: Readonly<Record<string, string | null | undefined>> = {
        path: at.values.get(name),
        query: new URL(at.request.url).searchParams.get(name),
        header: at.request.headers.get(name),
      }
      const text = sources[where] ?? undefined
      if (text === undefined) return required ? [`${where}.${name} is missing`] : []
      const { type } = followed(schema)
      const isPlain =
        (type === 'boolean' && /^(true|false)$/.test(text)) || (/^(integer|number)$/.test(type) && /^-?\d/.test(text))
      return errorsOf(schema, isPlain ? JSON.parse(text) : text)
    })
  }

  async function bodyFaults({ requestBody }: Fields, request: Request): Promise<readonly unknown[]> {
    const wanted = requestBody && followed(requestBody)
    if (!wanted) return []
    const [type = ''] = (request.headers.get('content-type') ?? '').split(';')
    const media = wanted.content[type.trim()] as Fields | undefined
    if (!media) return [`a body of ${Object.keys(wanted.content).join(' or ')} is wanted, not ${type || 'none'}`]
    const text = await request.text()
    const form = type === 'application/x-www-form-urlencoded'
    return errorsOf(media.schema, form ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text))
  }

  let server: ReturnType<typeof Bun.serve> | undefined
  beforeAll(() => {
    server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answerTo })
  })
  afterAll(() => server?.stop(true))
  return { url: () => `http://127.0.0.1:${server?.port}` }
}
