/**
 * Paid chats by voucher, side by side: Farebox over real channels, Farebox by `exact` on a cash chain, `@x402/hono`
 * with its own batch-settlement server, and Farebox's free path, before one upstream. Prints, never asserts.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { keccak256, pad, toHex } from 'viem'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { word } from '../../adapters/chains/lib/hex.ts'
import type { Offer } from '../../core/mod.ts'
import { rpc } from '../../server/devnet/anvil.ts'
import { DEVNET_ASSET, startDevnet } from '../../server/devnet/mod.ts'
import { voucherBuyer } from '../adapters/chains/evm/channels/vouchers.ts'
import { BUYERS, buyerName } from './chat_gateways.ts'
import type { Measured } from './chat_load.ts'
import { type ChatProcesses, chatProcesses } from './chat_processes.ts'
import type { Pace } from './pace.ts'
import { count, fixed, goal, median, table, total, verdict } from './print.ts'

const PATH = '/api/v1/chat/completions'
const FREE_MODEL = 'openai/gpt-oss-120b'
const PAID_MODEL = 'openai/gpt-6-luna'
const IN_FLIGHT = [32, 256] as const
const DEPOSIT = 100_000_000n
/** Payments that are signed for a second, before it is known how many it takes. */
const MAX_RATE = 4_000
const MIN_RATE = 2_000
const MAX_P99_MS = 60
/** A process compiles its code during its first thousands of calls, which is not what an hour costs. */
const WARM_ROUNDS = 3

/** `sign` makes the requests of a round; `note` learns which of them were answered. */
type Entrant = {
  readonly name: string
  readonly label: string
  readonly port: number
  readonly isInLanes?: boolean
  /** Requests for so many milliseconds at so many a second. */
  requests(inFlight: number, ms: number, rate: number): Promise<readonly string[]>
  note?(measured: Measured): void
}

export async function vouchers(processes: ChatProcesses & Pick<Pace, 'isQuick' | 'isOver'>): Promise<void> {
  const [rounds, ms] = processes.isQuick ? [2, 500] : [5, 1_000]
  const { worker, generator } = chatProcesses(processes)
  const load = generator()
  const devnet = await startDevnet({ dir: join(processes.scratch, 'channels') })
  const { rpcUrl, network, asset, domain, payTo, relayerKey } = devnet
  const sellerOf = () => ({
    rpcUrl,
    network,
    asset,
    domain,
    payTo,
    relayerKey,
    authorizerKey: `0x${randomBytes(32).toString('hex')}` as const,
  })
  const model = await worker('upstream', {})
  const upstreamOf = (name: string) => `http://127.0.0.1:${model.port}/${name}/v1`
  const free = await worker('farebox', { baseUrl: upstreamOf('free') })
  const ours = await worker('farebox', { baseUrl: upstreamOf('ours'), channels: sellerOf() })
  const hono = await worker('hono', { baseUrl: upstreamOf('hono'), channels: sellerOf() })
  const files = await worker('hono', { baseUrl: upstreamOf('files'), channels: { ...sellerOf(), inFiles: true } })
  const field: readonly Entrant[] = [
    { name: 'free', label: 'Farebox, free model', port: free.port, requests: async () => [raw(bodyOf(FREE_MODEL))] },
    await byCash(free.port),
    await byVouchers({ name: 'vouchers', label: 'Farebox, vouchers', port: ours.port, rpcUrl }),
    await byVouchers({ name: 'hono', label: '@x402/hono, channels in memory', port: hono.port, rpcUrl }),
    await byVouchers({ name: 'files', label: '@x402/hono, channels in files', port: files.port, rpcUrl }),
  ]
  const seen = new Map<string, Measured[]>()
  /** Of each, the most that it has answered in a second: signing takes as long as answering. */
  const best = new Map<string, number>()
  async function run(entrant: Entrant, inFlight: number): Promise<Measured> {
    const rate = Math.min(MAX_RATE, 2 * (best.get(entrant.name) ?? MAX_RATE))
    const requests = await entrant.requests(inFlight, ms, rate)
    const { port, isInLanes = false } = entrant
    const isOnce = requests.length > 1
    const measured = await load.run({ port, connections: inFlight, ms, isStream: false, isOnce, isInLanes }, requests)
    entrant.note?.(measured)
    best.set(entrant.name, Math.max(best.get(entrant.name) ?? 0, measured.good / measured.seconds))
    return measured
  }
  for (let round = 0; round < WARM_ROUNDS; round++) for (const entrant of field) await run(entrant, 32)
  let played = 0
  for (let round = 0; round < rounds && !(round > 0 && processes.isOver()); round++, played++)
    for (const inFlight of IN_FLIGHT)
      for (const entrant of round % 2 === 0 ? field : field.toReversed()) {
        const key = `${entrant.name} ${inFlight}`
        seen.set(key, [...(seen.get(key) ?? []), await run(entrant, inFlight)])
      }
  await Promise.all([free, ours, hono, files].map((each) => each.stop()))
  load.stop()
  await model.stop()
  await devnet.stop()

  const runsOf = (name: string, inFlight: number) => seen.get(`${name} ${inFlight}`) ?? []
  const rates = (name: string, inFlight: number) => runsOf(name, inFlight).map(({ good, seconds }) => good / seconds)
  console.log(`\npaid chats, ${BUYERS} channels, whole answers, ${played} rounds of ${ms} ms taking turns; medians`)
  table(
    ['', 'in flight', 'per second', 'p50 ms', 'p99 ms', 'failed', 'load busy'],
    IN_FLIGHT.flatMap((inFlight) =>
      field.map(({ name, label }) => {
        const runs = runsOf(name, inFlight)
        return [
          label,
          String(inFlight),
          count(median(rates(name, inFlight))),
          fixed(median(runs.map(({ p50 }) => p50)), 1),
          fixed(median(runs.map(({ p99 }) => p99)), 1),
          String(runs.reduce((sum, { bad }) => sum + total(bad), 0)),
          fixed(median(runs.map(({ busy }) => busy)), 2),
        ]
      }),
    ),
  )
  const ratios = (other: string, inFlight: number) =>
    rates('vouchers', inFlight).map((rate, round) => rate / (rates(other, inFlight)[round] ?? NaN))
  for (const inFlight of IN_FLIGHT) {
    goal(`of the free path at ${inFlight} in flight`, ratios('free', inFlight), 0.5)
    goal(`of @x402/hono, which has its channels in memory, at ${inFlight} in flight`, ratios('hono', inFlight), 3)
    goal(`of @x402/hono, which has its channels in files, at ${inFlight} in flight`, ratios('files', inFlight), 3)
  }
  const at32 = rates('vouchers', 32)
  const spread = `${fixed(Math.min(...at32), 0)} to ${fixed(Math.max(...at32), 0)}`
  verdict(
    median(at32) >= MIN_RATE,
    `${fixed(median(at32), 0)} (${spread}) vouchers a second at 32 in flight; goal: at least ${MIN_RATE}`,
  )
  const late = median(runsOf('vouchers', 32).map(({ p99 }) => p99))
  verdict(late <= MAX_P99_MS, `${fixed(late, 1)} ms at p99 of vouchers at 32 in flight; goal: at most ${MAX_P99_MS}`)
  const failed = IN_FLIGHT.flatMap((inFlight) => runsOf('vouchers', inFlight)).reduce(
    (sum, { bad }) => sum + total(bad),
    0,
  )
  verdict(failed === 0, `${failed} of Farebox's vouchers failed (goal: none)`)
  for (const [key, runs] of seen)
    for (const { complaint } of runs)
      if (complaint) console.log(`  first failure of ${key}: ${complaint.slice(0, 600)}`)
}

function bodyOf(model: string): string {
  const messages = [
    { role: 'system', content: 'You are a patient naturalist. Answer in plain words, in one paragraph.' },
    { role: 'user', content: 'What does a fox do in winter, when the snow is deep and the mice are under it?' },
  ]
  return JSON.stringify({ model, messages, max_tokens: 400 })
}

function raw(body: string, payment?: object): string {
  const paid = payment ? `payment-signature: ${btoa(JSON.stringify(payment))}\r\n` : ''
  return `POST ${PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n${paid}content-length: ${body.length}\r\n\r\n${body}`
}

type Challenge = { readonly accepts: readonly [Offer]; readonly resource: unknown }

async function post(port: number, payment?: object): Promise<Response> {
  const headers = {
    'content-type': 'application/json',
    ...(payment && { 'payment-signature': btoa(JSON.stringify(payment)) }),
  }
  return await fetch(`http://127.0.0.1:${port}${PATH}`, { method: 'POST', headers, body: bodyOf(PAID_MODEL) })
}

async function challengeOf(port: number): Promise<Challenge> {
  const response = await post(port)
  const required = response.headers.get('payment-required')
  if (!required) throw new Error(`no challenge: ${response.status} ${await response.text()}`)
  return JSON.parse(atob(required))
}

async function byCash(port: number): Promise<Entrant> {
  const signer = memoryChain()
  const { accepts, resource } = await challengeOf(port)
  let made = 0
  return {
    name: 'cash',
    label: 'Farebox, exact on a cash chain',
    port,
    async requests(_inFlight, ms, rate) {
      return Array.from({ length: (ms * rate) / 1_000 }, () => {
        const from = signer.wallet(buyerName(made++))
        return raw(bodyOf(PAID_MODEL), { ...signer.sign(accepts[0], { from, now: Date.now() }), resource })
      })
    },
  }
}

/** Every buyer opens a channel first, which is not measured, and learns there what a call is charged. */
async function byVouchers({ rpcUrl, ...entrant }: Pick<Entrant, 'name' | 'label' | 'port'> & { rpcUrl: string }) {
  const { port } = entrant
  const { accepts, resource } = await challengeOf(port)
  const [offer] = accepts
  const buyers = Array.from({ length: BUYERS }, (_, index) => ({
    ...voucherBuyer(`${entrant.name} ${buyerName(index)}`, { ...offer, extra: offer.extra ?? {} }),
    charged: 0n,
  }))
  let charge = 0n
  // One after another: the peer's facilitator has no queue of nonces.
  for (const buyer of buyers) {
    const slot = keccak256(`0x${word(buyer.address.toLowerCase())}${word(1n)}`)
    await rpc(rpcUrl, 'anvil_setStorageAt', [DEVNET_ASSET, slot, pad(toHex(DEPOSIT))])
    const response = await post(port, { ...(await buyer.open(offer, DEPOSIT)), resource })
    const receipt = response.headers.get('payment-response')
    if (response.status !== 200 || !receipt)
      throw new Error(
        `${entrant.name} opened no channel: ${response.status} ${atob(receipt ?? response.headers.get('payment-required') ?? '').slice(0, 900)}`,
      )
    charge = BigInt(JSON.parse(atob(receipt)).extra.chargedAmount)
    buyer.charged = charge
  }
  let lanes = 0
  return {
    ...entrant,
    isInLanes: true,
    /** Lane by lane, each with a share of the buyers that no other lane has. */
    async requests(inFlight: number, ms: number, rate: number) {
      lanes = inFlight
      const each = Math.ceil((ms * rate) / 1_000 / BUYERS)
      const made: string[] = []
      for (let turn = 0; turn < each; turn++)
        for (const buyer of buyers)
          made.push(
            raw(bodyOf(PAID_MODEL), { ...(await buyer.sign(offer, buyer.charged + BigInt(turn) * charge)), resource }),
          )
      return made
    },
    /** A lane of 32 has eight buyers, who take turns; of 256 each has one. */
    note({ goodOf }: Measured) {
      for (const [index, buyer] of buyers.entries()) {
        const own = BUYERS / lanes
        const good = goodOf[index % lanes] ?? 0
        const isBefore = Math.floor(index / lanes) < good % own
        buyer.charged += BigInt(Math.floor(good / own) + (isBefore ? 1 : 0)) * charge
      }
    },
  }
}
