/** `farebox payment`: what happened to a payment, and whether a wallet was charged. */
import type { Payment, PaymentRow } from '../operator/payment.ts'
import { isWallet, type WalletReport } from '../operator/payments.ts'
import { type Command, CommandError, overridden, readOptions, UsageError } from './command.ts'
import { paymentSource } from './lib/payment_source.ts'
import { table } from './payments.ts'

const options = { json: { type: 'boolean' }, url: { type: 'string' }, config: { type: 'string' } } as const

export const command: Command = {
  name: 'payment',
  summary: 'say what happened to a payment, or whether a wallet was charged',
  help: `Says what happened to a payment, step by step, or whether a wallet was charged. It reads the database
while the gateway runs, and writes nothing.

Usage: farebox payment <transaction | call | nonce | wallet> [options]

Options:
  --json         print JSON
  --url URL      ask the running gateway at URL, with the token in OPERATOR_TOKEN
  --config FILE  the configuration file (FAREBOX_CONFIG; default: farebox.toml)

Examples:
  farebox payment 0x5f3c1d...                     by transaction or nonce
  farebox payment job_4a1e...                     by call
  farebox payment 0x70997970C51812dc3A010C7d01b50e0d17dc79C8   was this wallet charged?`,
  async run(args, io) {
    const { values, positionals } = readOptions(args, options, 1)
    const [name] = positionals
    if (name === undefined) throw new UsageError('name a transaction, a call, a nonce or a wallet')
    const source = await paymentSource(overridden(io.env, { FAREBOX_CONFIG: values.config }), values.url)
    try {
      if (isWallet(name)) {
        const report = await source.wallet(name)
        for (const line of values.json ? [JSON.stringify(report, null, 2)] : walletLines(report)) io.out(line)
        return 0
      }
      const payments = await source.find(name)
      if (payments.length === 0)
        throw new CommandError(
          `The ledger has no payment with the call id, transaction or nonce ${name}. Unpaid calls are deleted when they can no longer be paid. farebox reconcile compares the ledger with the chain.`,
        )
      for (const line of values.json ? [JSON.stringify(payments, null, 2)] : payments.flatMap(paymentLines))
        io.out(line)
      return 0
    } finally {
      await source.close()
    }
  },
}

function paymentLines(payment: Payment): readonly string[] {
  const { id, status, endpoint, model, payer, network, answer, timeline, authorizations } = payment
  return [
    `${id}: ${status}`,
    `  ${endpoint}${model === null ? '' : `, ${model}`}, by ${payer} on ${network}`,
    `  Was it charged? ${answer}`,
    '',
    ...timeline.map(({ at, event, text: words }) => `  ${at}  ${event.padEnd(11)}  ${words}`),
    ...authorizations.map((each) => `  authorization ${each.key}: ${each.status}, ends ${each.expires_at}`),
    '',
  ]
}

function walletLines(report: WalletReport): readonly string[] {
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
