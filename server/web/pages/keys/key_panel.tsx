import type { Wallet } from '../wallets/wallet.ts'
import { Charges } from './charges.tsx'
import { Children } from './children.tsx'
import { DepositForm } from './deposit_form.tsx'
import { BalanceView, EndKey, InDoubt, NewKey } from './key_view.tsx'
import type { OpenedKey } from './page_state.ts'
import type { Terms } from './terms.ts'
import { ToolLines } from './tools.tsx'

type Props = {
  readonly opened: OpenedKey
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
export function KeyPanel({ opened, terms, isBusy, onRun, ...on }: Props) {
  const { key, isVisible, deposit, balance } = opened
  return (
    <>
      {isVisible && <NewKey keyShown={key} deposit={deposit} onStored={on.onStored} />}
      {deposit === 'unknown' && <InDoubt isBusy={isBusy} onAgain={on.onAgain} />}
      {balance && (
        <BalanceView
          address={key.address}
          balance={balance}
          isBusy={isBusy}
          onRefresh={() => onRun('Reading the balance', on.onRefresh)}
        />
      )}
      {deposit === 'done' && <ToolLines token={isVisible ? key.text : undefined} />}
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
          <Charges keyText={key.text} isBusy={isBusy} onRun={onRun} />
        </>
      )}
      {!isVisible && (
        <p class="more">
          <button type="button" disabled={isBusy} onClick={on.onForget}>
            Forget the key in this page
          </button>
        </p>
      )}
    </>
  )
}
