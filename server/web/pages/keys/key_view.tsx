import { useState } from 'preact/hooks'
import { CodeBlock } from '../lib/code_block.tsx'
import { usd } from '../lib/prices.ts'
import type { DepositState } from './page_state.ts'
import type { Balance } from './requests.ts'
import type { Key } from './signing.ts'

type Shown = {
  readonly keyShown: Key
  readonly deposit: DepositState
  readonly onStored: () => void
}

/** The text of a new key, until somebody says that it is stored. */
export function NewKey({ keyShown: { text, address }, deposit, onStored }: Shown) {
  return (
    <section class="card new-key" aria-labelledby="key">
      <h2 id="key">Your key</h2>
      <p>
        It is shown once and kept nowhere. Who has it can spend the deposit here, or send it back to your wallet, and
        nothing else.
      </p>
      <CodeBlock code={text} label="The key" />
      <p class="soft small key-note">
        Its address, with which your wallet can end it if you lose it: <span class="mono">{address}</span>
      </p>
      {deposit === 'sending' && <p class="status-warn">It can pay as soon as the deposit is on chain.</p>}
      {deposit === 'done' && <p class="status-good">The deposit is on chain. The key pays from now on.</p>}
      <p class="row tight">
        <button type="button" onClick={() => save(text, address)}>
          Save as a file
        </button>
        <button type="button" onClick={onStored}>
          I have stored it: hide it
        </button>
      </p>
    </section>
  )
}

/** A deposit whose outcome the gateway has not said. */
export const InDoubt = ({ isBusy, onAgain }: { isBusy: boolean; onAgain: () => void }) => (
  <section class="card" aria-label="The deposit">
    <p role="alert">
      The deposit may be under way: the gateway has not said how it ended. Store the key first. Asking again sends the
      same signed deposit, which is made once.
    </p>
    <p class="tight">
      <button type="button" class="main-action" disabled={isBusy} onClick={onAgain}>
        Ask again
      </button>
    </p>
  </section>
)

/** The name of the gateway is in the name of the file: a key must not be sent to another one. */
function save(text: string, address: string): void {
  const url = URL.createObjectURL(new Blob([`FAREBOX_KEY=${text}\n# at ${location.origin}, address ${address}\n`]))
  const link = document.createElement('a')
  link.href = url
  link.download = `farebox-key-${location.hostname}.txt`
  link.click()
  URL.revokeObjectURL(url)
}

type Having = {
  readonly address: string
  readonly balance: Balance
  readonly isBusy: boolean
  readonly onRefresh: () => void
}

export function BalanceView({ address, balance, isBusy, onRefresh }: Having) {
  const { deposited, charged, left, payer } = balance
  // Quotes of calls that are open, and what is lent to child keys or being withdrawn.
  const unavailable = deposited - charged - left
  const amounts = [
    ['Left', left],
    ['Charged', charged],
    ...(unavailable > 0.0000005 ? [['Reserved', unavailable] as const] : []),
    ['Deposited', deposited],
  ] as const
  return (
    <section aria-labelledby="balance">
      <h2 id="balance">Balance</h2>
      <dl class="figures">
        {amounts.map(([name, amount]) => (
          <div class="card" key={name}>
            <dt class="soft">{name}</dt>
            <dd>{usd(amount)}</dd>
          </div>
        ))}
      </dl>
      <p class="soft small key-note">
        Key <span class="mono">{address}</span>, paid by the wallet <span class="mono">{payer}</span>{' '}
        <button type="button" class="chip" disabled={isBusy} onClick={onRefresh}>
          Refresh
        </button>
      </p>
    </section>
  )
}

type Ending = {
  readonly left: number
  readonly isBusy: boolean
  readonly onClose: (isReplaced: boolean) => void
}

/** Two buttons that end the key, and the question before. */
export function EndKey({ left, isBusy, onClose }: Ending) {
  const [asked, setAsked] = useState<'close' | 'replace'>()
  return (
    <div class="card">
      <h3>End or replace</h3>
      <p>
        The rest goes back to the wallet in one transaction, for which the gateway pays. The key pays nothing after it.
      </p>
      {asked === undefined ? (
        <p class="row tight">
          <button type="button" disabled={isBusy || left <= 0} onClick={() => setAsked('close')}>
            Send the rest back
          </button>
          <button type="button" disabled={isBusy || left <= 0} onClick={() => setAsked('replace')}>
            Replace the key
          </button>
        </p>
      ) : (
        <>
          <p>
            {asked === 'replace'
              ? `Programs with this key stop. ${usd(left)} goes back, and you deposit for a new key.`
              : `Programs with this key stop. ${usd(left)} goes back.`}
          </p>
          <p class="row tight">
            <button type="button" class="main-action" disabled={isBusy} onClick={() => onClose(asked === 'replace')}>
              {asked === 'replace' ? 'Replace it' : 'End it'}
            </button>
            <button type="button" disabled={isBusy} onClick={() => setAsked(undefined)}>
              Keep it
            </button>
          </p>
        </>
      )}
    </div>
  )
}
