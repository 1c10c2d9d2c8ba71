/** A whole gateway over a way to pay: controls, meter, a chat vendor that can be held up, and whoever orders there. */
import { scriptedChat, streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { Chain, Clock, Gateway, Meter, Offer, Payment, Storage } from '../../../core/mod.ts'
import { controls } from '../../../core/payment/control/controls.ts'
import type { Rules } from '../../../core/payment/control/rules.ts'
import { silent } from '../../../core/ports/meter.ts'
import type { Closed } from '../../../core/ports/mod.ts'
import { COMPLETIONS, HELLO, SKY } from '../../core/call/stream_kit.ts'
import { door, encodePayment, kit, type TestClock } from '../../kit.ts'
import type { Scheme, SchemeFactory } from './scheme.ts'

/** Keys are refused over plain HTTP. */
const ORIGIN = 'https://gateway.example'

export type Answer = { readonly status: number; readonly headers: Headers; readonly text: string; readonly body: any }

export type LawGateway = {
  readonly scheme: Scheme
  readonly gateway: Gateway
  readonly storage: Storage
  /** Counters, such as `opened`, `completed` and `settled`. */
  readonly counted: Readonly<Record<string, number>>
  /** How many answers the vendor has begun. */
  answers(): number
  /** The vendor says nothing until `open`; `requested` resolves with its next request, `again` with the one after. */
  hold(): { readonly requested: Promise<void>; readonly again: Promise<void>; open(): void }
  /** The offers of an order, and that of the scheme. */
  offers(body: object): Promise<readonly Offer[]>
  offer(body: object): Promise<Offer>
  order(body: object, payment?: Payment, at?: { readonly ip?: string }): Promise<Answer>
  get(path: string, payment: Payment): Promise<Answer>
  /** The operator's rules, from now on. */
  rule(rules: Partial<Rules>): Promise<void>
  /** Work that no request waits for has ended. */
  idle(): Promise<void>
  /** Behaviour of the chain in place of settling, for the next attempt or from now on. */
  readonly faults: Faults
  /** Time passes for the gateway, and its maintenance runs: in another process where `isDead`. */
  later(ms: number, isDead?: boolean): Promise<void>
  close(): Promise<void>
}

type Settle = Chain['settle']
type Faults = {
  /** Stands in for the next attempt to settle. */
  settle: ((settle: Settle, ...given: Parameters<Settle>) => ReturnType<Settle>) | undefined
  hidesBalance: boolean
  closed: Closed | undefined
}

function faulty(chain: Chain, faults: Faults): Chain {
  return {
    ...chain,
    terms: (now) => (faults.closed ? [] : chain.terms(now)),
    closed: (now) => faults.closed ?? chain.closed?.(now),
    async verify(...given) {
      const verdict = await chain.verify(...given)
      if (verdict.kind !== 'valid' || !faults.hidesBalance) return verdict
      const { balance: _, ...rest } = verdict
      return rest
    },
    async settle(...given) {
      const stand = faults.settle
      faults.settle = undefined
      return stand ? await stand(chain.settle, ...given) : await chain.settle(...given)
    },
  }
}

/** An order of chat that no other one is: its number is in what it asks. */
export const chat = (number: number, more: object = {}): object => ({
  ...SKY,
  messages: [{ role: 'user', content: `Why is the sky blue, for the ${number}th time?` }],
  ...more,
})

/** The end of every answer: whoever has it has all of the answer. */
export const isWhole = ({ status, text }: Answer): boolean => status === 200 && /Hello|"lo"/.test(text)

export async function lawGateway(factory: SchemeFactory): Promise<LawGateway> {
  const counted: Record<string, number> = {}
  const count = (name: string) => void (counted[name] = (counted[name] ?? 0) + 1)
  const meter: Meter = { ...silent, moved: count, attempted: (_, outcome) => count(outcome) }
  let waiting = { requested: door(), again: door(), open: door(), count: 0 }
  waiting.open.open()
  const vendor = scriptedChat(async ({ stream }) => {
    if (++waiting.count > 1) waiting.again.open()
    waiting.requested.open()
    await waiting.open.passed
    return stream ? streamAnswer(HELLO) : wholeAnswer()
  })
  const storage = memoryStorage()
  const scheme = await factory(storage)
  let offset = 0
  const clock: Clock = { ...scheme.clock, now: () => scheme.clock.now() + offset }
  const control = controls({ storage, clock })
  const faults: Faults = { settle: undefined, hidesBalance: false, closed: undefined }
  const ports = { chain: faulty(scheme.chain, faults), clock: clock as TestClock, storage, meter }
  const { gateway: first, idle, restart } = kit({ chatVendor: vendor, controls: control, ports })
  let gateway = first

  async function send(method: string, path: string, { body, payment, ip = '192.0.2.1' }: Sending): Promise<Answer> {
    const headers = {
      ...(body && { 'content-type': 'application/json' }),
      ...(payment && (scheme.headers?.(payment) ?? { 'payment-signature': encodePayment(payment) })),
    }
    const request = new Request(ORIGIN + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const response = await gateway.fetch(request, { ip })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: text.startsWith('{') && JSON.parse(text) }
  }

  const offers = async (body: object) => {
    const quoted = await send('POST', COMPLETIONS, { body })
    if (!Array.isArray(quoted.body.accepts)) throw new Error(`no offers: ${quoted.status} ${quoted.text}`)
    const accepts = quoted.body.accepts as readonly Offer[]
    return scheme.read?.(accepts, quoted.headers) ?? accepts
  }
  return {
    scheme,
    get gateway() {
      return gateway
    },
    storage,
    counted,
    answers: () => vendor.orders.length,
    hold() {
      waiting = { requested: door(), again: door(), open: door(), count: 0 }
      return { requested: waiting.requested.passed, again: waiting.again.passed, open: waiting.open.open }
    },
    offers,
    async offer(body) {
      const found = (await offers(body)).find((each) => each.scheme === scheme.scheme)
      if (!found) throw new Error(`nothing is sold by ${scheme.scheme}`)
      return found
    },
    order: (body, payment, at = {}) => send('POST', COMPLETIONS, { body, ...(payment && { payment }), ...at }),
    get: (path, payment) => send('GET', path, { payment }),
    async rule(rules) {
      await control.change((before) => ({ ...before, ...rules }))
      await control.refresh()
    },
    idle,
    faults,
    async later(ms, isDead = false) {
      offset += ms
      if (isDead) gateway = restart()
      await gateway.maintain()
    },
    close: scheme.close,
  }
}

type Sending = { readonly body?: object; readonly payment?: Payment; readonly ip?: string }
