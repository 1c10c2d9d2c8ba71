import { usdc } from '../lib/x402.ts'
import type { Sum } from './history.ts'

/** A table of sums; nothing without a payment. */
export function Sums({ title, first, sums }: { title: string; first: string; sums: readonly Sum[] }) {
  if (sums.length === 0) return null
  return (
    <section>
      <h2>{title}</h2>
      <div class="table">
        <table>
          <thead>
            <tr>
              <th scope="col">{first}</th>
              <th scope="col" class="number">
                Calls
              </th>
              <th scope="col" class="number">
                USDC
              </th>
            </tr>
          </thead>
          <tbody>
            {sums.map(({ name, calls, total }) => (
              <tr>
                <th scope="row">{name}</th>
                <td class="number">{calls}</td>
                <td class="number">{usdc(total.toString())}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
