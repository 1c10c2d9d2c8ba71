/** API keys: a wallet deposits, the page makes the key, and shows what it has left until that goes back. */
import { render } from 'preact'
import { Layout } from '../lib/layout.tsx'
import { change, close, make, open, refresh, run, send, topUp } from './actions.ts'
import { DepositForm } from './deposit_form.tsx'
import { KeyPanel } from './key_panel.tsx'
import type { Keys, OpenedKey } from './page_state.ts'
import { refundText } from './requests.ts'
import { LostKey, Trust, UseKey } from './start.tsx'
import type { Terms } from './terms.ts'
import { useKeys } from './use_keys.tsx'

function KeysPage() {
  const page = useKeys()
  const { terms, opened, step, news, problem } = page
  return (
    <Layout path="/keys" isTestMoney={page.isTestMoney}>
      <h1>API keys</h1>
      <p class="lead">
        Deposit once, and paste the key into any tool that has a field for one. Each call is charged what it used, and
        the rest goes back to your wallet whenever you ask.
      </p>
      <div ref={page.top} class="outcome">
        {problem && <p role="alert">{problem}</p>}
        <p role="status" class={news && !step ? 'status-good' : 'soft'}>
          {step ? `${step}…` : news}
        </p>
      </div>
      {terms === 'off' && <Off />}
      {typeof terms === 'object' && !opened && <Start page={page} terms={terms} />}
      {typeof terms === 'object' && opened && <Manage page={page} terms={terms} opened={opened} />}
    </Layout>
  )
}

/** Before there is a key in the page. */
function Start({ page, terms }: { readonly page: Keys; readonly terms: Terms }) {
  const { suggested, step, setNews } = page
  const isBusy = step !== ''
  return (
    <div class="play">
      <div class="card">
        <h2>Make a key</h2>
        <DepositForm
          key={String(suggested)}
          terms={terms}
          isBusy={isBusy}
          onDeposit={(wallet, amount) => make(page, terms, { wallet, amount })}
          {...(suggested !== undefined && { suggested })}
        />
      </div>
      <div class="stack">
        <Trust terms={terms} />
        <UseKey isBusy={isBusy} onOpen={(pasted) => open(page, pasted)} />
        <LostKey
          terms={terms}
          isBusy={isBusy}
          onRun={(doing, working) => run(page, doing, working)}
          onRefunded={(refund) => setNews(refundText(refund))}
        />
      </div>
    </div>
  )
}

function Manage({ page, terms, opened }: { readonly page: Keys; readonly terms: Terms; readonly opened: OpenedKey }) {
  return (
    <KeyPanel
      opened={opened}
      terms={terms}
      isBusy={page.step !== ''}
      onRun={(doing, working) => run(page, doing, working)}
      onAgain={() => run(page, 'Asking again', () => send(page, opened.key, opened.payment ?? ''))}
      onRefresh={() => refresh(page, opened.key)}
      onStored={() => change(page, { isVisible: false })}
      onTopUp={(wallet, amount) => topUp(page, { opened, terms }, { wallet, amount })}
      onClose={(isReplaced) => close(page, opened, isReplaced)}
      onForget={() => page.setOpened(undefined)}
    />
  )
}

const Off = () => (
  <p>
    This gateway takes no API keys. Pay each call with a wallet in the <a href="/play">playground</a>, from{' '}
    <a href="/">code</a>, or from tools that have no wallet by <a href="/docs/guide/proxy">farebox proxy</a>.
  </p>
)

render(<KeysPage />, document.body)
