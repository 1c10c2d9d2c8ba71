import { useEffect, useState } from 'preact/hooks'
import type { Model, PriceList, Route } from '../lib/api.ts'
import { isFound, makersName } from '../lib/find.ts'
import { KINDS, kindOf, priceText, rateOf } from '../lib/prices.ts'
import { FORMS, type Order, orderOf } from './order.ts'
import { RouteForm } from './route_form.tsx'

type Asking = {
  readonly models: readonly Model[]
  readonly prices: PriceList
  readonly isBusy: boolean
  readonly onAsk: (order: Order) => void
}

/**
 * `?model=` and `?route=` choose what a link leads to. The playground is also the page that a browser gets for a route
 * that costs money, at the address of that route.
 */
const asked =
  location.pathname === '/play'
    ? new URLSearchParams(location.search)
    : new URLSearchParams({ route: location.pathname + location.search })

/** Routes that the forms of models already cover. */
const COVERED: ReadonlySet<string> = new Set(Object.values(FORMS).map(({ path }) => path))

/** Chooses a model or another route, and writes the order. */
export function OrderForm({ models, prices, isBusy, onAsk }: Asking) {
  const routes = prices.endpoints.filter(({ price, path }) => price !== 'free' && !COVERED.has(path))
  const known = models.filter((model) => kindOf(model) !== undefined)
  const [chosenFirst] = useState(() => firstChoice(known, routes))
  const [choice, setChoice] = useState(chosenFirst)
  const [search, setSearch] = useState('')
  const model = known.find(({ id }) => id === choice)
  const route = routes.find(({ name }) => name === choice)
  const found = (each: Model) => each.id === choice || isFound(each, search)
  const written = search.toLowerCase()
  const foundRoutes = routes.filter(({ name, summary }) => name === choice || summary.toLowerCase().includes(written))
  function find(text: string) {
    setSearch(text)
    const first = text.trim() === '' ? undefined : known.find((each) => isFound(each, text))
    if (first && !(model && isFound(model, text))) setChoice(first.id)
  }
  return (
    <>
      <label class="field">
        <span>Search</span>
        <input
          type="search"
          placeholder="a name of ours or of its maker"
          value={search}
          onInput={(event) => find(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>Model or service</span>
        <select value={choice} onChange={(event) => setChoice(event.currentTarget.value)}>
          {KINDS.map(({ kind, title }) => {
            const some = known.filter((each) => kindOf(each) === kind && found(each))
            if (some.length === 0) return null
            return (
              <optgroup label={title}>
                {some
                  .toSorted((a, b) => rateOf(a).sortBy - rateOf(b).sortBy)
                  .map((each) => (
                    <option value={each.id}>
                      {titleOf(each)}, {rateOf(each).text}
                    </option>
                  ))}
              </optgroup>
            )
          })}
          {foundRoutes.length > 0 && (
            <optgroup label="Other routes">
              {foundRoutes.map(({ name, summary, price }) => (
                <option value={name}>
                  {summary}, {priceText(price)}
                </option>
              ))}
            </optgroup>
          )}
        </select>
      </label>
      {model && <ModelForm key={kindOf(model)} model={model} isBusy={isBusy} onAsk={onAsk} />}
      {route && (
        <RouteForm
          key={route.name}
          route={route}
          path={choice === chosenFirst ? (asked.get('route') ?? undefined) : undefined}
          isBusy={isBusy}
          onAsk={onAsk}
        />
      )}
    </>
  )
}

/** With the name that its maker gives it, which people look for. */
function titleOf(model: Model): string {
  const name = makersName(model)
  return name === undefined ? model.name : `${model.name} (${name})`
}

/** The model or route that the link names, otherwise the cheapest model that is not free. */
function firstChoice(models: readonly Model[], routes: readonly Route[]): string {
  const wanted = asked.get('model') ?? ''
  const named = models.find(({ id, aliases = [] }) => [id, ...aliases].includes(wanted))
  const path = asked.get('route')?.split('?', 1)[0]
  const kind = KINDS.find((each) => FORMS[each.kind].path === path)?.kind
  const route = routes.find((each) => isMadeFrom(path, each.path))
  const [first] = models
    .filter((model) => kindOf(model) === (kind ?? 'chat') && model.billing_mode !== 'free')
    .toSorted((a, b) => rateOf(a).sortBy - rateOf(b).sortBy)
  return (named?.id ?? route?.name ?? first?.id ?? models[0]?.id ?? routes[0]?.name) || ''
}

/** Whether `/api/v1/stocks/us/price/AAPL` is made from `/api/v1/stocks/{market}/price/{symbol}`. */
function isMadeFrom(path: string | undefined, template: string): boolean {
  if (path === undefined) return false
  const parts = template.split('/')
  const given = path.split('/')
  return parts.length === given.length && parts.every((part, index) => part.startsWith('{') || part === given[index])
}

function ModelForm({ model, isBusy, onAsk }: { model: Model; isBusy: boolean; onAsk: (order: Order) => void }) {
  const { text, fields } = FORMS[kindOf(model) ?? 'chat']
  const [written, setWritten] = useState(text.value)
  const [numbers, setNumbers] = useState<Record<string, string>>({})
  useEffect(() => setNumbers(Object.fromEntries(fields.map(({ name, value }) => [name, value]))), [fields])
  const submit = (event: Event) => {
    event.preventDefault()
    onAsk(orderOf(model, { text: written, fields: numbers }))
  }
  return (
    <form onSubmit={submit}>
      <label class="field">
        <span>{text.label}</span>
        <textarea required value={written} onInput={(event) => setWritten(event.currentTarget.value)} />
      </label>
      {fields.map(({ name, label, min, max }) => (
        <label class="field">
          <span>{label}</span>
          <input
            type="number"
            min={min}
            max={max}
            value={numbers[name] ?? ''}
            onInput={(event) => setNumbers({ ...numbers, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      <button class="main-action" disabled={isBusy}>
        Get the price
      </button>
    </form>
  )
}
