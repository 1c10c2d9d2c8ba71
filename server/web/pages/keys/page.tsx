/** API keys: a wallet deposits, the page makes the key, and shows what it has left until that goes back. */
import { render } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { Layout } from '../lib/layout.tsx'
import { atomic } from '../lib/x402.ts'
import { devnet } from '../wallets/devnet.ts'
import { NotSigned, type Wallet } from '../wallets/wallet.ts'
import { DepositForm } from './deposit_form.tsx'
import { type Held, HeldKey } from './held_key.tsx'
import { closeKey, readBalance, sendDeposit } from './requests.ts'
import type { Key } from './signing.ts'
import { LostKey, refundText, Trust, UseKey } from './start.tsx'
import { readTerms, type Terms } from './terms.ts'

const signing = () => import('./signing.ts')

function KeysPage() {
  const [isTestMoney, setTestMoney] = useState(false)
  const [terms, setTerms] = useState<Terms | 'reading' | 'off'>('reading')
  const [held, setHeld] = useState<Held>()
  const [suggested, setSuggested] = useState<bigint>()
  const [step, setStep] = useState('')
  const [news, setNews] = useState('')
  const [problem, setProblem] = useState<string>()
  const top = useRef<HTMLDivElement>(null)

  useEffect(() => {
    void devnet().then((info) => setTestMoney(info !== undefined))
    readTerms().then(
      (read) => setTerms(read ?? 'off'),
      (error: Error) => setProblem(error.message),
    )
    // A page that the browser keeps for its back button must not keep the key.
    const forget = () => setHeld(undefined)
    addEventListener('pagehide', forget)
    return () => removeEventListener('pagehide', forget)
  }, [])

  const isShown = held?.isShown ?? false
  useEffect(() => {
    if (!isShown) return
    top.current?.scrollIntoView({ block: 'start' })
    const warn = (event: Event) => event.preventDefault()
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [isShown])

  const run = useCallback(async (doing: string, working: () => Promise<void>) => {
    setProblem(undefined)
    setNews('')
    setStep(doing)
    try {
      await working()
    } catch (error) {
      setProblem((error as Error).message)
    }
    setStep('')
  }, [])
  const change = (changed: Partial<Held>) => setHeld((before) => before && { ...before, ...changed })
  const refresh = async (key: Key) => change({ balance: await readBalance(key.text) })

  /** Sends a signed deposit. The key stays in view unless it is certain that nothing moved. */
  const send = async (key: Key, payment: string) => {
    setStep('The gateway brings the deposit on chain')
    const outcome = await sendDeposit(payment)
    if (outcome.kind === 'unknown') {
      change({ deposit: 'unknown' })
      throw new Error(outcome.reason)
    }
    change({ deposit: 'done' })
    await refresh(key)
  }
  const make = (open: Terms) => (wallet: Wallet, amount: bigint) =>
    run('Waiting for the wallet', async () => {
      const { makeKey, signDeposit } = await signing()
      const key = makeKey(open.offer.network)
      const address = await wallet.connect()
      const payment = await signDeposit(open.offer, { key, wallet, address, amount })
      setHeld({ key, payment, isShown: true, deposit: 'sending' })
      try {
        await send(key, payment)
      } catch (error) {
        setHeld((before) => (before?.deposit === 'sending' ? undefined : before))
        throw error
      }
    })
  const topUp =
    (open: Terms, { key, balance }: Held) =>
    (wallet: Wallet, amount: bigint) =>
      run('Waiting for the wallet', async () => {
        const address = await wallet.connect()
        // Another wallet would open a second channel, and what is left would go to two wallets.
        if (balance && address.toLowerCase() !== balance.payer.toLowerCase())
          throw new NotSigned(`This key is paid by ${balance.payer}, and the wallet is ${address}. Switch the account.`)
        const payment = await (await signing()).signDeposit(open.offer, { key, wallet, address, amount })
        change({ payment })
        await send(key, payment)
        setNews('The deposit is on chain.')
      })
  const open = (pasted: string) =>
    run('Reading the balance', async () => {
      const key = (await signing()).openKey(pasted)
      setHeld({ key, isShown: false, deposit: 'done', balance: await readBalance(key.text) })
    })
  const close = ({ key }: Held, isReplaced: boolean) =>
    run('The gateway sends the rest back', async () => {
      const refund = await closeKey(key.text)
      setHeld(undefined)
      setSuggested(isReplaced ? atomic(refund.amount) : undefined)
      setNews(`${refundText(refund)}${isReplaced ? ' Make the new key below.' : ''}`)
      top.current?.scrollIntoView({ block: 'start' })
    })

  const isBusy = step !== ''
  return (
    <Layout path="/keys" isTestMoney={isTestMoney}>
      <h1>API keys</h1>
      <p class="lead">
        Deposit once, and paste the key into any tool that has a field for one. Each call is charged what it used, and
        the rest goes back to your wallet whenever you ask.
      </p>
      <div ref={top} class="outcome">
        {problem && <p role="alert">{problem}</p>}
        <p role="status" class={news && !step ? 'status-good' : 'soft'}>
          {step ? `${step}…` : news}
        </p>
      </div>
      {terms === 'off' && <Off />}
      {typeof terms === 'object' && !held && (
        <div class="play">
          <div class="card">
            <h2>Make a key</h2>
            <DepositForm
              key={String(suggested)}
              terms={terms}
              isBusy={isBusy}
              onDeposit={make(terms)}
              {...(suggested !== undefined && { suggested })}
            />
          </div>
          <div class="stack">
            <Trust terms={terms} />
            <UseKey isBusy={isBusy} onOpen={open} />
            <LostKey terms={terms} isBusy={isBusy} onRun={run} onRefunded={(refund) => setNews(refundText(refund))} />
          </div>
        </div>
      )}
      {typeof terms === 'object' && held && (
        <HeldKey
          held={held}
          terms={terms}
          isBusy={isBusy}
          onRun={run}
          onAgain={() => run('Asking again', () => send(held.key, held.payment ?? ''))}
          onRefresh={() => refresh(held.key)}
          onStored={() => change({ isShown: false })}
          onTopUp={topUp(terms, held)}
          onClose={(isReplaced) => close(held, isReplaced)}
          onForget={() => setHeld(undefined)}
        />
      )}
    </Layout>
  )
}

const Off = () => (
  <p>
    This gateway takes no API keys. Pay each call with a wallet in the <a href="/play">playground</a>, from{' '}
    <a href="/">code</a>, or from tools that have no wallet by <a href="/docs/guide/proxy">farebox proxy</a>.
  </p>
)

render(<KeysPage />, document.body)
