import { useState } from 'preact/hooks'
import type { Model } from '../lib/api.ts'
import { isFound, makersName } from '../lib/find.ts'
import { type Kind, KINDS, kindOf, rateOf, usd } from '../lib/prices.ts'

/** The fee of these models; margins by product change it. */
function feeText(models: readonly Model[]): string {
  const fees = models.map(({ pricing }) => pricing.transaction_fee).filter((fee) => typeof fee === 'number')
  if (fees.length === 0) return ''
  const [least, most] = [usd(Math.min(...fees)), usd(Math.max(...fees))]
  return `Each paid call adds a fee of ${least === most ? least : `${least} to ${most}, by product`}.`
}

type Order = 'price' | 'name'
type Choosing = {
  readonly models: readonly Model[]
  /** Only this kind is listed. */
  readonly kind: Kind | undefined
  readonly onKind: (kind: Kind | undefined) => void
  readonly chosen: Model | undefined
  readonly onChoose: (model: Model) => void
}

/** Number of models that are listed before a visitor asks for all. */
const FIRST = 20

/** Every model: searched by its names, filtered by kind, and the cheapest of each kind first. */
export function Models({ models, kind, onKind, chosen, onChoose }: Choosing) {
  const [search, setSearch] = useState('')
  const [order, setOrder] = useState<Order>('price')
  const [isWhole, setWhole] = useState(false)
  const kinds = KINDS.filter((each) => models.some((model) => kindOf(model) === each.kind))
  const found = models.filter((model) => isFound(model, search) && (kind === undefined || kindOf(model) === kind))
  const listed = found.toSorted((a, b) =>
    order === 'name'
      ? a.name.localeCompare(b.name)
      : rank(a) - rank(b) || rateOf(a).sortBy - rateOf(b).sortBy || a.name.localeCompare(b.name),
  )
  const shown = isWhole ? listed : listed.slice(0, FIRST)
  return (
    <section aria-labelledby="models">
      <h2 id="models">Models and prices</h2>
      <div class="filters">
        <label>
          <span class="visually-hidden">Search models</span>
          <input
            type="search"
            placeholder="Search models"
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
        </label>
        <div class="row" role="group" aria-label="Kind">
          <Chip text="All" isOn={kind === undefined} onClick={() => onKind(undefined)} />
          {kinds.map((each) => (
            <Chip text={each.title} isOn={kind === each.kind} onClick={() => onKind(each.kind)} />
          ))}
        </div>
        <label class="order">
          <span>Sort by </span>
          <select value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
            <option value="price">price</option>
            <option value="name">name</option>
          </select>
        </label>
      </div>
      <p class="soft small" role="status">
        {listed.length === 1 ? '1 model' : `${listed.length} models`}. Prices include the margin. {feeText(listed)}
      </p>
      {listed.length > 0 && <ModelTable models={shown} chosen={chosen} onChoose={onChoose} />}
      {shown.length < listed.length && (
        <p class="more">
          <button type="button" onClick={() => setWhole(true)}>
            Show all {listed.length} models
          </button>
        </p>
      )}
    </section>
  )
}

function ModelTable({ models, chosen, onChoose }: Pick<Choosing, 'models' | 'chosen' | 'onChoose'>) {
  return (
    <div class="table">
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col" class="wide">
              Kind
            </th>
            <th scope="col">Price</th>
            <th scope="col">
              <span class="visually-hidden">Playground and code</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {models.map((model) => (
            <tr key={model.id}>
              <th scope="row">
                {model.name}
                <br />
                <span class="mono soft">{model.id}</span>
                {makersName(model) !== undefined && (
                  <span class="small soft">
                    {' '}
                    or <span class="mono">{makersName(model)}</span>
                  </span>
                )}
              </th>
              <td class="wide">{KINDS.find((each) => each.kind === kindOf(model))?.title}</td>
              <td>{rateOf(model).text}</td>
              <td class="actions">
                <a
                  class="chip"
                  href={`/play?model=${encodeURIComponent(model.id)}`}
                  aria-label={`Try ${model.name} of ${model.owned_by}`}
                >
                  Try
                </a>
                <button
                  type="button"
                  class="chip"
                  aria-pressed={model.id === chosen?.id}
                  aria-label={`Code for ${model.name} of ${model.owned_by}`}
                  onClick={() => {
                    onChoose(model)
                    document.getElementById('buy')?.scrollIntoView({ block: 'start' })
                  }}
                >
                  Code
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const rank = (model: Model): number => KINDS.findIndex(({ kind }) => kind === kindOf(model))

const Chip = ({ text, isOn, onClick }: { text: string; isOn: boolean; onClick: () => void }) => (
  <button type="button" class="chip" aria-pressed={isOn} onClick={onClick}>
    {text}
  </button>
)
