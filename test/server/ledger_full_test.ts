/** A ledger is never deleted: commands of ours in the folder of a gateway that sells, as real processes. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Database } from 'bun:sqlite'
import { readdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { privateKeyToAccount } from 'viem/accounts'
import { type Devnet, startDevnet } from '../../server/devnet/mod.ts'
import { damage } from '../fault/attacks/deletion.ts'
import { decodeHeader, encodePayment, GENERATIONS, payerAt, signOffer } from './clients/payer.ts'
import { type GatewayProcess, gatewayProcesses, imageHost } from './gateway_process.ts'

const processes = gatewayProcesses()
const ORDER = { method: 'POST', headers: { 'content-type': 'application/json' } }
const MODEL = { model: 'vendor-a/image-1', prompt: 'mountains' }
const SMALL = { model: 'vendor-d/image-cv4', prompt: 'a lighthouse at dusk', size: '512x512' }
const DEFAULTS = { DATABASE_URL: '' }

let chain: Devnet
let vendor: ReturnType<typeof imageHost>
beforeAll(async () => {
  chain = await startDevnet()
  vendor = imageHost()
  vendor.release()
}, 60_000)
afterAll(async () => {
  await vendor.stop()
  await chain.stop()
})

/** A folder with a gateway that has sold `calls` images and was stopped. */
async function soldFolder(
  calls: number,
): Promise<{ dir: string; keys: Readonly<Record<'OPENAI_API_KEY' | 'OPENAI_BASE_URL' | 'GAS', string>> }> {
  const dir = processes.dir()
  const { network, payTo, rpcUrl, relayerKey } = chain
  writeFileSync(
    join(dir, 'farebox.toml'),
    `[[gateways]]\nname = "main"\nnetwork = "${network}"\npay_to = "${payTo}"\nrpc_url = "${rpcUrl}"\n` +
      'relayer_key_env = "GAS"\n',
  )
  const { OPENAI_API_KEY = '', OPENAI_BASE_URL = '' } = vendor.env
  const keys = { OPENAI_API_KEY, OPENAI_BASE_URL, GAS: relayerKey }
  const gateway = processes.start(dir, { ...DEFAULTS, ...keys }, ['start'])
  await gateway.url
  for (let sold = 0; sold < calls; sold++) expect(await buy(await gateway.url)).toBe(200)
  await end(gateway)
  return { dir, keys }
}

/** The status of a purchase, or of its refusal before a price. */
async function tryToBuy(url: string): Promise<number> {
  const quote = await fetch(url + GENERATIONS, { ...ORDER, body: JSON.stringify(MODEL) })
  return quote.status === 402 ? await buy(url) : quote.status
}

async function buy(url: string): Promise<number> {
  const body = JSON.stringify(MODEL)
  const quote = await fetch(url + GENERATIONS, { ...ORDER, body })
  const { accepts, resource } = decodeHeader(quote.headers.get('payment-required'))
  const payment = await signOffer(privateKeyToAccount(chain.buyer.privateKey), { offer: accepts[0], resource })
  const headers = { ...ORDER.headers, 'payment-signature': encodePayment(payment) }
  return (await fetch(url + GENERATIONS, { ...ORDER, headers, body })).status
}

async function end(gateway: GatewayProcess): Promise<string> {
  gateway.kill('SIGTERM')
  const { code, out, err } = await gateway.exited
  expect(code).toBe(0)
  return out + err
}

const settledIn = (path: string): number => {
  const database = new Database(path, { readonly: true })
  const { calls } = database.query("SELECT count(*) AS calls FROM calls WHERE payment_status = 'settled'").get() as {
    calls: number
  }
  database.close()
  return calls
}

const ledgerIn = (dir: string): string => join(dir, '.farebox/farebox.db')

const former = (dir: string): string => join(dir, '.farebox/farebox.db')

/** Makes a ledger one that was written before devnets had a mark. */
function unmark(path: string): void {
  const database = new Database(path)
  database.run('PRAGMA application_id = 0')
  database.close()
}

describe('the ledger of a gateway that sells', () => {
  test('survives a start without its configuration, which refuses with any setting of production and sells for test money to this machine alone without one', async () => {
    const { dir, keys } = await soldFolder(5)
    const { OPENAI_API_KEY, OPENAI_BASE_URL, GAS } = keys
    const vendorAlone = { ...DEFAULTS, OPENAI_API_KEY, OPENAI_BASE_URL }
    renameSync(join(dir, 'farebox.toml'), join(dir, 'elsewhere.toml'))
    const production = { RELAYER_KEY: GAS, PUBLIC_ORIGIN: 'https://ai.example.com', TWILIO_AUTH_TOKEN: 's3cret' }
    const refused = await processes.start(dir, { ...vendorAlone, ...production }, ['start']).exited
    expect(refused).toMatchObject({ code: 1, out: '' })
    for (const name of [...Object.keys(production), 'farebox.toml', 'farebox devnet'])
      expect(refused.err).toContain(name)
    expect(refused.err).not.toContain('s3cret')

    const astray = processes.start(dir, vendorAlone, ['start'])
    const url = await astray.url
    const payer = await payerAt(url)
    const pay = async (headers: Readonly<Record<string, string>>) =>
      (await payer.post(MODEL, { 'payment-signature': encodePayment(await payer.sign(MODEL)), ...headers })).status
    expect(await pay({})).toBe(200)
    for (const headers of [{ 'x-forwarded-for': '192.0.2.7' }, { via: '1.1 proxy' }, { host: 'ai.example.com' }]) {
      expect([headers, await pay(headers)]).toEqual([headers, 403])
      expect([headers, (await fetch(`${url}/devnet`, { headers })).status]).toEqual([headers, 403])
    }
    await end(astray)
    expect(settledIn(ledgerIn(dir))).toBe(5)
  }, 120_000)

  test('survives a devnet in its folder, and one that names it', async () => {
    const { dir } = await soldFolder(5)
    const devnet = processes.start(dir, DEFAULTS, ['devnet'])
    await devnet.url
    await end(devnet)
    const named = await processes.start(dir, { DATABASE_URL: `sqlite:${ledgerIn(dir)}` }, ['devnet']).exited
    expect(named).toMatchObject({ code: 1, err: expect.stringContaining('is not the ledger of a devnet') })
    expect(settledIn(ledgerIn(dir))).toBe(5)
  }, 120_000)
})

test('a damaged ledger is not opened; one above the size that is checked sells nothing, and /readyz says why (contract 21.15)', async () => {
  const { dir, keys } = await soldFolder(5)
  damage(ledgerIn(dir), 'authorizations')
  const refused = await processes.start(dir, { ...DEFAULTS, ...keys }, ['start']).exited
  expect(refused.err).toContain('farebox restore')
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('farebox.db is damaged') })

  const token = 'a-token-of-the-operator'
  const env = { ...DEFAULTS, ...keys, DATABASE_CHECK_MB: '0', OPERATOR_TOKEN: token }
  const gateway = processes.start(dir, env, ['start'])
  const url = await gateway.url
  const statuses: number[] = []
  for (let tried = 0; tried < 20; tried++) statuses.push(await tryToBuy(url))
  expect(statuses.filter((status) => status === 200)).toEqual([])
  const ready = await fetch(`${url}/readyz`, { headers: { authorization: `Bearer ${token}` } })
  expect([ready.status, await ready.text()]).toEqual([503, expect.stringContaining('farebox.db is damaged')])
  gateway.kill('SIGKILL')
  await gateway.exited
}, 120_000)

describe('the ledger of a devnet', () => {
  test('is in one folder with all else, and no gateway that sells opens it', async () => {
    const { dir, keys } = await soldFolder(0)
    const devnet = processes.start(dir, DEFAULTS, ['devnet', '--data', 'trial'])
    await devnet.url
    await end(devnet)
    expect(readdirSync(join(dir, 'trial')).sort()).toEqual([
      'chain.json',
      'devnet.json',
      'farebox.db',
      'farebox.db.lock',
      'media',
    ])
    const refused = await processes.start(dir, { ...keys, DATABASE_URL: 'sqlite:trial/farebox.db' }, ['start']).exited
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringContaining('trial/farebox.db is the ledger of a devnet'),
    })
  }, 120_000)

  test('is copied from where it was before it had a folder of its own, and stays there', async () => {
    const dir = processes.dir()
    const first = processes.start(dir, DEFAULTS, ['devnet'])
    const payer = await payerAt(await first.url)
    const header = { 'payment-signature': encodePayment(await payer.sign(SMALL)) }
    const bought = await payer.post(SMALL, header)
    expect(bought.status).toBe(200)
    await end(first)
    for (const name of ['farebox.db', 'media'])
      renameSync(join(dir, '.farebox/devnet', name), join(dir, '.farebox', name))
    unmark(former(dir))

    const second = processes.start(dir, DEFAULTS, ['start'])
    const again = await payerAt(await second.url)
    expect(again.account.address).toBe(payer.account.address)
    const { poll_url: poll } = (await again.post(SMALL, header)).body
    const collected = await again.get(poll, header)
    expect(collected.body.payment).toMatchObject({ status: 'already_settled' })
    expect((await fetch(collected.body.data[0].url)).status).toBe(200)
    expect(await end(second)).toContain('was copied to a folder of its own')
    expect(settledIn(former(dir))).toBe(1)
    expect(settledIn(join(dir, '.farebox/devnet/farebox.db'))).toBe(1)
  }, 120_000)
})
