/** A chain that sells only while the clock and the database can be relied on. */
import { portOf } from '../../core/lib/mod.ts'
import type { Chain, Closed } from '../../core/mod.ts'

type Reason = () => string | undefined
type Troubles = {
  /** Why the clock cannot be trusted. */
  readonly trouble?: Reason | undefined
  /** Why the database is of a version that this one cannot use. */
  readonly refusal?: Reason | undefined
  /** Why the file of the database can be used no more. */
  readonly failure?: Reason | undefined
}

/**
 * The same chain, which sells nothing while the clock cannot be trusted, or once the database cannot be used. Earlier
 * sales are settled all the same where they can be.
 */
export function timely(chain: Chain, { trouble, refusal, failure }: Troubles): Chain {
  const causes = [
    ['storage', failure],
    ['newer_schema', refusal],
    ['clock', trouble],
  ] as const
  function closed(): Closed | undefined {
    for (const [code, find] of causes) {
      const reason = find?.()
      if (reason !== undefined) return { code, reason }
    }
    return undefined
  }
  return portOf<Chain>({
    families: chain.families,
    balance: chain.balance,
    terms: (now) => (closed() === undefined ? chain.terms(now) : []),
    closed: (now) => closed() ?? chain.closed?.(now),
    check: chain.check,
    refresh: chain.refresh,
    proves: chain.proves,
    hasSigned: chain.hasSigned,
    identify: chain.identify,
    verify: chain.verify,
    secure: chain.secure,
    settle: chain.settle,
    drawDown: chain.drawDown,
    fate: chain.fate,
    refund: chain.refund,
    apiKeys: chain.apiKeys,
  })
}
