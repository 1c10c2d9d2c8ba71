/** `farebox payments`: what the ledger lists, while the gateway runs. */
import { type PaymentRow, STATUSES } from '../operator/payment.ts'
import { csvOf, MAX_LIMIT, readFilter } from '../operator/payments.ts'
import { type Command, overridden, readOptions, UsageError } from './command.ts'
import { type PaymentFields, paymentSource, type PaymentSource } from './lib/payment_source.ts'

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const options = {
  since: text,
  until: text,
  payer: text,
  model: text,
  endpoint: text,
  gateway: text,
  status: text,
  limit: text,
  csv: flag,
  json: flag,
  url: text,
  config: text,
} as const

export const command: Command = {
  name: 'payments',
  summary: 'list payments, newest first, as a table, CSV or JSON',
  help: `Lists payments, newest first. It reads the database while the gateway runs, and writes nothing.

Usage: farebox payments [options]

Options:
  --since TIME     opened at or after: 2026-11-22, 2026-11-22T08:00:00Z, or a span before now: 24h, 7d
  --until TIME     opened before
  --payer WALLET   of one wallet
  --model ID       for one model
  --endpoint NAME  of one endpoint, for example images.generations
  --gateway NAME   on one gateway
  --status STATUS  ${STATUSES.join(', ')}
  --limit N        at most N payments; 50 by default
  --csv, --json    print CSV or JSON
  --url URL        ask the running gateway at URL, with the token in OPERATOR_TOKEN
  --config FILE    the configuration file (FAREBOX_CONFIG; default: farebox.toml)

Examples:
  farebox payments --since 24h --status failed
  farebox payments --since 2026-11-01 --until 2026-12-01 --limit 100000 --csv > november.csv`,
  async run(args, io) {
    const { csv = false, json = false, url, config, limit = '50', ...fields } = readOptions(args, options, 0).values
    const wanted = Number(limit)
    if (!Number.isInteger(wanted) || wanted < 1)
      throw new UsageError(`--limit ${limit}: write a whole number from 1 on`)
    const read = readFilter(fields, Date.now())
    if (!read.ok) throw new UsageError(read.mistakes.map(({ path, message }) => `--${path}: ${message}`).join('\n'))
    const source = await paymentSource(overridden(io.env, { FAREBOX_CONFIG: config }), url)
    try {
      const payments = await firstPages(source, fields, wanted)
      if (json) io.out(JSON.stringify(payments, null, 2))
      else if (csv) io.out(csvOf(payments).trimEnd())
      else for (const line of table(payments)) io.out(line)
      return 0
    } finally {
      await source.close()
    }
  },
}

/** Follows the pages until there are enough payments, or no more. */
async function firstPages(source: PaymentSource, fields: PaymentFields, limit: number): Promise<readonly PaymentRow[]> {
  const found: PaymentRow[] = []
  let next: string | undefined
  do {
    const page = await source.list({
      ...fields,
      limit: String(Math.min(limit - found.length, MAX_LIMIT)),
      ...(next !== undefined && { next }),
    })
    found.push(...page.payments)
    next = page.next ?? undefined
  } while (next !== undefined && found.length < limit)
  return found
}

/** An aligned table. The last column is not padded. */
export function table(payments: readonly PaymentRow[]): readonly string[] {
  if (payments.length === 0) return ['No payments.']
  const heads = ['time', 'status', 'USDC', 'payer', 'endpoint', 'model', 'call']
  const rows = payments.map((payment) => [
    payment.created_at.slice(0, 19).replace('T', ' '),
    payment.status,
    payment.charged_usdc ?? `(${payment.quoted_usdc})`,
    payment.payer,
    payment.endpoint,
    payment.model ?? '-',
    payment.id,
  ])
  const widths = heads.map((head, at) => Math.max(head.length, ...rows.map((row) => row[at]?.length ?? 0)))
  return [heads, ...rows].map((row) =>
    row.map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at] ?? 0))).join('  '),
  )
}
