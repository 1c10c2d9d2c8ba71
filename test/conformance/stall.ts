import { expect } from 'bun:test'
import type { Paid } from '../../core/endpoint.ts'
import { type Endpoint, endpoints, type Gateway, type Payment } from '../../core/mod.ts'
import { type Answer, type Buyer, type Kit, kit, type KitOptions } from '../kit.ts'
import type { Subject } from './law.ts'

/** A paid endpoint under law, on a menu with all the others. */
export type Stall = {
  readonly endpoint: Paid
  /** A gateway over fresh ports that sells it. */
  open(options?: KitOptions): Kit
}

/** What is wrong with a stall: its endpoint, the ports below its gateway, or what the gateway says. */
export type Defect = {
  readonly endpoint?: (good: Paid) => Paid
  readonly wrap?: NonNullable<KitOptions['wrap']>
  readonly dress?: NonNullable<KitOptions['dress']>
}

/** Sells an endpoint beside the rest of the menu. `setup` is of every gateway of the stall: `inlineMs: 0` makes every call a job. */
export async function stall(good: Paid, { endpoint: spoil = (same) => same, ...defect }: Defect = {}, setup: KitOptions = {}): Promise<Subject<Stall>> {
  const endpoint = spoil(good)
  const menu: readonly Endpoint[] = [endpoint, ...endpoints.filter(({ name }) => name !== good.name)]
  return { open: async () => ({ endpoint, open: (options = {}) => kit({ endpoints: menu, ...defect, ...setup, ...options }) }), close: async () => {} }
}

export type Scene = Kit & {
  readonly endpoint: Paid
  readonly alice: Buyer
  readonly challenge: Answer
  readonly payment: Payment
  /** Sends the example with this payment. */
  buy(at?: { payment?: Payment; header?: string; shop?: Gateway; gone?: AbortSignal }): Promise<Answer>
  /** Buys, and polls where the answer is a job: what a buyer ends up with. */
  collect(at?: { payment?: Payment; shop?: Gateway }): Promise<Answer>
  /** Buys as a job, whose work has ended when this resolves. Answers with its poll URL. */
  job(payment?: Payment): Promise<string>
}

/** Alice in front of the stall, with a challenge in hand and a payment signed. */
export async function set(subject: Subject<Stall>, options: KitOptions = {}): Promise<Scene> {
  const { endpoint, open } = await subject.open()
  const subjects = open(options)
  const alice = subjects.buyer()
  const ask = () => alice.ask(endpoint.example, endpoint)
  const challenge = await ask()
  expect(challenge.status).toBe(402)
  const payment = alice.sign(challenge)
  const buy: Scene['buy'] = (at = {}) => alice.buy(endpoint.example, { path: endpoint.path, payment, ...at })
  async function collect(at: { payment?: Payment; shop?: Gateway } = {}): Promise<Answer> {
    const answer = await buy(at)
    if (answer.status !== 202) return answer
    await subjects.idle()
    return await alice.poll(answer.body.poll_url, at.payment ?? payment, at)
  }
  async function job(by = alice.sign(challenge)): Promise<string> {
    const { status, body } = await buy({ payment: by })
    await subjects.idle()
    expect(status).toBe(202)
    return body.poll_url
  }
  return { ...subjects, endpoint, alice, challenge, payment, buy, collect, job }
}
