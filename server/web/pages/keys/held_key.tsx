import type { Wallet } from '../wallets/wallet.ts'
import { Charges } from './charges.tsx'
import { Children } from './children.tsx'
import { DepositForm } from './deposit_form.tsx'
import { BalanceView, type DepositState, EndKey, InDoubt, NewKey } from './key_view.tsx'
import type { Balance } from './requests.ts'
import type { Key } from './signing.ts'
import type { Terms } from './terms.ts'
import { ToolLines } from './tools.tsx'

/** The key in this page. It is nowhere else, and is gone when the page is left. */
export type Held = {
  readonly key: Key
  /** A key made here whose text is still shown. */
  readonly isShown: boolean
  readonly deposit: DepositState
  /** The deposit as it was signed. */
  readonly payment?: string
  readonly balance?: Balance
}

type Props = {
  readonly held: Held
  readonly terms: Terms
  readonly isBusy: boolean
  readonly onRun: (doing: string, working: () => Promise<void>) => Promise<void>
  readonly onAgain: () => void
  readonly onRefresh: () => Promise<void>
  readonly onStored: () => void
  readonly onTopUp: (wallet: Wallet, amount: bigint) => Promise<void>
  readonly onClose: (isReplaced: boolean) => void
  readonly onForget: () => void
}

/** A key, its balance, the lines that use it, and what its owner can do with it. */
export function HeldKey({ held, terms, isBusy, onRun, ...on }: Props) {
  const { key, isShown, deposit, balance } = held
  return (
    <>
      {isShown && <NewKey keyShown={key} deposit={deposit} onStored={on.onStored} />}
      {deposit === 'unknown' && <InDoubt isBusy={isBusy} onAgain={on.onAgain} />}
      {balance && (
        <BalanceView
          address={key.address}
          balance={balance}
          isBusy={isBusy}
          onRefresh={() => onRun('Reading the balance', on.onRefresh)}
        />
      )}
      {deposit === 'done' && <ToolLines token={isShown ? key.text : undefined} />}
      {balance && !key.isChild && (
        <>
          <section class="play manage" aria-label="Manage the key">
            {/* A second deposit would be made while the first is in doubt. */}
            {deposit === 'done' && (
              <div class="card">
                <h3>Top up</h3>
                <DepositForm terms={terms} suggested={terms.least} isBusy={isBusy} onDeposit={on.onTopUp} />
              </div>
            )}
            <div class="stack">
              <EndKey left={balance.left} isBusy={isBusy} onClose={on.onClose} />
              <Children keyText={key.text} isBusy={isBusy} onRun={onRun} onChanged={on.onRefresh} />
            </div>
          </section>
          <Charges network={terms.offer.network} isBusy={isBusy} onRun={onRun} />
        </>
      )}
      {!isShown && (
        <p class="more">
          <button type="button" disabled={isBusy} onClick={on.onForget}>
            Forget the key in this page
          </button>
        </p>
      )}
    </>
  )
}
