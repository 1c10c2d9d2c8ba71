/** Books of what truly happened in a run, kept apart from the storage, and the laws by which they are read. */
import { peek } from 'bun'
import type { MemoryTransfer } from '../../adapters/chains/evm/memory/ledger.ts'
import type { Reply } from '../../core/http/reply.ts'
import { timeouts, type Payment } from '../../core/mod.ts'
import type { Authorization, Call, Cap, Claim, Opened, Outcome } from '../../core/ports/mod.ts'
import { type Closing, limitLaws } from './limits.ts'
import { isLive } from './products.ts'
import type { Actor, Buyer, Signed, World } from './world.ts'

export const LAWS = {
  onePayment: 'a buyer pays once for a call',
  moneyHasResult: 'money moves only for a stored result, which its buyer can collect',
  resultHasMoney: 'a result is shown only for a transfer that is real, to us, and of its price',
  noSecondSignature:
    'nobody is asked to sign again, or told that nothing was charged, while what was signed has moved money or may',
  oneCall: 'an authorization pays for one call',
  nothingStuck: 'an authorization that moved no money can be used, or its call collected',
  trueLedger: 'the ledger says what the chain says',
  exposure: 'open calls of a wallet never exceed the balance that was observed',
  oneAtATime: 'two settlements of a call are never under way at once',
  goneIsFree: 'who has gone before an inline settlement begins is not charged by it',
  onlyThePayer: 'nobody collects what another wallet ordered',
  noSurprise: 'no request fails with an unexpected error',
  nothingGiven:
    'an answer that was read whole is paid, but for two of a wallet that never paid anything and took its money away',
  withinLimits: 'a wallet spends in a day what the operator allows, open calls included',
  closed: 'no order is taken from a wallet that is blocked, or while the gateway is under maintenance',
  newWallets: 'what wallets that never paid have open or unpaid together is within the limit',
  sums: 'what wallets have spent, and the calls and buyers of each day, are those of the ledger, whoever wrote it',
  olderStops: 'a process writes nothing more once the database takes a newer version',
} as const
export type LawName = keyof typeof LAWS

export type Violation = { readonly law: LawName; readonly text: string; readonly step: number }

/** One question to the chain to settle; timely when the claim left it the time that the house promises. */
type Attempt = {
  readonly call: string
  readonly at: number
  readonly actor: Actor
  readonly isTimely: boolean
  isAnswered: boolean
}

const CLAIM_TO_SETTLE_MS = timeouts.settleLeaseMs - timeouts.settleMs

export type Ledger = {
  readonly calls: readonly string[]
  readonly violation: Violation | undefined
  /** How a call is called in traces. */
  nameOf(id: string): string
  row(id: string): Call | undefined
  /** Amount that a poll asks for. */
  dueOf(id: string): bigint
  /** Transaction in which an authorization moved money. */
  moved(key: string): string | undefined
  /** Calls for which an authorization was sent, or which it served when its payer landed it. */
  servedBy(key: string): ReadonlySet<string>
  /** The call for which an authorization was handed to the chain, whatever the chain made of it. */
  handedOut(key: string): string | undefined
  violate(law: LawName, text: string): void
  random(bytes: number): Uint8Array

  // Events of processes and of the chain, in order.
  opened(opened: Opened, authorization: Authorization, at: { cap?: Pick<Cap, 'observed'> }): Opened
  claiming(actor: Actor | undefined, id: string): void
  claimed(claim: Claim, request: { id: string; offered: Authorization | undefined; at: { now: number } }): Claim
  settling(actor: Actor | undefined, payment: Payment): Attempt | undefined
  answered(attempt: Attempt | undefined): void
  sending(actor: Actor | undefined, payment: Payment, signed: Signed): void
  landed(by: 'gateway' | 'payer', signed: Signed, transfer: MemoryTransfer): void
  finished(isWritten: boolean, id: string, outcome: Outcome): boolean
  replied(actor: Actor, reply: Reply): void
  failed(actor: Actor, error: Error): void
  alerted(message: string, fields: Record<string, unknown> | undefined): void

  /** The number of one more answer that a model begins. */
  newWork(): number
  /** Whether a call is of what is answered before its money has moved. */
  isLive(id: string): boolean
  /** The operator closed the gateways to wallets, or to everybody, or opened them again. */
  closed(closing: Closing): void
  /** A wallet took away what would have paid for its answers. */
  fled(buyer: Buyer): void
  /** When all is well again, and before anybody comes for what lies: what was read against what was paid. */
  judgeGifts(): void
  /** At the end of a run, when all is quiet: the ledger against the chain. */
  close(): void
}

export function ledgerRows(world: World): Ledger {
  const calls = new Map<string, { readonly name: string; readonly opening: string }>()
  /** By key of an authorization: the calls that it was sent for, and the step at which it first was. */
  const sends = new Map<string, Set<string>>()
  const firstSent = new Map<string, number>()
  const transfers = new Map<string, { readonly key: string; readonly transfer: MemoryTransfer }>()
  const movedIn = new Map<string, string>()
  /**
   * Landed by its payer before any gateway sent it; the call that it served then. What it buys is the payer's own
   * affair.
   */
  const own = new Map<string, string | undefined>()
  const payments = new Map<string, Set<string>>()
  const spentOn = new Map<string, string>()
  /** By key of an authorization: the call that it was claimed for, and what that call is charged. */
  const handed = new Map<string, string>()
  const dues = new Map<string, bigint | undefined>()
  /** The claim that a payment was handed out for, by identity: the same authorization may be handed out twice. */
  const claims = new WeakMap<Payment, { readonly call: string; readonly requestedAt: number }>()
  const attempts = new Set<Attempt>()
  /** Calls for which an authorization was handed out while it still could move money, and calls given away. */
  const tried = new Set<string>()
  const unresolved = new Set<string>()
  /** By key of the authorization: the answers that were read whole for it. */
  const answers = new Map<string, Set<string>>()
  const fugitives = new Set<string>()
  let violation: Violation | undefined
  let counter = 0
  let works = 0

  function violate(law: LawName, text: string): void {
    const { breaks } = world.setup.rule
    if (violation || (breaks && !breaks.includes(law))) return
    violation = { law, text, step: world.step }
    world.say(() => `VIOLATION: ${LAWS[law]}: ${text}`)
  }

  const row = (id: string): Call | undefined => peek(world.storage.getCall(id)) as Call | undefined
  const within = limitLaws({
    limits: world.setup.rule.limits,
    isJudged: !world.isFlaky,
    now: () => world.now,
    step: () => world.step,
    row,
    violate,
  })
  const nameOf = (id: string): string => calls.get(id)?.name ?? id
  const nameOfKey = (key: string): string => world.byKey(key)?.name ?? key

  function pay(id: string, key: string): void {
    const keys = payments.get(id) ?? new Set()
    payments.set(id, keys.add(key))
    if (keys.size > 1) violate('onePayment', `${[...keys].map(nameOfKey).join(' and ')} both paid for ${nameOf(id)}`)
  }

  /**
   * The authorization that its payer has landed was free again, because the call that it served is lost: it pays for
   * the next one.
   */
  function rebind(id: string, key: string): void {
    payments.get(own.get(key) ?? '')?.delete(key)
    own.set(key, id)
    pay(id, key)
  }

  /** Calls that the payer of `call` can still be charged for, by what the chain will still take. */
  function exposureOf(call: Call): bigint {
    let sum = 0n
    for (const [id, { opening }] of calls) {
      const other = row(id)
      if (!other || other.payer !== call.payer || other.workStatus === 'failed' || other.paymentStatus === 'settled')
        continue
      const keys = [opening, ...[...sends].filter(([, to]) => to.has(id)).map(([key]) => key)]
      const isOpen = keys.some((key) => {
        const signed = world.byKey(key)
        return signed !== undefined && world.isSpendable(signed)
      })
      if (isOpen) sum += other.charge ?? other.quote
    }
    return sum
  }

  /** It moved money, or still can. */
  function isAlive(key: string): boolean {
    const signed = world.byKey(key)
    return signed !== undefined && (movedIn.has(key) || world.isSpendable(signed))
  }

  /** An authorization that this request sent, or that had been sent for its call before it came. */
  function inDoubt(actor: Actor): string | undefined {
    const concerns = (key: string, to: ReadonlySet<string>) =>
      actor.kind === 'post' ? key === actor.signed?.key : to.has(actor.call ?? '')
    const wasBefore = (key: string) => (firstSent.get(key) ?? Infinity) < actor.began
    const [found] =
      [...sends].find(([key, to]) => isAlive(key) && (actor.sent.has(key) || (concerns(key, to) && wasBefore(key)))) ??
      []
    return found
  }

  /**
   * The result may be given away (decision 16): something was sent in time, and for long nobody has been able to find
   * out what became of it.
   */
  function judgeUnresolved(id: string): void {
    unresolved.add(id)
    if (!tried.has(id))
      return violate('resultHasMoney', `${nameOf(id)} is given away, and nothing was ever sent for it`)
    const isLate = [...sends].every(([key, to]) => {
      const signed = world.byKey(key)
      return !to.has(id) || !signed || signed.isCancelled || world.now > signed.expiresAt + timeouts.unresolvedMs
    })
    if (!isLate) violate('resultHasMoney', `${nameOf(id)} is given away too early`)
  }

  function judgeResult(actor: Actor, body: { id: string; payment: { status: string; tx_hash: string } }): void {
    const { id, payment } = body
    if (payment.status === 'unresolved' && unresolved.has(id)) return
    const found = transfers.get(payment.tx_hash)
    const call = row(id)
    if (!call) return violate('moneyHasResult', `${actor.name} shows ${nameOf(id)}, which is not stored`)
    if (isOfNothing(call)) return
    if (!found)
      return violate('resultHasMoney', `${actor.name} shows ${nameOf(id)} for a transaction that does not exist`)
    const { transfer } = found
    const isRight =
      transfer.to === call.offer.payTo.toLowerCase() && isPriceOf(call, transfer) && transfer.from === call.payer
    if (!isRight)
      return violate(
        'resultHasMoney',
        `${actor.name} shows ${nameOf(id)} for a transfer of ${transfer.value} that is not its price`,
      )
    const before = spentOn.get(payment.tx_hash) ?? id
    spentOn.set(payment.tx_hash, before)
    if (before !== id)
      return violate('oneCall', `${nameOfKey(found.key)} paid for ${nameOf(before)} and for ${nameOf(id)}`)
    if (world.isFlaky) return
    if (call.paymentStatus !== 'settled' || call.receipt?.transaction !== payment.tx_hash) {
      violate('trueLedger', `${actor.name} shows ${nameOf(id)} as paid, and the ledger does not know`)
    }
  }

  function isOfLive(id: string): boolean {
    const signed = world.byKey(calls.get(id)?.opening ?? '')
    return signed !== undefined && isLive(signed.product)
  }

  function judgeLive(actor: Actor, text: string): void {
    const { signed, call } = actor
    world.say(() => `${actor.name}: 200 ${/end-of-work-\d+/.exec(text)?.[0] ?? 'no whole answer'}`)
    // One that stalled after its last word was not whole: its end was missing.
    const isCut = text.startsWith('data:') && !text.includes('[DONE]')
    if (!signed || isCut) return
    const key = call === undefined ? signed.key : (calls.get(call)?.opening ?? signed.key)
    const read = answers.get(key) ?? new Set()
    for (const [work] of text.matchAll(/end-of-work-\d+/g)) answers.set(key, read.add(work))
    if (call === undefined || read.size === 0 || world.isFlaky) return
    const money = row(call)?.paymentStatus
    if (money !== 'settled' && money !== 'unresolved')
      violate('resultHasMoney', `${actor.name} shows ${nameOf(call)}, which is ${money}`)
  }

  function judgeRow(id: string, settled: Map<string, string>): void {
    const call = row(id)
    if (!call) return violate('moneyHasResult', `${nameOf(id)} is forgotten`)
    const paid = [...(payments.get(id) ?? [])]
    if (call.paymentStatus !== 'settled') {
      const unseen = paid.find((key) => call.workStatus === 'completed' || sends.has(key))
      if (unseen)
        violate(
          'moneyHasResult',
          `${nameOfKey(unseen)} paid for ${nameOf(id)}, which is ${call.workStatus} and ${call.paymentStatus}`,
        )
      return
    }
    const { transaction = '', amount } = call.receipt ?? {}
    if (isOfNothing(call)) {
      if (paid.length > 0) violate('trueLedger', `${nameOf(id)} was charged nothing, and money moved`)
      return
    }
    const found = transfers.get(transaction)
    if (!found) return violate('trueLedger', `the receipt of ${nameOf(id)} is of no transaction`)
    const { key, transfer } = found
    const isRight = isPriceOf(call, transfer) && transfer.from === call.payer && amount === String(transfer.value)
    if (!isRight) return violate('trueLedger', `the receipt of ${nameOf(id)} is of another transfer`)
    if (call.result === null) return violate('moneyHasResult', `${nameOf(id)} is settled and has no result`)
    const before = settled.get(transaction)
    if (before) violate('oneCall', `${nameOfKey(key)} is the receipt of ${nameOf(before)} and of ${nameOf(id)}`)
    settled.set(transaction, id)
  }

  return {
    get calls() {
      return [...calls.keys()]
    },
    get violation() {
      return violation
    },
    nameOf,
    row,
    dueOf(id) {
      const call = row(id)
      return call?.charge || call?.quote || 1n
    },
    moved: (key) => movedIn.get(key),
    handedOut: (key) => handed.get(key),
    closed: within.closed,
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
      const isNew = opened.kind === 'opened' && !calls.has(opened.call.id)
      if (isNew) calls.set(opened.call.id, { name: `call ${calls.size}`, opening: authorization.key })
      if (isNew && own.has(authorization.key)) rebind(opened.call.id, authorization.key)
      world.say(() => `   -> ${opened.kind} ${opened.kind === 'over' ? opened.sum : nameOf(opened.call.id)}`)
      if (opened.kind !== 'opened') return opened
      const { call } = opened
      if (isNew) within.opened(call, world.active)
      if (cap?.observed === undefined) return opened
      const sum = exposureOf(call)
      if (sum > cap.observed) violate('exposure', `${sum} base units are open on a balance of ${cap.observed}`)
      return opened
    },

    claiming(actor, id) {
      // Who leaves a stream after its first words pays for them.
      if (actor?.kind === 'post' && actor.gone.signal.aborted && !isOfLive(id))
        violate('goneIsFree', `${actor.name} settles ${nameOf(id)} for nobody`)
    },

    claimed(claim, { id, offered, at }) {
      const given = givenBy(claim, offered)
      const key = given ? `${nameOfKey(given.key)}, token ${'token' in claim ? claim.token : ''}` : ''
      world.say(() => `   -> ${claim.kind} ${key}${claim.kind === 'retry' && claim.sent ? ', sent before' : ''}`)
      if (!given) return claim
      claims.set(given.payment, { call: id, requestedAt: at.now })
      const before = handed.get(given.key) ?? id
      const paid = before === id ? undefined : row(before)
      // The authorization that was refused for that call is free again, and another authorization may have paid for it
      // since.
      const payer = paid?.receipt && (transfers.get(paid.receipt.transaction)?.key ?? given.key)
      if (paid?.paymentStatus === 'settled' && payer === given.key)
        violate('oneCall', `${key} has paid for ${nameOf(before)}, and is handed out for ${nameOf(id)}`)
      handed.set(given.key, id)
      dues.set(given.key, 'charge' in claim ? claim.charge : undefined)
      if (at.now < given.expiresAt) tried.add(id)
      return claim
    },

    settling(actor, payment) {
      const claim = claims.get(payment)
      if (!actor || !claim) return undefined
      const { settleMs } = timeouts
      const attempt: Attempt = {
        call: claim.call,
        at: world.now,
        actor,
        isTimely: world.now - claim.requestedAt <= CLAIM_TO_SETTLE_MS,
        isAnswered: false,
      }
      for (const other of attempts) {
        const isUnderWay = !other.isAnswered && other.actor.process.isAlive && world.now < other.at + settleMs
        if (other.call === attempt.call && attempt.isTimely && other.isTimely && isUnderWay) {
          violate('oneAtATime', `${actor.name} settles ${nameOf(claim.call)} while ${other.actor.name} does`)
        }
      }
      attempts.add(attempt)
      return attempt
    },

    answered(attempt) {
      if (attempt) attempt.isAnswered = true
    },

    sending(actor, payment, { key, name: listed }) {
      const claim = claims.get(payment)
      if (!claim) return violate('oneCall', `${listed} is sent without a claim`)
      const to = sends.get(key) ?? new Set()
      sends.set(key, to.add(claim.call))
      if (!firstSent.has(key)) firstSent.set(key, world.step)
      actor?.sent.add(key)
      if (to.size > 1) violate('oneCall', `${listed} is sent for ${[...to].map(nameOf).join(' and for ')}`)
      const call = row(claim.call)
      if (call?.workStatus !== 'completed' || call.result === null)
        violate('moneyHasResult', `${listed} is sent for ${nameOf(claim.call)}, which has no result`)
    },

    landed(by, { key, name: listed }, transfer) {
      transfers.set(transfer.transaction, { key, transfer })
      movedIn.set(key, transfer.transaction)
      world.say(() => `   ${listed} moves money`)
      const due = dues.get(key)
      if (by === 'gateway' && due !== undefined && due !== transfer.value)
        violate('trueLedger', `${listed} moves ${transfer.value}, and its call used ${due}`)
      for (const id of sends.get(key) ?? []) pay(id, key)
      if (sends.has(key) || by === 'gateway') return
      const bound = peek(world.storage.callOf(key, world.now)) as Call | undefined
      own.set(key, bound?.id)
      if (bound && calls.get(bound.id)?.opening === key) pay(bound.id, key)
    },

    finished(isWritten, id, outcome) {
      world.say(() => `   -> ${isWritten ? 'written' : 'refused: the token is stale'}`)
      if (isWritten) within.finished(id, outcome)
      if (outcome.kind === 'unresolved' && isWritten) judgeUnresolved(id)
      if (outcome.kind === 'paid' && !isWritten)
        violate('trueLedger', `a payment for ${nameOf(id)} is refused by the ledger`)
      return isWritten
    },

    replied(actor, reply) {
      const text = String(reply.body)
      const isAnswer =
        actor.call === undefined ? actor.signed !== undefined && isLive(actor.signed.product) : isOfLive(actor.call)
      if (reply.status === 200 && isAnswer) return judgeLive(actor, text)
      const body = JSON.parse(text)
      const id = body.id ?? body.job_id
      const outcome = body.status ?? body.code ?? body.error
      const parts = () => [reply.status, outcome, body.payment?.status, id && nameOf(id)].filter(Boolean)
      world.say(() => `${actor.name}: ${parts().join(' ')}`)
      if (actor.kind === 'post' && reply.status < 300 && id) within.started(id)
      const isOther = actor.call !== undefined && row(actor.call)?.payer !== actor.signed?.buyer.wallet
      if (isOther && reply.status !== 403 && !world.isFlaky)
        violate('onlyThePayer', `${actor.name} gets ${reply.status}`)
      const owner = actor.kind === 'post' && id !== undefined ? row(id)?.payer : undefined
      if (owner !== undefined && owner !== actor.signed?.buyer.wallet)
        violate('onlyThePayer', `${actor.name} is told of ${nameOf(id)} of another wallet`)
      if (reply.status === 200 && body.data) judgeResult(actor, body)
      if (body.code === 'PAYMENT_REPLAY' && body.job_id !== undefined) return
      const key = reply.status === 402 ? inDoubt(actor) : [...actor.sent].find(isAlive)
      if (!key || (reply.status !== 402 && !/nothing was charged/i.test(text))) return
      violate(
        'noSecondSignature',
        `${actor.name} gets ${reply.status}, but ${nameOfKey(key)} ${movedIn.has(key) ? 'moved money' : 'may still land'}`,
      )
    },

    newWork: () => ++works,

    isLive: isOfLive,

    fled: ({ wallet }) => void fugitives.add(wallet),

    judgeGifts() {
      const unpaid = new Map<string, { count: number; units: bigint }>()
      const payers = new Set<string>([...transfers.values()].map(({ transfer }) => transfer.from))
      for (const [key, read] of answers) {
        const signed = world.byKey(key)
        const paid = row(handed.get(key) ?? '')
        const spare = read.size - (movedIn.has(key) || (paid && isOfNothing(paid)) ? 1 : 0)
        if (!signed || spare <= 0) continue
        const { wallet } = signed.buyer
        if (!fugitives.has(wallet))
          return violate(
            'nothingGiven',
            `${signed.name} bought ${read.size} answers and moved ${movedIn.has(key) ? 'the price of one' : 'nothing'}`,
          )
        const { count, units } = unpaid.get(wallet) ?? { count: 0, units: 0n }
        unpaid.set(wallet, { count: count + spare, units: units + BigInt(signed.product.offer.amount) * BigInt(spare) })
      }
      for (const [wallet, { count, units }] of unpaid) {
        const isOver = count > STRANGERS.calls || units > STRANGERS.units
        if (isOver && !payers.has(wallet))
          violate('nothingGiven', `a wallet that never paid anything has ${count} answers worth ${units}`)
      }
    },

    failed(actor, error) {
      if (!world.isFlaky) violate('noSurprise', `${actor.name}: ${error.message}`)
    },

    alerted(message, fields) {
      world.say(() => `alert: ${message}`)
      if (!world.isFlaky && /unexpected error|background|storage fails/.test(message))
        violate('noSurprise', `${message}: ${String(fields?.error)}`)
    },

    close() {
      const settled = new Map<string, string>()
      for (const id of calls.keys()) judgeRow(id, settled)
      const unknown = [...transfers].filter(([transaction, { key }]) => !settled.has(transaction) && !own.has(key))
      for (const [, { key }] of unknown)
        violate('trueLedger', `${nameOfKey(key)} moved money that the ledger does not know`)
      const sum = [...transfers.values()].reduce((total, { transfer }) => total + transfer.value, 0n)
      const balance = world.cash.balanceOf(world.cash.offer(1n).payTo)
      if (balance !== sum) violate('trueLedger', `the transfers come to ${sum}, the balance to ${balance}`)
    },
  }
}

/** Whether it is settled without a transaction, because it used nothing. */
const isOfNothing = ({ charge, receipt, paymentStatus }: Call): boolean =>
  paymentStatus === 'settled' && charge === 0n && receipt?.transaction === '' && receipt.amount === '0'

/** Amount used, where the call says so; never more than the quote. */
const isPriceOf = ({ charge, quote }: Call, { value }: MemoryTransfer): boolean =>
  value === (charge ?? quote) && value <= quote

/** Limit of the amount that a wallet that never settled may have open after the reply (contract 1.47). */
const STRANGERS = { calls: 2, units: 50_000n } as const

function givenBy(claim: Claim, offered: Authorization | undefined): Authorization | undefined {
  if (claim.kind === 'yours') return offered
  return claim.kind === 'retry' ? claim.authorization : undefined
}
