import { useState } from 'preact/hooks'
import { usdc } from '../lib/x402.ts'
import { ReceiptView, ResultView } from '../play/result.tsx'
import type { Bought } from '../play/purchase.ts'
import type { SignedIn } from '../wallets/sign_in.ts'
import { collect } from './collect.ts'
import { csvOf, sumsBy, type WalletCall } from './history.ts'
import { Sums } from './sums.tsx'

type Showing = {
  readonly signedIn: SignedIn
  readonly calls: readonly WalletCall[]
  readonly hasMore: boolean
  readonly isBusy: boolean
  readonly onMore: () => void
  readonly onLeave: () => void
}

/** The calls of a wallet, what they came to, and the result that was collected last. */
export function History({ signedIn, calls, hasMore, isBusy, onMore, onLeave }: Showing) {
  const [step, setStep] = useState('')
  const [problem, setProblem] = useState<string>()
  const [open, setOpen] = useState<{ readonly call: WalletCall; readonly bought: Bought }>()
  const show = async (call: WalletCall) => {
    setProblem(undefined)
    setOpen(undefined)
    try {
      setOpen({ call, bought: await collect(call, signedIn, { step: setStep }) })
    } catch (error) {
      setProblem((error as Error).message)
    }
    setStep('')
  }
  return (
    <>
      <p>
        Signed in as <span class="mono">{signedIn.address}</span>{' '}
        <button type="button" class="chip" onClick={onLeave}>
          Use another wallet
        </button>
      </p>
      {calls.length === 0 && <p>This wallet has bought nothing here yet.</p>}
      <p role="status" class="soft">
        {step && `${step}…`}
      </p>
      {problem && <p role="alert">{problem}</p>}
      {open && (
        <section class="card" aria-labelledby="result">
          <h2 id="result">{open.call.model ?? open.call.endpoint}</h2>
          <ResultView result={open.bought.result} />
          <ReceiptView bought={open.bought} />
        </section>
      )}
      {calls.length > 0 && (
        <>
          <Calls calls={calls} isBusy={step !== ''} onShow={show} />
          <p class="row actions">
            {hasMore && (
              <button type="button" disabled={isBusy} onClick={onMore}>
                Older calls
              </button>
            )}
            <a
              class="button"
              href={`data:text/csv;charset=utf-8,${encodeURIComponent(csvOf(calls))}`}
              download="farebox.csv"
            >
              Export as CSV
            </a>
          </p>
          <Sums title="Spent by day" first="Day" sums={sumsBy(calls, 'day')} />
          <Sums title="Spent by model" first="Model" sums={sumsBy(calls, 'model')} />
        </>
      )}
    </>
  )
}

function stateOf({ status, payment_status: payment, paid }: WalletCall): string {
  if (status === 'failed') return 'failed, not charged'
  if (status !== 'completed') return 'being made'
  if (paid !== null) return 'paid'
  return payment === 'verified' || payment === 'refused' ? 'ready, not yet paid' : `payment ${payment}`
}

function Calls(props: { calls: readonly WalletCall[]; isBusy: boolean; onShow: (call: WalletCall) => void }) {
  return (
    <section aria-labelledby="calls">
      <h2 id="calls">Calls</h2>
      <div class="table">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">What</th>
              <th scope="col">State</th>
              <th scope="col">Paid</th>
              <th scope="col">
                <span class="visually-hidden">Result</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {props.calls.map((call) => (
              <tr key={call.id}>
                <td class="soft">{new Date(call.created_at).toLocaleString()}</td>
                <th scope="row">
                  {call.model ?? call.endpoint}
                  {call.transaction && (
                    <>
                      <br />
                      <span class="mono soft">{call.transaction}</span>
                    </>
                  )}
                </th>
                <td>{stateOf(call)}</td>
                <td>{call.paid === null ? '' : `${usdc(call.paid.replace('.', ''))} USDC`}</td>
                <td class="actions">
                  {call.poll_url !== null && (
                    <button
                      type="button"
                      class="chip"
                      disabled={props.isBusy}
                      aria-label={`${actionOf(call)} the result of ${call.model ?? call.endpoint}`}
                      onClick={() => props.onShow(call)}
                    >
                      {actionOf(call)}
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

/** Label of the button. It names the price before anything is paid. */
const actionOf = ({ paid, status, price }: WalletCall): string =>
  paid === null && status === 'completed' ? `Pay ${usdc(price.replace('.', ''))} USDC and show` : 'Show'
