/**
 * Effects on the world under kill -9 and failing answers: nothing is done twice, nothing is paid twice, and every paid
 * result is delivered.
 */
import { describe, expect } from 'bun:test'
import { type Actors, actors, BRIDGE, LINE, rentTo } from '../../actors.ts'
import { type Answer, type Buyer, encodePayment, kit, type Kit, START } from '../../kit.ts'
import { type Blow, injected, labelOf, type Played, injectEverywhere } from '../fault_injection.ts'

type Story = {
  readonly path: string
  body(kit: Kit, alice: Buyer): unknown
  /** Transfers that a finished purchase has made, in order, and how often the world was touched. */
  readonly paid: readonly bigint[]
  readonly touched: (acts: Actors) => number
  readonly least: number
}

const stories: Readonly<Record<string, Story>> = {
  'a deposit': {
    path: '/api/v1/polymarket-funding/fund',
    body: ({ chain, clock }, { wallet }) => ({
      depositWallet: '0x56687bf447db6ffa42ffe2204a05edaa20f55839',
      recipient: BRIDGE,
      amountMicro: '25000000',
      depositAuthorization: encodePayment(
        chain.sign({ ...chain.offer(25_000_000n, 600), payTo: BRIDGE }, { from: wallet, now: clock.now() }),
      ),
    }),
    paid: [25_000_000n, 11_000n],
    touched: () => 1,
    least: 14,
  },
  'a purchase of a number': {
    path: '/api/v1/phone/numbers/buy',
    body: () => ({}),
    paid: [5_001_000n],
    touched: ({ bought }) => bought.length,
    least: 12,
  },
  'a renewal': {
    path: '/api/v1/phone/numbers/renew',
    body: () => ({ phoneNumber: LINE }),
    paid: [5_001_000n],
    touched: () => 1,
    least: 10,
  },
}

/** The program of a buyer without an answer: it sends the same request again, and polls where it is told to. */
async function insist({ clock }: Kit, send: (pollUrl?: string) => Promise<Answer>): Promise<Answer> {
  const trail: unknown[] = []
  let pollUrl: string | undefined
  for (let round = 0; round < 6; round++) {
    const answer = await send(pollUrl)
    trail.push([answer.status, answer.body])
    if (answer.status === 200 && answer.body.status !== 'failed') return answer
    pollUrl = answer.body.status === 'failed' ? undefined : (answer.body.poll_url ?? pollUrl)
    await clock.advance(3_000)
  }
  throw new Error(`no result after ${JSON.stringify(trail)}`)
}

async function play(
  { path, body, paid, touched }: Story,
  blow: Omit<Blow, 'kills'>,
  end: 'death' | 'survival',
): Promise<Played> {
  const kills = end === 'death'
  const acts = actors()
  const subject = kit({ ports: { vendors: { voice: acts.voice, phone: acts.phone, bridge: acts.bridge } } })
  const { ports, chain, clock, restart } = subject
  const alice = subject.buyer()
  await rentTo(ports.storage, alice.wallet, START)
  const order = body(subject, alice)
  const payment = alice.sign(await alice.ask(order, { path }))
  const doomed = injected(ports, { ...blow, kills })
  const old = restart({ workerId: 'first', ports: doomed.ports })
  void alice.buy(order, { path, payment, gateway: old })
  for (let n = 0; n < 3; n++) await clock.advance(3_000)
  const played = { isFaultInjected: doomed.isFaultInjected(), requests: [...doomed.requests] }

  const gateway = kills ? restart() : old
  if (kills) await gateway.takeOver()
  for (const ms of [29_000, 17_000]) {
    await clock.advance(ms)
    for (const step of kills ? [gateway.maintain] : [gateway.renew, gateway.maintain]) await step().catch(() => {})
  }
  await insist(subject, (pollUrl) =>
    pollUrl === undefined ? alice.buy(order, { path, payment, gateway }) : alice.poll(pollUrl, payment, { gateway }),
  )
  await gateway.maintain()
  const label = labelOf(played, blow)
  expect([label, chain.transfers.map(({ value }) => value), touched(acts)]).toEqual([label, [...paid], 1])
  return played
}

describe('kill -9, or one failing answer, at any moment: done once, paid once, and had', () =>
  injectEverywhere(stories, play, ['death', 'survival']))
