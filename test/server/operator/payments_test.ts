/** The operator looks payments up: over HTTP behind the token, and by command beside the running gateway. */
import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { sqliteLedger } from '../../../adapters/storage/sqlite/ledger.ts'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { scriptedVendor } from '../../fakes/images.ts'
import { app } from '../../../server/app.ts'
import type { Io } from '../../../server/cli/command.ts'
import { runFarebox } from '../../../server/cli/mod.ts'
import { operatorApi } from '../../../server/operator/mod.ts'
import { csvOf } from '../../../server/operator/payments.ts'
import { FOX, type Kit, kit, type KitOptions, read, START } from '../../kit.ts'

const TOKEN = '0123456789abcdef'
const OPERATOR = { authorization: `Bearer ${TOKEN}` }

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

type Served = Kit & { readonly url: string; get(path: string, init?: RequestInit): Promise<any> }

/** A gateway behind the HTTP app, with the operator's API. */
function served(options: KitOptions = {}): Served {
  const made = kit(options)
  const api = operatorApi({ ledger: made.ports.storage, clock: made.clock, version: '1.2.3' })
  const log = { ...made.log, access() {}, flush() {} }
  const elysia = app({ gateways: [{ gateway: made.gateway, hosts: [] }], log, operator: { token: TOKEN, api } })
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: elysia.fetch })
  undo.push(() => server.stop(true))
  const url = `http://127.0.0.1:${server.port}`
  return { ...made, url, get: async (path, init = { headers: OPERATOR }) => await read(await fetch(url + path, init)) }
}

const PATHS = ['/operator/payments', '/operator/payments/job_1', '/operator/wallets/0x1', '/operator/openapi.json']

describe('the operator API', () => {
  test('does not exist without the token, like any unknown path', async () => {
    const { url, get } = served()
    const unknown = await get('/operators/nothing', {})
    for (const path of PATHS)
      for (const headers of [{}, { authorization: `Bearer ${TOKEN}x` }, { authorization: TOKEN }]) {
        const { status, headers: answered, body } = await get(path, { headers })
        expect([status, body.error]).toEqual([404, unknown.body.error])
        expect(JSON.stringify(body)).not.toContain('/operator/')
        expect(answered.get('access-control-allow-origin')).toBeNull()
      }
    expect((await fetch(`${url}/operator/payments`, { method: 'POST', headers: OPERATOR })).status).toBe(405)
  })

  test('describes itself in OpenAPI 3.1, and answers at every path of the description', async () => {
    const { get, buyer } = served()
    const { payment: sold } = await bought({ buyer })
    const { body: document } = await get('/operator/openapi.json')
    expect(await new Validator().validate(structuredClone(document))).toMatchObject({ valid: true })
    for (const path of Object.keys(document.paths)) {
      const actual = path.replace('{name}', sold.id).replace('{address}', sold.payer)
      expect([path, (await get(actual)).status]).toEqual([path, 200])
    }
  })

  test('tells the story of a paid call: quoted, verified, opened, completed, settled, collected, by any of its names', async () => {
    const { get, buyer, chain } = served()
    const { payment: sold } = await bought({ buyer })
    const { body } = await get(`/operator/payments/${sold.id}`)
    const [payment] = body.payments
    expect(payment).toMatchObject({
      id: sold.id,
      status: 'settled',
      charged: true,
      endpoint: 'images.generations',
      model: FOX.model,
      payer: buyer().wallet,
      quoted_usdc: '0.022000',
      charged_usdc: '0.022000',
      created_at: new Date(START).toISOString(),
    })
    expect(payment.answer).toStartWith(
      `Yes. ${buyer().wallet} paid 0.022000 USDC by transaction ${payment.transaction}`,
    )
    expect(payment.timeline.map(({ event }: { event: string }) => event)).toEqual([
      'quoted',
      'verified',
      'opened',
      'completed',
      'settling',
      'settled',
      'collected',
    ])
    const nonce = payment.authorizations[0].key.split('/').at(-1)
    for (const name of [payment.transaction, payment.transaction.toUpperCase().replace('0X', '0x'), nonce])
      expect((await get(`/operator/payments/${name}`)).body.payments).toEqual([payment])
    expect(chain.transfers.length).toBe(1)
    expect(JSON.stringify(body)).not.toContain(FOX.prompt)
    expect((await get('/operator/payments/0x12')).status).toBe(404)
  })

  test('says why work failed, with what the vendor lines, and that nothing was charged', async () => {
    const failing = scriptedVendor(async () => {
      throw new Error('the vendor answered 529 (overloaded_error)')
    })
    const { get, buyer } = served({ vendor: failing })
    await buyer().buy()
    const [row] = (await get('/operator/payments?status=failed')).body.payments
    expect(row).toMatchObject({ charged: false, vendor_error: 'the vendor answered 529 (overloaded_error)' })
    const [payment] = (await get(`/operator/payments/${row.id}`)).body.payments
    expect(payment.answer).toStartWith('No. The work failed, so nothing was charged')
    expect(payment.timeline.at(-1)).toMatchObject({ event: 'failed' })
    expect(payment.timeline.at(-1).text).toContain('Vendor: the vendor answered 529')
  })

  test('shows a refused payment with its reason, and who had it settled in the end', async () => {
    const { get, buyer, chain, clock } = served()
    const alice = buyer()
    chain.simulate('refused')
    const payment = alice.sign(await alice.ask())
    const { body: refused } = await alice.buy(FOX, { payment })
    const [before] = (await get(`/operator/payments/${refused.job_id}`)).body.payments
    expect(before).toMatchObject({ status: 'refused', charged: false })
    expect(before.answer).toContain(before.payment_error)
    await clock.advance(1_000)
    await alice.poll(refused.poll_url, payment)
    const [after] = (await get(`/operator/payments/${refused.job_id}`)).body.payments
    expect(after).toMatchObject({ status: 'settled', charged: true, payment_error: before.payment_error })
    expect(after.timeline.map(({ event }: { event: string }) => event).slice(-3)).toEqual([
      'not_settled',
      'settled',
      'collected',
    ])
    expect(after.timeline.at(-1).text).toStartWith('A poll of the wallet')
  })

  test('answers whether a wallet was charged: sums, open results, last calls, in any spelling of the address', async () => {
    const { get, buyer } = served()
    const alice = buyer()
    const { body: never } = await get(`/operator/wallets/${alice.wallet}`)
    expect(never).toMatchObject({ charged_usdc: '0.000000', charged_calls: 0, last_charged_at: null, last_calls: [] })
    expect(never.answer).toStartWith(`No. ${alice.wallet} was never charged here`)
    await alice.buy()
    await alice.buy()
    await buyer('bob').buy()
    const { body } = await get(`/operator/wallets/${alice.wallet.toLowerCase()}`)
    expect(body).toMatchObject({ wallet: alice.wallet, charged_usdc: '0.044000', charged_calls: 2, uncollected: [] })
    expect(body.answer).toStartWith(`Yes. ${alice.wallet} was charged 0.044000 USDC for 2 calls`)
    expect([body.last_calls.length, body.by_model.length]).toEqual([2, 1])
    const { status, body: wrong } = await get('/operator/wallets/alice')
    expect([status, wrong.details[0].path]).toEqual([400, 'address'])
  })

  test('lists in pages, filters, and writes CSV that a spreadsheet does not run', async () => {
    const { get, buyer, clock, url } = served()
    for (const name of ['alice', 'bob', 'alice']) {
      await buyer(name).buy()
      await clock.advance(60_000)
    }
    const ids = async (query: string) =>
      (await get(`/operator/payments?${query}`)).body.payments.map(({ id }: { id: string }) => id)
    const all = await ids('')
    expect(all.length).toBe(3)
    const { body: first } = await get('/operator/payments?limit=2')
    const { body: second } = await get(`/operator/payments?limit=2&next=${first.next}`)
    expect([...first.payments, ...second.payments].map(({ id }) => id)).toEqual(all)
    expect(second.next).toBeNull()
    expect(await ids(`payer=${buyer('bob').wallet.toLowerCase()}`)).toEqual([all[1]])
    expect(await ids('since=150m&until=1m')).toEqual(all.slice(1))
    expect([await ids('status=settled'), await ids('status=failed')]).toEqual([all, []])
    expect(await ids('model=nobody/none')).toEqual([])
    const csv = await fetch(`${url}/operator/payments?limit=1`, { headers: { ...OPERATOR, accept: 'text/csv' } })
    expect([csv.headers.get('content-type'), csv.headers.get('x-next')]).toEqual([
      'text/csv; charset=utf-8; header=present',
      expect.stringMatching(/^\d+\.job_/),
    ])
    const [heads, line, end] = (await csv.text()).split('\r\n')
    expect([heads?.split(',').slice(0, 3), line?.split(',')[1], end]).toEqual([
      ['created_at', 'id', 'status'],
      all[0],
      '',
    ])
    const row = (await get('/operator/payments?limit=1')).body.payments[0]
    expect(csvOf([{ ...row, error: '=HYPERLINK("x")', vendor_error: '-1', model: 'a,b' }])).toContain(
      `"'=HYPERLINK(""x"")",'-1,`,
    )
  })

  test('names every filter that it cannot read, its value and what is allowed', async () => {
    const { get } = served()
    const { status, body } = await get(
      "/operator/payments?since=yesterday&status=paid&limit=0&next=x&color=red&format=xml&payer=';drop",
    )
    expect(status).toBe(400)
    const late = await get('/operator/payments?since=2026-11-22&until=2026-11-01')
    expect([late.status, late.body.message]).toEqual([400, expect.stringContaining('must be before until')])
    expect(body.details.map(({ path }: { path: string }) => path).sort()).toEqual([
      'color',
      'format',
      'limit',
      'next',
      'payer',
      'since',
      'status',
    ])
    for (const lines of ['"yesterday"', '2026-11-22', '"paid"', 'uncollected', '1 to 1000', '"red"', 'csv or json'])
      expect(body.message).toContain(lines)
  })
})

describe('the commands', () => {
  test('read the database beside the running gateway, and write nothing', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'farebox-payments-'))
    undo.push(() => rmSync(dir, { recursive: true }))
    const path = join(dir, 'farebox.db')
    const storage = sqliteStorage(path)
    undo.push(() => storage.close())
    const { buyer } = served({ ports: { storage } })
    const { payment: sold } = await bought({ buyer })
    writeFileSync(join(dir, 'farebox.toml'), '')
    const [io, lines] = terminal({ FAREBOX_CONFIG: join(dir, 'farebox.toml'), DATABASE_URL: `sqlite:${path}` })
    expect([await runFarebox(['payment', sold.id], io), lines.err]).toEqual([0, []])
    expect(lines.out.join('\n')).toContain(`Was it charged? Yes. ${sold.payer} paid 0.022000 USDC`)
    expect(lines.out.filter((line) => /  settled  /.test(line)).length).toBe(1)
    lines.out.length = 0
    expect(await runFarebox(['payment', sold.payer], io)).toBe(0)
    expect(lines.out[0]).toStartWith(`Yes. ${sold.payer} was charged 0.022000 USDC for 1 call`)
    lines.out.length = 0
    expect(await runFarebox(['payments', '--status', 'settled', '--csv'], io)).toBe(0)
    expect(lines.out.join('\n').split('\r\n').length).toBe(2)
    lines.out.length = 0
    expect(await runFarebox(['payments', '--since', '2026-11-19'], io)).toBe(0)
    expect(lines.out.length).toBe(2)
    expect(await runFarebox(['payment', '0xnothing'], io)).toBe(1)
    expect(lines.err.join('\n')).toContain('no payment with the call id, transaction or nonce 0xnothing')
    lines.err.length = 0
    expect(await runFarebox(['payments', '--status', 'paid'], io)).toBe(2)
    expect(lines.err.join('\n')).toContain('--status: "paid" is not allowed here; write one of working, failed')
    expect(await runFarebox(['payments', '--statu', 'paid'], io)).toBe(2)
    const ledger = sqliteLedger(path)
    undo.push(() => ledger.close())
    await buyer('bob').buy()
    expect((await ledger.listCalls({ since: 0, until: START + 1, limit: 9 })).length).toBe(2)
    expect(() => sqliteLedger(join(dir, 'other.db'))).toThrow('There is no database at')
  })

  test('ask a running gateway by its URL with the token, and say what is wrong with either', async () => {
    const { buyer, url } = served()
    const { payment: sold } = await bought({ buyer })
    const [io, lines] = terminal({ OPERATOR_TOKEN: TOKEN })
    expect(await runFarebox(['payments', '--url', url, '--json', '--limit', '1500'], io)).toBe(0)
    expect(JSON.parse(lines.out.join(''))).toMatchObject([{ id: sold.id, status: 'settled' }])
    expect(await runFarebox(['payment', sold.id, '--url', url], io)).toBe(0)
    expect(await runFarebox(['payment', sold.payer, '--url', url], io)).toBe(0)
    expect(await runFarebox(['payment', '0xnothing', '--url', url], io)).toBe(1)
    const [stranger, heard] = terminal({ OPERATOR_TOKEN: 'another' })
    expect(await runFarebox(['payments', '--url', url], stranger)).toBe(1)
    expect(heard.err.join('')).toContain('Is OPERATOR_TOKEN the token of that gateway?')
    const [without, missing] = terminal({})
    expect(await runFarebox(['payments', '--url', url], without)).toBe(1)
    expect(missing.err.join('')).toContain('OPERATOR_TOKEN')
  })
})

function terminal(env: Record<string, string>): [Io, { readonly out: string[]; readonly err: string[] }] {
  const lines = { out: [] as string[], err: [] as string[] }
  const io: Io = {
    env,
    hasColor: false,
    out: (line) => void lines.out.push(line),
    err: (line) => void lines.err.push(line),
    serve: () => Promise.reject(new Error('these commands start no gateway')),
  }
  return [io, lines]
}

async function bought({ buyer }: Pick<Kit, 'buyer'>) {
  const alice = buyer()
  const { body, status } = await alice.buy()
  expect(status).toBe(200)
  return { body, payment: { id: body.id as string, payer: alice.wallet } }
}
