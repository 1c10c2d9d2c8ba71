import { useState } from 'preact/hooks'
import { useWallets } from '../wallets/use_wallets.tsx'
import { opensKeys, type Wallet } from '../wallets/wallet.ts'
import { closeByWallet, type Refund } from './requests.ts'
import { type Terms, timeText } from './terms.ts'

/** Four sentences about trust. */
export function Trust({ terms }: { terms: Terms }) {
  return (
    <div class="card">
      <h2>What you trust</h2>
      <p>
        Your deposit lies in a public contract that neither you nor this gateway can change. With the key, the gateway
        could take what you have deposited and not yet used: provably, because every claim is on chain, and no more.
        What is left goes back to your wallet when you ask here, or without the gateway {timeText(terms.delaySeconds)}{' '}
        after your wallet asks the contract.
      </p>
      <p class="tight">
        To trust it with less, let <a href="/docs/guide/proxy">farebox proxy</a> sign each call on your own machine.
      </p>
    </div>
  )
}

/** For a key that somebody already has. It stays in the page until the page is left. */
export function UseKey({ isBusy, onOpen }: { isBusy: boolean; onOpen: (pasted: string) => void }) {
  const [pasted, setPasted] = useState('')
  return (
    <form
      class="card"
      onSubmit={(event) => {
        event.preventDefault()
        onOpen(pasted)
        setPasted('')
      }}
    >
      <h2>You have a key</h2>
      <label class="field">
        <span>Key</span>
        <input
          type="password"
          autoComplete="off"
          spellcheck={false}
          placeholder="sk-fbx-…"
          value={pasted}
          onInput={(event) => setPasted(event.currentTarget.value)}
        />
        <small class="soft">Sent to this gateway alone, and forgotten when you leave the page.</small>
      </label>
      <button type="submit" disabled={isBusy || pasted.trim() === ''}>
        Show its balance
      </button>
    </form>
  )
}

type Lost = {
  readonly terms: Terms
  readonly isBusy: boolean
  readonly onRun: (doing: string, working: () => Promise<void>) => Promise<void>
  readonly onRefunded: (refund: Refund) => void
}

/** The wallet that deposited ends a key that is lost or leaked. */
export function LostKey({ terms, isBusy, onRun, onRefunded }: Lost) {
  const [address, setAddress] = useState('')
  const wallets = useWallets([terms.offer.network], opensKeys)
  const close = (wallet: Wallet) =>
    onRun('Waiting for the signature', async () => {
      if (!/^0x[0-9a-fA-F]{40}$/.test(address.trim()))
        throw new Error('The address of a key is 0x and 40 hex digits. It stood beside the key.')
      onRefunded(await closeByWallet({ wallet, address: await wallet.connect() }, address.trim()))
    })
  return (
    <details class="card">
      <summary>A key is lost, or somebody else has it</summary>
      <p>
        The wallet that deposited ends the key, and gets the rest back. It needs the address of the key, which is no
        secret: it was shown with the key, and is in the deposit on chain.
      </p>
      <label class="field">
        <span>Address of the key</span>
        <input
          class="mono"
          placeholder="0x…"
          value={address}
          spellcheck={false}
          onInput={(event) => setAddress(event.currentTarget.value)}
        />
      </label>
      <div class="row">
        {wallets.map((wallet) => (
          <button type="button" key={wallet.id} disabled={isBusy} onClick={() => close(wallet)}>
            Send the rest back to {wallet.name}
          </button>
        ))}
      </div>
    </details>
  )
}
