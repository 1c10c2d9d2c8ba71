/** `farebox payments` and `farebox payment`: what the ledger knows, while the gateway runs. */
import { parseArgs } from 'node:util'
import { readConfig } from '../config/mod.ts'
import type { Environment } from '../config/settings.ts'
import type { Payment, PaymentRow } from '../operator/payment.ts'
import { STATUSES } from '../operator/payment.ts'
import {
  csvOf,
  findPayments,
  isWallet,
  listPayments,
  type Page,
  readFilter,
  walletReport,
  type WalletReport,
} from '../operator/payments.ts'
import { openLedger } from '../wiring/ledger.ts'

/** What a command gets from its surroundings: data go to `out`, talk to `err`. */
export type CommandIo = {
  readonly env: Environment
  readonly now: () => number
  out(line: string): void
  err(line: string): void
}

/** Where payments are read: the database, or the operator API of a running gateway. */
type Source = {
  list(fields: Fields): Promise<Page>
  find(name: string): Promise<readonly Payment[]>
  wallet(address: string): Promise<WalletReport>
  close(): Promise<void>
}

type Fields = Readonly<Record<string, string | undefined>>

const WHERE = `  --url URL       ask the running gateway at URL, with the token of OPERATOR_TOKEN, instead of the database
  --json          print JSON`

const listHelp = `farebox payments [--since TIME] [--until TIME] [--payer WALLET] [--model ID] [--endpoint NAME]
                 [--status STATUS] [--limit N] [--csv | --json] [--url URL]

Lists payments, newest first.

  --since, --until TIME   a date (2026-11-22), a time (2026-11-22T08:00:00Z) or a span before now (24h, 7d)
  --payer WALLET          payments of one wallet
  --model ID              payments for one model
  --endpoint NAME         payments for one endpoint, for example images.generations
  --gateway NAME          payments on one gateway
  --status STATUS         ${STATUSES.join(', ')}
  --limit N               at most N payments; 50 by default
  --csv           print CSV
${WHERE}
`

const findHelp = `farebox payment <transaction | call | nonce | wallet> [--json] [--url URL]

Says what happened to a payment, step by step, or whether a wallet was charged.

${WHERE}
`

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const

const LIST_OPTIONS = {
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
  help: flag,
} as const

export const paymentsCommand = {
  name: 'payments',
  summary: 'List payments, newest first; as a table, CSV or JSON.',
  help: listHelp,
  run: (args: readonly string[], io: CommandIo) => guarded(io, () => list(args, io)),
}

export const paymentCommand = {
  name: 'payment',
  summary: 'Say what happened to a payment, or whether a wallet was charged.',
  help: findHelp,
  run: (args: readonly string[], io: CommandIo) => guarded(io, () => find(args, io)),
}

/** Runs a command. Returns the exit status: 0 done, 1 failed or not found, 2 wrong arguments. */
async function guarded(io: CommandIo, command: () => Promise<number>): Promise<number> {
  try {
    return await command()
  } catch (error) {
    io.err((error as Error).message)
    return String((error as { code?: unknown }).code).startsWith('ERR_PARSE_ARGS') ? 2 : 1
  }
}

async function list(args: readonly string[], io: CommandIo): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: LIST_OPTIONS })
  const { csv = false, json = false, url, help, limit = '50', ...fields } = values
  if (help) return (io.out(listHelp), 0)
  const read = readFilter({ ...fields, limit: String(Math.min(Number(limit), 1_000)) }, io.now())
  if (!read.ok) {
    for (const { path, message } of read.mistakes) io.err(`--${path}: ${message}`)
    return 2
  }
  const source = await sourceOf(url, io)
  try {
    const payments = await firstPages(source, fields, Number(limit))
    if (json) io.out(JSON.stringify(payments, null, 2))
    if (csv && !json) io.out(csvOf(payments).trimEnd())
    if (!json && !csv) for (const line of table(payments)) io.out(line)
    return 0
  } finally {
    await source.close()
  }
}

/** Follows the pages until there are enough payments, or no more. */
async function firstPages(source: Source, fields: Fields, limit: number): Promise<readonly PaymentRow[]> {
  const found: PaymentRow[] = []
  let next: string | undefined
  do {
    const page = await source.list({
      ...fields,
      limit: String(Math.min(limit - found.length, 1_000)),
      ...(next !== undefined && { next }),
    })
    found.push(...page.payments)
    next = page.next ?? undefined
  } while (next !== undefined && found.length < limit)
  return found
}

async function find(args: readonly string[], io: CommandIo): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { json: flag, url: text, help: flag },
    allowPositionals: true,
  })
  if (values.help) return (io.out(findHelp), 0)
  const [name, ...more] = positionals
  if (name === undefined || more.length > 0) return (io.err(findHelp), 2)
  const source = await sourceOf(values.url, io)
  try {
    if (isWallet(name)) {
      const report = await source.wallet(name)
      for (const line of values.json ? [JSON.stringify(report, null, 2)] : walletLines(report)) io.out(line)
      return 0
    }
    const payments = await source.find(name)
    if (payments.length === 0) {
      io.err(
        `The ledger has no payment with the call id, transaction or nonce ${name}. Unpaid calls are deleted when they can no longer be paid; farebox reconcile compares the ledger with the chain.`,
      )
      return 1
    }
    for (const line of values.json ? [JSON.stringify(payments, null, 2)] : payments.flatMap(paymentLines)) io.out(line)
    return 0
  } finally {
    await source.close()
  }
}

// ── sources ─────────────────────────────────────────────────────────────────────────────────────────────────────────

async function sourceOf(url: string | undefined, io: CommandIo): Promise<Source> {
  return url === undefined ? await databaseSource(io) : httpSource(url, io)
}

async function databaseSource({ env, now }: CommandIo): Promise<Source> {
  const read = readConfig(env)
  if (!read.ok)
    throw new Error(['The configuration has these errors:', ...read.mistakes.map((each) => `  - ${each}`)].join('\n'))
  const ledger = await openLedger(read.config)
  return {
    async list(fields) {
      const filter = readFilter(fields, now())
      if (!filter.ok) throw new Error(filter.mistakes.map(({ path, message }) => `--${path}: ${message}`).join('\n'))
      return await listPayments(ledger, filter.filter)
    },
    find: (name) => findPayments(ledger, name),
    wallet: (address) => walletReport(ledger, address, now()),
    close: () => ledger.close(),
  }
}

function httpSource(url: string, { env }: CommandIo): Source {
  const token = env.OPERATOR_TOKEN
  if (!token) throw new Error('--url needs the operator token in the environment: OPERATOR_TOKEN=…')
  const base = URL.parse(url)
  if (!base || !/^https?:$/.test(base.protocol)) throw new Error(`--url: ${JSON.stringify(url)} is no http(s) URL`)

  async function ask<T>(path: string): Promise<T | undefined> {
    const target = new URL(path, base as URL)
    const headers = { authorization: `Bearer ${token}`, accept: 'application/json' }
    const response = await fetch(target, { headers, redirect: 'error' }).catch((error: Error) => {
      throw new Error(`${target.origin} could not be reached: ${error.message}`)
    })
    const body = (await response.json().catch(() => ({}))) as { error?: unknown; message?: unknown }
    if (response.ok) return body as T
    if (response.status === 404 && body.error === 'Payment not found') return undefined
    const hint = response.status === 404 ? ' Is OPERATOR_TOKEN the token of that gateway?' : ''
    throw new Error(`${target.pathname} answered ${response.status}: ${body.message ?? body.error ?? ''}${hint}`)
  }

  const there = <T>(answer: T | undefined): T => {
    if (answer === undefined) throw new Error('the gateway answered with nothing')
    return answer
  }

  return {
    async list(fields) {
      const given = Object.entries(fields).filter((each): each is [string, string] => each[1] !== undefined)
      return there(await ask<Page>(`/operator/payments?${new URLSearchParams(given)}`))
    },
    find: async (name) =>
      (await ask<{ payments: readonly Payment[] }>(`/operator/payments/${encodeURIComponent(name)}`))?.payments ?? [],
    wallet: async (address) => there(await ask<WalletReport>(`/operator/wallets/${encodeURIComponent(address)}`)),
    close: async () => {},
  }
}

// ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────

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

export function paymentLines(payment: Payment): readonly string[] {
  const { id, status, endpoint, model, payer, network, answer, timeline, authorizations } = payment
  return [
    `${id}: ${status}`,
    `  ${endpoint}${model === null ? '' : `, ${model}`}, by ${payer} on ${network}`,
    `  Was it charged? ${answer}`,
    '',
    ...timeline.map(({ at, event, text: said }) => `  ${at}  ${event.padEnd(11)}  ${said}`),
    ...authorizations.map((each) => `  authorization ${each.key}: ${each.status}, ends ${each.expires_at}`),
    '',
  ]
}

export function walletLines(report: WalletReport): readonly string[] {
  const part = (title: string, payments: readonly PaymentRow[]) =>
    payments.length === 0 ? [] : ['', `${title}:`, ...table(payments).map((line) => `  ${line}`)]
  return [
    report.answer,
    ...report.by_model.map(
      (each) =>
        `  ${each.charged_usdc} USDC  ${each.calls} x ${each.endpoint}${each.model === null ? '' : `, ${each.model}`}`,
    ),
    ...part('Ready and unpaid', report.uncollected),
    ...part('In doubt', report.in_doubt),
    ...part('Last calls', report.last_calls),
  ]
}
