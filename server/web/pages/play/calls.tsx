import { usdc } from '../lib/x402.ts'
import type { StoredCall } from './stored_calls.ts'

const WORDS = {
  signed: 'no answer yet',
  waiting: 'being made',
  done: 'received',
  failed: 'failed, not charged',
  spent: 'the payment was used before',
} as const

/** The calls of this browser. One whose answer is not known can be continued: the same payment is sent again. */
export function Calls(props: {
  calls: readonly StoredCall[]
  isBusy: boolean
  onContinue: (call: StoredCall) => void
}) {
  if (props.calls.length === 0) return null
  return (
    <section aria-labelledby="calls">
      <h2 id="calls">Your calls</h2>
      <p class="soft">Kept by this browser only.</p>
      <div class="table">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">What</th>
              <th scope="col">Price</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {props.calls.map((call) => (
              <tr key={call.id}>
                <td class="soft">{new Date(call.at).toLocaleString()}</td>
                <th scope="row">{call.order.title}</th>
                <td>{usdc(call.amount)} USDC</td>
                <td>
                  {WORDS[call.status]}
                  {call.problem && <span class="soft small"> ({call.problem})</span>}{' '}
                  {(call.status === 'signed' || call.status === 'waiting') && (
                    <button type="button" class="chip" disabled={props.isBusy} onClick={() => props.onContinue(call)}>
                      Continue
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
