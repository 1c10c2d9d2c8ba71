import { expect } from 'bun:test'
import { scriptedAudio } from '../fakes/audio.ts'
import { CLIP, inTurn, scriptedVideo } from '../fakes/videos.ts'
import type { Paid } from '../../core/endpoint/mod.ts'
import { FACE_GROUP, FOREVER } from '../../core/products/video/owned_characters.ts'
import { SANDBOX } from '../../core/products/sandbox/sandbox_record.ts'
import { type Clock, type Endpoint, endpoints, type Gateway, gateway, type Payment } from '../../core/mod.ts'
import { rentTo } from '../actors.ts'
import {
  type Answer,
  type Buyer,
  door,
  embedded,
  encodePayment,
  type Kit,
  kit,
  type KitOptions,
  located,
  ORIGIN,
  read,
  LEASED,
  testClock,
} from '../kit.ts'
import type { Subject } from './law.ts'

/** A paid endpoint under test, in a gateway with all the others. */
export type EndpointFixture = {
  readonly endpoint: Paid
  /** Answer of its gateway while the chain cannot be asked. */
  readonly away: Away
  /** A gateway over fresh ports that sells it. */
  open(options?: KitOptions): Kit
}

/** Status, whether the reply says when to try again, and whether it brings a challenge (contract 1.27). */
export type Away = readonly [status: number, retries: boolean, challenges: boolean]
export const awayOf = ({ unverifiable }: KitOptions = {}): Away =>
  unverifiable === 402 ? [402, false, true] : [503, true, false]
export const isAway = ({ status, headers }: Pick<Answer, 'status' | 'headers'>): Away => [
  status,
  headers.has('retry-after'),
  headers.has('payment-required'),
]

/** The defect of a fixture: its endpoint, the ports below its gateway, or what the gateway says. */
export type Defect = {
  readonly endpoint?: (good: Paid) => Paid
  readonly wrap?: NonNullable<KitOptions['wrap']>
  readonly dress?: NonNullable<KitOptions['dress']>
}

/**
 * Sells an endpoint beside all the others. `setup` is made anew for every gateway of the fixture: `inlineMs: 0` makes
 * every call a job.
 */
export async function endpointFixture(
  good: Paid,
  { endpoint: spoil = (same) => same, ...defect }: Defect = {},
  setup: () => KitOptions = () => ({}),
): Promise<Subject<EndpointFixture>> {
  const endpoint = spoil(good)
  const router: readonly Endpoint[] = [endpoint, ...endpoints.filter(({ name }) => name !== good.name)]
  return {
    open: async () => ({
      endpoint,
      away: awayOf(setup()),
      open: (options = {}) => kit({ endpoints: router, ...defect, ...setup(), ...options }),
    }),
    close: async () => {},
  }
}

type Scene = Kit & {
  readonly endpoint: Paid
  readonly away: Away
  readonly alice: Buyer
  readonly challenge: Answer
  readonly payment: Payment
  /** Sends the example with this payment. */
  buy(at?: { payment?: Payment; header?: string; gateway?: Gateway; gone?: AbortSignal }): Promise<Answer>
  /** Buys, and polls where the answer is a job: what a buyer ends up with. */
  collect(at?: { payment?: Payment; gateway?: Gateway }): Promise<Answer>
  /** Buys as a job, whose work has ended when this resolves. Answers with its poll URL. */
  job(payment?: Payment): Promise<string>
}

/** A video is ready as soon as somebody looks. */
export const READY = inTurn({ kind: 'done', url: CLIP })

/** Alice before the fixture, with a challenge in hand and a payment signed. */
export async function set(subject: Subject<EndpointFixture>, options: KitOptions = {}): Promise<Scene> {
  const { endpoint, away, open } = await subject.open()
  const subjects = open({ video: scriptedVideo({ pollUpstream: READY }), audio: scriptedAudio(), ...options })
  const alice = subjects.buyer()
  const ask = () => alice.ask(endpoint.example, endpoint)
  const challenge = await ask()
  expect(challenge.status).toBe(402)
  const payment = alice.sign(challenge)
  const buy: Scene['buy'] = (at = {}) => alice.buy(endpoint.example, { path: endpoint.path, payment, ...at })
  async function collect(at: { payment?: Payment; gateway?: Gateway } = {}): Promise<Answer> {
    const answer = await buy(at)
    if (answer.status !== 202) return answer
    await subjects.idle()
    return await alice.poll(answer.body.poll_url, at.payment ?? payment, at)
  }
  async function job(by = alice.sign(challenge)): Promise<string> {
    const { status, body } = await buy({ payment: by })
    // A result that waits at its vendor is collected by any replica's sweep: here by one that has no defect.
    if (endpoint.pollUpstream)
      await gateway({
        name: subjects.gateway.name,
        ports: subjects.ports,
        endpoints: [endpoint],
        workerId: 'sweeper',
      }).maintain()
    await subjects.idle()
    expect(status).toBe(202)
    return body.poll_url
  }
  return { ...subjects, endpoint, away, alice, challenge, payment, buy, collect, job }
}

// ── one shot ────────────────────────────────────────────────────────────────────────────────────────────────────────

type At = {
  readonly payment?: Payment
  readonly method?: 'GET' | 'POST'
  readonly header?: string
  readonly gateway?: Gateway
  readonly gone?: AbortSignal
  readonly more?: Record<string, unknown>
}

/** Like `Scene`, for what is settled before its reply. */
type OneShotScene = Kit & {
  readonly endpoint: Paid
  readonly away: Away
  readonly alice: Buyer
  readonly challenge: Answer
  readonly payment: Payment
  /** How often a vendor was asked. */
  requestCount(): number
  /** Sends the example without payment; `more` joins it. */
  ask(at?: At): Promise<Answer>
  /** Sends the example with this payment. */
  buy(at?: At): Promise<Answer>
  /** Sends the example once more in other letters, with the same payment. */
  another(at?: { header?: string }): Promise<Answer>
  /** A request in the endpoint's words that is not of a buyer's making. */
  raw(
    method: string,
    how?: {
      body?: BodyInit | null
      payment?: Payment
      header?: string
      query?: boolean
      headers?: Record<string, string>
    },
  ): Promise<Answer>
  /** A sale whose settlement was refused: its result is kept and unpaid. Answers with its poll URL. */
  sellJob(payment?: Payment): Promise<string>
}

/**
 * Alice before a fixture that sells inline. `before` is awaited in every question to a vendor; what it throws, the
 * vendor throws.
 */
export async function shot(
  subject: Subject<EndpointFixture>,
  { before, ...options }: KitOptions & { before?: () => unknown } = {},
): Promise<OneShotScene> {
  const { endpoint, away, open } = await subject.open()
  const clock = testClock()
  const { vendors, requestCount } = watched(clock, before)
  const subjects = open({ ...options, ports: { clock, vendors, ...options.ports } })
  const alice = subjects.buyer()
  const { method, path, example } = endpoint
  const { group_id, sandbox_id } = example as { readonly group_id?: string; readonly sandbox_id?: string }
  if (RENTING.has(endpoint.name)) await rentTo(subjects.ports.storage, alice.wallet, clock.now())
  if (group_id) await FACE_GROUP.put(subjects.ports.storage, passed(group_id), clock.now())
  if (sandbox_id)
    await SANDBOX.put(
      subjects.ports.storage,
      {
        id: sandbox_id,
        owner: alice.wallet,
        data: { vendor: 'scripted', handle: LEASED, ends: FOREVER },
        expiresAt: FOREVER,
      },
      clock.now(),
    )
  const order = ({ more }: At) => ({ ...(example as object), ...more })
  const ask: OneShotScene['ask'] = (at = {}) => alice.ask(order(at), { method, path, ...at })
  const challenge = await ask()
  expect(challenge.status).toBe(402)
  const payment = alice.sign(challenge)
  const buy: OneShotScene['buy'] = (at = {}) => alice.buy(order(at), { method, path, payment, ...at })

  function another({ header = 'payment-signature' } = {}): Promise<Answer> {
    if (endpoint.unknownFields !== 'refused') return buy({ header, more: { another_request: '1' } })
    return raw(method, {
      body: `${JSON.stringify(located(path, example).rest)}\n`,
      headers: { [header]: encodePayment(payment) },
    })
  }

  async function raw(
    method: string,
    {
      body = null,
      payment,
      header = 'payment-signature',
      query = false,
      headers = {},
    }: Parameters<OneShotScene['raw']>[1] = {},
  ): Promise<Answer> {
    const { url, rest } = located(path, example)
    const asking = query ? `?${new URLSearchParams(rest as Record<string, string>)}` : ''
    const signed = payment && { [header]: encodePayment(payment) }
    return await read(
      await subjects.gateway.fetch(
        new Request(ORIGIN + url + asking, {
          method,
          body,
          headers: { ...(typeof body === 'string' && JSON_TYPE), ...signed, ...headers },
        }),
        { ip: '192.0.2.1' },
      ),
    )
  }

  async function sellJob(by = alice.sign(challenge)): Promise<string> {
    subjects.chain.simulate('refused')
    const { status, body } = await buy({ payment: by })
    expect(status).toBe(402)
    return body.poll_url
  }

  return { ...subjects, endpoint, away, alice, challenge, payment, requestCount, ask, buy, another, raw, sellJob }
}

/** Products for those who rent a number. */
const RENTING = new Set(['voice.call', 'phone.numbers.renew'])

/** A person who has passed the check that a face's enrollment follows. */
const passed = (id: string) => ({
  id,
  owner: 'anybody',
  data: { name: 'Ada', tokens: [], link: null, vendorGroup: 'group' },
  expiresAt: FOREVER,
})

const JSON_TYPE = { 'content-type': 'application/json' }

function watched(clock: Clock, before: () => unknown = () => {}) {
  let count = 0
  const spied = (name: string, member: unknown) => {
    if (typeof member !== 'function' || name === 'add') return [name, member]
    return [name, async (...given: unknown[]) => (count++, await before(), await member(...given))]
  }
  const watch = (vendor: object): unknown =>
    typeof vendor === 'function'
      ? (row: unknown) => watch(vendor(row) as object)
      : Object.fromEntries(Object.entries(vendor).map(([part, member]) => spied(part, member)))
  const each = Object.entries(embedded(clock)).map(([name, vendor]) => [name, watch(vendor)])
  const { jobs: _, ...audio } = scriptedAudio()
  const heard = Object.fromEntries(Object.entries(audio).map(([part, member]) => spied(part, member))) as typeof audio
  return {
    vendors: { ...(Object.fromEntries(each) as ReturnType<typeof embedded>), audio: () => heard },
    requestCount: () => count,
  }
}

/** A sale to a buyer who hung up while the vendor was at work; the work has ended since. */
export async function deserted(subject: Subject<EndpointFixture>): Promise<OneShotScene> {
  const ready = door()
  const scene = await shot(subject, { before: () => ready.passed })
  const gone = new AbortController()
  const answer = scene.buy({ gone: gone.signal })
  await scene.clock.settle()
  gone.abort()
  ready.open()
  await answer
  await scene.idle()
  return scene
}
