/**
 * Counts tokens on a thread, which the first count starts. Loading the tokenizer's tables would hold the event loop for
 * 0.4 s, and they take 80 MB, which a gateway that counts nothing does not need.
 */
import { sliceEnd, weightOf } from '../../adapters/token_counter.ts'
import type { CountOptions } from '../../core/mod.ts'
import { startTokenWorker } from '../start_token_worker.ts'

/** Request to the thread, several at a time: a part of a text, and the count at which it may stop. */
export type TokenQuestion = { readonly id: number; readonly text: string; readonly limit: number }
export type TokenAnswer = { readonly id: number } & ({ readonly tokens: number } | { readonly error: string })

type TokenThread = {
  /** Counts like `countTokens` of the adapters. Rejects when the thread cannot count; the next count starts another. */
  countTokens(text: string, options?: CountOptions): Promise<number>
  /** Ends the thread. Counts under way reject. */
  close(): void
}

/**
 * Characters that are sent at once: a budget that runs out, or a limit, stops the count after them. Questions with more
 * between them do not wait for others.
 */
const BATCH_CHARS = 16_384

export function tokenThread(start: () => Worker = startTokenWorker): TokenThread {
  const waiting = new Map<number, { resolve(tokens: number): void; reject(error: Error): void }>()
  let worker: Worker | undefined
  let unsent: TokenQuestion[] = []
  let unsentChars = 0
  let lastId = 0

  function ask(text: string, limit: number): Promise<number> {
    worker ??= open()
    lastId += 1
    const id = lastId
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject })
      if (unsent.length === 0) setImmediate(send)
      unsent.push({ id, text, limit })
      unsentChars += text.length
      if (unsentChars > BATCH_CHARS) send()
    })
  }

  /** A message to a thread costs more than a short count, so the questions of one turn go together. */
  function send(): void {
    if (unsent.length === 0) return
    worker?.postMessage(unsent)
    unsent = []
    unsentChars = 0
  }

  function open(): Worker {
    const opened = start()
    opened.unref()
    opened.onmessage = ({ data }: MessageEvent<readonly TokenAnswer[]>) => data.forEach(take)
    opened.onerror = ({ message }) => {
      if (worker === opened) close(message)
    }
    return opened
  }

  function take(given: TokenAnswer): void {
    const answer = waiting.get(given.id)
    waiting.delete(given.id)
    if ('tokens' in given) answer?.resolve(given.tokens)
    else answer?.reject(new Error(`the tokens of a text cannot be counted: ${given.error}`))
  }

  function close(reason = 'the server stops'): void {
    worker?.terminate()
    worker = undefined
    unsent = []
    unsentChars = 0
    const left = [...waiting.values()]
    waiting.clear()
    for (const answer of left) answer.reject(new Error(`the tokens of a text cannot be counted: ${reason}`))
  }

  const countTokens: TokenThread['countTokens'] = async (text, { limit = Number.POSITIVE_INFINITY, spend } = {}) => {
    let tokens = 0
    let start = 0
    while (start < text.length && tokens <= limit) {
      const end = batchEnd(text, start, spend)
      tokens += await ask(text.slice(start, end), limit - tokens)
      start = end
    }
    return tokens
  }

  return { countTokens, close: () => close() }
}

/** The end of a batch of whole slices, each of which has been paid for: cut elsewhere, a text would count more. */
function batchEnd(text: string, start: number, spend?: (weight: number) => void): number {
  let end = start
  while (end < text.length && end - start < BATCH_CHARS) {
    const next = sliceEnd(text, end)
    spend?.(weightOf(text, end, next))
    end = next
  }
  return end
}
