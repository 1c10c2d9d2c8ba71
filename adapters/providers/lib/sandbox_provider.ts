/** Shared by sandbox vendors with a client library: how its errors are read, and its deadlines. */
import { outages } from '../../../core/lib/mod.ts'
import { ApiError, type Clock, type Log, rateLimited } from '../../../core/mod.ts'
import { DEFAULT_RETRY_SECONDS } from '../../http/error_replies.ts'

/** Largest stdout, and largest stderr, in characters; longer output is cut. */
export const MAX_OUTPUT = 1 << 20

type SandboxCallOptions = { readonly name: string; readonly clock: Clock; readonly log: Log }

/** Meaning of a client library's error, by its class name or gRPC status. `gone`: the sandbox no longer exists. */
export type ErrorMeaning = 'gone' | 'late' | 'rate_limited' | 'operator' | 'failed'

/**
 * Runs a call within `ms`. Throws an ApiError without the library's text, which may quote the request; undefined when
 * the sandbox is gone.
 */
export function asker({ name, clock, log }: SandboxCallOptions, meaningOf: (error: unknown) => ErrorMeaning) {
  const refusing = outages({ log, clock, over: 'a vendor serves this gateway again' })
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
      const answer = await new Promise<T>((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true, signal: done.signal })
        void clock.wait(ms, done.signal).then(() => reject(Object.assign(new Error('late'), { name: LATE })))
        work(both.signal).then(resolve, reject)
      })
      refusing.worked(name)
      return answer
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (error instanceof ApiError) throw error
      const meaning = (error as Error).name === LATE ? 'late' : meaningOf(error)
      if (meaning === 'gone') return undefined
      const fields = { vendor: name, what, error: nameOf(error) }
      if (meaning === 'operator')
        refusing.failed(name, {
          reason: fields.error,
          message: 'a vendor refuses this gateway: check its key, balance and settings',
          fields,
        })
      if (meaning === 'failed') log.warn('a vendor failed', fields)
      throw apiErrorOf(meaning, name)
    } finally {
      done.abort()
      both.abort()
    }
  }
}

const LATE = 'FareboxLate'

function apiErrorOf(meaning: Exclude<ErrorMeaning, 'gone'>, name: string): ApiError {
  if (meaning === 'rate_limited') return rateLimited(name, DEFAULT_RETRY_SECONDS)
  if (meaning === 'late')
    return new ApiError('UPSTREAM_TIMEOUT', { message: 'The sandbox did not answer in time. Nothing was charged.' })
  if (meaning === 'operator')
    return new ApiError('NOT_CONFIGURED', {
      message:
        'The sandbox vendor does not accept this gateway at the moment; its operator has been notified. Nothing was charged.',
    })
  return new ApiError('UPSTREAM_FAILED', {
    message: 'The sandbox vendor failed or could not be reached. Nothing was charged.',
  })
}

/** The class name of an error: its message may contain anything. */
export const nameOf = (error: unknown): string =>
  /^[A-Za-z]\w{0,60}$/.exec((error as Error | null)?.constructor?.name ?? '')?.[0] ?? 'unknown'

/** A text buffer of limited length. `isFull` tells the writer to stop. */
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
