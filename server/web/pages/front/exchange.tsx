import { useEffect, useState } from 'preact/hooks'
import type { Model } from '../lib/api.ts'
import { networkName } from '../lib/networks.ts'
import { kindOf } from '../lib/prices.ts'
import { usdc } from '../lib/x402.ts'
import { exampleOf } from './examples.ts'

/** One purchase as it travels, with the price that this gateway asks for it now. Only chats can be estimated freely. */
export function Exchange({ model, network }: { model: Model; network: string }) {
  const amount = useEstimate(model)
  return (
    <figure class="card exchange" aria-label="A purchase, as it travels">
      <ol>
        <li>
          <Way to="gateway" />
          <code>POST {exampleOf(model).path}</code>
          <span class="soft mono">{model.id}</span>
        </li>
        <li>
          <Way to="you" />
          <code>402</code> <strong>{amount === undefined ? 'the exact price' : `${amount} USDC`}</strong>
          <span class="soft">on {networkName(network)}</span>
        </li>
        <li>
          <Way to="gateway" />
          the same request, signed by your wallet
        </li>
        <li>
          <Way to="you" />
          <code>200</code> the answer, and the receipt
        </li>
      </ol>
    </figure>
  )
}

const Way = ({ to }: { to: 'gateway' | 'you' }) => (
  <>
    <span class="way" aria-hidden="true">
      {to === 'gateway' ? '→' : '←'}
    </span>
    <span class="visually-hidden">{to === 'gateway' ? 'You send: ' : 'You get: '}</span>
  </>
)

/** In USDC; undefined until it is known, and where it cannot be. */
function useEstimate(model: Model): string | undefined {
  const [amount, setAmount] = useState<string>()
  useEffect(() => {
    setAmount(undefined)
    if (kindOf(model) !== 'chat') return
    let isCurrent = true
    void estimate(model).then((found) => isCurrent && setAmount(found))
    return () => void (isCurrent = false)
  }, [model])
  return amount
}

async function estimate(model: Model): Promise<string | undefined> {
  try {
    const reply = await fetch('/api/v1/chat/estimate', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(exampleOf(model).body),
    })
    if (!reply.ok) return undefined
    const { price } = (await reply.json()) as { price: { amount: string } }
    return usdc(String(Math.round(Number(price.amount) * 1_000_000)))
  } catch {
    return undefined
  }
}
