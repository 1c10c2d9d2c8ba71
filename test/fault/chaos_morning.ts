/**
 * A bad morning of an operator, played with a real process, a local chain and SQLite: a payment that looks lost, a
 * vendor that dies, a disk that fills up, a gas key that is empty. The operator has the commands, the log and the
 * alerts. Prints a transcript, and says what a law did not hold. Needs `mount` for the full disk, which is left out
 * where that is not allowed.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, parseEther, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { rpc } from '../../server/devnet/anvil.ts'
import { startDevnet } from '../../server/devnet/mod.ts'
import { encodePayment, signOffer } from '../server/clients/payer.ts'

const MAIN = join(import.meta.dirname, '../../server/main.ts')
const TOKEN = 'token-of-the-operator'
const CHAT = '/api/v1/chat/completions'
const MODEL = 'local/small'
const ORDER = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Good morning' }], max_tokens: 50 })
/** An alert waits for a balance to be read (a minute), for its round (15 s) and for two quiet rounds. */
const ALERT_MS = 150_000

type Alert = { readonly event: string; readonly state: 'started' | 'ended'; readonly text: string }
type Purchase = {
  /** 0 when the connection was cut. */
  readonly status: number
  readonly body: any
  readonly retry: string | null
  readonly nonce?: Hex
  /** Sends the same paid request again. Resolves with its status. */
  readonly resend?: () => Promise<number>
}
type ChaosReport = { readonly transcript: readonly string[]; readonly violations: readonly string[] }

export async function chaosMorning(print: (line: string) => void = () => {}): Promise<ChaosReport> {
  const undo: (() => unknown)[] = []
  try {
    return await played(undo, print)
  } finally {
    for (const step of undo.toReversed()) await step()
  }
}

async function played(undo: (() => unknown)[], print: (line: string) => void): Promise<ChaosReport> {
  const transcript: string[] = []
  const violations: string[] = []
  const dir = mkdtempSync(join(tmpdir(), 'farebox-chaos-'))
  undo.push(() => rmSync(dir, { recursive: true, force: true }))
  const data = join(dir, 'data')
  mkdirSync(data)
  const isDiskOwn = Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', data]).exitCode === 0
  if (isDiskOwn) undo.push(() => Bun.spawnSync(['umount', '-l', data]))

  const chain = await startDevnet()
  undo.push(() => chain.stop())
  const node = nodeBefore(chain.rpcUrl)
  undo.push(() => node.stop())
  const vendor = chatVendor()
  undo.push(() => vendor.stop())
  const inbox = receiver()
  undo.push(() => inbox.stop())
  writeFileSync(join(dir, 'farebox.toml'), configuration({ payTo: chain.payTo, hook: inbox.url }))
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: dir,
    PORT: '0',
    NO_COLOR: '1',
    OPERATOR_TOKEN: TOKEN,
    RPC_URL: node.url,
    RELAYER_KEY: chain.relayerKey,
    CHAT_BASE_URL: vendor.url,
    CHAT_MODEL: 'small',
  }
  const gateway = await gatewayIn(dir, env, undo)
  const buyer = privateKeyToAccount(chain.buyer.privateKey)
  const relayer = privateKeyToAccount(chain.relayerKey).address

  /** No paths and ports of this machine. */
  const tidy = (text: string) =>
    text.replaceAll(dir, '/srv/farebox').replaceAll(gateway.url, 'http://127.0.0.1:4020').trimEnd()
  const say = (text: string) => {
    transcript.push(tidy(text))
    print(tidy(text))
  }
  const check = (law: string, holds: boolean) => {
    if (holds) return
    violations.push(law)
    print(`VIOLATION: ${law}`)
  }
  /** Runs a command of the operator; resolves with its output. */
  async function farebox(...args: string[]): Promise<string> {
    const child = Bun.spawn([process.execPath, MAIN, ...args], { cwd: dir, env, stdout: 'pipe', stderr: 'pipe' })
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    const code = await child.exited
    say(`$ farebox ${args.join(' ')}\n${out}${err}${code === 0 ? '' : `(exit ${code})`}`)
    return out + err
  }
  async function alerted(event: string, state: Alert['state']): Promise<void> {
    const alert = await inbox.next(event, state)
    check(`an alert ${event} ${state}`, alert !== undefined)
    if (alert) say(`webhook: ${alert.text}`)
  }
  async function buy(signal?: AbortSignal): Promise<Purchase> {
    const post = (headers: Record<string, string>, until?: AbortSignal) =>
      fetch(`${gateway.url}${CHAT}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: ORDER,
        ...(until && { signal: until }),
      })
    const quote = await post({})
    const retry = quote.headers.get('retry-after')
    if (quote.status !== 402) return { status: quote.status, body: await quote.json(), retry }
    const header = quote.headers.get('payment-required') ?? ''
    await quote.body?.cancel()
    const { accepts, resource } = JSON.parse(Buffer.from(header, 'base64').toString())
    const payment = await signOffer(buyer, { offer: accepts[0], resource })
    const { nonce } = payment.payload.authorization
    const paid = { 'payment-signature': encodePayment(payment) }
    const resend = async () => (await post(paid)).status
    try {
      const reply = await post(paid, signal)
      const retry = reply.headers.get('retry-after')
      return { status: reply.status, body: await reply.json(), nonce, retry, resend }
    } catch {
      return { status: 0, body: undefined, nonce, retry: null, resend }
    }
  }
  const bought = async () => {
    const { status, body, retry } = await buy()
    const words = status === 200 ? 'the answer' : `${body.code ?? ''} ${body.message ?? JSON.stringify(body.error)}`
    say(`(a buyer gets ${status}${retry ? `, Retry-After ${retry}` : ''}: ${words.trim()})`)
    return status
  }
  const balance = async () =>
    BigInt(
      await rpc<Hex>(chain.rpcUrl, 'eth_call', [
        { to: chain.asset, data: `0x70a08231${buyer.address.slice(2).padStart(64, '0')}` },
        'latest',
      ]),
    )

  say('# 1. A buyer writes: "I have paid, and my connection was cut."')
  const leaving = new AbortController()
  const before = await balance()
  // The work is done and its payment is on its way to the chain when the connection is cut.
  node.onSend(() => leaving.abort())
  const lost = await buy(leaving.signal)
  await gateway.logged('a payment was settled')
  const timeline = await farebox('payment', lost.nonce ?? '')
  check('the payment is found by its nonce', /Was it charged\? (Yes|No)/.test(timeline))
  check('the answer is what the chain says', timeline.includes('Was it charged? Yes') === (await balance()) < before)
  const afterLoss = await balance()
  const again = await lost.resend?.()
  say(`(the buyer sends the same request again and gets ${again})`)
  check('the lost answer is given again', again === 200)
  check('and is not charged twice', (await balance()) === afterLoss)
  await farebox('reconcile')

  say('# 2. The vendor is dead.')
  const paidSoFar = await balance()
  vendor.die()
  for (let n = 0; n < 3; n++) check('a dead vendor sells nothing', (await bought()) >= 500)
  await alerted('vendor_outage', 'started')
  await farebox('payments', '--status', 'failed')
  check('nobody was charged for a dead vendor', (await balance()) === paidSoFar)
  vendor.live()
  check('a vendor that lives again sells', (await bought()) === 200)
  await alerted('vendor_outage', 'ended')

  if (isDiskOwn) {
    say('# 3. The disk is full.')
    const paid = await balance()
    Bun.spawnSync(['dd', 'if=/dev/zero', `of=${join(data, 'somebody-elses-file')}`, 'bs=4096'], { stderr: 'ignore' })
    await alerted('disk_low', 'started')
    const status = await bought()
    const charged = (await balance()) < paid
    check('with a full disk nobody is charged without a result', status === 200 || !charged)
    rmSync(join(data, 'somebody-elses-file'))
    await alerted('disk_low', 'ended')
    for (const line of gateway.warnings()) say(`log: ${line}`)
    check('it sells again when the disk has room', (await bought()) === 200)
  }

  say('# 4. The gas key is empty.')
  await rpc(chain.rpcUrl, 'anvil_setBalance', [relayer, '0x0'])
  await alerted('gas_low', 'started')
  await alerted('sales_stopped', 'started')
  check('without gas nothing is sold', (await bought()) === 503)
  check('check names the key', (await farebox('check')).includes(relayer))
  await rpc(chain.rpcUrl, 'anvil_setBalance', [relayer, toHex(parseEther('1'))])
  say(`(sends 1 ETH to ${relayer})`)
  await alerted('gas_low', 'ended')
  await alerted('sales_stopped', 'ended')
  check('with gas it sells again', (await bought()) === 200)
  await farebox('payments', '--since', '1h')
  const reconciled = await farebox('reconcile')
  check('ledger and chain agree in the end', /agree, 0 differ|agree\.$/m.test(reconciled))
  return { transcript, violations }
}

const configuration = ({ payTo, hook }: { payTo: Hex; hook: string }) => `database_url = "sqlite:data/farebox.db"
object_store = "file:data/media"
alert_webhook_url = "${hook}"

[[gateways]]
name = "main"
network = "eip155:84532"
pay_to = "${payTo}"
rpc_url_env = "RPC_URL"
relayer_key_env = ["RELAYER_KEY"]
`

/** In front of the chain: tells when a transaction has been sent to it, before the sender knows. */
function nodeBefore(upstream: string) {
  let listener: (() => void) | undefined
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body = await request.text()
      const headers = { 'content-type': 'application/json' }
      const reply = await (await fetch(upstream, { method: 'POST', headers, body })).text()
      if (body.includes('eth_sendRawTransaction')) {
        listener?.()
        listener = undefined
      }
      return new Response(reply, { headers })
    },
  })
  return { url: server.url.href, onSend: (next: () => void) => void (listener = next), stop: () => server.stop(true) }
}

/** A chat server that speaks the protocol of OpenAI, and dies when told. */
function chatVendor() {
  let isDead = false
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      await request.text()
      if (isDead) return new Response('bad gateway', { status: 502 })
      const message = { role: 'assistant', content: 'Good morning to you.' }
      return Response.json({
        id: 'chatcmpl-1',
        object: 'chat.completion',
        created: 1_700_000_000,
        model: 'small',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage: { prompt_tokens: 9, completion_tokens: 6, total_tokens: 15 },
      })
    },
  })
  return {
    url: `${server.url}v1`,
    die: () => void (isDead = true),
    live: () => void (isDead = false),
    stop: () => server.stop(true),
  }
}

/** The operator's webhook. */
function receiver() {
  const alerts: Alert[] = []
  let arrived = Promise.withResolvers<void>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      alerts.push((await request.json()) as Alert)
      arrived.resolve()
      arrived = Promise.withResolvers()
      return new Response('ok')
    },
  })
  /** The first such alert, now or later; undefined when it does not come in time. */
  async function next(event: string, state: Alert['state']): Promise<Alert | undefined> {
    const late = new Promise<undefined>((resolve) => setTimeout(resolve, ALERT_MS, undefined).unref())
    for (;;) {
      const found = alerts.findIndex((alert) => alert.event === event && alert.state === state)
      if (found >= 0) return alerts.splice(found, 1)[0]
      const isHere = await Promise.race([arrived.promise.then(() => true), late])
      if (!isHere) return undefined
    }
  }
  return { url: `${server.url}alerts`, next, stop: () => server.stop(true) }
}

/** `farebox start`, when it listens. It ends with the morning. */
async function gatewayIn(dir: string, env: Record<string, string>, undo: (() => unknown)[]) {
  const child = Bun.spawn([process.execPath, MAIN, 'start'], { cwd: dir, env, stdout: 'pipe', stderr: 'inherit' })
  undo.push(async () => {
    child.kill('SIGKILL')
    await child.exited
  })
  const lines: string[] = []
  const waiting = new Set<{ text: string; found: (line: string) => void }>()
  const logged = (text: string) =>
    new Promise<string>((found) => {
      const line = lines.find((each) => each.includes(text))
      if (line !== undefined) return found(line)
      waiting.add({ text, found })
    })
  void (async () => {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of child.stdout) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = parts.pop() ?? ''
      for (const line of parts) {
        lines.push(line)
        for (const each of waiting) if (line.includes(each.text)) each.found(line)
      }
    }
  })()
  const greeting = await Promise.race([
    logged(' endpoints, paid in USDC'),
    child.exited.then((code) => Promise.reject(new Error(`farebox ended with ${code}: ${lines.join('\n')}`))),
  ])
  const url = /https?:\/\/[\d.:]+\d/.exec(greeting)?.[0] ?? ''
  return { url, logged, warnings: () => lines.filter((line) => /"level":"?(40|50|warn|error)/.test(line)) }
}

if (import.meta.main) {
  const { violations } = await chaosMorning(console.log)
  console.log(`${violations.length} violations`)
  process.exit(violations.length === 0 ? 0 : 1)
}
