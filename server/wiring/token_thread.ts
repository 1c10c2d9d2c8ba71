/**
 * Counts tokens on a thread, which the first count starts. Loading the tokenizer's tables would hold the event loop for
 * 0.4 s, and they take 80 MB, which a gateway that counts nothing does not need.
 */
import { sliceEnd, weightOf } from '../../adapters/token_counter.ts'
import type { CountTokens } from '../../core/mod.ts'
import { startTokenWorker } from '../start_token_worker.ts'

/** What the thread is asked: a part of a text, and the count at which it may stop. */
export type TokenQuestion = { readonly id: number; readonly text: string; readonly limit: number }
export type TokenAnswer = { readonly id: number } & ({ readonly tokens: number } | { readonly error: string })

export type TokenThread = {
  /** Counts like `countTokens` of the adapters. Rejects when the thread cannot count; the next count starts another. */
  readonly countTokens: CountTokens
  /** Ends the thread. Counts under way reject. */
  close(): void
}

/** Characters that are sent at once: a budget that runs out, or a limit, stops the count after them. */
const BATCH_CHARS = 16_384

export function tokenThread(start: () => Worker = startTokenWorker): TokenThread {
  const waiting = new Map<number, { resolve(tokens: number): void; reject(error: Error): void }>()
  let worker: Worker | undefined
  let lastId = 0

  function ask(text: string, limit: number): Promise<number> {
    const thread = (worker ??= open())
    lastId += 1
    const question: TokenQuestion = { id: lastId, text, limit }
    return new Promise((resolve, reject) => {
      waiting.set(question.id, { resolve, reject })
      thread.postMessage(question)
    })
  }

  function open(): Worker {
    const opened = start()
    opened.unref()
    opened.onmessage = ({ data }: MessageEvent<TokenAnswer>) => {
      const answer = waiting.get(data.id)
      waiting.delete(data.id)
      if ('tokens' in data) answer?.resolve(data.tokens)
      else answer?.reject(new Error(`the tokens of a text cannot be counted: ${data.error}`))
    }
    opened.onerror = ({ message }) => {
      if (worker === opened) close(message)
    }
    return opened
  }

  function close(reason = 'the server stops'): void {
    worker?.terminate()
    worker = undefined
    const left = [...waiting.values()]
    waiting.clear()
    for (const answer of left) answer.reject(new Error(`the tokens of a text cannot be counted: ${reason}`))
  }

  const countTokens: CountTokens = async (text, { limit = Number.POSITIVE_INFINITY, spend } = {}) => {
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
