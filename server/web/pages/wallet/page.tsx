/** The buyer's page: a wallet signs in, sees what it bought here, and collects what lies uncollected. */
import { render } from 'preact'
import { useCallback, useEffect, useState } from 'preact/hooks'
import { Layout } from '../lib/layout.tsx'
import { devnet } from '../wallets/devnet.ts'
import { networksOf, type SignedIn } from '../wallets/sign_in.ts'
import { useWallets } from '../wallets/use_wallets.tsx'
import { isOn, type Wallet } from '../wallets/wallet.ts'
import { CALLS, readCalls, type WalletCall } from './history.ts'
import { History } from './history_view.tsx'

type Shown = SignedIn & { readonly calls: readonly WalletCall[]; readonly next: string | null }

function WalletPage() {
  const [isTestMoney, setTestMoney] = useState(false)
  const [networks, setNetworks] = useState<readonly string[]>()
  const [shown, setShown] = useState<Shown>()
  const [step, setStep] = useState('')
  const [problem, setProblem] = useState<string>()
  const isUsable = useCallback(
    ({ family }: Wallet) => (networks ?? []).some((network) => isOn(family, network)),
    [networks],
  )
  const wallets = useWallets(networks ?? [], isUsable)

  useEffect(() => {
    void devnet().then((info) => setTestMoney(info !== undefined))
    networksOf(CALLS).then(setNetworks, (error: Error) => setProblem(error.message))
  }, [])

  const run = async (working: () => Promise<void>, doing: string) => {
    setProblem(undefined)
    setStep(doing)
    try {
      await working()
    } catch (error) {
      setProblem((error as Error).message)
    }
    setStep('')
  }
  const signIn = (wallet: Wallet) =>
    run(async () => {
      const signedIn = { wallet, address: await wallet.connect() }
      const { data, next_cursor: next } = await readCalls(signedIn)
      setShown({ ...signedIn, calls: data, next })
    }, 'Waiting for the signature')
  const older = (before: Shown) =>
    run(async () => {
      const { data, next_cursor: next } = await readCalls(before, before.next ?? undefined)
      setShown({ ...before, calls: [...before.calls, ...data], next })
    }, 'Waiting for the signature')

  return (
    <Layout path="/wallet" isTestMoney={isTestMoney}>
      <h1>Your purchases</h1>
      <p class="lead">
        Sign in with the wallet that paid. Signing in pays nothing and allows no payment; it only shows that the wallet
        is yours. Keys that this wallet has deposited for are under <a href="/keys">API keys</a>.
      </p>
      {problem && <p role="alert">{problem}</p>}
      <p role="status" class="soft">
        {step && `${step}…`}
      </p>
      {!shown && (
        <>
          <div class="row wallets">
            {wallets.map((wallet) => (
              <button
                type="button"
                class="main-action"
                key={wallet.id}
                disabled={step !== ''}
                onClick={() => signIn(wallet)}
              >
                {wallet.icon && <img src={wallet.icon} alt="" width="20" height="20" />}
                Sign in with {wallet.name}
              </button>
            ))}
          </div>
          {networks && wallets.length === 0 && (
            <p>No wallet of this browser is on a network of this gateway. Open the page in a browser that has one.</p>
          )}
        </>
      )}
      {shown && (
        <History
          signedIn={shown}
          calls={shown.calls}
          hasMore={shown.next !== null}
          isBusy={step !== ''}
          onMore={() => older(shown)}
          onLeave={() => setShown(undefined)}
        />
      )}
    </Layout>
  )
}

render(<WalletPage />, document.body)
