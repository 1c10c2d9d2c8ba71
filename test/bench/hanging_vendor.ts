/**
 * Measures what buyers of other vendors see while one vendor hangs with hundreds of calls. Run it by
 * `bun test/bench/hanging_vendor.ts`; VENDOR_REQUESTS limits the requests at one vendor.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startDevnet } from '../../server/devnet/mod.ts'
import { enlargePool } from '../../server/request_pool.ts'
import { MAIN } from '../scope.ts'
import { wallets } from './buyers.ts'
import { encodePayment, type Offer, signOffer } from '../server/clients/payer.ts'

const COMPLETIONS = '/api/v1/chat/completions'
const HANGING = 300
const OTHERS = 60
const ask = (model: string) => ({ model, messages: [{ role: 'user', content: 'Hello?' }], max_tokens: 50 })

// Its own requests need the room that it measures.
enlargePool(process.env)
const dir = mkdtempSync(join(tmpdir(), 'farebox-hanging-'))
const devnet = await startDevnet()
const hanging = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  fetch: () => new Promise<Response>(() => {}),
})
const quick = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const { model } = (await request.json()) as { model: string }
    const message = { role: 'assistant', content: 'Hello.' }
    const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 }
    return Response.json({
      id: 'a',
      object: 'chat.completion',
      created: 1,
      model,
      usage,
      choices: [{ index: 0, message, finish_reason: 'stop' }],
    })
  },
})
writeFileSync(
  join(dir, 'farebox.toml'),
  `
log_level = "error"
[vendors.vendor-h]
chat = "openai-chat"
base_url = "${hanging.url.origin}/v1"

[vendors.vendor-a]
chat = "openai-chat"
base_url = "${quick.url.origin}/v1"

[[gateways]]
name = "main"
network = "${devnet.network}"
pay_to = "${devnet.payTo}"
rpc_url_env = "RPC_URL"
relayer_key_env = "RELAYER"
`,
)
const child = Bun.spawn([process.execPath, MAIN, 'start'], {
  cwd: dir,
  env: {
    PATH: process.env.PATH ?? '',
    HOME: dir,
    PORT: '0',
    DATABASE_URL: `sqlite:${dir}/farebox.db`,
    OBJECT_STORE: `file:${dir}/media`,
    RPC_URL: devnet.rpcUrl,
    RELAYER: devnet.relayerKey,
    VENDOR_H_API_KEY: 'key',
    VENDOR_A_API_KEY: 'key',
    OPENAI_API_KEY: 'key',
    ...(process.env.VENDOR_REQUESTS && { VENDOR_REQUESTS: process.env.VENDOR_REQUESTS }),
  },
  stdout: 'pipe',
  stderr: 'inherit',
})

try {
  const url = await greeting()
  const people = await wallets(
    { port: 0, rpcUrl: devnet.rpcUrl, asset: devnet.asset, payTo: devnet.payTo, minterKey: devnet.relayerKey },
    HANGING + OTHERS,
  )
  const payments = await Promise.all(
    people.map(async (account, index) => {
      const body = ask(index < HANGING ? 'vendor-h/chat-4' : 'vendor-a/chat-5.4-mini')
      const response = await fetch(url + COMPLETIONS, post(body))
      const { accepts, resource } = (await response.json()) as { accepts: readonly [Offer]; resource: unknown }
      return { body, header: encodePayment(await signOffer(account, { offer: accepts[0], resource })) }
    }),
  )
  const stop = new AbortController()
  const early: number[] = []
  for (const { body, header } of payments.slice(0, HANGING))
    void fetch(url + COMPLETIONS, { ...post(body, header), signal: stop.signal }).then(
      ({ status }) => early.push(status),
      () => {},
    )
  await pause(5_000)
  const times: number[] = []
  const statuses = await Promise.all(
    payments.slice(HANGING).map(async ({ body, header }, index) => {
      await pause(index * 50)
      const since = performance.now()
      const { status } = await fetch(url + COMPLETIONS, post(body, header))
      times.push(performance.now() - since)
      return status
    }),
  )
  times.sort((a, b) => a - b)
  const at = (share: number) => Math.round(times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? 0)
  const count = (list: readonly number[]) =>
    [...new Set(list)].map((status) => `${status}: ${list.filter((each) => each === status).length}`)
  console.log(`${HANGING} calls of a vendor that hangs; answered early: ${count(early).join(', ') || 'none'}`)
  console.log(`${OTHERS} calls of another vendor: ${count(statuses).join(', ')}; p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`)
  stop.abort()
} finally {
  child.kill('SIGKILL')
  await child.exited
  await Promise.all([hanging.stop(true), quick.stop(true), devnet.stop()])
  rmSync(dir, { recursive: true, force: true })
}

function post(body: unknown, header?: string): RequestInit {
  const headers = { 'content-type': 'application/json', ...(header && { 'payment-signature': header }) }
  return { method: 'POST', headers, body: JSON.stringify(body) }
}

function greeting(): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  return new Promise((resolve, reject) => {
    void (async () => {
      // Read to its end: a closed pipe would end the gateway.
      for await (const chunk of child.stdout) {
        text += decoder.decode(chunk, { stream: true })
        const url = /^Farebox \S+ at (?:\S+, listening on )?(\S+): \d+ endpoints/m.exec(text)?.[1]
        if (url) resolve(url)
      }
      reject(new Error(`the gateway has ended: ${text}`))
    })()
  })
}
