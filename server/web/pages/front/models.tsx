import { useState } from 'preact/hooks'
import type { Model } from '../lib/api.ts'
import { type Kind, KINDS, kindOf, rateOf } from '../lib/prices.ts'

type Order = 'price' | 'name'
type Choosing = { models: readonly Model[]; chosen: Model | undefined; onChoose: (model: Model) => void }

/** Every model: searched by its name or id, filtered by kind, and the cheapest of each kind first. */
export function Models({ models, chosen, onChoose }: Choosing) {
  const [search, setSearch] = useState('')
  const [kind, setKind] = useState<Kind>()
  const [order, setOrder] = useState<Order>('price')
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const isFound = ({ id, name, description = '' }: Model) => {
    const text = `${id} ${name} ${description}`.toLowerCase()
    return words.every((word) => text.includes(word))
  }
  const kinds = KINDS.filter((each) => models.some((model) => kindOf(model) === each.kind))
  const found = models.filter((model) => isFound(model) && (kind === undefined || kindOf(model) === kind))
  const listed = found.toSorted((a, b) =>
    order === 'name'
      ? a.name.localeCompare(b.name)
      : rank(a) - rank(b) || rateOf(a).sortBy - rateOf(b).sortBy || a.name.localeCompare(b.name),
  )
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
          <Chip text="All" isOn={kind === undefined} onClick={() => setKind(undefined)} />
          {kinds.map((each) => (
            <Chip text={each.title} isOn={kind === each.kind} onClick={() => setKind(each.kind)} />
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
        {listed.length === 1 ? '1 model' : `${listed.length} models`}. Prices include the margin; each paid call adds a
        fee of $0.001.
      </p>
      {listed.length > 0 && (
        <div class="table">
          <table class="stacked">
            <thead>
              <tr>
                <th scope="col">Model</th>
                <th scope="col">Kind</th>
                <th scope="col">Price</th>
                <th scope="col">
                  <span class="visually-hidden">Code</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {listed.map((model) => (
                <tr key={model.id}>
                  <th scope="row">
                    {model.name}
                    <br />
                    <span class="mono soft">{model.id}</span>
                  </th>
                  <td>{KINDS.find((each) => each.kind === kindOf(model))?.title}</td>
                  <td>{rateOf(model).text}</td>
                  <td>
                    <button
                      type="button"
                      class="chip"
                      aria-pressed={model.id === chosen?.id}
                      aria-label={`Code for ${model.name}`}
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
      )}
    </section>
  )
}

const rank = (model: Model): number => KINDS.findIndex(({ kind }) => kind === kindOf(model))

const Chip = ({ text, isOn, onClick }: { text: string; isOn: boolean; onClick: () => void }) => (
  <button type="button" class="chip" aria-pressed={isOn} onClick={onClick}>
    {text}
  </button>
)
