import { useCallback, useRef, useState } from 'preact/hooks'
import { networkName } from '../lib/networks.ts'
import { type Demand, usdc } from '../lib/x402.ts'
import { useWallets } from '../wallets/use_wallets.tsx'
import { canSign, isSignable, type Wallet } from '../wallets/wallet.ts'
import { readAllowance, setCap } from './allowance.ts'
import type { Payer } from './purchase.ts'

type Paying = {
  readonly demand: Demand
  readonly problem: string | undefined
  readonly onPay: (payer: Payer) => Promise<void>
}

/** The price, the wallets that can pay it, and the limit of this visit. */
export function PayPanel({ demand, problem, onPay }: Paying) {
  const { accepts } = demand
  const canPay = useCallback((wallet: Wallet) => accepts.some((each) => canSign(wallet.family, each)), [accepts])
  const wallets = useWallets(
    accepts.map((each) => each.network),
    canPay,
  )
  const [words, setWords] = useState<string>()
  const [cap, setWritten] = useState(readAllowance().cap)
  const signable = accepts.filter(isSignable)
  const offer = signable[0] ?? accepts[0]
  if (!offer) return <p role="alert">{demand.message}</p>
  const isOneNetwork = new Set(signable.map(({ network }) => network)).size < 2
  const offerFor = ({ family }: Wallet) => signable.find((each) => canSign(family, each))
  /** A second click comes before the button is drawn again. */
  const isPaying = useRef(false)
  const [isBusy, setBusy] = useState(false)
  const pay = async (wallet: Wallet) => {
    const chosen = offerFor(wallet)
    if (!chosen || isPaying.current) return
    isPaying.current = true
    setBusy(true)
    setWords(undefined)
    try {
      await onPay({ offer: chosen, wallet, address: await wallet.connect() })
    } catch (error) {
      setWords((error as Error).message)
    } finally {
      isPaying.current = false
      setBusy(false)
    }
  }
  return (
    <div>
      <p class="price">
        <strong>{usdc(offer.amount)} USDC</strong> <span class="soft">on {networkName(offer.network)}</span>
      </p>
      {(words ?? problem) && <p role="alert">{words ?? problem}</p>}
      <div class="row wallets">
        {wallets.map((wallet) => (
          <button type="button" class="main-action" key={wallet.id} disabled={isBusy} onClick={() => pay(wallet)}>
            {wallet.icon && <img src={wallet.icon} alt="" width="20" height="20" />}
            Pay with {wallet.name}
            {isOneNetwork ? '' : ` on ${networkName(offerFor(wallet)?.network ?? '')}`}
          </button>
        ))}
      </div>
      {wallets.length === 0 && (
        <p>
          {signable.length > 0
            ? `No wallet of this browser can pay on ${networkName(offer.network)}. Install one with USDC on that network, or use the code below.`
            : `This page does not sign payments of this kind (${offer.scheme}). Use the code below.`}
        </p>
      )}
      <label class="field cap">
        <span>Spend at most, in this visit (USDC)</span>
        <input
          inputMode="decimal"
          value={cap}
          onInput={(event) => {
            setWritten(event.currentTarget.value)
            setCap(event.currentTarget.value)
          }}
        />
        <small class="soft">{readAllowance().spent} USDC signed so far</small>
      </label>
      <details>
        <summary>What you sign</summary>
        <dl class="receipt">
          <div>
            <dt>To</dt>
            <dd class="mono">{offer.payTo}</dd>
          </div>
          <div>
            <dt>Token</dt>
            <dd class="mono">{offer.asset}</dd>
          </div>
          <div>
            <dt>Valid for</dt>
            <dd>{offer.maxTimeoutSeconds} seconds</dd>
          </div>
        </dl>
      </details>
    </div>
  )
}
