import { describe, expect, test } from 'bun:test'
import type { Gateway, Payment } from '../../../core/mod.ts'
import type { Answer, Buyer } from '../../kit.ts'
import { cinema, type Cinema, DONE, order, signed } from '../products/video/film.ts'
import { type Blow, injected } from '../fault_injection.ts'

/**
 * How the world goes on: another process that knows the first one is dead, or that waits for its leases to run out; or
 * the same one.
 */
type Recovery = 'takeOver' | 'leases' | 'survival'

type At = { readonly gateway: Gateway; readonly payment: Payment }

/** What happens to the process that will be struck, and the fewest questions that it asks. */
const stories: Readonly<Record<string, { least: number; tell(cinema: Cinema, alice: Buyer, at: At): Promise<void> }>> =
  {
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

/** The answer, or undefined when the process has died on it. */
async function unlessDead(clock: Cinema['clock'], answer: Promise<Answer>): Promise<Answer | undefined> {
  await clock.settle()
  return await Promise.race([answer, clock.settle().then(() => undefined)])
}

/** What a buyer's program does who got no answer: sends the same request again, and polls where it is told to. */
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
async function play(
  story: string,
  blow: Omit<Blow, 'kills'>,
  recovery: Recovery,
): Promise<{ requests: readonly string[]; isFaultInjected: boolean }> {
  const subject = cinema()
  const { clock, studio, ports, chain, restart, idle } = subject
  const alice = subject.buyer()
  const payment = await signed(alice)
  const doomed = injected(ports, { ...blow, kills: recovery !== 'survival' })
  const old = restart({ workerId: 'first', ports: doomed.ports })
  await stories[story]!.tell(subject, alice, { gateway: old, payment })
  const [isFaultInjected, requests] = [doomed.isFaultInjected(), [...doomed.requests]]
  const label = `${story}: ${isFaultInjected ? `struck ${blow.after ? 'after' : 'before'} ${requests[blow.at - 1]} (question ${blow.at})` : 'unhurt'}, ${recovery}`

  const gateway = recovery === 'survival' ? old : restart({ workerId: 'second' })
  if (recovery === 'takeOver') await gateway.takeOver()
  studio.status = () => DONE
  for (const ms of [29_000, 1_000, 29_000, 16_000]) {
    const sweep = recovery === 'survival' ? [gateway.renew, gateway.maintain] : [gateway.maintain]
    await clock.advance(ms)
    // One that fails is made up for by the next, as in the server.
    for (const step of sweep) await step().catch(() => {})
    await idle()
  }
  const paid = chain.transfers.length
  await insist(subject, alice, { gateway, payment }).catch((error: Error) => {
    throw new Error(`${label}: ${error.message}`)
  })
  expect([label, paid <= 1, chain.transfers.length, alice.balance()]).toEqual([label, true, 1, 99_600_000n])
  await gateway.maintain()
  await idle()
  const left = [
    await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 10),
    await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 10),
  ]
  expect([label, left]).toEqual([label, [[], []]])
  return { requests, isFaultInjected }
}

describe('kill -9, or one failing answer, at any moment of a job at its vendor leaves at most one transfer, and no authorization stuck', () => {
  for (const [name, { least }] of Object.entries(stories)) {
    for (const recovery of ['takeOver', 'leases', 'survival'] as const) {
      test(`in ${name}: ${recovery}`, async () => {
        for (const after of [false, true]) {
          for (let at = 1; ; at++) {
            const { isFaultInjected, requests } = await play(name, { at, after }, recovery)
            if (isFaultInjected) continue
            expect([requests, requests.length >= least]).toEqual([requests, true])
            break
          }
        }
      })
    }
  }
})
