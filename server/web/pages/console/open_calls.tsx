/** Unfinished work and payments in doubt, with what can be done. */
import { type OpenCall, readApi } from './api.ts'
import { StatusWord } from './calls.tsx'
import { duration, short } from './format.ts'
import { Problem, useRead } from './use_read.tsx'

export function OpenCalls() {
  const read = useRead('open', 5_000, () => readApi<{ calls: readonly OpenCall[] }>('open'))
  const calls = read.value?.calls ?? []
  const inDoubt = calls.filter(({ status }) => status === 'settling' || status === 'unresolved')
  return (
    <>
      <h1>Open work</h1>
      <Problem read={read} />
      {read.value && (
        <>
          <Listed title="Payments in doubt" none="No payment is in doubt." calls={inDoubt} />
          <Listed
            title="Unfinished work"
            none="No work is under way."
            calls={calls.filter((call) => !inDoubt.includes(call))}
          />
        </>
      )}
    </>
  )
}

function Listed({ title, none, calls }: { title: string; none: string; calls: readonly OpenCall[] }) {
  const id = title.replaceAll(' ', '-').toLowerCase()
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>
        {title} <span class="soft">({calls.length})</span>
      </h2>
      {calls.length === 0 && <p class="soft">{none}</p>}
      {calls.length > 0 && (
        <div class="table">
          <table class="stacked">
            <thead>
              <tr>
                <th scope="col">Call</th>
                <th scope="col">Status</th>
                <th scope="col">Age</th>
                <th scope="col">Product</th>
                <th scope="col">What to do</th>
              </tr>
            </thead>
            <tbody>
              {calls.map((call) => (
                <tr key={call.id}>
                  <th scope="row" class="mono">
                    <a href={`#/payment/${call.id}`}>{short(call.id)}</a>
                  </th>
                  <td data-label="Status">
                    <StatusWord status={call.status} />
                  </td>
                  <td class="nowrap" data-label="Age">
                    {duration(call.age_seconds * 1_000)}
                  </td>
                  <td data-label="Product">
                    <span>
                      {call.endpoint}
                      {call.model && <span class="soft small block">{call.model}</span>}
                    </span>
                  </td>
                  <td>{call.advice}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
