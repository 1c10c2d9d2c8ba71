/** The Worker of the page, in workerd: it sells an image on the local chain, and keeps it when it is killed. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'
import { rpc } from '../../server/devnet/anvil.ts'
import { DEVNET_ASSET, DEVNET_NETWORK, type Devnet, startDevnet } from '../../server/devnet/mod.ts'
import { objectLaws } from '../conformance/objects.ts'
import { storageLaws } from '../conformance/storage.ts'
import { LAW_WORKER } from './law_worker.ts'
import { blocks, guideText } from './readme.ts'
import { bundleWorker, startWorker, type Worker } from './workerd.ts'

const page = await guideText('workers')
const ORDER = JSON.stringify({ model: 'vendor-a/image-1', prompt: 'a red fox in the snow' })
/** The platform tells the caller's address in a header. */
const FROM = { 'cf-connecting-ip': '192.0.2.1' }
const POST = { method: 'POST', headers: { 'content-type': 'application/json', ...FROM }, body: ORDER }

let dir: string
let devnet: Devnet
let worker: Worker

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'farebox-worker-'))
  devnet = await startDevnet()
  await writeFile(join(dir, 'source.js'), blocks(page, '## The Worker', 'js')[0] ?? '')
  await bundleWorker(join(dir, 'source.js'), dir)
  worker = await start()
}, 120_000)

afterAll(async () => {
  await worker?.stop()
  await devnet?.stop()
  await rm(dir, { recursive: true, force: true })
})

const start = () =>
  startWorker(dir, {
    NETWORK: DEVNET_NETWORK,
    ASSET: DEVNET_ASSET,
    RPC_URL: devnet.rpcUrl,
    PAY_TO: devnet.payTo,
    RELAYER_KEY: devnet.relayerKey,
  })

/** A public client over a `fetch` that keeps what it sent last. */
function buyer() {
  const sent: { last?: Request } = {}
  const keeping = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init)
    sent.last = request.clone()
    return await fetch(request)
  }
  const client = new ExactEvmScheme(privateKeyToAccount(devnet.buyer.privateKey))
  const schemes = [{ network: 'eip155:*' as const, client }]
  return { sent, pay: wrapFetchWithPaymentFromConfig(keeping as typeof fetch, { schemes }) }
}

const balance = async (): Promise<bigint> => {
  const data = `0x70a08231${devnet.buyer.address.slice(2).padStart(64, '0')}`
  return BigInt(await rpc<string>(devnet.rpcUrl, 'eth_call', [{ to: DEVNET_ASSET, data }, 'latest']))
}

test('a public client buys an image; call and picture outlive the worker, and what is collected again is not charged again', async () => {
  const { sent, pay } = buyer()
  const before = await balance()
  const bought = await pay(`${worker.url}/api/v1/images/generations`, POST)
  expect(bought.status).toBe(200)
  const answer = (await bought.json()) as { payment: { status: string }; data: { url: string }[] }
  expect(answer.payment.status).toBe('settled')
  const paid = before - (await balance())
  expect(paid).toBeGreaterThan(0n)
  const { pathname } = new URL(answer.data[0]?.url ?? '')
  const picture = await (await fetch(worker.url + pathname)).bytes()
  expect(picture.length).toBeGreaterThan(60)

  await worker.stop()
  worker = await start()
  expect(await (await fetch(worker.url + pathname)).bytes()).toEqual(picture)
  const { headers } = sent.last as Request
  const again = await fetch(`${worker.url}/api/v1/images/generations`, { ...POST, headers })
  expect([again.status, again.headers.get('payment-required')]).toEqual([402, expect.any(String)])
  const refusal = (await again.json()) as { code: string; poll_url: string }
  expect(refusal.code).toBe('PAYMENT_REPLAY')
  const collected = await pay(new URL(refusal.poll_url, worker.url))
  expect([collected.status, await collected.json()]).toEqual([
    200,
    expect.objectContaining({ data: [expect.objectContaining({ backed_up: true })] }),
  ])
  expect(before - (await balance())).toBe(paid)
}, 60_000)

test('the bundle is about as large as the page says', async () => {
  const bytes = await Bun.file(join(dir, 'worker.js')).bytes()
  const claimed = /about ([\d.]+) MB, ([\d.]+) MB compressed/
    .exec(page)
    ?.slice(1)
    .map((text) => Number(text) * 1e6)
  for (const [n, size] of [bytes.length, Bun.gzipSync(bytes).length].entries())
    expect(Math.abs(size / (claimed?.[n] ?? 0) - 1)).toBeLessThan(0.2)
})

/** It asks what garbage collection leaves, which workerd has no way to start. SQLite objects keep it on Bun. */
const UNOBSERVED = 'of a stream a few parts are held at a time'

test('ledger and media of a Durable Object keep every law but one, which cannot be observed there', async () => {
  const laws = await mkdtemp(join(tmpdir(), 'farebox-laws-'))
  await writeFile(join(laws, 'source.js'), LAW_WORKER)
  await bundleWorker(join(laws, 'source.js'), laws)
  const lawful = await startWorker(laws)
  const broken: string[] = []
  for (const [suite, all] of [
    ['storage', storageLaws],
    ['objects', objectLaws],
  ] as const) {
    for (const [number, { name }] of all.entries()) {
      const answer = await (await fetch(`${lawful.url}/${suite}/${number}`)).text()
      if (answer !== 'kept' && name !== UNOBSERVED) broken.push(`${suite}: ${name}: ${answer}`)
    }
  }
  expect(broken).toEqual([])
  await lawful.stop()
  await rm(laws, { recursive: true })
}, 300_000)
