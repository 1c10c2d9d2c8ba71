import { describe, expect } from 'bun:test'
import type { Gateway, Payment } from '../../../core/mod.ts'
import { type Answer, type Buyer, FOX, type Kit, kit, type KitOptions } from '../../kit.ts'
import {
  type Blow,
  expectNothingLeft,
  injected,
  labelOf,
  type Played,
  type Recovery,
  recover,
  injectEverywhere,
  unlessDead,
} from '../fault_injection.ts'

/** The program of a buyer without an answer: it sends the same request again, and polls where it is told to. */
async function insist(
  { clock }: Kit,
  alice: Buyer,
  at: { payment: Payment; gateway: Gateway; pollUrl?: string | undefined },
): Promise<Answer> {
  const { gateway } = at
  let { payment, pollUrl } = at
  const trail: unknown[] = []
  for (let round = 0; round < 8; round++) {
    const answer =
      pollUrl === undefined
        ? await alice.buy(FOX, { payment, gateway })
        : await alice.poll(pollUrl, payment, { gateway })
    trail.push([answer.status, answer.body])
    await clock.settle()
    if (answer.status === 200 && answer.body.data) return answer
    if (answer.body.status === 'failed') pollUrl = undefined
    else if (answer.body.error === 'Payment settlement failed' && pollUrl !== undefined) payment = alice.sign(answer)
    else pollUrl = answer.body.poll_url ?? pollUrl
  }
  throw new Error(`no result after ${JSON.stringify(trail, null, 1)}`)
}

type Story = {
  readonly options?: KitOptions
  /** The fate of the process that will die. A broken-off request answers undefined. */
  tell(
    kit: Kit,
    alice: Buyer,
    at: { gateway: Gateway; payment: Payment },
  ): Promise<{ pollUrl?: string | undefined; payment?: Payment }>
  readonly least: number
}

const stories: Readonly<Record<string, Story>> = {
  'an inline purchase': {
    least: 9,
    async tell(kit, alice, at) {
      await unlessDead(kit.clock, alice.buy(FOX, at))
      return {}
    },
  },
  'a purchase that is sent three times at once, to two replicas, under one payment identifier': {
    least: 9,
    async tell(kit, alice, at) {
      const extensions = { 'payment-identifier': { info: { id: 'order_0000000000001' } } }
      const payment = { ...at.payment, extensions }
      const other = kit.restart({ workerId: 'other' })
      const sent = [at.gateway, other, at.gateway].map((gateway) => alice.buy(FOX, { payment, gateway }))
      await Promise.all(sent.map((answer) => unlessDead(kit.clock, answer)))
      return { payment }
    },
  },
  'a job and the poll that pays for it': {
    options: { inlineMs: 0 },
    least: 13,
    async tell(kit, alice, at) {
      const pollUrl = (await unlessDead(kit.clock, alice.buy(FOX, at)))?.body.poll_url
      if (pollUrl !== undefined) await unlessDead(kit.clock, alice.poll(pollUrl, at.payment, at))
      return { pollUrl }
    },
  },
  'an inline purchase whose settlement lands without an answer, and the poll after it': {
    least: 14,
    async tell(kit, alice, at) {
      kit.chain.simulate('landed')
      const pollUrl = (await unlessDead(kit.clock, alice.buy(FOX, at)))?.body.poll_url
      if (pollUrl !== undefined) await unlessDead(kit.clock, alice.poll(pollUrl, at.payment, at))
      return { pollUrl }
    },
  },
  'an inline purchase whose settlement is dropped, and the sweep after it': {
    least: 14,
    async tell(kit, alice, at) {
      kit.chain.simulate('dropped')
      const pollUrl = (await unlessDead(kit.clock, alice.buy(FOX, at)))?.body.poll_url
      await Promise.race([at.gateway.maintain().catch(() => {}), kit.clock.settle()])
      return { pollUrl }
    },
  },
  'a refused inline settlement, and the poll that pays': {
    least: 15,
    async tell(kit, alice, at) {
      kit.chain.simulate('refused')
      const pollUrl = (await unlessDead(kit.clock, alice.buy(FOX, at)))?.body.poll_url
      if (pollUrl !== undefined) await unlessDead(kit.clock, alice.poll(pollUrl, at.payment, at))
      return { pollUrl }
    },
  },
  'a poll with a fresh authorization after the first has expired': {
    options: { inlineMs: 0 },
    least: 15,
    async tell(kit, alice, at) {
      const pollUrl = (await unlessDead(kit.clock, alice.buy(FOX, at)))?.body.poll_url
      if (pollUrl === undefined) return {}
      await kit.clock.settle()
      await Promise.race([kit.clock.advance(600_000), kit.clock.settle()])
      const payment = alice.sign(await alice.ask())
      await unlessDead(kit.clock, alice.poll(pollUrl, payment, at))
      return { pollUrl, payment }
    },
  },
}

/** Plays a story to the blow and the recovery from it. Answers with what the process asked. */
async function play({ options, tell }: Story, blow: Omit<Blow, 'kills'>, recovery: Recovery): Promise<Played> {
  const subject = kit(options)
  const { ports, chain, vendor, restart } = subject
  const alice = subject.buyer()
  const first = alice.sign(await alice.ask())
  const doomed = injected(ports, { ...blow, kills: recovery !== 'survival' })
  const old = restart({ workerId: 'first', ports: doomed.ports })
  const purchase = await tell(subject, alice, { gateway: old, payment: first })
  const played = { isFaultInjected: doomed.isFaultInjected(), requests: [...doomed.requests] }
  const label = `${labelOf(played, blow)}, ${recovery}`

  const gateway = recovery === 'survival' ? old : restart({ workerId: 'second' })
  const afterTakeOver = async () => expect(await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 10)).toEqual([])
  await recover({ clock: subject.clock, afterTakeOver }, gateway, recovery)
  const [paid, jobs] = [chain.transfers.length, vendor.jobs.length]
  const { status, body } = await insist(subject, alice, {
    payment: purchase.payment ?? first,
    gateway,
    pollUrl: purchase.pollUrl,
  }).catch((error: Error) => {
    throw new Error(`${label}: ${error.message}`)
  })
  expect([label, status, body.data.length, paid <= 1, chain.transfers.length, alice.balance()]).toEqual([
    label,
    200,
    1,
    true,
    1,
    99_978_000n,
  ])
  if (paid === 1) expect([label, vendor.jobs.length]).toEqual([label, jobs])
  await gateway.maintain()
  await expectNothingLeft(ports, label)
  return played
}

describe('kill -9, or one failing answer, at any moment leaves at most one transfer, no paid result lost and no authorization stuck', () =>
  injectEverywhere(stories, play))
