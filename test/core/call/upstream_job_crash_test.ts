import { describe, expect } from 'bun:test'
import type { Gateway, Payment } from '../../../core/mod.ts'
import type { Answer, Buyer } from '../../kit.ts'
import { cinema, type Cinema, DONE, order, signed } from '../products/video/film.ts'
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

type At = { readonly gateway: Gateway; readonly payment: Payment }

/** The fate of the process that will be struck, and the fewest questions that it asks. */
type Story = { least: number; tell(cinema: Cinema, alice: Buyer, at: At): Promise<void> }
const stories: Readonly<Record<string, Story>> = {
  'an order, and the poll that collects and pays': {
    least: 16,
    async tell({ clock, studio }, alice, at) {
      const answer = await unlessDead(clock, order(alice, at.payment, at))
      studio.status = () => DONE
      if (answer?.body.poll_url) await unlessDead(clock, alice.poll(answer.body.poll_url, at.payment, at))
    },
  },
  'an order, the sweep that collects, and the poll that pays': {
    least: 18,
    async tell({ clock, studio }, alice, at) {
      const answer = await unlessDead(clock, order(alice, at.payment, at))
      studio.status = () => DONE
      await Promise.race([at.gateway.maintain().catch(() => {}), clock.settle()])
      await clock.settle()
      if (answer?.body.poll_url) await unlessDead(clock, alice.poll(answer.body.poll_url, at.payment, at))
    },
  },
  'an order, and the poll that finds it failed': {
    least: 11,
    async tell({ clock, studio }, alice, at) {
      const answer = await unlessDead(clock, order(alice, at.payment, at))
      studio.status = () => ({ kind: 'failed', error: 'no foxes' })
      if (answer?.body.poll_url) await unlessDead(clock, alice.poll(answer.body.poll_url, at.payment, at))
    },
  },
}

/** The program of a buyer without an answer: it sends the same request again, and polls where it is told to. */
async function insist({ clock }: Cinema, alice: Buyer, { gateway, payment }: At): Promise<Answer> {
  const trail: unknown[] = []
  let pollUrl: string | undefined
  for (let round = 0; round < 10; round++) {
    const answer =
      pollUrl === undefined ? await order(alice, payment, { gateway }) : await alice.poll(pollUrl, payment, { gateway })
    trail.push([answer.status, answer.body])
    await clock.advance(2_000)
    if (answer.status === 200 && answer.body.data) return answer
    pollUrl = answer.body.status === 'failed' ? undefined : (answer.body.poll_url ?? pollUrl)
  }
  throw new Error(`no film after ${JSON.stringify(trail, null, 1)}`)
}

/** Plays a story to the blow and the recovery from it. */
async function play({ tell }: Story, blow: Omit<Blow, 'kills'>, recovery: Recovery): Promise<Played> {
  const subject = cinema()
  const { studio, ports, chain, restart, idle } = subject
  const alice = subject.buyer()
  const payment = await signed(alice)
  const doomed = injected(ports, { ...blow, kills: recovery !== 'survival' })
  const old = restart({ workerId: 'first', ports: doomed.ports })
  await tell(subject, alice, { gateway: old, payment })
  const played = { isFaultInjected: doomed.isFaultInjected(), requests: [...doomed.requests] }
  const label = `${labelOf(played, blow)}, ${recovery}`

  const gateway = recovery === 'survival' ? old : restart({ workerId: 'second' })
  studio.status = () => DONE
  await recover(subject, gateway, recovery)
  const paid = chain.transfers.length
  await insist(subject, alice, { gateway, payment }).catch((error: Error) => {
    throw new Error(`${label}: ${error.message}`)
  })
  expect([label, paid <= 1, chain.transfers.length, alice.balance()]).toEqual([label, true, 1, 99_600_000n])
  await gateway.maintain()
  await idle()
  await expectNothingLeft(ports, label)
  return played
}

describe('kill -9, or one failing answer, at any moment of a job at its vendor leaves at most one transfer, and no authorization stuck', () =>
  injectEverywhere(stories, play))
