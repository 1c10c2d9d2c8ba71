/** The front page: what is sold here, how paying works, code that buys it, and every model with its price. */
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { getJson, type Model, type PriceList } from '../lib/api.ts'
import { CodeTabs } from '../lib/code_block.tsx'
import { Layout } from '../lib/layout.tsx'
import { KINDS, kindOf, rateOf } from '../lib/prices.ts'
import { snippetsOf } from '../lib/snippets.ts'
import { exampleOf } from './examples.ts'
import { Models } from './models.tsx'
import { Services } from './services.tsx'

type Shop = { readonly models: readonly Model[]; readonly prices: PriceList; readonly isDevnet: boolean }

/** Models come from `/api/v1/models`, the rest from the price list; only a devnet has `/devnet`. */
async function readShop(): Promise<Shop> {
  const [models, prices, isDevnet] = await Promise.all([
    getJson<{ data: readonly Model[] }>('/api/v1/models'),
    getJson<PriceList>('/api/pricing'),
    fetch('/devnet', { method: 'HEAD' }).then(
      ({ ok }) => ok,
      () => false,
    ),
  ])
  return { models: models.data, prices, isDevnet }
}

function Front() {
  const [shop, setShop] = useState<Shop>()
  const [problem, setProblem] = useState<string>()
  const [chosen, setChosen] = useState<Model>()
  useEffect(() => {
    readShop().then(
      (read) => {
        setShop(read)
        setChosen(firstChoice(read.models))
      },
      (error: Error) => setProblem(error.message),
    )
  }, [])
  return (
    <Layout path="/" isTestMoney={shop?.isDevnet ?? false}>
      <h1>AI by the call, paid in USDC</h1>
      <p class="lead">
        No account and no API key. Ask for what you want, get the exact price, sign it with your wallet, and pay only
        when there is a result.
      </p>
      <p class="row">
        <a class="button main-action" href="/play">
          Try it
        </a>
        <a class="button" href="/docs">
          Read the reference
        </a>
        <a class="button" href="/docs/guide/quickstart">
          Quickstart
        </a>
      </p>
      {problem && <p role="alert">The prices could not be read: {problem} Reload the page to try again.</p>}
      {shop && <Facts shop={shop} />}
      <Steps />
      {chosen && shop && <Buy model={chosen} network={shop.prices.network} />}
      {shop && <Models models={shop.models} chosen={chosen} onChoose={setChosen} />}
      {shop && <Services routes={shop.prices.endpoints} />}
    </Layout>
  )
}

/** The cheapest paid chat model, or else the first one that costs something. */
function firstChoice(models: readonly Model[]): Model | undefined {
  const paid = models.filter(({ billing_mode }) => billing_mode !== 'free')
  const chats = paid.filter((model) => kindOf(model) === 'chat')
  return (chats.length > 0 ? chats : paid).toSorted((a, b) => rateOf(a).sortBy - rateOf(b).sortBy)[0]
}

function Facts({ shop: { models, prices } }: { shop: Shop }) {
  const kinds = KINDS.filter(({ kind }) => models.some((model) => kindOf(model) === kind))
  const sold = prices.endpoints.filter(({ price }) => price !== 'free')
  return (
    <dl class="facts">
      <div>
        <dt>Models</dt>
        <dd>{models.length}</dd>
      </div>
      <div>
        <dt>Kinds</dt>
        <dd>{kinds.length}</dd>
      </div>
      <div>
        <dt>Paid endpoints</dt>
        <dd>{sold.length}</dd>
      </div>
      <div>
        <dt>Paid on</dt>
        <dd>{prices.network}</dd>
      </div>
    </dl>
  )
}

const STEPS = [
  ['Ask', 'Send the request as you would anywhere. The answer is 402, with the exact price in USDC for this request.'],
  ['Sign', 'Your wallet signs that amount for this seller. Signing costs no gas, and nothing has moved yet.'],
  ['Receive', 'The same request, sent with the signature, brings the result. Money moves only when there is one.'],
] as const

const Steps = () => (
  <section aria-labelledby="steps">
    <h2 id="steps">How paying works</h2>
    <ol class="cards steps">
      {STEPS.map(([title, text]) => (
        <li class="card">
          <h3>{title}</h3>
          <p>{text}</p>
        </li>
      ))}
    </ol>
    <p class="soft">
      This is <a href="https://www.x402.org">x402</a>, version 2. Its clients for JavaScript, Python and Go do all three
      steps behind one call.
    </p>
  </section>
)

function Buy({ model, network }: { model: Model; network: string }) {
  const example = exampleOf(model)
  const at = { origin: location.origin, isSolana: network.startsWith('solana') }
  return (
    <section aria-labelledby="buy">
      <h2 id="buy">Buy with {model.name}</h2>
      <p class="soft">
        <code>WALLET_KEY</code> is the key of a wallet with USDC on {network}. Choose another model below.
      </p>
      <CodeTabs tabs={snippetsOf(example, at)} label="Language" />
    </section>
  )
}

render(<Front />, document.body)
