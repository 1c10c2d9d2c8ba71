/** Timeline of one payment, step by step. */
import { type Payment, readApi } from './api.ts'
import { StatusWord } from './calls.tsx'
import { time } from './format.ts'
import { Problem, useRead } from './use_read.tsx'

export function PaymentPage({ name }: { name: string }) {
  const read = useRead(name, 5_000, () =>
    readApi<{ payments: readonly Payment[] }>(`payments/${encodeURIComponent(name)}`),
  )
  return (
    <>
      <p>
        <a href="#/calls">All calls</a>
      </p>
      <h1>Payment</h1>
      <p class="mono soft">{name}</p>
      <Problem read={read} />
      {read.value?.payments.map((payment) => (
        <Timeline key={payment.id} payment={payment} />
      ))}
    </>
  )
}

function Timeline({ payment }: { payment: Payment }) {
  const facts: readonly (readonly [string, string | null])[] = [
    ['Call', payment.id],
    ['Product', [payment.endpoint, payment.model].filter(Boolean).join(', ')],
    ['Gateway', `${payment.gateway} (${payment.network})`],
    ['Wallet', payment.payer],
    ['Paid to', payment.pay_to],
    ['Quoted', `${payment.quoted_usdc} USDC`],
    ['Charged', payment.charged_usdc && `${payment.charged_usdc} USDC`],
    ['Transaction', payment.transaction],
    ['Block', payment.block === null ? null : String(payment.block)],
    ['Tokens', payment.tokens && `${payment.tokens.input} in, ${payment.tokens.output} out`],
    ['Work failed', payment.error],
    ['Vendor', payment.vendor_error],
    ['Not settled', payment.payment_error],
  ]
  return (
    <section class="card payment" aria-label={`Payment ${payment.id}`}>
      <p>
        <StatusWord status={payment.status} /> <strong>{payment.answer}</strong>
      </p>
      <ol class="timeline">
        {payment.timeline.map(({ at, event, text }) => (
          <li key={`${at} ${event}`}>
            <strong>{event.replaceAll('_', ' ')}</strong>{' '}
            <time class="soft small" dateTime={at} title={at}>
              {time(at)}
            </time>
            <span class="block">{text}</span>
          </li>
        ))}
      </ol>
      <dl class="pairs">
        {facts.map(([term, value]) =>
          value ? (
            <div key={term}>
              <dt>{term}</dt>
              <dd class="mono">{value}</dd>
            </div>
          ) : null,
        )}
      </dl>
      <details>
        <summary>Authorizations</summary>
        <ul>
          {payment.authorizations.map(({ key, status, expires_at: expiresAt }) => (
            <li key={key}>
              <span class="mono">{key}</span> {status}, expires {time(expiresAt)}
            </li>
          ))}
        </ul>
      </details>
    </section>
  )
}
