/** Laws of every paid endpoint, however it delivers: a suite says how it sells. */
import { expect } from 'bun:test'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import type { Paid, Streamed } from '../../core/endpoint/mod.ts'
import { catalog, type Payment } from '../../core/mod.ts'
import type { Answer, Buyer, Kit, KitOptions } from '../kit.ts'
import { type Away, isAway } from './endpoint_fixture.ts'
import { law, type Law, type Subject } from './law.ts'

/** Alice before an endpoint, with a challenge in hand. `collect` buys, and answers with what she ends up with. */
type Sale = Pick<Kit, 'chain' | 'ports'> & {
  readonly endpoint: Paid | Streamed
  readonly away: Away
  readonly challenge: Answer
  buy(): Promise<Pick<Answer, 'status' | 'headers'>>
  collect(): Promise<Pick<Answer, 'status'>>
  /** How often a vendor was asked, if the suite counts. */
  requestCount?(): number
}
type Sell<Fixture, Sold = Sale> = (subject: Subject<Fixture>, options?: KitOptions) => Promise<Sold>

export const offerLaws = <Fixture>(sell: Sell<Fixture>): readonly Law<Fixture>[] => [
  law('a quote lies between the least and the most that discovery says', async (subject) => {
    const { challenge, endpoint, ports } = await sell(subject)
    const { min, max } = endpoint.priceRange({ catalog: catalog(), vendors: ports.vendors })
    const amount = BigInt(challenge.body.accepts[0].amount)
    expect([amount >= min, amount <= max]).toEqual([true, true])
  }),
  law(
    'a chain that cannot be asked is told as the row says, 503 with Retry-After or 402 with a challenge, and the same payment buys later',
    async (subject) => {
      const { chain, away, buy, collect, requestCount = () => 0 } = await sell(subject)
      chain.outage(true)
      expect([isAway(await buy()), requestCount()]).toEqual([away, 0])
      chain.outage(false)
      expect((await collect()).status).toBe(200)
    },
  ),
]

/** Something bought whose result is stored and unpaid: `job` answers with its poll URL. */
type StoredSale = Sale &
  Pick<Kit, 'clock' | 'gateway' | 'buyer'> & {
    readonly alice: Buyer
    job(payment?: Payment): Promise<string>
    /** How the reply to a poll ended, and what that is for a used authorization. */
    endOf(answer: Answer): string
    readonly replayed: string
  }
const HOUR = 3_600_000

export const resultLaws = <Fixture>(sell: Sell<Fixture, StoredSale>, unpaid: KitOptions): readonly Law<Fixture>[] => [
  law('nothing is settled before the result is stored (contract 1.30)', async (subject) => {
    const settling: unknown[] = []
    const chain = memoryChain({ before: (question) => (question === 'settle' ? inspect() : undefined) })
    const { ports, collect } = await sell(subject, { chain })
    async function inspect(): Promise<void> {
      const calls = await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)
      settling.push(...calls.map(({ workStatus, result }) => [workStatus, result !== null]))
    }
    expect((await collect()).status).toBe(200)
    expect(settling).toEqual([['completed', true]])
  }),
  law('another wallet is refused with 403, and neither is charged (contract 2.7)', async (subject) => {
    const { buyer, job, chain, challenge } = await sell(subject, unpaid)
    const pollUrl = await job()
    const bob = buyer('bob')
    const { status, body } = await bob.poll(pollUrl, bob.sign(challenge))
    expect([status, body.error, chain.transfers.length]).toEqual([403, 'Payment payer mismatch', 0])
  }),
  law('one fresh authorization pays for one of two calls', async (subject) => {
    const { alice, job, clock, challenge, chain, endOf, replayed } = await sell(subject, unpaid)
    const pollUrls = [await job(), await job()]
    await clock.advance(HOUR)
    const fresh = alice.sign(challenge)
    const answers = await Promise.all(pollUrls.map((pollUrl) => alice.poll(pollUrl, fresh)))
    expect(answers.map(endOf).sort()).toEqual([replayed, 'settled'])
    expect(chain.transfers).toHaveLength(1)
  }),
  law('a result that nobody collects is never charged', async (subject) => {
    const { job, chain, clock, gateway } = await sell(subject, unpaid)
    await job()
    for (let hours = 0; hours < 50; hours += 5) {
      await gateway.maintain()
      await clock.advance(5 * HOUR)
    }
    expect(chain.transfers).toEqual([])
  }),
]
