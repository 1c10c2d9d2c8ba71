/** The books afterwards: what was delivered, what the ledger says and what the chain says have to be one story. */
import type { Pool } from 'pg'
import { decodeFunctionData, type Hex, toHex } from 'viem'
import { BATCH_SETTLEMENT, UPTO_PROXY, uptoProxyAbi } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { rpc } from '../../server/devnet/anvil.ts'
import { DEVNET_ASSET } from '../../server/devnet/mod.ts'
import { AUTHORIZATION_USED } from '../server/clients/payer.ts'
import { fetchAgain, type Purchase } from './buyers.ts'
import type { Replica } from './replicas.ts'

const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

export type Ledger = {
  readonly pool: Pool
  readonly rpcUrl: string
  readonly payTo: Hex
  readonly purchases: readonly Purchase[]
  readonly replicas: readonly Replica[]
}

export type Audit = {
  readonly counts: Readonly<
    Record<
      | 'purchases'
      | 'delivered'
      | 'calls'
      | 'settled'
      | 'failed'
      | 'unclaimed'
      | 'transfers'
      | 'transactions'
      | 'freshSignatures',
      number
    >
  >
  readonly ledgerSum: bigint
  readonly chainSum: bigint
  readonly violations: readonly string[]
}

export type Row = {
  id: string
  payer: string
  quote: string
  workStatus: string
  paymentStatus: string
  receipt: string | null
  paid: string[]
}
type Log = {
  readonly topics: readonly [Hex, Hex, Hex]
  readonly data: Hex
  readonly transactionHash: Hex
  readonly logIndex: Hex
}

/** One payment as both the ledger and the chain can say it. */
type Line = {
  readonly transaction: string
  readonly payer: string
  readonly units: bigint
  readonly nonce: string
}
const written = ({ transaction, payer, units, nonce }: Line) =>
  `${transaction} ${payer} ${units} ${nonce}`.toLowerCase()

export async function audit(ledgerRows: Ledger): Promise<Audit> {
  const { pool, purchases } = ledgerRows
  const violations: string[] = []
  const { rows } = await pool.query<Row>(
    `SELECT c.id, c.payer, c.quote::text AS quote, c.work_status AS "workStatus", c.payment_status AS "paymentStatus", c.receipt,
            coalesce(array_agg(a.key) FILTER (WHERE a.status = 'paid'), '{}') AS paid
     FROM calls c LEFT JOIN authorizations a ON a.call = c.id GROUP BY c.id`,
  )
  const settled = rows.filter(({ paymentStatus }) => paymentStatus === 'settled')
  for (const row of rows) {
    if (
      row.workStatus === 'queued' ||
      row.workStatus === 'in_progress' ||
      row.paymentStatus === 'settling' ||
      row.paymentStatus === 'unresolved'
    )
      violations.push(`call ${row.id} is stuck: ${row.workStatus}, ${row.paymentStatus}`)
    if (row.paymentStatus === 'settled' && row.workStatus !== 'completed')
      violations.push(`call ${row.id} is settled and ${row.workStatus}`)
    if (row.paymentStatus === 'settled' && row.paid.length !== 1)
      violations.push(`call ${row.id} was paid by ${row.paid.length} authorizations`)
  }

  const ledger = settled.map(lineOf)
  const chain = await paidOnChain(ledgerRows)
  for (const line of differing(ledger.map(written), chain.map(written)))
    violations.push(`in the ledger, not on the chain: ${line}`)
  for (const line of differing(chain.map(written), ledger.map(written)))
    violations.push(`on the chain, not in the ledger: ${line}`)

  const byId = new Map(settled.map((row) => [row.id, row]))
  const owners = new Map<string, Purchase>()
  for (const purchase of purchases) violations.push(...judged(purchase, byId, owners))
  for (const { id, payer } of settled)
    if (!owners.has(id)) violations.push(`call ${id} of ${payer} was charged, and nobody has its result`)
  violations.push(...(await collected(ledgerRows)))

  const sum = (lines: readonly Line[]) => lines.reduce((total, { units }) => total + units, 0n)
  const unclaimed = rows.filter(
    ({ workStatus, paymentStatus }) => workStatus === 'completed' && paymentStatus !== 'settled',
  )
  return {
    counts: {
      purchases: purchases.length,
      delivered: purchases.filter(({ delivered }) => delivered).length,
      calls: rows.length,
      settled: settled.length,
      failed: rows.filter(({ workStatus }) => workStatus === 'failed').length,
      unclaimed: unclaimed.length,
      transfers: chain.length,
      transactions: new Set(chain.map(({ transaction }) => transaction)).size,
      freshSignatures: purchases.reduce((count, { signed }) => count + Math.max(0, signed.length - 1), 0),
    },
    ledgerSum: sum(ledger),
    chainSum: sum(chain),
    violations,
  }
}

function judged(
  { buyer, delivered, oddities, answers }: Purchase,
  settled: ReadonlyMap<string, Row>,
  owners: Map<string, Purchase>,
): readonly string[] {
  const reports = oddities.map((oddity) => `${buyer.address} was told: ${oddity}`)
  if (!delivered) return [...reports, `${buyer.address} left without a picture: ${JSON.stringify([...answers])}`]
  const row = settled.get(delivered.id)
  if (!row) return [...reports, `call ${delivered.id} was delivered and is not paid`]
  if (owners.has(delivered.id)) return [...reports, `call ${delivered.id} was delivered for two purchases`]
  owners.set(delivered.id, { buyer, delivered, oddities, answers } as Purchase)
  if (row.payer.toLowerCase() !== buyer.address.toLowerCase())
    return [...reports, `call ${delivered.id} was paid by ${row.payer}, not by its buyer`]
  return lineOf(row).transaction === delivered.transaction
    ? reports
    : [...reports, `call ${delivered.id} names a transaction that is not its own`]
}

export function lineOf({ payer, quote, receipt, paid }: Row): Line {
  const { transaction } = JSON.parse(receipt ?? '{}') as { transaction?: string }
  const nonce = paid[0]?.slice(paid[0].lastIndexOf('/') + 1) ?? ''
  return { transaction: transaction ?? '', payer, units: BigInt(quote), nonce }
}

/**
 * Every transfer of a wallet to the seller, with its nonce: of the authorization whose event stands before it, or of
 * the signature that the proxy of `upto` was sent. Payouts of channels come from no wallet.
 */
export async function paidOnChain({ rpcUrl, payTo }: Pick<Ledger, 'rpcUrl' | 'payTo'>): Promise<readonly Line[]> {
  const seller = `0x${payTo.slice(2).toLowerCase().padStart(64, '0')}`
  const logsOf = (topics: readonly (Hex | string | null)[]) =>
    rpc<readonly Log[]>(rpcUrl, 'eth_getLogs', [{ address: DEVNET_ASSET, fromBlock: '0x0', toBlock: 'latest', topics }])
  const [transfers, uses] = await Promise.all([logsOf([TRANSFER, null, seller]), logsOf([AUTHORIZATION_USED])])
  const left = new Set(uses)
  const ofWallets = transfers.filter(({ topics: [, from] }) => !from.endsWith(BATCH_SETTLEMENT.slice(2).toLowerCase()))
  const lines = ofWallets.map(({ topics: [, from], data, transactionHash, logIndex }) => {
    const same = [...left].filter((use) => use.transactionHash === transactionHash && use.topics[1] === from)
    const near = same.toSorted((a, b) => distance(a.logIndex, logIndex) - distance(b.logIndex, logIndex))[0]
    if (near) left.delete(near)
    return {
      transaction: transactionHash,
      payer: `0x${from.slice(26)}`,
      units: BigInt(data),
      nonce: near?.topics[2],
    }
  })
  return await Promise.all(
    lines.map(async ({ nonce, ...line }) => ({
      ...line,
      nonce: nonce ?? (await uptoNonceIn(rpcUrl, line.transaction)) ?? 'no authorization',
    })),
  )
}

/** The nonce of the Permit2 signature in a transaction to the proxy of `upto`. */
async function uptoNonceIn(rpcUrl: string, hash: Hex): Promise<Hex | undefined> {
  const sent = await rpc<{ to: Hex | null; input: Hex }>(rpcUrl, 'eth_getTransactionByHash', [hash])
  if (sent.to?.toLowerCase() !== UPTO_PROXY.toLowerCase()) return undefined
  const { functionName, args } = decodeFunctionData({ abi: uptoProxyAbi, data: sent.input })
  const { nonce } = functionName === 'settle' ? args[0] : args[1]
  return toHex(nonce, { size: 32 })
}

const distance = (a: Hex, b: Hex): number => Math.abs(Number(a) - Number(b))

/** Items that the first list has more often than the second. */
export function differing(first: readonly string[], second: readonly string[]): readonly string[] {
  const rest = [...second]
  return first.filter((line) => {
    const at = rest.indexOf(line)
    if (at >= 0) rest.splice(at, 1)
    return at < 0
  })
}

const TOGETHER = 8

/** Each buyer comes back for its result and its picture, at the replicas in turn. */
async function collected({ purchases, replicas }: Ledger): Promise<readonly string[]> {
  const waiting = [...purchases.filter(({ delivered }) => delivered).entries()]
  const wrong: string[] = []
  async function collect(): Promise<void> {
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const [index, purchase] = next
      const problem = await fetchAgain(purchase, replicas[index % replicas.length]!).catch(
        (error: Error) => error.message,
      )
      if (problem) wrong.push(`call ${purchase.delivered?.id}: ${problem}`)
    }
  }
  await Promise.all(Array.from({ length: TOGETHER }, collect))
  return wrong
}
