/** The playground: choose something, see its exact price, pay for it, and watch it arrive. */
import { render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { getJson, type Model, type PriceList } from '../lib/api.ts'
import { CodeTabs } from '../lib/code_block.tsx'
import { Layout } from '../lib/layout.tsx'
import { buyerCommand } from '../lib/command.ts'
import { snippetsOf } from '../lib/snippets.ts'
import { type Demand, usdc } from '../lib/x402.ts'
import { devnet } from '../wallets/devnet.ts'
import { NotSigned } from '../wallets/wallet.ts'
import { Calls } from './calls.tsx'
import { storedCalls, type StoredCall } from './stored_calls.ts'
import { OrderForm } from './order_form.tsx'
import type { Order } from './order.ts'
import { PayPanel } from './pay_panel.tsx'
import { buy, type Bought, collect, type Payer, priceOf, type Result, resume, SignAgain } from './purchase.ts'
import { ReceiptView, ResultView } from './result.tsx'

/** Something to sign: a price, or a call whose first signature ran out. */
type Quoted = {
  readonly kind: 'quoted'
  readonly order: Order
  readonly demand: Demand
  readonly problem?: string
  readonly call?: StoredCall
}
type State =
  | { readonly kind: 'choosing' }
  | { readonly kind: 'busy'; readonly step: string; readonly result?: Result }
  | Quoted
  | { readonly kind: 'bought'; readonly bought: Bought }
  | { readonly kind: 'problem'; readonly words: string }

/** Text that screen readers announce. The page shows the price and the result in other places as well. */
function statusOf(state: State): string {
  if (state.kind === 'busy') return `${state.step}…`
  if (state.kind === 'bought') return 'The result is here.'
  const [offer] = state.kind === 'quoted' ? state.demand.accepts : []
  return offer ? `The price is ${usdc(offer.amount)} USDC.` : ''
}

function Playground() {
  const [shop, setShop] = useState<{ models: readonly Model[]; prices: PriceList }>()
  const [isTestMoney, setTestMoney] = useState(false)
  const [order, setOrder] = useState<Order>()
  const [state, setState] = useState<State>({ kind: 'choosing' })
  const [calls, setCalls] = useState(storedCalls())

  useEffect(() => {
    void devnet().then((info) => setTestMoney(info !== undefined))
    Promise.all([getJson<{ data: readonly Model[] }>('/api/v1/models'), getJson<PriceList>('/api/pricing')]).then(
      ([models, prices]) => setShop({ models: models.data, prices }),
      (error: Error) => setState({ kind: 'problem', words: `The models could not be read: ${error.message}` }),
    )
  }, [])

  const watching = {
    step: (step: string) => setState({ kind: 'busy', step }),
    partly: (result: Result) => setState({ kind: 'busy', step: 'Receiving', result }),
  }
  const run = async (working: () => Promise<Bought | undefined>, otherwise: (error: Error) => State) => {
    try {
      const bought = await working()
      if (bought) setState({ kind: 'bought', bought })
    } catch (error) {
      setState(otherwise(error as Error))
    } finally {
      setCalls(storedCalls())
    }
  }
  const asProblem = (error: Error): State =>
    error instanceof SignAgain
      ? { kind: 'quoted', order: error.call.order, demand: error.demand, call: error.call, problem: error.message }
      : { kind: 'problem', words: error.message }

  const ask = (asked: Order) => {
    setOrder(asked)
    setState({ kind: 'busy', step: 'Asking for the price' })
    return run(async () => {
      const priced = await priceOf(asked, watching)
      if (priced.kind === 'free') return priced
      setState({ kind: 'quoted', order: asked, demand: priced.demand })
      return undefined
    }, asProblem)
  }
  const pay = (quoted: Quoted, payer: Payer) =>
    run(
      () => (quoted.call ? collect(quoted.call, payer, watching) : buy(quoted.order, payer, watching)),
      (error) => (error instanceof NotSigned ? { ...quoted, problem: error.message } : asProblem(error)),
    )
  const goOn = (call: StoredCall) => {
    setOrder(call.order)
    return run(() => resume(call, watching), asProblem)
  }

  // On a phone the price is below the form.
  const outcome = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (state.kind !== 'choosing') outcome.current?.scrollIntoView({ block: 'nearest' })
  }, [state.kind])

  const isBusy = state.kind === 'busy'
  return (
    <Layout path="/play" isTestMoney={isTestMoney}>
      <h1>Playground</h1>
      <p class="lead">The exact price comes first. Nothing is signed or charged until you pay.</p>
      <div class="play">
        <div class="card">
          {shop ? (
            <OrderForm models={shop.models} prices={shop.prices} isBusy={isBusy} onAsk={ask} />
          ) : (
            <p class="soft">Reading what is sold here…</p>
          )}
        </div>
        <div class="card outcome" ref={outcome}>
          <h2>{state.kind === 'bought' ? 'Result' : 'Price and result'}</h2>
          <p role="status" class={isBusy ? 'soft' : 'visually-hidden'}>
            {statusOf(state)}
          </p>
          <OutcomeView state={state} onPay={pay} />
        </div>
      </div>
      {order && shop && (
        <section aria-labelledby="code">
          <h2 id="code">The same in code</h2>
          <CodeTabs
            tabs={snippetsOf(order, {
              origin: location.origin,
              network: shop.prices.network,
              command: buyerCommand(),
            })}
            label="Language"
          />
        </section>
      )}
      <Calls calls={calls} isBusy={isBusy} onContinue={goOn} />
    </Layout>
  )
}

/** The price to pay, the result as it arrives, or what went wrong. */
function OutcomeView({ state, onPay }: { state: State; onPay: (quoted: Quoted, payer: Payer) => Promise<void> }) {
  if (state.kind === 'choosing') return <p class="soft">Fill in the form and ask for its price.</p>
  if (state.kind === 'problem') return <p role="alert">{state.words}</p>
  if (state.kind === 'quoted')
    return <PayPanel demand={state.demand} problem={state.problem} onPay={(payer) => onPay(state, payer)} />
  if (state.kind === 'busy') return state.result ? <ResultView result={state.result} /> : null
  return (
    <>
      <ResultView result={state.bought.result} />
      <ReceiptView bought={state.bought} />
    </>
  )
}

render(<Playground />, document.body)
