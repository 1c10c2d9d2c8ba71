/**
 * Alerts for accounts that run low: once for each change, with the address and the reason; and a
 * gauge.
 */
import { expect, test } from 'bun:test'
import type { ServingAccount } from '../../adapters/chains/lib/manifest.ts'
import type { Closed } from '../../core/mod.ts'
import { metrics } from '../../server/metrics.ts'
import { teller } from '../../server/wiring/chains.ts'
import { testClock } from '../kit.ts'

type LogLine = readonly [level: string, message: string, fields: Record<string, unknown> | undefined]

test('each change is told once', () => {
  const lines: LogLine[] = []
  const at = (level: string) => (message: string, fields?: Record<string, unknown>) =>
    void lines.push([level, message, fields])
  const log = { info: at('info'), warn: at('warn'), alert: at('alert') }
  const state: { accounts: readonly ServingAccount[]; closed: Closed | undefined } = { accounts: [], closed: undefined }
  const tell = teller(
    'main',
    { accounts: () => state.accounts, closed: () => state.closed },
    { log: log as never, clock: testClock() },
  )
  const alerts = () =>
    lines.splice(0).map(([level, message, fields]) => [level, message.split(/[:;]/)[0], fields?.address])
  const serving: ServingAccount = { unit: 'wei', address: '0xb', balance: 9n, low: undefined, isLeased: true }
  const low: ServingAccount = { unit: 'wei', address: '0xa', balance: 1n, low: 'account 0xa holds 1' }

  tell()
  expect(alerts()).toEqual([])
  state.accounts = [low, serving]
  tell()
  tell()
  expect(alerts()).toEqual([['alert', 'an account that pays for settlements is low', '0xa']])
  state.accounts = [low, { ...low, address: '0xb' }]
  state.closed = { code: 'no_gas', reason: 'all are empty' }
  tell()
  state.closed = { code: 'no_gas', reason: 'all are emptier' }
  tell()
  expect(alerts()).toEqual([
    ['alert', 'an account that pays for settlements is low', '0xb'],
    ['alert', 'the gateway has stopped selling', undefined],
  ])
  state.accounts = [low, serving]
  state.closed = undefined
  tell()
  expect(alerts()).toEqual([['info', 'the gateway sells again', undefined]])
})

test('the balances are gauges of their unit, by gateway and address, read with each scrape', async () => {
  const { balances, scrape } = metrics({ version: '1.2.3', clock: testClock() })
  let amount = 7e17
  balances('main', () => [{ unit: 'wei', address: '0xa', amount }])
  balances('solana', () => [{ unit: 'lamports', address: 'Fee', amount: 5_000 }])
  expect((await scrape()).body).toContain(
    'farebox_relayer_balance_wei{gateway="main",address="0xa"} 700000000000000000',
  )
  amount = 3
  const { body } = await scrape()
  expect(body).toContain('farebox_relayer_balance_wei{gateway="main",address="0xa"} 3\n')
  expect(body).toContain('farebox_fee_payer_balance_lamports{gateway="solana",address="Fee"} 5000')
  expect(body).not.toContain('farebox_relayer_balance_wei{gateway="solana"')
})
