import { useEffect, useState } from 'preact/hooks'
import { getJson, type Route } from '../lib/api.ts'
import type { Order } from './order.ts'

/** An example request, as indexers read it. */
type RouteInput = {
  readonly body?: Readonly<Record<string, unknown>>
  readonly queryParams?: Readonly<Record<string, unknown>>
  readonly pathParams?: Readonly<Record<string, unknown>>
}

type Asking = {
  readonly route: Route
  /** The path that was asked for; without it the example's. */
  readonly path: string | undefined
  readonly isBusy: boolean
  readonly onAsk: (order: Order) => void
}

/** Any route, by the example that it shows in its 402. */
export function RouteForm({ route, path: given, isBusy, onAsk }: Asking) {
  const [path, setPath] = useState(given ?? route.path)
  const [body, setBody] = useState('')
  const [problem, setProblem] = useState<string>()
  const method = route.methods.includes('GET') ? 'GET' : 'POST'
  useEffect(() => {
    void exampleFor(route).then((input) => {
      if (given === undefined) setPath(filledIn(route.path, input))
      setBody(input?.body && method === 'POST' ? JSON.stringify(input.body, null, 2) : '')
    })
  }, [route])
  const submit = (event: Event) => {
    event.preventDefault()
    const read = parsed(body)
    setProblem(read.problem)
    if (read.problem === undefined) onAsk({ title: route.summary, method, path, ...(read.body && { body: read.body }) })
  }
  return (
    <form onSubmit={submit}>
      <label class="field">
        <span>Path</span>
        <input class="mono" required value={path} onInput={(event) => setPath(event.currentTarget.value)} />
      </label>
      {method === 'POST' && (
        <label class="field">
          <span>Body, in JSON</span>
          <textarea
            class="mono"
            rows={8}
            value={body}
            aria-invalid={problem !== undefined}
            onInput={(event) => setBody(event.currentTarget.value)}
          />
        </label>
      )}
      {problem && <p role="alert">{problem}</p>}
      <button class="main-action" disabled={isBusy}>
        Get the price
      </button>
    </form>
  )
}

type Services = {
  readonly services: readonly {
    readonly name: string
    readonly extensions: { readonly bazaar?: { readonly info?: { readonly input?: RouteInput } } }
  }[]
}

/** The list of services for indexers has an example of each route. */
async function exampleFor({ name }: Route): Promise<RouteInput | undefined> {
  const { services } = await getJson<Services>('/.well-known/x402').catch(() => ({ services: [] }))
  return services.find((each) => each.name === name)?.extensions.bazaar?.info?.input
}

function filledIn(path: string, { pathParams = {}, queryParams = {} }: Partial<RouteInput> = {}): string {
  const filled = path.replace(/\{([^}.]+)(?:\.\.\.)?\}/g, (whole, name: string) => String(pathParams[name] ?? whole))
  const query = new URLSearchParams(
    Object.entries(queryParams).map(([name, value]) => [name, String(value)]),
  ).toString()
  return query === '' ? filled : `${filled}?${query}`
}

function parsed(text: string): { readonly body?: Record<string, unknown>; readonly problem?: string } {
  if (text.trim() === '') return {}
  try {
    return { body: JSON.parse(text) as Record<string, unknown> }
  } catch (error) {
    return { problem: `The body is no JSON: ${(error as Error).message}.` }
  }
}
