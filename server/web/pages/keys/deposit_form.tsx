import { useCallback, useRef, useState } from 'preact/hooks'
import { buyerCommand } from '../lib/command.ts'
import { networkName } from '../lib/networks.ts'
import { atomic, usdc } from '../lib/x402.ts'
import { useWallets } from '../wallets/use_wallets.tsx'
import type { Wallet } from '../wallets/wallet.ts'
import { type Terms, timeText } from './terms.ts'

const USUAL = 5_000_000n

type Props = {
  readonly terms: Terms
  /** In millionths of a USDC. */
  readonly suggested?: bigint
  readonly isBusy: boolean
  readonly onDeposit: (wallet: Wallet, amount: bigint) => Promise<void>
}

/** An amount, and the wallets that can deposit it. */
export function DepositForm({ terms, suggested = USUAL, isBusy, onDeposit }: Props) {
  const { offer, least } = terms
  const [text, setText] = useState(usdc(String(suggested > least ? suggested : least)))
  const [problem, setProblem] = useState<string>()
  const canDeposit = useCallback(({ signTyped }: Wallet) => signTyped !== undefined, [])
  const wallets = useWallets([offer.network], canDeposit)
  /** A second click comes before the button is drawn again. */
  const isAsking = useRef(false)
  const network = networkName(offer.network)
  const deposit = async (wallet: Wallet) => {
    if (isAsking.current) return
    const amount = atomic(text) ?? 0n
    if (amount < least || amount === 0n) {
      setProblem(`Write an amount of ${usdc(String(least))} USDC or more, with six decimals at most.`)
      return
    }
    setProblem(undefined)
    isAsking.current = true
    await onDeposit(wallet, amount).finally(() => (isAsking.current = false))
  }
  return (
    <>
      <label class="field cap">
        <span>Deposit (USDC on {network})</span>
        <input inputMode="decimal" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <small class="soft">
          {usdc(String(least))} USDC or more. The gateway pays the gas; whatever you do not use comes back.
        </small>
      </label>
      {problem && <p role="alert">{problem}</p>}
      <div class="row wallets">
        {wallets.map((wallet) => (
          <button type="button" class="main-action" key={wallet.id} disabled={isBusy} onClick={() => deposit(wallet)}>
            {wallet.icon && <img src={wallet.icon} alt="" width="20" height="20" />}
            Deposit with {wallet.name}
          </button>
        ))}
      </div>
      {wallets.length === 0 && (
        <p>
          No wallet of this browser can deposit on {network}. Open the page in a browser that has one with USDC there,
          or use <code>{buyerCommand()} key new</code>.
        </p>
      )}
      <details>
        <summary>What you sign</summary>
        <dl class="receipt">
          <div>
            <dt>Into</dt>
            <dd>a channel of the x402 contract that names your wallet, the key and this seller</dd>
          </div>
          <div>
            <dt>Seller</dt>
            <dd class="mono">{offer.payTo}</dd>
          </div>
          <div>
            <dt>Token</dt>
            <dd class="mono">{offer.asset}</dd>
          </div>
          <div>
            <dt>Withdrawal</dt>
            <dd>by your wallet alone, {timeText(terms.delaySeconds)} after it asks the contract</dd>
          </div>
        </dl>
      </details>
    </>
  )
}
