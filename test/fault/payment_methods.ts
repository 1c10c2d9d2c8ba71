/**
 * Payments on the rails beside the plain one: a replica is killed around its settlement, and the other one has to end
 * it, once.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type Answer, decodeHeader, encodePayment, GENERATIONS, pngSize } from '../server/clients/payer.ts'
import { nano, onSolana, type Payer, type PaymentMethod } from './method_fixtures.ts'
import { type Replica, writeConfig } from './replicas.ts'
import { bury, ground, type Ground, pair } from './fixture.ts'
import { type SceneReport, answerOf } from './videos.ts'

/** Always a job; and one that answers with the picture, when it is paid. */
const [JOB, INLINE] = ['vendor-e/image-pro', 'vendor-d/image-cv4'] as const
const WAIT_MS = 10_000
const POLL_MS = 100
const LOAD = 50

type Payment = {
  readonly x402Version: number
  readonly resource: unknown
  readonly accepted: { readonly amount: string }
}

/** The gateways of a scene: `a` dies in it, `b` lives on. */
type World = Ground & {
  readonly paymentMethod: PaymentMethod
  readonly a: Replica
  readonly b: Replica
  readonly payer: Payer
  expect(isSo: boolean, law: string): void
}

/** Each gives its one payment, and the poll URL of the job that has to be delivered. */
type Scene = (world: World) => Promise<{ payment: Payment; poll: string }>

const scenes: Readonly<Record<string, Scene>> = {
  'killed between the broadcast and its record': (world) => killedWhile(world, 'answers'),
  'killed before the broadcast': (world) => killedWhile(world, 'sends'),

  async 'killed between the broadcast and the record of an inline sale'(world) {
    const { paymentMethod, a, b, pool, expect } = world
    const payment = await sign(world, INLINE)
    const broadcast = paymentMethod.drop('answers')
    const lost = post(world, a, { payment, model: INLINE })
    const early = await Promise.race([broadcast, lost])
    expect(early === undefined, `its settlement is lost before it is answered, not ${printed(early || undefined)}`)
    await a.kill()
    paymentMethod.recover()
    expect((await lost) === undefined, 'its order has no answer')
    await bury(a.life(), { pool })
    const again = await post(world, b, { payment, model: INLINE })
    expect(
      again?.status === 402 && again.body.code === 'PAYMENT_REPLAY',
      `its payment is known elsewhere, not ${printed(again)}`,
    )
    return { payment, poll: again?.body.poll_url }
  },

  async 'ordered and polled by fifty with one payment, at both'(world) {
    const { a, b, expect } = world
    const payment = await sign(world, JOB)
    const load = (ask: (replica: Replica) => Promise<Answer | undefined>) =>
      Promise.all(Array.from({ length: LOAD }, (_, index) => ask(index % 2 === 0 ? a : b)))
    const orders = await load((replica) => post(world, replica, { payment, model: JOB }))
    const taken = orders.filter((order) => order?.status === 202)
    expect(taken.length === 1, `one order is taken, not ${taken.length}`)
    expect(
      orders.every((order) => order?.status === 202 || order?.body.code === 'PAYMENT_REPLAY'),
      `all others are replays: ${orders.map((order) => order?.status).join(' ')}`,
    )
    const poll: string = taken[0]?.body.poll_url
    const answers: (Answer | undefined)[] = []
    for (const until = performance.now() + WAIT_MS; performance.now() < until; await pause(POLL_MS)) {
      const round = await load((replica) => get(world, replica, { payment, poll }))
      answers.push(...round)
      if (round.every((answer) => answer?.status === 200)) break
    }
    const paid = answers.filter((answer) => answer?.body.payment?.status === 'settled')
    expect(paid.length === 1, `one poll pays, not ${paid.length}`)
    expect(
      answers.every((answer) => answer?.status === 200 || answer?.status === 202),
      `all others are told to wait, or have it: ${[...new Set(answers.map((answer) => answer?.status))].join(' ')}`,
    )
    return { payment, poll }
  },
}

/** Plays every scene on every rail. Everything that it starts has ended when it resolves or rejects. */
export async function paymentMethodFaults({
  log = () => {},
}: { readonly log?: (line: string) => void } = {}): Promise<SceneReport> {
  const undo: (() => unknown)[] = []
  const violations: string[] = []
  try {
    const [position, solana] = await Promise.all([ground(undo), onSolana(undo)])
    const paymentMethods = [solana, nano(undo)]
    writeConfig(position.dir, { media: position.media, gateways: paymentMethods.map(({ row }) => row).join('\n') })
    const [a, b] = await pair(undo, position, () => Object.assign({}, ...paymentMethods.map(({ env }) => env)))
    const plays = paymentMethods.flatMap((paymentMethod) =>
      Object.entries(scenes).map(([name, play]) => ({ paymentMethod, play, name: `${paymentMethod.name}: ${name}` })),
    )
    for (const { paymentMethod, play, name } of plays) {
      const startedAt = performance.now()
      const expect = (isSo: boolean, law: string) => void (isSo || violations.push(`${name}: ${law}`))
      const world = { ...position, paymentMethod, a, b, payer: await paymentMethod.payer(), expect }
      await audited(world, await play(world))
      log(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${name}`)
    }
    for (const alert of [a, b].flatMap(({ alerts }) => alerts)) violations.push(`alert: ${alert}`)
    return { scenes: plays.length, violations }
  } finally {
    for (const step of undo.toReversed()) await step()
  }
}

/**
 * The living replica delivers; then both say the same, and the quote has left the payer once, in the transaction that
 * the ledger names.
 */
async function audited(world: World, { payment, poll }: Awaited<ReturnType<Scene>>): Promise<void> {
  const { a, b, payer, pool, expect } = world
  const delivered = await collect(world, b, { payment, poll })
  expect(
    delivered?.status === 200 && ['settled', 'already_settled'].includes(delivered.body.payment?.status),
    `delivered and settled, not ${printed(delivered)}`,
  )
  await a.kill()
  await bury(a.life(), { pool })
  await a.start()
  if (delivered?.status !== 200) return
  const again = await get(world, a, { payment, poll })
  expect(
    again?.body.payment?.status === 'already_settled' && urlOf(again) === urlOf(delivered),
    `both replicas give the same picture, not ${printed(again)}`,
  )
  const picture = await fetch(a.origin + urlOf(delivered)).then((response) => response.bytes())
  expect(pngSize(picture) === '1024x1024', 'the picture is whole')
  const quote = BigInt(payment.accepted.amount)
  const [transfer, ...others] = await payer.transfers()
  expect(transfer !== undefined && others.length === 0, `one transfer, not ${others.length + (transfer ? 1 : 0)}`)
  expect(
    transfer?.value === quote && (await payer.spent()) === quote,
    `${quote} is charged, not ${await payer.spent()}`,
  )
  expect(delivered?.body.payment?.tx_hash === transfer?.id, 'the reply names the transfer')
  const { rows } = await pool.query<{ workStatus: string; paymentStatus: string; receipt: string }>(
    `SELECT work_status AS "workStatus", payment_status AS "paymentStatus", receipt FROM calls WHERE lower(payer) = $1 AND (work_status <> 'failed' OR payment_status <> 'verified')`,
    [payer.address.toLowerCase()],
  )
  expect(
    rows.length === 1 && rows[0]?.paymentStatus === 'settled' && rows[0].receipt.includes(transfer?.id ?? '-'),
    `one call is settled, by it: ${JSON.stringify(rows)}`,
  )
}

/** Kills `a` when its settlement is lost on the way there, or has arrived and its answer is lost. */
async function killedWhile(world: World, what: 'sends' | 'answers'): Promise<{ payment: Payment; poll: string }> {
  const { paymentMethod, a, pool, payer, expect } = world
  const payment = await sign(world, JOB)
  const taken = await post(world, a, { payment, model: JOB })
  expect(taken?.status === 202, `its order is taken, not ${printed(taken)}`)
  const poll: string = taken?.body.poll_url
  let isDead = false
  const killing = paymentMethod.drop(what).then(async () => {
    await a.kill()
    isDead = true
  })
  for (const until = performance.now() + WAIT_MS; !isDead && performance.now() < until; await pause(POLL_MS)) {
    const early = await Promise.race([get(world, a, { payment, poll }), killing])
    expect(early?.status !== 200, 'it does not deliver before it has died')
  }
  expect(isDead, 'it died there')
  paymentMethod.recover()
  const { length } = await payer.transfers()
  expect(length === (what === 'answers' ? 1 : 0), `the rail has seen it as the scene is called, not ${length} times`)
  await bury(a.life(), { pool })
  return { payment, poll }
}

// ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Order = { readonly payment: Payment; readonly model: string }
type Poll = { readonly payment: Payment; readonly poll: string }

const bodyOf = (model: string) => JSON.stringify({ model, prompt: 'a red fox in the snow' })

/** One payment, made by the rail's public client. */
async function sign({ paymentMethod, b, payer }: World, model: string): Promise<Payment> {
  const response = await fetch(b.origin + GENERATIONS, {
    method: 'POST',
    headers: { host: paymentMethod.host, 'content-type': 'application/json' },
    body: bodyOf(model),
  })
  const { accepts, resource } = decodeHeader(response.headers.get('payment-required'))
  return { ...(await payer.pay(accepts[0])), resource, accepted: accepts[0] }
}

const post = ({ paymentMethod }: World, { origin }: Replica, { payment, model }: Order) =>
  answerOf(
    fetch(origin + GENERATIONS, {
      method: 'POST',
      headers: {
        host: paymentMethod.host,
        'content-type': 'application/json',
        'payment-signature': encodePayment(payment),
      },
      body: bodyOf(model),
    }),
  )

const get = ({ paymentMethod }: World, { origin }: Replica, { payment, poll }: Poll) =>
  answerOf(fetch(origin + poll, { headers: { host: paymentMethod.host, 'payment-signature': encodePayment(payment) } }))

async function collect(world: World, from: Replica, ask: Poll): Promise<Answer | undefined> {
  for (const until = performance.now() + WAIT_MS; ; await pause(POLL_MS)) {
    const answer = await get(world, from, ask)
    if (answer?.status !== 202 || performance.now() > until) return answer
  }
}

const printed = (answer: Answer | undefined): string => `${answer?.status} ${JSON.stringify(answer?.body)}`

/** The path of the picture. */
const urlOf = (answer: Answer | undefined): string | undefined => {
  const url = answer?.body?.data?.[0]?.url
  return typeof url === 'string' ? new URL(url).pathname : undefined
}
