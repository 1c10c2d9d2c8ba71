/**
 * One video after the other, and a hand that kills the replica that has it where that hurts most; the other replica has
 * to make up for it.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Hex, pad } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { rpc } from '../../server/devnet/anvil.ts'
import { DEVNET_ASSET } from '../../server/devnet/mod.ts'
import { chance, seedOf } from '../simulation/chance.ts'
import { type Answer, decodeHeader, encodePayment, type Payment, signOffer } from '../server/clients/payer.ts'
import type { Replica } from './replicas.ts'
import { type Moment, sentIn } from './rpc_proxy.ts'
import { bury, type Fixture, fixture } from './fixture.ts'
import { type Studio, studio } from './studio.ts'

const GENERATIONS = '/api/v1/videos/generations'
const ORDER = JSON.stringify({
  model: 'vendor-c/video-1',
  prompt: 'a red fox runs through the snow',
  duration_seconds: 1,
})
const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
const WAIT_MS = 30_000
const POLL_MS = 100
const LOAD = 50

/** The gateways of a scene: `a` dies in it, `b` lives on. */
type World = Fixture & {
  readonly a: Replica
  readonly b: Replica
  readonly films: Studio
  readonly buyer: PrivateKeyAccount
  expect(isSo: boolean, law: string): void
}

/** Each gives the payment that was signed first and the poll URL of the job that has to be delivered. */
type Scene = (world: World) => Promise<{ payment: Payment; poll: string }>

const scenes: Readonly<Record<string, Scene>> = {
  async 'killed while the vendor takes the job'({ a, b, films, buyer, pool, expect }) {
    const payment = await sign(b, buyer)
    const hold = films.hold('submit')
    const lost = post(a, payment)
    await hold.reached
    await a.kill()
    hold.release()
    expect((await lost) === undefined, 'its order has no answer')
    const early = await post(b, payment)
    expect(early?.body.code === 'PAYMENT_REPLAY', 'its authorization is not free while it may live')
    await bury(a.life(), { pool })
    const again = await post(b, payment)
    expect(again?.status === 202, 'the same order is taken elsewhere when it is known to be dead')
    films.finish()
    return { payment, poll: again?.body.poll_url }
  },

  async 'killed while the vendor works'({ a, b, films, buyer, pool }) {
    const payment = await sign(b, buyer)
    const taken = await post(a, payment)
    await a.kill()
    await bury(a.life(), { pool })
    films.finish()
    return { payment, poll: taken?.body.poll_url }
  },

  async 'killed while the clip is mirrored'({ a, b, films, buyer, pool, expect }) {
    const { payment, poll, hold, lost } = await untilHalfMirrored({ a, b, films, buyer })
    await a.kill()
    hold.release()
    expect((await lost) === undefined, 'its poll has no answer')
    expect((await get(b, poll, payment))?.status === 202, 'nobody else mirrors while it may live')
    await bury(a.life(), { pool })
    return { payment, poll }
  },

  async 'frozen while the clip is mirrored, and thawed when another has delivered'({
    a,
    b,
    films,
    buyer,
    pool,
    expect,
  }) {
    const { payment, poll, hold, lost } = await untilHalfMirrored({ a, b, films, buyer })
    a.freeze()
    hold.release()
    await bury(a.life(), { pool })
    const delivered = await collect(b, poll, payment)
    a.thaw()
    const late = await lost
    expect(late?.status === 202 || pathOf(late) === pathOf(delivered), 'it delivers nothing else')
    await a.kill()
    return { payment, poll }
  },

  'killed between the mirror and the settlement': (world) =>
    killedAt(world, ({ point: fixture, question }) => fixture === 'asked' && sentIn(question).length > 0),
  'killed between the broadcast and its answer': (world) =>
    killedAt(world, ({ point: fixture, question }) => fixture === 'answered' && sentIn(question).length > 0),

  async 'polled by fifty with fifty signatures, at both'({ a, b, films, buyer, expect }) {
    const payment = await sign(b, buyer)
    const poll = (await post(a, payment))?.body.poll_url
    films.finish()
    const signed = await Promise.all(Array.from({ length: LOAD }, () => sign(b, buyer)))
    const until = performance.now() + WAIT_MS
    const answers: (Answer | undefined)[] = []
    while (performance.now() < until && answers.filter((answer) => answer?.status === 200).length < LOAD) {
      answers.push(...(await Promise.all(signed.map((each, index) => get(index % 2 === 0 ? a : b, poll, each)))))
      await pause(POLL_MS)
    }
    const paid = answers.filter((answer) => answer?.body.payment?.status === 'settled')
    expect(paid.length === 1, `one of them pays, not ${paid.length}`)
    expect(
      answers.every((answer) => answer?.status === 200 || answer?.status === 202),
      'all others are told to wait, or have it',
    )
    await a.kill()
    return { payment, poll }
  },
}

export type SceneReport = { readonly scenes: number; readonly violations: readonly string[] }

/** Plays every scene on one stage. Everything that it starts has ended when it resolves or rejects. */
export async function videoFaults({
  seed,
  log = () => {},
}: {
  readonly seed: number
  readonly log?: (line: string) => void
}): Promise<SceneReport> {
  const undo: (() => unknown)[] = []
  const violations: string[] = []
  try {
    const films = studio()
    undo.push(() => films.stop())
    const names = Object.keys(scenes)
    const set = await fixture(undo, {
      buyers: names.length,
      films: films.origin,
      proxy: { chance: chance(seedOf(seed, 0)), slowMs: 0, silentShare: 0 },
    })
    const [a, b] = set.replicas
    for (const [index, [name, play]] of Object.entries(scenes).entries()) {
      const startedAt = performance.now()
      const expect = (isSo: boolean, law: string) => void (isSo || violations.push(`${name}: ${law}`))
      const world = { ...set, a, b, films, buyer: set.people[index]!, expect }
      await audited(world, await play(world))
      log(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${name}`)
    }
    const orphans = await unnamed(set)
    if (orphans.length > 1)
      violations.push(`only whoever was thawed may leave an object that no call names, not ${orphans.join(' ')}`)
    for (const alert of set.replicas.flatMap(({ alerts }) => alerts)) violations.push(`alert: ${alert}`)
    return { scenes: names.length, violations }
  } finally {
    for (const step of undo.toReversed()) await step()
  }
}

/** The living replica delivers; then both say the same, and the chain has seen one transfer of this buyer. */
async function audited(world: World, { payment, poll }: Awaited<ReturnType<Scene>>): Promise<void> {
  const { a, b, films, buyer, pool, expect } = world
  const delivered = await collect(b, poll, payment)
  expect(
    delivered?.status === 200 && delivered.body.status === 'completed',
    `delivered, not ${delivered?.status} ${JSON.stringify(delivered?.body)}`,
  )
  await bury(a.life(), { pool })
  await a.start()
  const again = await get(a, poll, payment)
  expect(
    again?.body.payment?.status === 'already_settled' && pathOf(again) === pathOf(delivered),
    'both replicas give the same clip',
  )
  const clip = await fetch(a.origin + pathOf(delivered)).then((response) => response.bytes())
  expect(Buffer.from(clip).equals(films.clip), 'the clip is whole')
  expect((await transfersOf(world)) === 1, `one transfer, not ${await transfersOf(world)}`)
  const { rows } = await pool.query<{ workStatus: string; paymentStatus: string }>(
    `SELECT work_status AS "workStatus", payment_status AS "paymentStatus" FROM calls WHERE lower(payer) = $1 AND (work_status <> 'failed' OR payment_status <> 'verified')`,
    [buyer.address.toLowerCase()],
  )
  expect(
    rows.length === 1 && rows[0]?.paymentStatus === 'settled',
    `one call is settled and the others failed: ${JSON.stringify(rows)}`,
  )
}

/** Clips that no result names. */
async function unnamed({ media, pool }: Fixture): Promise<readonly string[]> {
  const { rows } = await pool.query<{ key: string }>(
    `SELECT m->>'key' AS key FROM calls, json_array_elements(result::json->'media') m WHERE result IS NOT NULL`,
  )
  const files = readdirSync(join(media, 'videos'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('@'),
  )
  return files.filter((file) => !rows.some(({ key }) => key === `videos/${file.slice(0, -1)}`))
}

async function untilHalfMirrored({ a, b, films, buyer }: Pick<World, 'a' | 'b' | 'films' | 'buyer'>) {
  const payment = await sign(b, buyer)
  const poll: string = (await post(a, payment))?.body.poll_url
  const hold = films.hold('clip')
  films.finish()
  const lost = get(a, poll, payment)
  await hold.reached
  return { payment, poll, hold, lost }
}

/** Kills `a` in the middle of its settlement, and cuts what it was saying. */
async function killedAt(
  { a, b, films, buyer, pool, rpc, expect }: World,
  isThere: (moment: Moment) => boolean,
): Promise<{ payment: Payment; poll: string }> {
  const payment = await sign(b, buyer)
  const poll = (await post(a, payment))?.body.poll_url
  films.finish()
  let isDead = false
  rpc.watch((moment) => {
    if (isDead || moment.replica !== a.name || !isThere(moment)) return undefined
    isDead = true
    return a.kill().then(() => 'cut')
  })
  const until = performance.now() + WAIT_MS
  while (!isDead && performance.now() < until) {
    await get(a, poll, payment)
    await pause(POLL_MS)
  }
  rpc.watch(undefined)
  expect(isDead, 'it died there')
  await bury(a.life(), { pool })
  return { payment, poll }
}

// ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────

async function sign({ origin }: Replica, buyer: PrivateKeyAccount): Promise<Payment> {
  const response = await fetch(origin + GENERATIONS, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: ORDER,
  })
  const { accepts, resource } = decodeHeader(response.headers.get('payment-required'))
  return await signOffer(buyer, { offer: accepts[0], resource })
}

const post = ({ origin }: Replica, payment: Payment) =>
  answerOf(
    fetch(origin + GENERATIONS, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'payment-signature': encodePayment(payment) },
      body: ORDER,
    }),
  )

const get = ({ origin }: Replica, poll: string, payment: Payment) =>
  answerOf(fetch(origin + poll, { headers: { 'payment-signature': encodePayment(payment) } }))

/** Undefined where the replica died before it answered. */
export async function answerOf(answering: Promise<Response>): Promise<Answer | undefined> {
  try {
    const response = await answering
    return { status: response.status, headers: response.headers, body: await response.json() }
  } catch {
    return undefined
  }
}

async function collect(from: Replica, poll: string, payment: Payment): Promise<Answer | undefined> {
  const until = performance.now() + WAIT_MS
  for (;;) {
    const answer = await get(from, poll, payment)
    if (answer?.status !== 202 || performance.now() > until) return answer
    await pause(POLL_MS)
  }
}

const pathOf = (answer: Answer | undefined): string | undefined => {
  const url = answer?.body?.data?.[0]?.url
  return typeof url === 'string' ? new URL(url).pathname : undefined
}

async function transfersOf({ node, payTo, buyer }: World): Promise<number> {
  const topics = [TRANSFER, pad(buyer.address.toLowerCase() as Hex), pad(payTo.toLowerCase() as Hex)]
  return (
    await rpc<readonly unknown[]>(node.url, 'eth_getLogs', [
      { address: DEVNET_ASSET, fromBlock: '0x0', toBlock: 'latest', topics },
    ])
  ).length
}
