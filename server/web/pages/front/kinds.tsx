import type { Model, Route } from '../lib/api.ts'
import { cheapest, type Kind, KINDS, kindOf, rateOf, usd } from '../lib/prices.ts'
import { servicesOf } from './services.tsx'

type Choosing = {
  readonly models: readonly Model[]
  readonly routes: readonly Route[]
  readonly onChoose: (kind: Kind) => void
}

/** Overview of what is sold: each kind of model, how many there are, and the lowest price. */
export function Kinds({ models, routes, onChoose }: Choosing) {
  const services = servicesOf(routes)
  const [lowest] = services.toSorted((a, b) => lowestPrice(a) - lowestPrice(b))
  return (
    <section aria-labelledby="sold" class="sold">
      <h2 id="sold">What is sold here</h2>
      <ul class="cards kinds">
        {KINDS.map(({ kind, title }) => {
          const some = models.filter((model) => kindOf(model) === kind)
          const first = cheapest(some)
          if (!first) return null
          return (
            <li key={kind}>
              <a
                class="card"
                href="#models"
                onClick={() => {
                  onChoose(kind)
                }}
              >
                <strong>{title}</strong>
                <span>from {rateOf(first).text}</span>
                <span class="soft">{some.length === 1 ? '1 model' : `${some.length} models`}</span>
              </a>
            </li>
          )
        })}
        {lowest && (
          <li>
            <a class="card" href="#services">
              <strong>Data and services</strong>
              <span>from {usd(lowestPrice(lowest))} per call</span>
              <span class="soft">{services.length === 1 ? '1 endpoint' : `${services.length} endpoints`}</span>
            </a>
          </li>
        )}
      </ul>
    </section>
  )
}

const lowestPrice = ({ price }: Route): number => (price === 'free' ? 0 : Number(price.amount ?? price.min ?? 0))
