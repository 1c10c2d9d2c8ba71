/** What vendors of sandboxes have in common that come with a client library of their own: how its errors read, and when it is given up. */
import { type Clock, ApiError, type Log, rateLimited } from '../../../core/mod.ts'
import { DEFAULT_RETRY_SECONDS } from '../../http/refusals.ts'

/** Of stdout and of stderr, in characters, before they are cut. */
export const MAX_OUTPUT = 1 << 20

export type Asking = { readonly name: string; readonly clock: Clock; readonly log: Log }

/** What an error of a library's means, by the name of its class or its gRPC status; `gone` is a sandbox that is no more. */
export type Meaning = 'gone' | 'late' | 'rate_limited' | 'operator' | 'failed'

/** Asks within `ms`. Throws a Fault without a word of the library's in it, for those may quote what they were sent; undefined where the sandbox has gone. */
export function asker({ name, clock, log }: Asking, meaningOf: (error: unknown) => Meaning) {
  return async function ask<T>(
    what: string,
    ms: number,
    { signal }: { signal: AbortSignal },
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T | undefined> {
    signal.throwIfAborted()
    const done = new AbortController()
    const both = new AbortController()
    try {
      return await new Promise<T>((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true, signal: done.signal })
        void clock.wait(ms, done.signal).then(() => reject(Object.assign(new Error('late'), { name: LATE })))
        work(both.signal).then(resolve, reject)
      })
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (error instanceof ApiError) throw error
      const meaning = (error as Error).name === LATE ? 'late' : meaningOf(error)
      if (meaning === 'gone') return undefined
      const told = { vendor: name, what, error: nameOf(error) }
      if (meaning === 'operator') log.alert('a vendor refuses us: its key, balance or settings need the operator', told)
      if (meaning === 'failed') log.warn('a vendor failed', told)
      throw apiErrorOf(meaning, name)
    } finally {
      done.abort()
      both.abort()
    }
  }
}

const LATE = 'FareboxLate'

function apiErrorOf(meaning: Exclude<Meaning, 'gone'>, name: string): ApiError {
  if (meaning === 'rate_limited') return rateLimited(name, DEFAULT_RETRY_SECONDS)
  if (meaning === 'late')
    return new ApiError('UPSTREAM_TIMEOUT', { message: 'The sandbox did not answer in time. Nothing was charged.' })
  if (meaning === 'operator')
    return new ApiError('NOT_CONFIGURED', {
      message:
        'The vendor of the sandboxes does not accept this gateway just now; its operator has been told. Nothing was charged.',
    })
  return new ApiError('UPSTREAM_FAILED', {
    message: 'The vendor of the sandboxes failed, or could not be reached. Nothing was charged.',
  })
}

/** The name of an error's class: its text may hold anything. */
export const nameOf = (error: unknown): string =>
  /^[A-Za-z]\w{0,60}$/.exec((error as Error | null)?.constructor?.name ?? '')?.[0] ?? 'unknown'

/** Text of bounded length. `isFull` tells who writes that nobody reads on. */
export function bounded(name: string) {
  let text = ''
  let isFull = false
  return {
    add(more: string): void {
      isFull ||= text.length + more.length > MAX_OUTPUT
      text += more.slice(0, Math.max(0, MAX_OUTPUT - text.length))
    },
    isFull: () => isFull,
    text: () => (isFull ? `${text}\n[${name} was cut after ${MAX_OUTPUT} characters]\n` : text),
  }
}
