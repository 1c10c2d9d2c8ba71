/** State of the page /keys. */
import type { Balance } from './requests.ts'
import type { Key } from './signing.ts'
import type { Terms } from './terms.ts'

/** Outcome of the deposit of a new key. */
export type DepositState = 'sending' | 'unknown' | 'done'

/** The key in this page. It is nowhere else, and is gone when the page is left. */
export type OpenedKey = {
  readonly key: Key
  /** A key made here whose text is in view. */
  readonly isVisible: boolean
  readonly deposit: DepositState
  /** The deposit as it was signed. */
  readonly payment?: string
  readonly balance?: Balance
}

/** State of the page, and its setters. */
export type Keys = {
  readonly isTestMoney: boolean
  readonly terms: Terms | 'reading' | 'off'
  readonly opened: OpenedKey | undefined
  /** Amount for the next key, in millionths of a USDC. */
  readonly suggested: bigint | undefined
  /** Name of the action under way; empty if none. */
  readonly step: string
  readonly news: string
  readonly problem: string | undefined
  /** Element above which outcomes are printed. */
  readonly top: { readonly current: HTMLDivElement | null }
  setOpened(next: OpenedKey | undefined | ((before: OpenedKey | undefined) => OpenedKey | undefined)): void
  setSuggested(amount: bigint | undefined): void
  setStep(step: string): void
  setNews(news: string): void
  setProblem(problem: string | undefined): void
}
