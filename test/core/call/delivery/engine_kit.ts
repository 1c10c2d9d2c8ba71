/** An engine without a gateway, and calls that are opened in its ledger, so that a delivery can be called by itself. */
import { Type } from '@sinclair/typebox'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { memoryObjects } from '../../../../adapters/objects/memory.ts'
import { memoryStorage } from '../../../../adapters/storage/memory/mod.ts'
import { noDeliveries } from '../../../../core/call/delivery/deliveries.ts'
import type { OpenedCall } from '../../../../core/call/work/opened_call.ts'
import {
  type Answer,
  type AnswerStream,
  type Paid,
  paid,
  type PaidFields,
  type Sold,
  type Streamed,
  streamed,
} from '../../../../core/endpoint/mod.ts'
import type { Engine } from '../../../../core/engine.ts'
import type { Reply } from '../../../../core/http/reply.ts'
import { type Call, type Ports, timeouts, usdc } from '../../../../core/mod.ts'
import { pollUrls } from '../../../../core/identity/poll_urls.ts'
import { callsOf } from '../../../../core/payment/calls/calls.ts'
import { balanceKeyOf, offersOf } from '../../../../core/payment/offers.ts'
import { noRetries } from '../../../../core/payment/settlement/retries.ts'
import { blockOf } from '../../../../core/payment/unpaid/unpaid_calls.ts'
import { countingRandom, testClock, testLog } from '../../../kit.ts'

const PRICE = 10_000n

/** The members of an engine that deliveries use, over memory. */
export function engineKit({
  chain = memoryChain(),
  inlineMs,
}: { chain?: ReturnType<typeof memoryChain>; inlineMs?: number } = {}) {
  const [clock, log, random, storage] = [testClock(), testLog(), countingRandom(), memoryStorage()]
  const pending = new Set<Promise<unknown>>()
  const background = (work: Promise<unknown>) => {
    pending.add(work)
    work
      .catch((error: Error) => log.alert('background work failed', { error: error.stack }))
      .finally(() => pending.delete(work))
  }
  const given = { storage, workerId: 'me', clock, log, leaseMs: timeouts.workLeaseMs }
  const { calls, storage: observed } = callsOf(given)
  const ports = {
    storage: observed,
    chain,
    clock,
    log,
    random,
    background,
    objects: memoryObjects(),
    vendors: {},
    countTokens: async (text: string) => text.length,
  } as unknown as Ports
  const engine = {
    gateway: { name: 'default', label: 'base-sepolia', basePath: '', networks: [], workerId: 'me' },
    ports,
    settings: { timeouts, inlineMs },
    products: { catalog: {} },
    offers: offersOf({ ports, timeouts }),
    money: { storage: observed, chain, clock, log, timeouts, retries: noRetries() },
    calls: { ...calls, prepaid: undefined },
    identity: { pollUrls: pollUrls(ports, ['5e'.repeat(32)]) },
    deliveries: noDeliveries({ clock, maxUpload: 1 << 20 }),
    mirror: async () => [],
  } as unknown as Engine

  /** Opens a call in the ledger as a gateway does, paid by a wallet with a balance. */
  async function open<Endpoint extends Sold>(
    endpoint: Endpoint,
    { gone = new AbortController().signal, seconds = 60 }: { gone?: AbortSignal; seconds?: number } = {},
  ): Promise<OpenedCall<Endpoint>> {
    const wallet = chain.wallet('alice')
    chain.fund(wallet, PRICE)
    const offer = chain.offer(PRICE, seconds)
    const payment = chain.sign(offer, { from: wallet, now: clock.now() })
    const identified = await engine.offers.identify(payment, [offer])
    if (identified.kind !== 'known') throw new Error(`a payment that is ${identified.kind}`)
    const { payer, key, expiresAt } = identified
    const now = clock.now()
    const authorization = { key, payer, payment, offer, expiresAt }
    const fresh = {
      id: 'call-1',
      gateway: 'default',
      endpoint: endpoint.name,
      payer,
      asset: balanceKeyOf(identified),
      quote: usdc(PRICE),
      offer,
      fingerprint: 'f',
      model: null,
      request: {},
      createdAt: now,
      workerId: 'me',
      expiresAt: now + 3_600_000,
    }
    const opened = await ports.storage.openCall(fresh, authorization, { now, until: now + timeouts.workLeaseMs })
    if (opened.kind !== 'opened') throw new Error(`a call that is ${opened.kind}`)
    const requestContext = { origin: 'http://farebox.test', path: endpoint.path, ip: '192.0.2.1', gone }
    return { endpoint, input: {}, call: opened.call, authorization, requestContext: requestContext as never }
  }

  return {
    engine,
    chain,
    clock,
    log,
    open,
    stored: async () => (await storage.getCall('call-1')) as Call,
    /** Whether the wallet of the call is recorded as owing it: it is blocked once its payment is refused. */
    async isNoted({ call }: Pick<OpenedCall, 'call'>): Promise<boolean> {
      const settled = await storage.getCall(call.id)
      const refused = { ...storage, getCall: async () => settled && { ...settled, paymentStatus: 'refused' as const } }
      return (await blockOf(refused, call, { now: clock.now(), since: 0, newWorth: usdc(0n) }))?.kind === 'unpaid'
    },
    /** Lets background work end. */
    async idle() {
      while (pending.size > 0) await Promise.allSettled(pending)
    },
  }
}

/** An endpoint that answers `{ made: true }` at once, unless told otherwise. */
export const endpointOf = (fields: Partial<PaidFields<object>> & { readonly delivery: Paid['delivery'] }) =>
  paid({
    name: 'test.work',
    path: '/api/v1/work',
    summary: 'Works.',
    tag: 'Test',
    input: Type.Object({}),
    example: {},
    price: () => ({ amount: usdc(PRICE), maxTimeoutSeconds: 60 }),
    run: async () => ({ result: { made: true } }),
    show: ({ made }: { made: unknown }) => made,
    ...fields,
  } as never)

/** An endpoint of answers. */
export const answering = (answer: Streamed['answer'], more: Partial<Streamed> = {}): Streamed =>
  streamed({
    name: 'test.answer',
    path: '/api/v1/answer',
    summary: 'Answers.',
    tag: 'Test',
    input: Type.Object({}),
    errorFormat: 'chat',
    sample: () => ({}),
    check: async () => ({}),
    price: () => ({ amount: usdc(PRICE), maxTimeoutSeconds: 60 }),
    answer,
    ...more,
  } as never) as Streamed

export const whole: Answer = { kind: 'whole', headers: {}, body: { text: 'Hello' }, usage: null }

/** An answer that streams these texts. */
export function texts(...events: readonly string[]): Answer & { kind: 'stream' } {
  const left = [...events]
  let isCancelled = false
  const stream: AnswerStream = {
    next: async () => (isCancelled || left.length === 0 ? undefined : new TextEncoder().encode(left.shift())),
    cancel: () => void (isCancelled = true),
    hasContent: () => left.length < events.length,
    closing: () => 'data: [DONE]\n\n',
    usage: () => null,
  }
  return { kind: 'stream', headers: {}, stream }
}

export const textOf = ({ body }: Reply): Promise<string> => new Response(body as BodyInit).text()
export const jsonOf = (reply: Reply) => JSON.parse(reply.body as string) as Record<string, unknown>
