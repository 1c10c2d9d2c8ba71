/** Compares the ledger with the chain for a range of blocks, and names what differs. */
import type { LedgerEntry, LedgerReads } from '../../core/ports/mod.ts'
import type { Json } from '../../core/lib/mod.ts'
import { isCumulative, print, usdc } from '../../core/x402/mod.ts'
import { paidIn, statusOf } from './payment.ts'

/** A payment as the chain has it. */
export type OnChain = {
  readonly transaction: string
  readonly block: number
  readonly payer: string
  readonly amount: string
  readonly nonce: string | null
  /** It pays out what was claimed of channels: no call has it as its own. */
  readonly isClaim?: boolean
}

export type ChainSide = {
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly fromBlock: number
  readonly toBlock: number
  readonly since: number
  readonly transfers: readonly OnChain[]
  /** The key of the authorization of a payment; undefined where the chain does not tell it. */
  readonly keyOf?: (transfer: OnChain) => string | undefined
  /** When a block was made, in milliseconds. */
  readonly timeOf?: (block: number) => Promise<number>
  /** The last claim of each channel, and how to tell from its record what was lost. Amounts in base units. */
  readonly claims?: {
    readonly list: readonly {
      readonly channel: string
      readonly claimed: bigint
      readonly transaction: string
      readonly block: number
    }[]
    readonly kind: string
    readonly lostIn: (record: Json | undefined, claimed: bigint) => bigint
  }
}

export type Difference = {
  /**
   * `not_in_ledger`: an authorized payment that no settled call has, as after the restore of an older backup.
   * `not_settled_in_ledger`: the call is known, and the ledger does not say that it was paid. `not_on_chain`: a settled
   * call whose transfer the chain does not have. `different`: payer or amount differ, or the payment does not settle
   * the call whose authorization it has used. `other_transfer`: a transfer without an authorization, which no call can
   * have made. `not_charged_in_ledger`: more was claimed of a channel than its record was charged, as after the restore
   * of a backup that is older than its last vouchers.
   */
  readonly kind:
    | 'not_charged_in_ledger'
    | 'not_in_ledger'
    | 'not_settled_in_ledger'
    | 'not_on_chain'
    | 'different'
    | 'other_transfer'
  readonly transaction: string
  readonly block: number | null
  readonly call: string | null
  readonly text: string
  /** The payment, where the ledger lacks it and can book it. */
  readonly transfer?: OnChain
}

export type Reconciled = {
  readonly network: string
  readonly from_block: number
  readonly to_block: number
  readonly matched: number
  /**
   * Sum that calls were charged by vouchers since the first block, and sum that claims of channels paid out in the
   * range, in USDC. Both agree when nothing was due before and nothing is due after. Null where no channel was used.
   */
  readonly channels: { readonly charged: string; readonly paid_out: string } | null
  readonly differences: readonly Difference[]
  /** Those that were booked, with their calls. Absent if nothing was to be written. */
  readonly mended?: readonly Difference[]
}

/** The endpoint of calls that stand for payments of which the ledger has lost the calls. */
export const RECOVERED = 'recovered'

const BATCH = 500
/** A clock of ours may be behind that of the chain. */
const SKEW_MS = 600_000

export async function reconcileRange(ledger: LedgerReads, chain: ChainSide): Promise<Reconciled> {
  const all = await settledIn(ledger, chain)
  const [settled, charged] = [all.filter((entry) => !isCumulative(entry.offer)), chargedTo(all)]
  const claims = chain.transfers.filter(({ isClaim }) => isClaim)
  const paidOut = claims.reduce((sum, { amount }) => sum + BigInt(amount), 0n)
  const { matched, differences } = await compared(ledger, chain, settled)
  differences.push(...(await uncharged(ledger, chain)))
  const { network, fromBlock, toBlock } = chain
  const channels =
    charged === 0n && claims.length === 0 ? null : { charged: print(usdc(charged)), paid_out: print(usdc(paidOut)) }
  return { network, from_block: fromBlock, to_block: toBlock, matched, channels, differences }
}

type Compared = { readonly matched: number; readonly differences: Difference[] }

/** A transaction may carry many payments, of which the ledger has some. */
async function compared(ledger: LedgerReads, chain: ChainSide, settled: readonly LedgerEntry[]): Promise<Compared> {
  const rest = new Map(settled.map((entry) => [entry.id, entry]))
  const byTransaction = groupedBy(settled, transactionOf)
  const differences: Difference[] = []
  let matched = 0
  const judge = (entry: LedgerEntry, transfer: OnChain) => {
    rest.delete(entry.id)
    if (isSame(entry, transfer)) matched++
    else differences.push(different(entry, transfer))
  }
  const candidates = ({ transaction }: OnChain) =>
    (byTransaction.get(transaction.toLowerCase()) ?? []).filter(({ id }) => rest.has(id))

  // Of equal payments in one transaction only the authorizations tell which one the ledger lacks.
  const payments = chain.transfers.filter(({ isClaim }) => !isClaim)
  const unequal: OnChain[] = []
  for (const equal of groupedBy(payments, nameOf).values()) {
    const [first] = equal
    const entries = first ? candidates(first).filter((entry) => isSame(entry, first)) : []
    if (entries.length !== equal.length) unequal.push(...equal)
    else for (const entry of entries) if (first) judge(entry, first)
  }
  const unpaired: { readonly transfer: OnChain; readonly known: LedgerEntry | undefined }[] = []
  for (const transfer of unequal) {
    const known = await authorizedBy(ledger, chain, transfer)
    // A call may have been recorded since the settled ones were read.
    const isPaid = known?.paymentStatus === 'settled' && isAlike(transactionOf(known), transfer.transaction)
    if (isPaid) judge(known, transfer)
    else unpaired.push({ transfer, known })
  }
  for (const { transfer, known } of unpaired) {
    const found = known ? [] : candidates(transfer)
    const entry =
      found.find((each) => isSame(each, transfer)) ??
      found.find(({ payer }) => isAlike(payer, transfer.payer)) ??
      (transfer.nonce === null ? found[0] : undefined)
    if (entry) judge(entry, transfer)
    else differences.push(forgotten(chain, transfer, known))
  }
  for (const entry of rest.values()) differences.push(missing(entry))
  return { matched, differences }
}

function groupedBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): ReadonlyMap<string, readonly Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const group = groups.get(keyOf(item))
    if (group) group.push(item)
    else groups.set(keyOf(item), [item])
  }
  return groups
}

const transactionOf = ({ receipt }: LedgerEntry): string => receipt?.transaction.toLowerCase() ?? ''
const nameOf = ({ transaction, payer, amount }: OnChain): string => `${transaction} ${payer} ${amount}`.toLowerCase()

const chargedTo = (entries: readonly LedgerEntry[]): bigint =>
  entries.reduce((sum, entry) => (isCumulative(entry.offer) ? sum + paidIn(entry) : sum), 0n)

/** Settled calls of this payee whose receipt names a block of the range, or which a voucher has paid since it began. */
async function settledIn(
  ledger: LedgerReads,
  { network, asset, payTo, fromBlock, toBlock, since }: ChainSide,
): Promise<LedgerEntry[]> {
  const found: LedgerEntry[] = []
  const at = { since: Math.max(0, since - SKEW_MS), limit: BATCH }
  let after: { at: number; id: string } | undefined
  for (;;) {
    const entries = await ledger.listSettled({ ...at, ...(after && { after }) })
    found.push(
      ...entries.filter(({ offer, receipt }) => {
        const block = receipt?.block
        const isOurs = offer.network === network && isAlike(offer.asset, asset) && isAlike(offer.payTo, payTo)
        if (isCumulative(offer)) return isOurs
        return isOurs && block !== undefined && block >= fromBlock && block <= toBlock
      }),
    )
    const last = entries.at(-1)
    if (!last || entries.length < BATCH) return found
    after = { at: last.settledAt ?? 0, id: last.id }
  }
}

const isAlike = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase()

function isSame(entry: LedgerEntry, { payer, amount }: OnChain): boolean {
  return isAlike(entry.payer, payer) && String(paidIn(entry)) === amount
}

/** The call whose authorization a payment has used. Buyers choose nonces: another wallet's call may have the same. */
async function authorizedBy(
  ledger: LedgerReads,
  chain: ChainSide,
  transfer: OnChain,
): Promise<LedgerEntry | undefined> {
  const key = chain.keyOf?.(transfer)
  const [known] = key === undefined ? [] : await ledger.findCalls(key, 1)
  // One that is unpaid is left of a booking that was interrupted.
  return known?.endpoint === RECOVERED && known.paymentStatus !== 'settled' ? undefined : known
}

/** A payment that no settled call has. It has its `transfer` where it can be booked. */
function forgotten(chain: ChainSide, transfer: OnChain, known: LedgerEntry | undefined): Difference {
  const { transaction, block, payer, nonce } = transfer
  const paid = `${payer} paid ${dollarsOf(transfer)} USDC by ${transaction} in block ${block}`
  if (nonce === null)
    return { kind: 'other_transfer', transaction, block, call: null, text: `${paid}, without an authorization.` }
  if (!known) {
    const text = `${paid} with nonce ${nonce}, and the ledger does not know it.`
    return { kind: 'not_in_ledger', transaction, block, call: null, text, ...(transfer.amount !== '0' && { transfer }) }
  }
  const found = { transaction, block, call: known.id }
  const why = unbookable(known, chain, transfer)
  const text = `${paid} for ${known.id}, which the ledger has as ${statusOf(known)}`
  if (why) return { kind: 'different', ...found, text: `${text}: ${why}, so it is not booked.` }
  return { kind: 'not_settled_in_ledger', ...found, text: `${text}.`, transfer }
}

/** Why a payment does not pay for the call whose authorization it has used: its payer can send it with any amount. */
function unbookable(
  { offer, charge, quote, workStatus, paymentStatus, receipt }: LedgerEntry,
  { network, asset, payTo }: ChainSide,
  { amount }: OnChain,
): string | undefined {
  const due = charge ?? quote
  const isOurs = offer.network === network && isAlike(offer.asset, asset) && isAlike(offer.payTo, payTo)
  if (!isOurs) return 'the call was offered for another payee'
  if (paymentStatus === 'settled')
    return `the call was paid for by ${receipt?.transaction}, and its buyer is owed the money`
  if (BigInt(amount) < due) return `the call costs ${print(due)} USDC`
  if (workStatus === 'failed') return 'the call has failed, and its buyer is owed the money'
  return workStatus === 'completed' ? undefined : 'its work is not done. Compare again when it has ended'
}

function different(entry: LedgerEntry, transfer: OnChain): Difference {
  const { transaction, block, payer } = transfer
  const text = `${transaction}: the chain has ${dollarsOf(transfer)} USDC of ${payer}, the ledger ${print(paidIn(entry))} USDC of ${entry.payer}.`
  return { kind: 'different', transaction, block, call: entry.id, text }
}

/** Channels of which more was claimed than the calls that their records know were charged. */
async function uncharged(ledger: LedgerReads, { network, claims }: ChainSide): Promise<readonly Difference[]> {
  const found: Difference[] = []
  for (const { channel, claimed, transaction, block } of claims?.list ?? []) {
    const record = await ledger.getRecord(claims?.kind ?? '', `${network}/${channel}`, 0)
    const lost = claims?.lostIn(record?.data, claimed) ?? 0n
    if (lost === 0n) continue
    const text = `channel ${channel}: ${print(usdc(claimed))} USDC were claimed in all by ${transaction} in block ${block}; the ledger has lost calls of it for ${print(usdc(lost))} USDC.`
    found.push({ kind: 'not_charged_in_ledger', transaction, block, call: null, text })
  }
  return found
}

function missing(entry: LedgerEntry): Difference {
  const { transaction = '', block = null } = entry.receipt ?? {}
  const text = `${entry.id}: the ledger has ${print(paidIn(entry))} USDC of ${entry.payer} by ${transaction} in block ${block}, the chain has not.`
  return { kind: 'not_on_chain', transaction, block, call: entry.id, text }
}

const dollarsOf = ({ amount }: OnChain): string => print(usdc(BigInt(amount)))
