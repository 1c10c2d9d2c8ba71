import type { RowPatch } from '../../../core/payment/mod.ts'
import type { Call, Cap } from '../../../core/ports/mod.ts'
import type { Settling } from '../sql/database.ts'
import type { Values } from '../sql/statement.ts'
import type { SqliteDriver } from './driver.ts'
import { settledCache } from './settled_cache.ts'
import { type Answers, ask, type Run } from './statements.ts'

/** Recent settlements of wallets, from memory. `file` is read to learn whether another process has written. */
export function settlements(run: Run, file: SqliteDriver | undefined) {
  const countChanges = file?.prepare('PRAGMA data_version')
  let seenVersion: unknown
  const cache = settledCache((wallet, since) => ({
    hasPaid: run(ask.hasPaid, wallet).length > 0,
    calls: run(ask.recentlySettled, { ...wallet, since }),
  }))
  type Wallet = Pick<Call, 'payer' | 'asset'>
  type Exposed = Wallet & { readonly cap: Cap }

  /** Inside a write transaction: nobody else can write before it ends. */
  function of({ payer, asset, cap }: Exposed) {
    const [[version] = []] = countChanges?.values() ?? []
    if (version !== seenVersion) cache.clear()
    seenVersion = version
    return cache.of({ payer, asset }, cap)
  }

  /** The sums, when they are asked for: few decisions need them. */
  function paid(wallet: Wallet) {
    let sums: ReturnType<typeof read> | undefined
    const read = () => run(ask.paid, wallet)[0]
    const part = (name: 'billions' | 'rest') => (sums ??= read())?.[name] ?? null
    return {
      get billions() {
        return part('billions')
      },
      get rest() {
        return part('rest')
      },
    }
  }

  const answers: Answers = {
    [ask.exposedCalls.name]: (values: Exposed & { now: number }) => [
      ...run(ask.spendable, values),
      ...of(values).calls,
    ],
    [ask.hasPaid.name]: (values: Exposed) => (of(values).hasPaid ? [{ one: 1 }] : []),
    [ask.paid.name]: (values: Wallet) => [paid(values)],
    [ask.deleteAmong.name](values: Values) {
      cache.clear()
      return run(ask.deleteAmong, values)
    },
  }
  return {
    answers,
    note(call: Settling, { paymentStatus, settledAt, receipt, charge = call.charge }: RowPatch): void {
      if (paymentStatus !== 'settled' || !settledAt) return
      const { id, endpoint, quote, workStatus, startedAt } = call
      const exposed = { id, endpoint, quote, workStatus, startedAt, charge, paymentStatus, settledAt }
      cache.note(call, { ...exposed, bindingStatus: null, bindingExpiresAt: null, block: receipt?.block ?? null })
    },
  }
}
