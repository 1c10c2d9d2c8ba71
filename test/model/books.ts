/** Books of what truly happened in a run, kept apart from the storage, and the laws that they are read by. */
import { peek } from 'bun'
import type { CashTransfer } from '../../adapters/chains/cash.ts'
import type { Authorization, Call, Claim, Opened, Outcome } from '../../core/ports.ts'
import { patience, type Payment } from '../../core/mod.ts'
import type { Reply } from '../../core/endpoint.ts'
import type { Actor, Signed, World } from './world.ts'

export const LAWS = {
  onePayment: 'a buyer pays once for a call',
  moneyHasResult: 'money moves only for a stored result, which its buyer can collect',
  resultHasMoney: 'a result is shown only for a transfer that is real, to us, and of its price',
  noSecondSignature: 'nobody is asked to sign again while an earlier signature has moved money or may',
  oneCall: 'an authorization pays for one call',
  nothingStuck: 'an authorization that moved no money can be used, or its call collected',
  trueLedger: 'the ledger says what the chain says',
  exposure: 'open calls of a wallet never exceed the balance that was observed',
  oneAtATime: 'two settlements of a call are never under way at once',
  goneIsFree: 'who has gone before an inline settlement begins is not charged by it',
  onlyThePayer: 'nobody collects what another wallet paid for',
  noSurprise: 'no request fails for a reason that nobody foresaw',
} as const
export type LawName = keyof typeof LAWS

export type Violation = { readonly law: LawName; readonly text: string; readonly step: number }

type Attempt = { readonly call: string; readonly at: number; readonly actor: Actor; readonly isTimely: boolean; isAnswered: boolean }
type Claimed = { readonly call: string; readonly askedAt: number }

export type Books = {
  readonly calls: readonly string[]
  readonly violation: Violation | undefined
  /** The shown name of a call. */
  call(id: string): string
  row(id: string): Call | undefined
  /** Transaction that an authorization moved money in. */
  moved(key: string): string | undefined
  /** Landed by their own payer, before a gateway had sent them: what such a transfer buys is the payer's own affair. */
  isOwn(key: string): boolean
  /** Calls for which an authorization was sent, or to which it was bound when its payer landed it. */
  servedBy(key: string): ReadonlySet<string>
  random(bytes: number): Uint8Array
  opened(opened: Opened, authorization: Authorization, at: { now: number; cap?: { observed: bigint } }): Opened
  claiming(actor: Actor | undefined, id: string): void
  claimed(claim: Claim, asked: { id: string; authorization: Authorization | undefined; at: { now: number }; actor: Actor | undefined }): Claim
  settling(actor: Actor | undefined, payment: Payment): Attempt | undefined
  answered(attempt: Attempt | undefined): void
  sending(actor: Actor | undefined, payment: Payment, signed: Signed): void
  landed(by: 'gateway' | 'payer', signed: Signed, transfer: CashTransfer): void
  finished(isWritten: boolean, id: string, outcome: Outcome): boolean
  replied(actor: Actor, reply: Reply): void
  failed(actor: Actor, error: Error): void
  alerted(message: string, fields: Record<string, unknown> | undefined): void
  violate(law: LawName, text: string): void
  /** At the end of a run, when all is quiet. */
  close(): void
}

export function books(world: World): Books {
  const calls = new Map<string, { readonly name: string; readonly opening: string }>()
  const sends = new Map<string, Set<string>>()
  const firstSent = new Map<string, number>()
  const transfers = new Map<string, { readonly key: string; readonly transfer: CashTransfer }>()
  const movedIn = new Map<string, string>()
  const own = new Map<string, string | undefined>()
  const payments = new Map<string, Set<string>>()
  const shownFor = new Map<string, string>()
  const claims = new WeakMap<Payment, Claimed>()
  const attempts = new Set<Attempt>()
  /** Calls for which an authorization was handed out to be sent while it still could move money. */
  const tried = new Set<string>()
  let violation: Violation | undefined
  let counter = 0
  const isFlaky = world.climate.lostStorage > 0

  function violate(law: LawName, text: string): void {
    const { breaks } = world.stage.rule
    if (violation || (breaks && !breaks.includes(law))) return
    violation = { law, text, step: world.step }
    world.say(() => `VIOLATION: ${LAWS[law]}: ${text}`)
  }

  const row = (id: string): Call | undefined => peek(world.storage.getCall(id)) as Call | undefined
  const name = (id: string): string => calls.get(id)?.name ?? id
  const nameOfKey = (key: string): string => world.byKey(key)?.name ?? key

  function pay(id: string, key: string): void {
    const keys = payments.get(id) ?? new Set()
    payments.set(id, keys.add(key))
    if (keys.size > 1) violate('onePayment', `${[...keys].map(nameOfKey).join(' and ')} both paid for ${name(id)}`)
  }

  /** Calls that the payer of `call` can still be charged for, by what the chain will still take. */
  function exposureOf(call: Call): bigint {
    let sum = 0n
    for (const [id, { opening }] of calls) {
      const other = row(id)
      if (!other || other.payer !== call.payer || other.work === 'failed' || other.money === 'settled') continue
      const keys = [opening, ...[...sends].filter(([, to]) => to.has(id)).map(([key]) => key)]
      const isOpen = keys.some((key) => {
        const signed = world.byKey(key)
        return signed !== undefined && world.isSpendable(signed)
      })
      if (isOpen) sum += other.quote
    }
    return sum
  }

  /** An authorization that this request sent, or that had been sent for its call before it came, and that is not dead. */
  function inDoubt(actor: Actor): string | undefined {
    for (const [key, to] of sends) {
      const signed = world.byKey(key)
      const isMine = actor.sent.has(key)
      const concerns = actor.kind === 'post' ? key === actor.signed?.key : to.has(actor.call ?? '')
      const wasBefore = (firstSent.get(key) ?? Infinity) < actor.began
      if (!signed || !(isMine || (concerns && wasBefore))) continue
      if (movedIn.has(key) || world.isSpendable(signed)) return key
    }
    return undefined
  }

  /** A result without a receipt (house decision 6): something was sent in time, and nobody has been able to find out since. */
  function judgeUnresolved(actor: Actor, id: string): void {
    if (!tried.has(id)) return violate('resultHasMoney', `${actor.name} shows ${name(id)} unpaid, and nothing was ever sent for it`)
    const isLate = [...sends].every(([key, to]) => {
      const signed = world.byKey(key)
      return !to.has(id) || !signed || signed.isCancelled || world.now > signed.expiresAt + patience.unresolvedMs
    })
    if (!isLate) violate('resultHasMoney', `${actor.name} shows ${name(id)} unpaid too early`)
  }

  function judgeResult(actor: Actor, body: { id: string; payment: { status: string; tx_hash: string } }): void {
    const { id, payment } = body
    if (payment.status === 'unresolved') return judgeUnresolved(actor, id)
    const found = transfers.get(payment.tx_hash)
    const call = row(id)
    if (!call) return violate('moneyHasResult', `${actor.name} shows ${name(id)}, which is not stored`)
    if (!found) return violate('resultHasMoney', `${actor.name} shows ${name(id)} for a transaction that does not exist`)
    const { transfer } = found
    const isRight = transfer.to === call.offer.payTo.toLowerCase() && transfer.value === call.quote && transfer.from === call.payer
    if (!isRight) return violate('resultHasMoney', `${actor.name} shows ${name(id)} for a transfer of ${transfer.value} that is not its price`)
    const before = shownFor.get(payment.tx_hash) ?? id
    shownFor.set(payment.tx_hash, before)
    if (before !== id) return violate('oneCall', `${nameOfKey(found.key)} paid for ${name(before)} and for ${name(id)}`)
    if (isFlaky) return
    if (call.money !== 'settled' || call.receipt?.transaction !== payment.tx_hash) {
      violate('trueLedger', `${actor.name} shows ${name(id)} as paid, and the ledger does not know`)
    }
  }

  return {
    get calls() {
      return [...calls.keys()]
    },
    get violation() {
      return violation
    },
    call: name,
    row,
    moved: (key) => movedIn.get(key),
    isOwn: (key) => own.has(key),
    servedBy: (key) => new Set([...(sends.get(key) ?? []), own.get(key) ?? '']),
    violate,

    random(bytes) {
      const made = new Uint8Array(bytes)
      counter += 1
      made[bytes - 1] = counter & 255
      made[bytes - 2] = counter >> 8
      return made
    },

    opened(opened, authorization, { cap }) {
      world.say(() => `   -> ${opened.kind}${opened.kind === 'over' ? '' : ` ${name(opened.call.id)}`}`)
      if (opened.kind !== 'opened') return opened
      const { call } = opened
      calls.set(call.id, { name: `call ${calls.size}`, opening: authorization.key })
      world.say(() => `   ${name(call.id)} is opened with ${nameOfKey(authorization.key)}`)
      if (!cap) return opened
      const sum = exposureOf(call)
      if (sum > cap.observed) violate('exposure', `${sum} base units are open on a balance of ${cap.observed}`)
      return opened
    },

    claiming(actor, id) {
      if (actor?.kind === 'post' && actor.gone.signal.aborted) violate('goneIsFree', `${actor.name} settles ${name(id)} for nobody`)
    },

    claimed(claim, { id, authorization, at }) {
      world.say(() => `   -> ${claim.kind}${'token' in claim ? ` token ${claim.token}` : ''}${claim.kind === 'retry' ? ` of ${nameOfKey(claim.authorization.key)}, ${claim.sent ? 'sent' : 'not sent'}` : ''}`)
      const given = claim.kind === 'yours' ? authorization : claim.kind === 'retry' ? claim.authorization : undefined
      if (!given) return claim
      claims.set(given.payment, { call: id, askedAt: at.now })
      if (at.now < given.expiresAt) tried.add(id)
      return claim
    },

    /** The lease is a promise only to who asks the chain soon after the claim: the house gives it 15 s. */
    settling(actor, payment) {
      const claim = claims.get(payment)
      if (!actor || !claim) return undefined
      const { settleMs } = patience
      const attempt: Attempt = { call: claim.call, at: world.now, actor, isTimely: world.now - claim.askedAt <= 15_000, isAnswered: false }
      for (const other of attempts) {
        const isUnderWay = !other.isAnswered && other.actor.process.isAlive && world.now < other.at + settleMs
        if (other.call === attempt.call && attempt.isTimely && other.isTimely && isUnderWay) {
          violate('oneAtATime', `${actor.name} settles ${name(claim.call)} while ${other.actor.name} does`)
        }
      }
      attempts.add(attempt)
      return attempt
    },

    answered(attempt) {
      if (attempt) attempt.isAnswered = true
    },

    sending(actor, payment, { key, name: shown }) {
      const claim = claims.get(payment)
      if (!claim) return violate('oneCall', `${shown} is sent without a claim`)
      const to = sends.get(key) ?? new Set()
      sends.set(key, to.add(claim.call))
      if (!firstSent.has(key)) firstSent.set(key, world.step)
      actor?.sent.add(key)
      if (to.size > 1) violate('oneCall', `${shown} is sent for ${[...to].map(name).join(' and for ')}`)
      const call = row(claim.call)
      if (call?.work !== 'completed' || call.result === null) violate('moneyHasResult', `${shown} is sent for ${name(claim.call)}, which has no result`)
    },

    landed(by, { key, name: shown }, transfer) {
      transfers.set(transfer.transaction, { key, transfer })
      movedIn.set(key, transfer.transaction)
      world.say(() => `   ${shown} moves money`)
      for (const id of sends.get(key) ?? []) pay(id, key)
      if (sends.has(key) || by === 'gateway') return
      const bound = peek(world.storage.callOf(key, world.now)) as Call | undefined
      own.set(key, bound?.id)
      if (bound && calls.get(bound.id)?.opening === key) pay(bound.id, key)
    },

    finished(isWritten, id, outcome) {
      world.say(() => `   -> ${isWritten ? 'written' : 'refused: the token is stale'}`)
      if (outcome.kind === 'paid' && !isWritten) violate('trueLedger', `a payment for ${name(id)} is refused by the ledger`)
      return isWritten
    },

    replied(actor, reply) {
      const text = String(reply.body)
      const body = reply.status === 404 ? {} : JSON.parse(text)
      world.say(() => `${actor.name}: ${reply.status} ${body.status ?? body.code ?? body.error ?? ''} ${body.payment?.status ?? ''} ${body.id ?? body.job_id ? name(body.id ?? body.job_id) : ''}`)
      const isOther = actor.call !== undefined && row(actor.call)?.payer !== actor.signed?.buyer.wallet
      if (isOther && reply.status !== 403 && !isFlaky) violate('onlyThePayer', `${actor.name} gets ${reply.status}`)
      if (reply.status === 200 && body.data) judgeResult(actor, body)
      if (reply.status !== 402 || (body.code === 'PAYMENT_REPLAY' && body.job_id)) return
      const key = inDoubt(actor)
      if (key) violate('noSecondSignature', `${actor.name} is told that nothing was charged, but ${nameOfKey(key)} ${movedIn.has(key) ? 'moved money' : 'may still land'}`)
    },

    failed(actor, error) {
      if (!isFlaky) violate('noSurprise', `${actor.name}: ${error.message}`)
    },

    alerted(message, fields) {
      world.say(() => `alert: ${message}`)
      if (!isFlaky && /nobody foresaw|background/.test(message)) violate('noSurprise', `${message}: ${String(fields?.error)}`)
    },

    close() {
      const settled = new Map<string, string>()
      let sum = 0n
      for (const id of calls.keys()) {
        const call = row(id)
        if (!call) return violate('moneyHasResult', `${name(id)} is forgotten`)
        const paid = [...(payments.get(id) ?? [])]
        if (call.money !== 'settled') {
          const unseen = paid.find((key) => call.work === 'completed' || sends.has(key))
          if (unseen) return violate('moneyHasResult', `${nameOfKey(unseen)} paid for ${name(id)}, which is ${call.work} and ${call.money}`)
          continue
        }
        const { transaction = '' } = call.receipt ?? {}
        const found = transfers.get(transaction)
        if (!found) return violate('trueLedger', `the receipt of ${name(id)} is of no transaction`)
        const { transfer } = found
        if (transfer.value !== call.quote || transfer.from !== call.payer || call.receipt?.amount !== String(call.quote)) return violate('trueLedger', `the receipt of ${name(id)} is of another transfer`)
        const before = settled.get(transaction)
        if (before) return violate('oneCall', `${nameOfKey(found.key)} is the receipt of ${name(before)} and of ${name(id)}`)
        settled.set(transaction, id)
        if (call.result === null) return violate('moneyHasResult', `${name(id)} is settled and has no result`)
        sum += transfer.value
      }
      for (const [transaction, { key, transfer }] of transfers) {
        if (settled.has(transaction)) continue
        if (!own.has(key)) return violate('trueLedger', `${nameOfKey(key)} moved money that the ledger does not know`)
        sum += transfer.value
      }
      const held = world.cash.balanceOf(world.cash.offer(1n).payTo)
      if (held !== sum) violate('trueLedger', `the ledger says ${sum}, the chain ${held}`)
    },
  }
}
