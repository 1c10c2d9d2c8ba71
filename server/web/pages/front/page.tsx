/** The front page: what is sold here, how paying works, code that buys it, and every model with its price. */
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { getJson, type Model, type PriceList } from '../lib/api.ts'
import { CodeTabs } from '../lib/code_block.tsx'
import { Layout } from '../lib/layout.tsx'
import { networkName } from '../lib/networks.ts'
import { cheapest, type Kind, KINDS, kindOf } from '../lib/prices.ts'
import { buyerCommand } from '../lib/command.ts'
import { snippetsOf } from '../lib/snippets.ts'
import { exampleOf } from './examples.ts'
import { Exchange } from './exchange.tsx'
import { Kinds } from './kinds.tsx'
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
  const [kind, setKind] = useState<Kind>()
  const first = shop && firstChoice(shop.models)
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
      <div class="hero">
        <div>
          <h1>AI by the call, paid in USDC</h1>
          <p class="lead">
            No account. Ask for what you want, get the exact price, sign it with your wallet, and pay only when there is
            a result.
          </p>
          <p class="row">
            <a class="button main-action" href="/play">
              Try it
            </a>
            {shop?.prices.api_keys && (
              <a class="button" href="/keys">
                Get an API key
              </a>
            )}
            <a class="button" href="/docs">
              Reference
            </a>
            <a class="button" href="/docs/guide/quickstart">
              Quickstart
            </a>
          </p>
        </div>
        {shop && first && <Exchange model={first} network={shop.prices.network} />}
      </div>
      {problem && <p role="alert">The prices could not be read: {problem} Reload the page to try again.</p>}
      {shop && <Kinds models={shop.models} routes={shop.prices.endpoints} onChoose={setKind} />}
      {(shop || problem) && <Steps />}
      {chosen && shop && <Buy models={shop.models} model={chosen} network={shop.prices.network} onChoose={setChosen} />}
      {shop && <Models models={shop.models} kind={kind} onKind={setKind} chosen={chosen} onChoose={setChosen} />}
      {shop && <Services routes={shop.prices.endpoints} />}
    </Layout>
  )
}

/** The cheapest chat that costs something, or else the cheapest model. */
function firstChoice(models: readonly Model[]): Model | undefined {
  const chats = models.filter((model) => kindOf(model) === 'chat')
  return cheapest(chats.length > 0 ? chats : models)
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

type Buying = {
  readonly models: readonly Model[]
  readonly model: Model
  readonly network: string
  readonly onChoose: (model: Model) => void
}

function Buy({ models, model, network, onChoose }: Buying) {
  const at = { origin: location.origin, network, command: buyerCommand() }
  return (
    <section aria-labelledby="buy">
      <h2 id="buy">Buy from code</h2>
      <label class="field choice">
        <span>Model</span>
        <select
          value={model.id}
          onChange={(event) => {
            const chosen = models.find(({ id }) => id === event.currentTarget.value)
            if (chosen) onChoose(chosen)
          }}
        >
          {KINDS.map(({ kind, title }) => (
            <optgroup label={title} key={kind}>
              {models
                .filter((each) => kindOf(each) === kind)
                .map((each) => (
                  <option value={each.id} key={each.id}>
                    {each.id}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      </label>
      <CodeTabs tabs={snippetsOf(exampleOf(model), at)} label="Language" />
      <p class="soft small key-note">
        <code>WALLET_KEY</code> is the key of a wallet with USDC on {networkName(network)}. It stays with you: the
        gateway only sees what it signs.
      </p>
    </section>
  )
}

render(<Front />, document.body)
