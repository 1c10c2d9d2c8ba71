/** Calls as they come in, and one payment by any of its names. */
import { useState } from 'preact/hooks'
import { type PaymentRow, readApi } from './api.ts'
import { clockTime, short, time, usdc } from './format.ts'
import { Problem, useRead } from './use_read.tsx'

const STATUSES = ['working', 'failed', 'uncollected', 'free', 'settling', 'settled', 'refused', 'unresolved'] as const
const TAIL_MS = 2_000
/** With a filter, a page may have to pass over thousands of calls. */
const FILTERED_TAIL_MS = 10_000
const ROWS = 50

type Page = { readonly payments: readonly PaymentRow[]; readonly next: string | null }

export function Calls() {
  const [status, setStatus] = useState('')
  const [words, setWords] = useState<Readonly<Record<string, string>>>({})
  const [isPaused, setPaused] = useState(false)
  const [next, setNext] = useState<string>()
  const filters = {
    ...(status && { status }),
    ...Object.fromEntries(Object.entries(words).filter(([, value]) => value !== '')),
  }
  const query = new URLSearchParams({
    limit: String(ROWS),
    ...filters,
    ...(next && { next }),
  }).toString()
  const everyMs = Object.keys(filters).length > 0 ? FILTERED_TAIL_MS : TAIL_MS
  const isLive = !isPaused && next === undefined
  const read = useRead(query, isLive ? everyMs : 0, () => readApi<Page>(`payments?${query}`))
  const field = (name: string, text: string) => (
    <label>
      <span class="visually-hidden">{text}</span>
      <input
        placeholder={text}
        value={words[name] ?? ''}
        onChange={(event) => {
          setNext(undefined)
          setWords({ ...words, [name]: event.currentTarget.value.trim() })
        }}
      />
    </label>
  )
  return (
    <>
      <h1>Calls</h1>
      <Find />
      <div class="filters fields">
        <label>
          <span class="visually-hidden">Status</span>
          <select
            value={status}
            onChange={(event) => {
              setNext(undefined)
              setStatus(event.currentTarget.value)
            }}
          >
            <option value="">Every status</option>
            {STATUSES.map((each) => (
              <option value={each}>{each}</option>
            ))}
          </select>
        </label>
        {field('gateway', 'Gateway')}
        {field('endpoint', 'Product')}
        {field('model', 'Model')}
        {field('payer', 'Wallet')}
        {next === undefined && (
          <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
            {isPaused ? 'Go on' : 'Pause'}
          </button>
        )}
      </div>
      <p class="soft small">
        {isLive && <span class="live" aria-hidden="true" />}
        {isLive ? 'Live' : 'Not live'}
        {read.at !== undefined && `, read at ${clockTime(new Date(read.at).toISOString())}`}
      </p>
      <Problem read={read} />
      {read.value && <Rows payments={read.value.payments} />}
      <p class="row">
        {next !== undefined && (
          <button type="button" onClick={() => setNext(undefined)}>
            Newest
          </button>
        )}
        {read.value?.next && (
          <button type="button" onClick={() => setNext(read.value?.next ?? undefined)}>
            Older
          </button>
        )}
      </p>
    </>
  )
}

function Find() {
  const [name, setName] = useState('')
  return (
    <form
      class="find"
      role="search"
      onSubmit={(event) => {
        event.preventDefault()
        if (name.trim()) location.hash = `#/payment/${encodeURIComponent(name.trim())}`
      }}
    >
      <label>
        <span class="visually-hidden">Call id, transaction or nonce</span>
        <input
          type="search"
          placeholder="Call id, transaction or nonce"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <button>Find the payment</button>
    </form>
  )
}

function Rows({ payments }: { payments: readonly PaymentRow[] }) {
  if (payments.length === 0) return <p class="soft">No calls.</p>
  return (
    <div class="table">
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Call</th>
            <th scope="col">Status</th>
            <th scope="col">Product</th>
            <th scope="col">Gateway</th>
            <th scope="col">Wallet</th>
            <th scope="col" class="number">
              USDC
            </th>
          </tr>
        </thead>
        <tbody>
          {payments.map((payment) => (
            <tr key={payment.id}>
              <td class="soft nowrap" data-label="Time">
                <time dateTime={payment.created_at} title={payment.created_at}>
                  {time(payment.created_at)}
                </time>
              </td>
              <th scope="row" class="mono">
                <a href={`#/payment/${payment.id}`} title={payment.id}>
                  {short(payment.id)}
                </a>
              </th>
              <td data-label="Status">
                <StatusWord status={payment.status} />
              </td>
              <td data-label="Product">
                <span>
                  {payment.endpoint}
                  {payment.model && <span class="soft small block">{payment.model}</span>}
                </span>
              </td>
              <td data-label="Gateway">{payment.gateway}</td>
              <td class="mono" data-label="Wallet" title={payment.payer}>
                {short(payment.payer)}
              </td>
              <td class="number" data-label="USDC">
                {payment.charged_usdc === null ? (
                  <span class="soft">({usdc(payment.quoted_usdc)})</span>
                ) : (
                  usdc(payment.charged_usdc)
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const TONES: Readonly<Record<string, string>> = {
  settled: 'good',
  ok: 'good',
  available: 'good',
  free: 'good',
  failed: 'bad',
  refused: 'bad',
  unresolved: 'bad',
  degraded: 'bad',
  settling: 'warn',
  uncollected: 'warn',
  starting: 'warn',
}

/** Never by colour alone. */
export const StatusWord = ({ status }: { status: string }) => (
  <span class={`badge status-${TONES[status] ?? 'none'}`}>{status}</span>
)
