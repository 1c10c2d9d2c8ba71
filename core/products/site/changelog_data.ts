/** Dated changes of the contract, newest first (contract 21.12). The only place where they are listed. */

type Change = {
  /** YYYY-MM-DD. */
  readonly date: string
  readonly title: string
  readonly detail: string
  /** Paths that it concerns; absent when it concerns all paid paths. */
  readonly paths?: readonly string[]
}

export const changelog: readonly Change[] = [
  {
    date: '2026-09-29',
    title: 'Search has one price',
    detail: 'A search costs the same, all included, whatever max_results is.',
    paths: ['/api/v1/search'],
  },
  {
    date: '2026-08-29',
    title: 'The ledger gateway is retired',
    detail: 'It no longer serves requests, and answers 404 to all of them.',
    paths: [],
  },
  {
    date: '2026-08-27',
    title: 'Chat returns its reasoning',
    detail: 'An answer that is not streamed carries reasoning_content where the model reasons.',
    paths: ['/api/v1/chat/completions'],
  },
  {
    date: '2026-08-26',
    title: 'Rejected payments have codes',
    detail:
      'A 402 for a payment that did not verify carries a code for programs: PAYMENT_INVALID, PAYMENT_UNFUNDED, PAYMENT_REPLAY or PAYMENT_BLOCKHASH_STALE.',
  },
]
