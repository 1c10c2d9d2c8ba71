import type { Route } from '../lib/api.ts'
import { priceText } from '../lib/prices.ts'

/** Routes without a model: data, search and services, by their group in the price list. */
const OF_MODELS = new Set(['chat', 'images', 'video', 'audio'])

export const servicesOf = (routes: readonly Route[]): readonly Route[] =>
  routes.filter(({ tag, price }) => price !== 'free' && !OF_MODELS.has(tag))

export function Services({ routes }: { routes: readonly Route[] }) {
  const sold = servicesOf(routes)
  if (sold.length === 0) return null
  return (
    <section aria-labelledby="services">
      <h2 id="services">Data and services</h2>
      <div class="table">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col">Endpoint</th>
              <th scope="col">Price per call</th>
              <th scope="col">
                <span class="visually-hidden">Playground</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {sold.map(({ name, methods, path, summary, price }) => (
              <tr key={name}>
                <th scope="row">{summary}</th>
                <td class="mono">
                  {methods[0]} {path}
                </td>
                <td>{priceText(price)}</td>
                <td class="actions">
                  <a class="chip" href={`/play?route=${encodeURIComponent(path)}`} aria-label={`Try: ${summary}`}>
                    Try
                  </a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
