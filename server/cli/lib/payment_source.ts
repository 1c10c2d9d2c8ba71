/** Where the commands read payments: the database beside the gateway, or the operator API of a running one. */
import { readConfig } from '../../config/mod.ts'
import type { Environment } from '../../config/settings.ts'
import type { Payment } from '../../operator/payment.ts'
import {
  findPayments,
  listPayments,
  type Page,
  readFilter,
  walletReport,
  type WalletReport,
} from '../../operator/payments.ts'
import { openLedger } from '../../wiring/ledger.ts'
import { CommandError } from '../command.ts'

export type PaymentSource = {
  list(fields: PaymentFields): Promise<Page>
  find(name: string): Promise<readonly Payment[]>
  wallet(address: string): Promise<WalletReport>
  close(): Promise<void>
}

/** Filters as texts. */
export type PaymentFields = Readonly<Record<string, string | undefined>>

/** Throws CommandError where neither can be read. */
export async function paymentSource(env: Environment, url: string | undefined): Promise<PaymentSource> {
  return url === undefined ? await databaseSource(env) : httpSource(url, env)
}

async function databaseSource(env: Environment): Promise<PaymentSource> {
  const read = readConfig(env)
  if (!read.ok)
    throw new CommandError(
      ['The configuration has these errors:', ...read.mistakes.map((each) => `  - ${each}`)].join('\n'),
    )
  const ledger = await openLedger(read.config).catch((error: Error) => {
    throw new CommandError(error.message)
  })
  return {
    async list(fields) {
      const filter = readFilter(fields, Date.now())
      if (!filter.ok)
        throw new CommandError(filter.mistakes.map(({ path, message }) => `--${path}: ${message}`).join('\n'))
      return await listPayments(ledger, filter.filter)
    },
    find: (name) => findPayments(ledger, name),
    wallet: (address) => walletReport(ledger, address, Date.now()),
    close: () => ledger.close(),
  }
}

function httpSource(url: string, env: Environment): PaymentSource {
  const token = env.OPERATOR_TOKEN
  if (!token) throw new CommandError('--url needs the operator token in the environment: OPERATOR_TOKEN=…')
  const base = URL.parse(url)
  if (!base || !/^https?:$/.test(base.protocol))
    throw new CommandError(`--url: ${JSON.stringify(url)} is no http(s) URL`)

  async function ask<T>(path: string): Promise<T | undefined> {
    const target = new URL(path, base as URL)
    const headers = { authorization: `Bearer ${token}`, accept: 'application/json' }
    const response = await fetch(target, { headers, redirect: 'error' }).catch((error: Error) => {
      throw new CommandError(`${target.origin} could not be reached: ${error.message}`)
    })
    const body = (await response.json().catch(() => ({}))) as { error?: unknown; message?: unknown }
    if (response.ok) return body as T
    if (response.status === 404 && body.error === 'Payment not found') return undefined
    const hint = response.status === 404 ? ' Is OPERATOR_TOKEN the token of that gateway?' : ''
    throw new CommandError(`${target.pathname} answered ${response.status}: ${body.message ?? body.error ?? ''}${hint}`)
  }

  const there = <T>(answer: T | undefined): T => {
    if (answer === undefined) throw new CommandError('the gateway answered with nothing')
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
