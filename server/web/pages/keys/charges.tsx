import { useState } from 'preact/hooks'
import { useWallets } from '../wallets/use_wallets.tsx'
import { opensKeys, type Wallet } from '../wallets/wallet.ts'
import { readCalls, sumsBy, type WalletCall } from '../wallet/history.ts'
import { Sums } from '../wallet/sums.tsx'

type Props = {
  readonly network: string
  readonly isBusy: boolean
  readonly onRun: (doing: string, working: () => Promise<void>) => Promise<void>
}

/** Payments of a wallet by day and by model, which the gateway lists for a sign-in. */
export function Charges({ network, isBusy, onRun }: Props) {
  const [calls, setCalls] = useState<readonly WalletCall[]>()
  const wallets = useWallets([network], opensKeys)
  const read = (wallet: Wallet) =>
    onRun('Waiting for the signature', async () => {
      const { data } = await readCalls({ wallet, address: await wallet.connect() })
      setCalls(data)
    })
  return (
    <section aria-labelledby="charges">
      <h2 id="charges">Charges</h2>
      <p>
        By day and by model, for the wallet that deposited: all that it has bought here, with this key or without. Each
        call, its result and an export are under <a href="/wallet">Purchases</a>.
      </p>
      {!calls && (
        <div class="row">
          {wallets.map((wallet) => (
            <button type="button" key={wallet.id} disabled={isBusy} onClick={() => read(wallet)}>
              Sign in with {wallet.name} and show
            </button>
          ))}
        </div>
      )}
      {calls?.length === 0 && <p>This wallet has bought nothing here yet.</p>}
      {calls && calls.length > 0 && (
        <div class="sums">
          <Sums title="By day" first="Day" sums={sumsBy(calls, 'day')} />
          <Sums title="By model" first="Model" sums={sumsBy(calls, 'model')} />
        </div>
      )}
    </section>
  )
}
