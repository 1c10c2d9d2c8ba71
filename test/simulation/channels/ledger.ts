/** The true history of channels in a run, kept apart from the storage, and the laws by which it is read. */
import { peek } from 'bun'
import { DEPOSIT_GAS } from '../../../adapters/chains/evm/channels/costs.ts'
import type { ContractCall } from '../../../adapters/chains/evm/node/multicall.ts'
import { type Hex, lower } from '../../../adapters/chains/lib/hex.ts'
import { CHAIN_AWAY } from '../../../core/endpoint/replies.ts'
import type { Reply } from '../../../core/http/reply.ts'
import type { Payment } from '../../../core/mod.ts'
import type { Call, Claim, StoredRecord } from '../../../core/ports/mod.ts'
import type { StorageHooks } from '../scheduled_ports.ts'
import { isLive } from '../products.ts'
import { type Block, claimRowsOf, decodedCall, digests, type Mined } from './contract.ts'
import { hasSigned } from './keys.ts'
import { NETWORK, PAY_TO } from './terms.ts'
import { type Client, THIEF } from './clients.ts'
import type { Actor, Process, Signed, Voucher, World } from './world.ts'

export const LAWS = {
  order: 'of a channel, claimed <= charged <= the ceiling that its buyer signed, and the signature is of that ceiling',
  covered: 'what a channel is charged can be claimed from its balance',
  oneCharge: 'a base of a channel is charged once, and for one call',
  monotone: 'what a channel was charged never sinks',
  chargeHasResult: 'a channel is charged only for a stored result, and at most its price',
  resultHasCharge: 'a result is shown only when a channel was charged for it, and the receipt says how much',
  depositHasCall: 'a deposit is sent only for a call that is open',
  noSecondSignature: 'nobody is asked to sign again for a call that a channel was charged for',
  nothingStuck: 'a buyer who follows the corrections can collect what it ordered, and buy again',
  trueLedger: 'the charges of the ledger are those of the channels',
  neverOverclaimed: 'no more is claimed of a channel than was charged',
  withdrawalSeen: 'a round of claims brings in what is due of a channel whose payer withdraws',
  refundLeavesDue: 'a refund leaves what was charged in the channel',
  sellerIsPaid: 'what was charged is claimed, and the payee has it to the unit',
  nothingGiven: 'an answer that was read whole is charged, but for what a wallet may have open',
  onlyThePayer: 'nobody collects what another wallet ordered, or learns its id',
  payerHasSigned: 'the wallet of a call is one whose key has signed its payment',
  ownVoucher: 'nobody buys with a voucher that another has signed',
  gasIsBounded: 'for the deposits of one wallet, no process pays more gas in a while than it may in an hour',
  noSurprise: 'no request fails with an unexpected error',
} as const
export type LawName = keyof typeof LAWS

export type Violation = { readonly law: LawName; readonly text: string; readonly step: number }

/** A channel as it is stored. */
type Stored = {
  readonly charged: bigint
  readonly ceiling: bigint
  readonly claimed: bigint
  readonly signature: Hex
}

/** A channel was moved from its base by a charge. */
type Move = {
  readonly channelId: Hex
  readonly base: bigint
  readonly due: bigint
  readonly call: string
  readonly at: number
}

/** A call: the key that it was opened with, and the payment. */
type Opening = {
  readonly name: string
  readonly opening: string
  readonly opener: Signed | undefined
  readonly at: number
}

export type ChannelLedger = {
  readonly calls: readonly string[]
  readonly violation: Violation | undefined
  readonly hooks: StorageHooks
  nameOf(id: string): string
  row(id: string): Call | undefined
  opener(id: string): Signed | undefined
  isLive(id: string): boolean
  /** Charge of a call. */
  moveOf(id: string): Pick<Move, 'due'> | undefined
  violate(law: LawName, text: string): void
  random(bytes: number): Uint8Array
  newWork(): number
  sending(actor: Actor | undefined, call: ContractCall): void
  mined(by: 'gateway' | 'stranger', call: ContractCall, from?: Hex): Mined
  /** A process has taken the lease, and looks for what is due. */
  roundBegins(process: Process, lease: { readonly until: number }): void
  /** The node or the weather keeps rounds that are under way from bringing in everything. */
  spoil(): void
  roundEnds(process: Process): void
  replied(actor: Actor, reply: Reply): void
  failed(actor: Actor, error: Error): void
  alerted(message: string, fields: Record<string, unknown> | undefined): void
  restored(): void
  /** A node has shown an older block than before. */
  wentBack(block: Block): void
  /** A wallet took its money away, or began to. */
  fled(client: Client): void
  /** A channel that was charged before the run began. */
  seeded(client: Client, stored: Stored): void
  /** `isTimely`: nothing that was signed has ended before it could be sent. A thief's never excuses it. */
  judgeGifts(at: { readonly isTimely: boolean }): void
  /** At the end, when all is quiet and claimed. */
  close(): void
}

/** Before the end of its lease of two minutes: half a minute after it began. */
const SLOW_MS = 90_000

const GAS_WINDOW_MS = 1_200_000

const EMPTY: Stored = { charged: 0n, ceiling: 0n, claimed: 0n, signature: '0x' }

export function channelLedger(world: World): ChannelLedger {
  const calls = new Map<string, Opening>()
  const records = new Map<Hex, Stored>()
  const moves = new Map<string, Move>()
  const moveOfCall = new Map<string, Move>()
  /** By key: the call for which the payment was handed out, and what it is to be charged. */
  const handed = new Map<string, { readonly call: string; readonly charge: bigint | undefined; readonly at: number }>()
  /** Charges that a restored storage had forgotten, and the chain had not. */
  const adopted = new Map<Hex, bigint>()
  /** Charges in vain: not claimed before a withdrawal. */
  const forfeited = new Map<Hex, bigint>()
  const chargedBefore = new Map<Hex, bigint>()
  const mostCharged = new Map<Hex, bigint>()
  const rounds = new Map<
    Process,
    { readonly due: ReadonlyMap<Hex, bigint>; readonly until: number; isClean: boolean }
  >()
  /** By key of the payment: the answers that were read whole for it. */
  const answers = new Map<string, { readonly client: Client; readonly works: Set<string> }>()
  /** By process and payer: when deposits were sent. */
  const sentFor = new Map<string, readonly number[]>()
  /** Step at which the money of a channel was last asked for. */
  const withdrawnAt = new Map<string, number>()
  const fugitives = new Set<string>()
  /** Channels of which a node has shown no money after it had shown some. */
  const hidden = new Set<Hex>()
  /** The step at which the ledger knew that a call was paid; and calls that were given away (decision 16). */
  const paidAt = new Map<string, number>()
  const unresolved = new Map<string, number>()
  let wasRestored = false
  let violation: Violation | undefined
  let counter = 0
  let works = 0

  function violate(law: LawName, text: string): void {
    const { breaks } = world.rule
    if (violation || (breaks && !breaks.includes(law))) return
    violation = { law, text, step: world.step }
    world.say(() => `VIOLATION: ${LAWS[law]}: ${text}`)
  }

  const row = (id: string): Call | undefined => peek(world.journal.storage.getCall(id)) as Call | undefined
  const nameOf = (id: string): string => calls.get(id)?.name ?? id
  const clientOf = (channelId: Hex): Client => world.clients.find(({ id }) => id === channelId) as Client
  const titleOf = (channelId: Hex): string => clientOf(channelId)?.name ?? channelId
  const written = (): number => world.journal.length()
  const isOfLive = (id: string): boolean => {
    const opener = calls.get(id)?.opener
    return opener !== undefined && isLive(opener.product)
  }

  function note({ id, payer }: Pick<Call, 'id' | 'payer'>, key: string, payment: Payment): void {
    if (calls.has(id)) return
    const opener = world.byHeader(btoa(JSON.stringify(payment)))
    // A voucher that a backup has forgotten and a claim has published still buys the rest that it allows.
    const isForgotten = wasRestored && world.published.size > 0
    if (opener && opener.holder !== opener.client.buyer && !isForgotten)
      violate('ownVoucher', `${opener.holder} orders with ${opener.name}, which ${opener.client.buyer} has signed`)
    else if (opener && !addressesOf(opener).includes(lower(payer)))
      violate('payerHasSigned', `${opener.name} of ${opener.holder} orders in the name of ${titleOfAddress(payer)}`)
    calls.set(id, { name: `call ${calls.size}`, opening: key, opener, at: written() })
  }

  /** A process dates a deposit by its order, which may have waited: an hour of the process is at least this. */
  function judgeGas(actor: Actor | undefined, payer: string): void {
    if (!actor || world.isCalm) return
    const name = `${actor.process.index} ${payer}`
    const before = (sentFor.get(name) ?? []).filter((at) => world.now - at < GAS_WINDOW_MS)
    sentFor.set(name, [...before, world.now])
    const gas = DEPOSIT_GAS * BigInt(before.length + 1)
    if (gas > world.gasPerWallet)
      violate('gasIsBounded', `${actor.name} spends ${gas} for ${titleOfAddress(payer)}, of ${world.gasPerWallet}`)
  }

  const titleOfAddress = (address: string): string =>
    world.clients.find(({ config }) => config.payer === lower(address))?.name ?? address

  /** A thief reads the vouchers that a claim publishes of the channels of others. */
  function publish({ data }: { readonly data: Hex }): void {
    if (!world.rule.isThief || world.published.has(data)) return
    world.published.add(data)
    const decoded = decodedCall(data)
    if (decoded.functionName === 'multicall') for (const inner of decoded.args[0]) publish({ data: inner })
    if (decoded.functionName !== 'claimWithSignature') return
    for (const { channelId, ceiling, charged, signed } of claimRowsOf(decoded.args[0]))
      steal(clientOf(channelId), { ceiling, charged, signature: signed })
  }

  function steal(client: Client, voucher: Omit<Voucher, 'client'>): void {
    if (client.buyer !== THIEF) world.loot.push({ client, ...voucher })
  }

  // ── channels ──────────────────────────────────────────────────────────────────────────────────────────────────────

  function recorded({ kind, data }: StoredRecord): void {
    if (kind !== 'channel') return
    const { channelId, ...next } = storedIn(data)
    const before = records.get(channelId)
    records.set(channelId, next)
    const { charged, ceiling, claimed, signature } = next
    mostCharged.set(
      channelId,
      charged > (mostCharged.get(channelId) ?? 0n) ? charged : (mostCharged.get(channelId) ?? 0n),
    )
    const from = before?.charged ?? claimed
    world.say(() => `   ${titleOf(channelId)}: charged ${from} -> ${charged}, ceiling ${ceiling}, claimed ${claimed}`)
    const client = clientOf(channelId)
    const isUnsigned = ceiling === 0n && signature === '0x' && charged === claimed
    const isSigned = isUnsigned || hasSigned(client.voucher.address, digests.voucher(channelId, ceiling), signature)
    if (!isSigned) violate('order', `the stored signature of ${client.name} is not of its ceiling, ${ceiling}`)
    if (charged > ceiling && !isUnsigned)
      violate('order', `${client.name} was charged ${charged}, and signed ${ceiling}`)
    if (claimed > charged) violate('order', `${claimed} of ${client.name} are claimed, and ${charged} charged`)
    if (charged < from) return violate('monotone', `the charges of ${client.name} sink from ${from} to ${charged}`)
    if (charged === from) return
    if (wasRestored && charged === claimed) return void adopted.set(channelId, charged - from)
    charge(client, { base: from, due: charged - from })
  }

  function charge({ id: channelId, name }: Client, { base, due }: { base: bigint; due: bigint }): void {
    const key = world.keyOf(channelId, base)
    const claim = handed.get(key)
    if (!claim) return violate('chargeHasResult', `${name} is charged ${due} on ${base}, and no call claims it`)
    const before = moves.get(key)
    if (before) return violate('oneCharge', `${name} is charged twice on ${base}`)
    const { call: id } = claim
    if (moveOfCall.has(id)) violate('oneCharge', `${nameOf(id)} is charged twice, the second time to ${name}`)
    const move: Move = { channelId, base, due, call: id, at: written() }
    moves.set(key, move)
    moveOfCall.set(id, move)
    const call = row(id)
    if (call?.workStatus !== 'completed' || call.result === null)
      return violate('chargeHasResult', `${name} is charged ${due} for ${nameOf(id)}, which has no result`)
    const wanted = claim.charge === undefined || claim.charge > call.quote ? call.quote : claim.charge
    if (due !== (wanted < 1n ? 1n : wanted))
      violate('chargeHasResult', `${name} is charged ${due} for ${nameOf(id)}, which costs ${wanted}`)
    if (due > call.quote) violate('chargeHasResult', `${name} is charged ${due}, and the price was ${call.quote}`)
    const { balance } = world.contract.escrow(channelId)
    // A process that stands still for the whole of a withdraw delay, between its last look and the write, cannot know.
    const wasPaused = (withdrawnAt.get(channelId) ?? -1) >= (world.active?.began ?? 0)
    if (base + due > balance && !wasPaused)
      violate('covered', `${name} is charged up to ${base + due} for ${nameOf(id)}, and has ${balance} in its channel`)
  }

  function claimed(claim: Claim, { id, offered }: { id: string; offered: { key?: string } | undefined }): Claim {
    const given = claim.kind === 'yours' ? offered : undefined
    const { key } = claim.kind === 'retry' ? claim.authorization : (given ?? {})
    world.say(() => `   -> ${claim.kind} for ${nameOf(id)}`)
    if (key === undefined) return claim
    const amount = 'charge' in claim ? claim.charge : undefined
    handed.set(key, { call: id, charge: amount, at: written() })
    return claim
  }

  // ── the chain ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** After a transaction: what was taken away before it was claimed is lost to the seller. */
  function judgeEscrows(by: 'gateway' | 'stranger', before: ReadonlyMap<Hex, bigint>): void {
    for (const client of world.clients) {
      const { balance, claimed: onChain } = world.contract.escrow(client.id)
      const { charged } = records.get(client.id) ?? EMPTY
      const most = mostCharged.get(client.id) ?? 0n
      if (onChain > most) violate('neverOverclaimed', `${onChain} of ${client.name} are claimed, and ${most} charged`)
      const lost = charged > balance ? charged - balance : 0n
      if (by === 'gateway' && lost > 0n && balance < (before.get(client.id) ?? 0n))
        violate('refundLeavesDue', `${client.name} was charged ${charged}, and a refund leaves it ${balance}`)
      if (lost > (forfeited.get(client.id) ?? 0n)) forfeited.set(client.id, lost)
    }
  }

  // ── replies ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** After a backup, the chain may have claimed for it what the backup had not charged yet. */
  const isCharged = (id: string): boolean => moveOfCall.has(id) || adopted.size > 0

  function judgeReceipt(actor: Actor, id: string | undefined, reply: Reply): void {
    const receipt = headerIn(reply, 'payment-response')
    if (!receipt?.success || id === undefined) return
    const move = moveOfCall.get(id)
    if (!move && isCharged(id)) return
    if (!move)
      return violate('resultHasCharge', `${actor.name} has a receipt of ${nameOf(id)}, which nobody was charged`)
    const { chargedAmount } = (receipt.extra ?? {}) as { chargedAmount?: string }
    if (receipt.amount !== String(move.due) || chargedAmount !== String(move.due))
      violate('resultHasCharge', `${actor.name} has a receipt of ${receipt.amount}, and ${move.due} was charged`)
  }

  /** A poll with a voucher for the price of its call, or for what it came to, that asks for another one. */
  function judgeRefusal({ name, kind, call: id, signed, began }: Actor, reply: Reply): void {
    if (kind !== 'poll' || reply.status !== 402 || id === undefined || !signed || world.isFlaky || wasRestored) return
    const { quote, charge: due } = row(id) ?? {}
    const amount = BigInt(signed.payment.accepted.amount)
    const wasPaid = (paidAt.get(id) ?? Number.POSITIVE_INFINITY) < began
    // Whoever polls another's call is not its buyer, and a deposit that another key than the payer's has signed proves
    // no wallet, not even to a call of the one who sends it.
    if (calls.get(id)?.opener?.holder !== signed.holder || hasForeignDeposit(signed)) return
    if (wasPaid && (amount === quote || amount === due))
      violate('noSecondSignature', `${name} gets 402, and ${nameOf(id)} was charged`)
  }

  function judgeLive(actor: Actor, text: string): void {
    const { signed, call } = actor
    const isCut = text.startsWith('data:') && !text.includes('[DONE]')
    if (!signed || isCut) return
    const key = call === undefined ? signed.key : (calls.get(call)?.opening ?? signed.key)
    const read = answers.get(key) ?? { client: signed.client, works: new Set() }
    const works = [...text.matchAll(/end-of-work-\d+/g)].map(([work]) => work)
    for (const work of works) read.works.add(work)
    answers.set(key, read)
    if (call === undefined || works.length === 0) return
    const status = row(call)?.paymentStatus
    if (!isCharged(call) && !unresolved.has(call))
      violate('resultHasCharge', `${actor.name} shows ${nameOf(call)}, which is ${status}`)
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
    opener: (id) => calls.get(id)?.opener,
    isLive: isOfLive,
    moveOf: (id) => moveOfCall.get(id),
    violate,

    hooks: {
      opened(opened, authorization) {
        world.say(() => `   -> ${opened.kind} ${opened.kind === 'over' ? opened.sum : nameOf(opened.call.id)}`)
        if (opened.kind === 'opened') note(opened.call, authorization.key, authorization.payment)
        return opened
      },
      claiming() {},
      claimed,
      finished(isWritten, id, outcome) {
        world.say(() => `   -> ${nameOf(id)}: ${isWritten ? 'written' : 'refused: the token is stale'}`)
        if (outcome.kind === 'unresolved' && isWritten) unresolved.set(id, written())
        if (outcome.kind === 'paid' && !paidAt.has(id)) paidAt.set(id, world.step)
        if (outcome.kind === 'paid' && !isWritten)
          violate('trueLedger', `a payment for ${nameOf(id)} is refused by the ledger`)
        return isWritten
      },
      recorded,
      paid(order, { key, payment }, { receipt, spent }) {
        const { id } = order
        note(order, key, payment)
        handed.set(key, { call: id, charge: BigInt(receipt.amount), at: written() })
        recorded(spent.record)
        paidAt.set(id, world.step)
      },
    },

    random(bytes) {
      const made = new Uint8Array(bytes)
      counter += 1
      made[bytes - 1] = counter & 255
      made[bytes - 2] = counter >> 8
      return made
    },

    newWork: () => ++works,

    sending(actor, call) {
      publish(call)
      const deposit = world.signed.find((signed) => signed.deposit?.call.data === call.data)
      if (deposit) judgeGas(actor, deposit.client.config.payer)
      if (!deposit || wasRestored) return
      const isOpen = [...calls.values()].some(({ opening }) => opening === deposit.key)
      if (!isOpen && !handed.has(deposit.key))
        violate('depositHasCall', `${actor?.name} sends the deposit of ${deposit.name}, which has no call`)
    },

    mined(by, call, from) {
      const before = new Map(world.clients.map(({ id }) => [id, world.contract.escrow(id).balance]))
      const mined = world.contract.send(call, from)
      publish(call)
      world.say(
        () =>
          `   a transaction of ${by === 'gateway' ? 'the gateway' : 'somebody'} ${mined.isSuccess ? 'is mined' : 'reverts'}`,
      )
      judgeEscrows(by, before)
      return mined
    },

    roundBegins(process, { until }) {
      const due = new Map<Hex, bigint>()
      const isClean = !world.isFlaky && !world.isStorageAway
      for (const { id } of world.clients) {
        const { charged = 0n } = records.get(id) ?? EMPTY
        if (world.contract.escrow(id).withdrawing > 0n) due.set(id, charged)
      }
      rounds.set(process, { due, isClean, until })
    },

    spoil() {
      for (const round of rounds.values()) round.isClean = false
    },

    roundEnds(process) {
      const round = rounds.get(process)
      rounds.delete(process)
      // A round that is slow leaves out what others have noted since it began; the next one, a minute later, does not.
      if (!round?.isClean || world.isFlaky || world.now > round.until - SLOW_MS) return
      for (const [id, charged] of round.due) {
        const { claimed: onChain, balance } = world.contract.escrow(id)
        const most = charged < balance ? charged : balance
        if (onChain < most)
          violate('withdrawalSeen', `${onChain} of ${titleOf(id)} are claimed after a round, and ${charged} were due`)
      }
    },

    replied(actor, reply) {
      const text = String(reply.body)
      const isOrder = actor.signed && !actor.signed.isRefund && isLive(actor.signed.product)
      const isAnswer = actor.call === undefined ? isOrder : isOfLive(actor.call)
      const body = reply.status === 200 && isAnswer ? {} : JSON.parse(text)
      const sameKey = [...calls].filter(([, { opening }]) => opening === actor.signed?.key)
      // Two payloads may have one key; one of their calls is paid.
      const opened = (sameKey.findLast(([id]) => row(id)?.paymentStatus === 'settled') ?? sameKey.at(-1))?.[0]
      const id = body.id ?? body.job_id ?? actor.call ?? opened
      world.say(
        () =>
          `${actor.name}: ${[reply.status, body.status ?? body.code ?? body.error ?? '', body.details ?? ''].join(' ')}`,
      )
      if (actor.signed?.isRefund && actor.kind === 'post') return learn(actor, reply, body)
      judgeReceipt(actor, actor.call ?? (reply.status === 200 && isAnswer ? opened : id), reply)
      if (reply.status === 200 && isAnswer) judgeLive(actor, text)
      const holder = actor.signed?.holder
      const isOther = actor.call !== undefined && calls.get(actor.call)?.opener?.holder !== holder
      // Nobody could say who has signed, so that it says nothing but to ask again.
      const isUnknown = reply.status === 202 && body.note === CHAIN_AWAY && !/[?&]key=/.test(text)
      if (isOther && reply.status < 300 && !isUnknown && row(actor.call ?? '') !== undefined)
        violate('onlyThePayer', `${actor.name} gets ${reply.status}`)
      const reported = actor.kind === 'post' ? (body.id ?? body.job_id) : undefined
      const owner = reported === undefined ? undefined : calls.get(reported)?.opener?.holder
      if (owner !== undefined && owner !== holder)
        violate('onlyThePayer', `${actor.name} of ${holder} is told of ${nameOf(reported)} of ${owner}`)
      if (reply.status === 200 && body.data && body.payment?.status !== 'unresolved' && !isCharged(body.id))
        violate('resultHasCharge', `${actor.name} shows ${nameOf(body.id)}, which no channel was charged for`)
      judgeRefusal(actor, reply)
      learn(actor, reply, body)
    },

    failed(actor, error) {
      if (!world.isFlaky && !wasRestored) violate('noSurprise', `${actor.name}: ${error.message}`)
    },

    alerted(message, fields) {
      world.say(() => `alert: ${message} ${JSON.stringify(fields ?? {})}`)
      if (!world.isFlaky && /unexpected error|background|storage fails/.test(message))
        violate('noSurprise', `${message}: ${String(fields?.error)}`)
    },

    restored() {
      wasRestored = true
      const until = world.backup
      for (const [id, { at }] of calls) if (at > until) calls.delete(id)
      for (const [key, { at }] of handed) if (at > until) handed.delete(key)
      for (const [key, { at, call }] of moves) {
        if (at <= until) continue
        moves.delete(key)
        moveOfCall.delete(call)
      }
      answers.clear()
      records.clear()
      for (const client of world.clients) {
        const id = `${NETWORK}/${client.id}`
        const record = peek(world.journal.storage.getRecord('channel', id, world.now)) as StoredRecord | undefined
        if (!record) continue
        const { channelId, ...stored } = storedIn(record.data)
        records.set(channelId, stored)
      }
    },

    wentBack(block) {
      for (const { id } of world.clients)
        if (world.contract.escrow(id).balance > 0n && !block.state.escrows.get(id)?.balance) hidden.add(id)
    },

    fled: ({ id, buyer }) => {
      fugitives.add(buyer)
      withdrawnAt.set(id, world.step)
    },

    seeded({ id }, stored) {
      records.set(id, stored)
      mostCharged.set(id, stored.charged)
      chargedBefore.set(id, stored.charged)
    },

    judgeGifts({ isTimely }) {
      if (world.isRough || wasRestored) return
      for (const [key, { client, works: read }] of answers) {
        const spare = read.size - (moves.has(key) ? 1 : 0)
        const isLate = client.buyer !== THIEF && (!isTimely || fugitives.has(client.buyer))
        const isExcused = isLate || hidden.has(client.id)
        if (spare <= 0 || isExcused) continue
        violate('nothingGiven', `${client.name} read ${read.size} answers and was charged for ${read.size - spare}`)
      }
    },

    close() {
      let due = 0n
      for (const client of world.clients) {
        const { claimed: onChain, balance } = world.contract.escrow(client.id)
        const { charged } = records.get(client.id) ?? EMPTY
        const before = chargedBefore.get(client.id) ?? 0n
        const sum = [...moves.values()].reduce(
          (all, move) => all + (move.channelId === client.id ? move.due : 0n),
          before,
        )
        due += onChain
        if (!wasRestored && sum !== charged)
          violate('trueLedger', `${client.name} was charged ${charged}, and its calls come to ${sum}`)
        const lost = forfeited.get(client.id) ?? 0n
        if (onChain < charged && (lost === 0n || onChain < (charged < balance ? charged : balance)))
          violate('sellerIsPaid', `${onChain} of ${client.name} are claimed, and ${charged} were charged`)
      }
      for (const [id, move] of moveOfCall) judgeCall(id, move)
      for (const id of calls.keys()) {
        const call = row(id)
        if (call?.paymentStatus === 'settled' && !isCharged(id))
          violate('trueLedger', `${nameOf(id)} is settled, and no channel was charged for it`)
      }
      const paid = world.contract.balanceOf(lower(PAY_TO))
      if (paid !== due) violate('sellerIsPaid', `the payee has ${paid}, and ${due} were claimed`)
    },
  }

  function judgeCall(id: string, { due, at }: Move): void {
    const call = row(id)
    // A charge that was on its way for longer than anybody waits: the operator was told that it is in doubt.
    if (call?.paymentStatus === 'unresolved' && (unresolved.get(id) ?? at) < at) return
    if (call?.paymentStatus !== 'settled')
      return violate('trueLedger', `${nameOf(id)} was charged ${due}, and is ${call?.paymentStatus}`)
    if (call.charge !== due || call.receipt?.amount !== String(due))
      violate('trueLedger', `${nameOf(id)} was charged ${due}, and the ledger says ${call.charge}`)
  }

  // ── what clients learn ────────────────────────────────────────────────────────────────────────────────────────────

  /** A correction may tell the last voucher to whoever presents an old one. */
  function learnAsThief(client: Client, body: Record<string, unknown>): void {
    const { accepts = [] } = body as { accepts?: Corrections }
    const { channelState, voucherState } = accepts[0]?.extra ?? {}
    if (!channelState || !voucherState) return
    const [ceiling, charged] = [voucherState.signedMaxClaimable, channelState.chargedCumulativeAmount].map(BigInt)
    if (ceiling !== undefined && charged !== undefined)
      steal(client, { ceiling, charged, signature: voucherState.signature })
  }

  /** As the official client does: by the receipt in a header, or by the correction of a 402. */
  function learn({ signed }: Actor, reply: Reply, body: Record<string, unknown>): void {
    if (!signed) return
    const { client } = signed
    if (signed.holder !== client.buyer) return learnAsThief(client, body)
    const receipt = headerIn(reply, 'payment-response')
    const known = receipt?.success ? (receipt.extra as { channelState?: ChannelState })?.channelState : undefined
    if (known) {
      client.charged = BigInt(known.chargedCumulativeAmount)
      client.balance = BigInt(known.balance)
      return
    }
    if (reply.status !== 402 || receipt) return
    const { accepts = [] } = body as { accepts?: Corrections }
    const { channelState, voucherState } = accepts[0]?.extra ?? {}
    if (!channelState) return
    const onChain = world.contract.escrow(client.id)
    client.balance = onChain.balance
    if (!voucherState) return void (client.charged = onChain.claimed)
    const charged = BigInt(channelState.chargedCumulativeAmount)
    const most = BigInt(voucherState.signedMaxClaimable)
    const isOwn = hasSigned(client.voucher.address, digests.voucher(client.id, most), voucherState.signature)
    if (charged <= most && charged >= onChain.claimed && isOwn) client.charged = charged
  }
}

/** With a deposit that its payer has not signed. */
const hasForeignDeposit = ({ deposit, client }: Signed): boolean =>
  deposit !== undefined && client.config.payer !== client.wallet.address

/** The addresses of the keys that its buyer holds. */
function addressesOf({ client }: Signed): readonly Hex[] {
  const isOwn = client.config.payer === client.wallet.address
  return isOwn ? [client.wallet.address, client.voucher.address] : [client.voucher.address]
}

type ChannelState = { readonly chargedCumulativeAmount: string; readonly balance: string }
type Corrections = { extra?: { channelState?: ChannelState; voucherState?: VoucherState } }[]
type VoucherState = { readonly signedMaxClaimable: string; readonly signature: Hex }

function headerIn(reply: Reply, name: string): Record<string, unknown> | undefined {
  const header = reply.headers[name]
  return header === undefined ? undefined : JSON.parse(atob(header))
}

function storedIn(data: unknown): Stored & { readonly channelId: Hex } {
  const { channelId, charged, ceiling, claimed, signature } = (data as { data: Record<string, string> }).data
  return {
    channelId: channelId as Hex,
    charged: BigInt(charged ?? 0),
    ceiling: BigInt(ceiling ?? 0),
    claimed: BigInt(claimed ?? 0),
    signature: signature as Hex,
  }
}
