/** Answers that are given as they are made, whole or streamed, and settled after they were made. Steps 8 to 12 of such a call (house decision 7). */
import { abandon, fail, type Money, type Paying, settleCall, within } from './calls.ts'
import { debtOf } from './debts.ts'
import type { Answer, Live, LiveOrder, Reply, Stored } from './endpoint.ts'
import { Fault } from './faults.ts'
import type { House, Working } from './house.ts'
import { failureText } from './jobs.ts'
import type { Call, Json } from './ports.ts'
import * as replies from './replies.ts'
import { type Paywall, streamed } from './streaming.ts'
import { newSecret } from './tickets.ts'
import type { Visit } from './visit.ts'
import { receiptHeaders } from './x402.ts'

export type LiveFlow = {
  /** An answer that costs nothing: neither a call nor a database is involved. */
  give(endpoint: Live, input: unknown, visit: Visit): Promise<Reply>
  serve(working: Working<Live>): Promise<Reply>
  /** Stops unfinished work that nobody waits for. False when it had ended. */
  cancel(id: string, why: string): Promise<boolean>
}

/** What became of the money of an answer, as its headers or its last comment say. */
type Paidness = { readonly headers: Readonly<Record<string, string>>; readonly isRefused: boolean }

export function liveFlow(house: House): LiveFlow {
  const { ports, catalog, patience } = house
  const { storage, chain, clock, log, vendors, countTokens } = ports
  const money: Money = { storage, chain, clock, log, patience }
  const running = new Map<string, AbortController>()
  const streaming = { clock, patience, background: ports.background }

  return { give, serve, cancel }

  async function give(endpoint: Live, input: unknown, visit: Visit): Promise<Reply> {
    const answer = await ask(endpoint, { id: newSecret(ports.random), input, payer: null, signal: visit.gone })
    if (answer.kind === 'whole') return { status: 200, headers: { 'content-type': JSON_TYPE, 'cache-control': 'no-store', ...answer.headers }, body: JSON.stringify(answer.body) }
    return streamed(streaming, { stream: answer.stream, headers: answer.headers, dialect: endpoint.dialect })
  }

  async function serve(working: Working<Live>): Promise<Reply> {
    const { endpoint, input, call, visit } = working
    const queued = endpoint.deferred?.(input, call)
    if (queued) {
      ports.background(workAlone(working).catch((error) => abandon(storage, call, { error, now: clock.now() })))
      return { status: 200, headers: { 'content-type': JSON_TYPE, 'cache-control': 'no-store' }, body: JSON.stringify(queued) }
    }
    const answer = await attempt(working, visit.gone)
    if (answer.kind === 'stream') return streamed(streaming, { stream: answer.stream, headers: answer.headers, dialect: endpoint.dialect, paywall: paywallOf(working, answer) })
    if (visit.gone.aborted) throw await failed(call, new Fault('MODEL_UNAVAILABLE', { message: LEFT }))
    const stored = storedOf(answer, JSON.stringify(answer.body))
    const { headers } = await settle(working, stored).catch((error) => abandon(storage, call, { error, now: clock.now() }))
    return replies.answered(answerOf(stored), headers)
  }

  /** Asks the endpoint; what goes wrong fails the call, which frees its authorization, and is said in the caller's dialect. */
  async function attempt({ endpoint, input, call }: Working<Live>, signal: AbortSignal): Promise<Answer> {
    try {
      return await ask(endpoint, { id: call.id, input, payer: call.payer, signal })
    } catch (error) {
      throw await failed(call, error as Fault)
    }
  }

  async function failed(call: Call, fault: Fault): Promise<Fault> {
    await fail(storage, call, failureText(fault), clock.now())
    return fault
  }

  /** Never rejects with anything but a Fault. The time-out is that of the first event where the answer is a stream. */
  async function ask(endpoint: Live, { signal, ...order }: Pick<LiveOrder<unknown>, 'id' | 'input' | 'payer' | 'signal'>): Promise<Answer> {
    let isLate = false
    const stop = new AbortController()
    const leave = () => stop.abort(signal.reason)
    // Until there is an answer. A stream that has begun is ended by its reader, who pays for what he had.
    signal.addEventListener('abort', leave, { once: true })
    try {
      signal.throwIfAborted()
      return await within(clock, patience.answerMs, (deadline) => {
        deadline.addEventListener('abort', () => stop.abort((isLate = true)), { once: true })
        return endpoint.answer({ ...order, catalog, vendors, countTokens, clock, log, signal: stop.signal })
      })
    } catch (error) {
      if (error instanceof Fault) throw error
      if (signal.aborted) throw new Fault('MODEL_UNAVAILABLE', { message: LEFT })
      if (isLate) throw new Fault('UPSTREAM_TIMEOUT', { message: `The model did not answer within ${patience.answerMs / 1000} seconds. Nothing was charged.` })
      log.warn('an answer failed', { endpoint: endpoint.name, error: (error as Error).message })
      throw new Fault('MODEL_UNAVAILABLE', { message: 'The model did not answer. Nothing was charged; the same request may be sent again.', headers: { 'retry-after': '5' } })
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** Stores the answer, then settles it; waits for the money only so long, for the answer is served in any case. */
  async function settle({ endpoint, call, authorization }: Working<Live>, stored: Stored): Promise<Paidness> {
    const now = clock.now()
    const completion = { result: stored as unknown as Json, expiresAt: now + endpoint.keep.unclaimedMs }
    const settling = settleCall(money, call, authorization, { completion, keepUntil: now + endpoint.keep.settledMs, isDelivered: true }).then(async (paying) => {
      if (paying.kind === 'refused' || paying.kind === 'rejected' || paying.kind === 'replayed') await owe(call)
      return paying
    })
    const waited = within(clock, patience.receiptMs, () => settling).catch((error): Paying => {
      ports.background(settling)
      return { kind: 'unknown', reason: (error as Error).message }
    })
    return paidness(await waited)
  }

  async function owe(call: Call): Promise<void> {
    const now = clock.now()
    log.warn('an answer was delivered, and its payment refused; its wallet gets no more until it is paid', { call: call.id, payer: call.payer })
    await storage.putOwned(debtOf(call, now + patience.debtMs), now)
  }

  /** Work that nobody waits for: its output cannot be read before it is settled (ruling 21). */
  async function workAlone(working: Working<Live>): Promise<void> {
    const { call } = working
    const stop = new AbortController()
    running.set(call.id, stop)
    try {
      await storage.moveCall(call.id, { work: ['queued'], owner: house.owner }, { work: 'in_progress', startedAt: clock.now() })
      const answer = await attempt(working, stop.signal)
      if (answer.kind === 'stream') throw new Error('work in the background is answered whole')
      await settle(working, storedOf(answer, JSON.stringify(answer.body)))
    } catch (error) {
      if (!(error instanceof Fault)) throw error
    } finally {
      running.delete(call.id)
    }
  }

  async function cancel(id: string, why: string): Promise<boolean> {
    const isFirst = await fail(storage, { id }, why, clock.now())
    running.get(id)?.abort(new Error(why))
    return isFirst
  }

  /** The money side of a paid stream. */
  function paywallOf(working: Working<Live>, { headers, stream }: Extract<Answer, { kind: 'stream' }>): Paywall {
    const { call, authorization } = working
    const kept: Uint8Array[] = []
    let size = 0
    let paid: Promise<Paidness> | undefined
    const body = () => (size > MOST_KEPT ? '' : new TextDecoder().decode(joined(kept, size)) + stream.closing())
    const stored = () => storedOf({ headers, usage: stream.usage() }, body())

    return {
      settleBy: authorization.expiresAt - patience.marginMs,
      keep(bytes) {
        size += bytes.length
        if (size <= MOST_KEPT) kept.push(bytes)
        if (size > MOST_KEPT) kept.length = 0
      },
      async settle() {
        const isFirst = paid === undefined
        paid ??= settle(working, stored()).catch(unrecorded)
        const outcome = await paid
        if (!isFirst) await storage.moveCall(call.id, { work: ['completed'] }, { result: stored() as unknown as Json }).catch(unrecorded)
        return { comment: commentOf(outcome.headers), isRefused: outcome.isRefused }
      },
      async fail(fault) {
        if (paid === undefined) await fail(storage, call, failureText(fault), clock.now())
      },
    }
  }

  /** The stream is out, and storage away: nothing can be proven any more, so a person has to look. */
  function unrecorded(error: Error): Paidness {
    log.alert('a stream was delivered and could not be settled', { error: error.message })
    return { headers: replies.unsettledHeaders('unknown'), isRefused: false }
  }

  function storedOf({ headers, usage }: Pick<Answer & { kind: 'whole' }, 'headers' | 'usage'>, body: string): Stored {
    const made: replies.StoredAnswer = { headers: { 'content-type': JSON_TYPE, ...headers }, body, usage }
    return { made, media: [], created: Math.floor(clock.now() / 1000) }
  }
}

const JSON_TYPE = 'application/json'
const LEFT = 'The caller left before the answer was there. Nothing was charged.'
/** Of a longer stream nothing is kept for one who asks for it again, so that many streams cannot fill the memory. */
const MOST_KEPT = 131_072

const answerOf = ({ made }: Stored) => made as unknown as replies.StoredAnswer

function paidness(paying: Paying): Paidness {
  if (paying.kind === 'settled') return { headers: receiptHeaders(paying.receipt), isRefused: false }
  const isRefused = paying.kind === 'refused' || paying.kind === 'rejected' || paying.kind === 'replayed'
  return { headers: replies.unsettledHeaders(isRefused ? 'refused' : paying.kind), isRefused }
}

/** The receipt of a stream, for its headers have long gone: comments, which clients that do not know them pass over. */
function commentOf(headers: Readonly<Record<string, string>>): string {
  return `${Object.entries(headers).map(([name, value]) => `: ${name} ${value}`).join('\n')}\n\n`
}

function joined(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size)
  let offset = 0
  for (const chunk of chunks) {
    bytes.set(chunk, offset)
    offset += chunk.length
  }
  return bytes
}

