/** Channels by the ledger and by the settlement contract: vouchers, deposits, claims and what was paid out. */
import type { Pool } from 'pg'
import { decodeEventLog, encodeFunctionData, type Hex, pad } from 'viem'
import { BATCH_SETTLEMENT, batchSettlementAbi as abi } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { rpc } from '../../server/devnet/anvil.ts'
import { DEVNET_ASSET } from '../../server/devnet/mod.ts'
import { differing } from './audit.ts'
import { betweenBlocks } from './between_blocks.ts'
import { chargeId, depositOf, idOf, type Signed } from './payers.ts'
import type { Invariant, Moved } from './reckoning.ts'
import type { Task } from './tasks.ts'

/** One channel. Amounts are in base units; those of the chain are of one block. */
export type ChannelLine = {
  readonly id: string
  /** By its record; undefined where there is none. */
  readonly record: { readonly charged: bigint; readonly claimed: bigint } | undefined
  readonly balance: bigint
  readonly claimed: bigint
  /** Each deposit that was mined. */
  readonly deposits: readonly bigint[]
  readonly refunds: bigint
}

export type ChannelFacts = {
  /** Calls that channels have paid, by the ledger. */
  readonly charges: readonly Moved[]
  /** Those of earlier tasks. A buyer may sign on one of them until it is corrected. */
  readonly earlier: ReadonlySet<string>
  readonly lines: readonly ChannelLine[]
  /** Amount that the contract has paid to the seller. */
  readonly paidOut: bigint
  /** Deposits that buyers have signed. */
  readonly signed: readonly { readonly channelId: string; readonly amount: bigint }[]
  /** Nothing is left to claim: all rounds are over. */
  readonly isClaimed: boolean
}

export const NO_CHANNELS: ChannelFacts = {
  charges: [],
  earlier: new Set(),
  lines: [],
  paidOut: 0n,
  signed: [],
  isClaimed: false,
}

/**
 * Who each charge was for. A call that failed leaves its base to the next one, which signs it too: the charge is for
 * the one that was answered.
 */
export function chargedTask(
  tasks: readonly Task[],
  { charges, earlier }: Pick<ChannelFacts, 'charges' | 'earlier'>,
): ReadonlyMap<Moved, Task> {
  const found = new Map<Moved, Task>()
  for (const charge of charges) {
    if (earlier.has(charge.nonce)) continue
    const asking = tasks.filter(({ signed }) => signed.some((payment) => idOf(payment) === charge.nonce))
    const task = asking.find(({ works, partBytes }) => works.size > 0 || partBytes > 0) ?? asking.at(-1)
    if (task) found.set(charge, task)
  }
  return found
}

type Problem = { readonly invariant: Invariant; readonly text: string }

export function channelProblems({ charges, lines, paidOut, signed, isClaimed }: ChannelFacts): readonly Problem[] {
  const problems: Problem[] = []
  const find = (invariant: Invariant, text: string) => void problems.push({ invariant, text })
  for (const { id, record, balance, claimed, deposits, refunds } of lines) {
    const own = charges.filter(({ nonce }) => nonce.startsWith(`${id}/`))
    const sum = sumOf(own.map(({ units }) => units))
    const charged = record?.charged ?? 0n
    if (sum !== charged) find('trueLedger', `channel ${id}: its calls come to ${sum}, its record says ${charged}`)
    if (claimed > charged) find('trueLedger', `channel ${id}: ${claimed} were claimed, ${charged} were charged`)
    if ((record?.claimed ?? 0n) > claimed)
      find('trueLedger', `channel ${id}: its record says ${record?.claimed} were claimed, the chain ${claimed}`)
    if (charged > balance) find('nothingGiven', `channel ${id}: ${charged} were charged, it holds ${balance}`)
    if (isClaimed && claimed < charged) find('nothingStuck', `channel ${id}: ${charged - claimed} are never claimed`)
    const [mined, allowed] = [deposits, signed.filter(({ channelId }) => channelId === id).map(({ amount }) => amount)]
    for (const amount of differing(mined.map(String), allowed.map(String)))
      find('chargedOnce', `channel ${id}: a deposit of ${amount} was mined more often than it was signed`)
    if (sumOf(mined) - refunds !== balance)
      find('trueLedger', `channel ${id}: deposits of ${sumOf(mined)} and refunds of ${refunds} leave ${balance}`)
    for (const { nonce, units } of own)
      if (own.filter((other) => other.nonce === nonce).length > 1)
        find('chargedOnce', `channel ${id}: ${nonce} was charged twice, ${units} each`)
  }
  const known = new Set(lines.map(({ id }) => id))
  for (const { nonce } of charges)
    if (!known.has(nonce.slice(0, nonce.lastIndexOf('/')))) find('trueLedger', `${nonce} is of no channel on chain`)
  const claimed = sumOf(lines.map((line) => line.claimed))
  if (claimed !== paidOut) find('trueLedger', `${claimed} were claimed, and ${paidOut} were paid out`)
  return problems
}

const sumOf = (amounts: readonly bigint[]): bigint => amounts.reduce((sum, amount) => sum + amount, 0n)

/** The deposits of these payments, each once: one that is sent again is the same. */
export function depositsIn(signed: readonly Signed[]): ChannelFacts['signed'] {
  const unique = new Map(
    signed.map((payment) => [payment.payload.deposit?.authorization.erc3009Authorization.signature, payment]),
  )
  return [...unique.values()].flatMap((payment) => depositOf(payment) ?? [])
}

// ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────

const SETTLED = `SELECT c.id, c.payer, coalesce(c.paid, c.quote)::text AS units, a.key
  FROM calls c JOIN authorizations a ON a.call = c.id AND a.status = 'paid'
  WHERE c.payment_status = 'settled' AND c.offer LIKE '%"batch-settlement"%'`

type Reading = { readonly pool: Pool; readonly rpcUrl: string; readonly payTo: Hex }

/** The records first: a claim that is mined meanwhile is then ahead of them, as it may be. */
export async function readChannels({
  pool,
  rpcUrl,
  payTo,
}: Reading): Promise<Omit<ChannelFacts, 'earlier' | 'signed' | 'isClaimed'>> {
  const { rows } = await pool.query<{ id: string; payer: string; units: string; key: string }>(SETTLED)
  const charges = rows.map(({ id, payer, units, key }) => {
    const [channelId = '', base = ''] = key.split('/').slice(-2)
    return { nonce: chargeId(channelId, base), payer, units: BigInt(units), transaction: `call ${id}` }
  })
  const { rows: stored } = await pool.query<{ data: string }>(`SELECT data FROM records WHERE kind = 'channel'`)
  type Data = { readonly channelId: string; readonly charged: string; readonly claimed: string }
  const records = new Map(
    stored.map(({ data: text }) => {
      const { data } = JSON.parse(text) as { data: Data }
      return [data.channelId.toLowerCase(), { charged: BigInt(data.charged), claimed: BigInt(data.claimed) }]
    }),
  )
  for (;;) {
    const before = await logsOf(rpcUrl)
    const read = await betweenBlocks(() => readChain({ rpcUrl, payTo }, before, records))
    // The node shows no state but its newest: nothing may have happened meanwhile.
    if ((await logsOf(rpcUrl)).length === before.length) return { charges, ...read }
  }
}

type Log = { readonly topics: [Hex, ...Hex[]]; readonly data: Hex }
type Records = ReadonlyMap<string, NonNullable<ChannelLine['record']>>

const logsOf = (rpcUrl: string, topics: readonly Hex[] = [], address: Hex = BATCH_SETTLEMENT) =>
  rpc<readonly Log[]>(rpcUrl, 'eth_getLogs', [{ address, fromBlock: '0x0', toBlock: 'latest', topics }])

async function readChain(
  { rpcUrl, payTo }: Pick<Reading, 'rpcUrl' | 'payTo'>,
  logs: readonly Log[],
  records: Records,
): Promise<Pick<ChannelFacts, 'lines' | 'paidOut'>> {
  const events = logs.map(({ topics, data }) => decodeEventLog({ abi, topics, data }))
  const amountsOf = (name: 'Deposited' | 'Refunded', id: string) =>
    events.flatMap(({ eventName, args }) =>
      eventName === name && args.channelId.toLowerCase() === id ? [args.amount] : [],
    )
  const created = events.flatMap(({ eventName, args }) =>
    eventName === 'ChannelCreated' ? [args.channelId.toLowerCase()] : [],
  )
  const lines = await Promise.all(
    [...new Set([...created, ...records.keys()])].map(async (id): Promise<ChannelLine> => {
      const data = encodeFunctionData({ abi, functionName: 'channels', args: [id as Hex] })
      const words = await rpc<Hex>(rpcUrl, 'eth_call', [{ to: BATCH_SETTLEMENT, data }, 'latest'])
      const [balance, claimed] = [BigInt(words.slice(0, 66)), BigInt(`0x${words.slice(66, 130)}`)]
      const refunds = sumOf(amountsOf('Refunded', id))
      return { id, record: records.get(id), balance, claimed, deposits: amountsOf('Deposited', id), refunds }
    }),
  )
  const [from, to] = [BATCH_SETTLEMENT, payTo].map((address) => pad(address.toLowerCase() as Hex)) as [Hex, Hex]
  const paid = await logsOf(rpcUrl, [TRANSFER, from, to], DEVNET_ASSET)
  return { lines, paidOut: sumOf(paid.map(({ data }) => BigInt(data))) }
}

const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
