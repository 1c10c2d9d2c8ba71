/** Reports an outage once when it begins and once when it ends, however many requests fail meanwhile. */
import type { Clock } from './clock.ts'

type Tell = (message: string, fields?: Record<string, unknown>) => void
type Outage = { since: number; failures: number; isOpen: boolean; isLogged: boolean; alertedAt?: number }

type Outages = {
  /** Records a failure of `subject`. Alerts on the first one with its reason. */
  failed(subject: string, failure: Failure): void
  /** Records a success of `subject`, which ends its outage. */
  worked(subject: string): void
}

/** `fields` are logged with the alert; `reason` distinguishes outages of one subject. */
type Failure = {
  readonly reason: string
  readonly message: string
  readonly fields?: Record<string, unknown>
}

/** Minimum time between two alerts of one subject and reason, for failures that alternate with successes. */
export const REPEAT_MS = 600_000
/** Reasons come from outside, so their number is bounded; further ones are reported together. */
const MAX_REASONS = 16
const MAX_SUBJECTS = 1_000

/** `over` is the log message for the end of an outage. */
export function outages({
  log,
  clock,
  over,
}: {
  log: { alert: Tell; info: Tell }
  clock: Clock
  over: string
}): Outages {
  const subjects = new Map<string, Map<string, Outage>>()

  return {
    failed(subject, { reason, message, fields = {} }) {
      const outage = outageOf(subject, reason)
      const now = clock.now()
      if (!outage.isOpen) Object.assign(outage, { since: now, failures: 0, isOpen: true, isLogged: false })
      outage.failures++
      if (outage.isLogged || (outage.alertedAt !== undefined && now - outage.alertedAt < REPEAT_MS)) return
      outage.isLogged = true
      outage.alertedAt = now
      log.alert(message, fields)
    },
    worked(subject) {
      const open = subjects.get(subject)
      if (!open) return
      for (const [reason, outage] of open) {
        if (!outage.isOpen) continue
        outage.isOpen = false
        const seconds = Math.round((clock.now() - outage.since) / 1000)
        if (outage.isLogged) log.info(over, { subject, reason, seconds, failures: outage.failures })
      }
    },
  }

  function outageOf(subject: string, reason: string): Outage {
    const known = subjects.has(subject) || subjects.size < MAX_SUBJECTS ? subject : ''
    const reasons = subjects.get(known) ?? new Map<string, Outage>()
    subjects.set(known, reasons)
    const name = reasons.has(reason) || reasons.size < MAX_REASONS ? reason : 'other'
    const outage = reasons.get(name) ?? { since: 0, failures: 0, isOpen: false, isLogged: false }
    reasons.set(name, outage)
    return outage
  }
}
