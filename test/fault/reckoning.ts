/** The reckoning after a storm: what was read, the ledger and the chain have to be one story. It changes nothing. */
import { differing } from './audit.ts'
import { type ChannelFacts, chargedTask, channelProblems } from './channel_ledger.ts'
import { idOf } from './payers.ts'
import { type Task, isAfterReply } from './tasks.ts'

/** Money that moved, by the nonce of its authorization, or by a channel and its base where a channel was charged. */
export type Moved = {
  readonly nonce: string
  readonly payer: string
  readonly units: bigint
  readonly transaction: string
}
type LedgerRow = {
  readonly id: string
  readonly payer: string
  readonly workStatus: string
  readonly paymentStatus: string
  readonly units: bigint
  readonly transaction: string
}

export type Facts = {
  readonly tasks: readonly Task[]
  /** Everything that wallets have paid to the seller, from the first block on. */
  readonly chain: readonly Moved[]
  /** Channels, and what they were charged. */
  readonly channels: ChannelFacts
  /** Without calls that channels have paid. */
  readonly ledger: readonly LedgerRow[]
  /** Wallets, in lower case, that moved their money away while answers were made. */
  readonly drained: ReadonlySet<string>
  /** Nonces of everything that any buyer has ever signed. */
  readonly signed: ReadonlySet<string>
  /** Results that their buyer could not collect, and the answer in their place. */
  readonly uncollected: ReadonlyMap<Task, string>
}

/** Limit of the amount that a wallet that never settled may have open after the reply (contract 1.47). */
export const CAP = { calls: 2, units: 50_000n } as const

export const INVARIANTS = {
  chargedOnce: 'charged at most once',
  nothingLost: 'nothing paid is lost',
  nothingGiven: 'given away: 0, beyond the cap',
  trueLedger: 'the ledger says what the chain says',
  nothingStuck: 'nothing is stuck, and who pays is served',
  noSurprise: 'no answer is 500 or unforeseen',
} as const
export type Invariant = keyof typeof INVARIANTS

export type Reckoning = {
  readonly counts: Readonly<
    Record<
      | 'tasks'
      | 'whole'
      | 'part'
      | 'refused'
      | 'answers'
      | 'transfers'
      | 'given'
      | 'capped'
      | 'taken'
      | 'inDoubt'
      | 'partsUnpaid',
      number
    >
  >
  readonly paid: bigint
  /** Worth, in micro-USDC, of what was given away beyond the cap, and within it. */
  readonly given: bigint
  readonly capped: bigint
  /**
   * Beyond the cap as well, by drained wallets that had paid something: contract 1.47 sets them none. Not a violation.
   */
  readonly taken: bigint
  readonly violations: readonly { readonly invariant: Invariant; readonly text: string }[]
}

export function reckon({ tasks, chain, channels, ledger, drained, signed, uncollected }: Facts): Reckoning {
  const violations: { invariant: Invariant; text: string }[] = []
  const violate = (invariant: Invariant, text: string) => void violations.push({ invariant, text })
  const byNonce = new Map(chain.map((line) => [line.nonce, line]))
  const charged = chargedTask(tasks, channels)
  const movedFor = (task: Task) => [
    ...task.signed.flatMap((payment) => byNonce.get(idOf(payment)) ?? []),
    ...channels.charges.filter((charge) => charged.get(charge) === task),
  ]
  const gifts: { readonly task: Task; readonly count: number }[] = []
  const counts = {
    tasks: tasks.length,
    whole: 0,
    part: 0,
    refused: 0,
    answers: 0,
    transfers: 0,
    given: 0,
    capped: 0,
    taken: 0,
    inDoubt: 0,
    partsUnpaid: 0,
  }
  let paid = 0n

  for (const task of tasks) {
    const moved = movedFor(task)
    const who = `${task.ware} of ${task.buyer.address}`
    counts.transfers += moved.length
    counts.answers += task.works.size
    paid += moved.reduce((sum, { units }) => sum + units, 0n)
    if (task.end === 'whole') counts.whole++
    if (task.end === 'part') counts.part++
    if (task.end === 'refused') counts.refused++
    if (moved.length > 1)
      violate(
        'chargedOnce',
        `${who} was charged ${moved.length} times: ${moved.map(({ transaction }) => transaction).join(' ')}`,
      )
    for (const { nonce, units, transaction } of moved) {
      const most = task.signed.find((payment) => idOf(payment) === nonce)?.accepted.amount ?? '0'
      if (units > BigInt(most)) violate('chargedOnce', `${who} signed ${most}, and ${transaction} took ${units}`)
    }
    const spare = task.works.size - moved.length
    if (spare > 0) gifts.push({ task, count: spare })
    if (moved.length === 0 && task.works.size === 0 && task.partBytes > 0) counts.partsUnpaid++
    const uncollectedReason = uncollected.get(task)
    if (uncollectedReason !== undefined)
      violate('nothingLost', `${who} was paid in ${moved[0]?.transaction}, and asked for it gives ${uncollectedReason}`)
    if (task.end === 'left') violate('nothingStuck', `${who} was never served: ${printed(task)}`)
    for (const oddity of task.oddities) violate('noSurprise', `${who}: ${oddity}`)
  }

  const open = new Map<string, { calls: number; units: bigint }>()
  const payers = new Set([...chain, ...channels.charges].map(({ payer }) => payer.toLowerCase()))
  let [given, capped, taken] = [0n, 0n, 0n]
  for (const { task, count } of gifts) {
    const wallet = walletOf(task)
    const isFled = isAfterReply(task.ware) && drained.has(wallet)
    const exposed = open.get(wallet) ?? { calls: 0, units: 0n }
    const [calls, units] = [exposed.calls + count, exposed.units + task.quote * BigInt(count)]
    if (isFled && calls <= CAP.calls && units <= CAP.units) {
      open.set(wallet, { calls, units })
      counts.capped += count
      capped += task.quote * BigInt(count)
      continue
    }
    if (isFled && payers.has(wallet)) {
      counts.taken += count
      taken += task.quote * BigInt(count)
      continue
    }
    counts.given += count
    given += task.quote * BigInt(count)
    violate(
      'nothingGiven',
      `${task.ware} of ${walletOf(task)}: ${count} of ${task.works.size} answers unpaid, each ${task.quote}`,
    )
  }

  for (const { nonce, payer } of [...chain, ...channels.charges])
    if (!signed.has(nonce)) violate('chargedOnce', `${payer} was charged by ${nonce}, which was signed for nothing`)
  const settled = ledger.filter(({ paymentStatus }) => paymentStatus === 'settled')
  const written = (line: { transaction: string; payer: string; units: bigint }) =>
    `${line.transaction} ${line.payer} ${line.units}`.toLowerCase()
  for (const line of differing(settled.map(written), chain.map(written)))
    violate('trueLedger', `in the ledger, not on the chain: ${line}`)
  for (const line of differing(chain.map(written), settled.map(written)))
    violate('trueLedger', `on the chain, not in the ledger: ${line}`)
  for (const { invariant, text } of channelProblems(channels)) violate(invariant, text)
  for (const row of ledger) {
    if (!isStuck(row)) continue
    // A signature of a drained wallet can still move money until it expires: until then its settlement is rightly in
    // doubt.
    const isDoubtful =
      drained.has(row.payer.toLowerCase()) && row.workStatus === 'completed' && row.paymentStatus === 'settling'
    if (isDoubtful) counts.inDoubt++
    else violate('nothingStuck', `call ${row.id} of ${row.payer} is stuck: ${row.workStatus}, ${row.paymentStatus}`)
  }
  return { counts, paid, given, capped, taken, violations }
}

/** When all is quiet, nothing is under way. */
export const isStuck = ({ workStatus, paymentStatus }: Pick<LedgerRow, 'workStatus' | 'paymentStatus'>): boolean =>
  workStatus === 'queued' ||
  workStatus === 'in_progress' ||
  paymentStatus === 'settling' ||
  paymentStatus === 'unresolved'

const walletOf = ({ buyer }: Task): string => buyer.address.toLowerCase()
const printed = ({ answers, poll, refusal }: Task): string =>
  [JSON.stringify([...answers]), ...(poll ? [`polling ${poll}`] : []), ...(refusal ? [refusal] : [])].join(', ')
