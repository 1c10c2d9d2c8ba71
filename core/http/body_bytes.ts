/**
 * The bytes of a request: read in time, at a least rate, and within what all bodies together may take of memory
 * (decision 52).
 */
import { concatBytes } from '../lib/bytes.ts'
import type { Clock } from '../lib/clock.ts'
import { deadlinesOf, sharedDeadlines } from '../lib/timers.ts'
import { ApiError } from './errors.ts'

/**
 * Reads a body of at most `maxBytes`; refuses a larger one before reading it when its length is declared. Large bodies,
 * and those without a declared length, count against the budget while in memory. Every body has to arrive in time,
 * and large ones at a least rate.
 * Throws TOO_LARGE, BUSY, TOO_SLOW or INCOMPLETE_BODY.
 */
export function readBody(request: Request, maxBytes: number, budget?: Budget): Promise<string> {
  const declared = Number(request.headers.get('content-length') ?? Number.NaN)
  // Accessing `body` creates a stream, which costs more than reading a small body, so this is only done without a
  // declared length.
  if (Number.isNaN(declared) && request.body === null) return Promise.resolve('')
  if (declared > maxBytes) return Promise.reject(tooLarge(maxBytes))
  if (declared <= UNCOUNTED || request.body === null) return readSmall(request, maxBytes, budget)
  return readLarge(request.body, maxBytes, budget)
}

async function readLarge(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  budget: Budget | undefined,
): Promise<string> {
  const decoder = new TextDecoder()
  const pieces: string[] = []
  // One character beyond Latin-1 makes every character of the string take two bytes.
  let isWide = false
  const add = (piece: string, bytes: number) => {
    pieces.push(piece)
    isWide ||= !isAscii(piece, bytes) && WIDE.test(piece)
  }
  // Most bodies are one chunk, which is decoded in a third of the time if it is known to be the last.
  let last: Uint8Array = new Uint8Array()
  const length = await readChunks(body, {
    maxBytes,
    budget,
    take(chunk) {
      if (last.length > 0) add(decoder.decode(last, { stream: true }), last.length)
      last = chunk
    },
  })
  add(decoder.decode(last), last.length)
  if (isWide) budget?.take(length)
  const text = pieces.join('')
  if (isWide) budget?.give(length)
  return text
}

const WIDE = /[^\0-\xff]/
/** Much faster than the pattern. An invalid byte is one character as well, the replacement character. */
const isAscii = (piece: string, bytes: number): boolean => piece.length === bytes && !piece.includes('\ufffd')

/** Bodies up to this many bytes are read at once and not counted: the number of connections is bounded. */
export const UNCOUNTED = 1 << 16

/** One promise beside that of the text: every order passes here. */
function readSmall(request: Request, maxBytes: number, budget: Budget | undefined): Promise<string> {
  return new Promise((resolve, reject) => {
    const end = budget?.smallDeadline(() => reject(tooSlow()))
    request.text().then(
      (text) => {
        end?.()
        if (text.length > maxBytes) return reject(tooLarge(maxBytes))
        resolve(text)
      },
      () => {
        end?.()
        reject(incomplete())
      },
    )
  })
}

/** Whether a content type is that of a multipart form. */
export function isForm(contentType: string | null): contentType is string {
  return contentType !== null && /^multipart\/form-data\s*(?:;|$)/i.test(contentType)
}

/** Reads the bytes of a body of at most `maxBytes`, like `readBody`. Throws TOO_LARGE. */
export async function readRaw(request: Request, maxBytes: number, budget?: Budget): Promise<Uint8Array> {
  const declared = Number(request.headers.get('content-length'))
  if (declared > maxBytes) throw tooLarge(maxBytes)
  return request.body === null ? new Uint8Array() : await readBytes(request.body, maxBytes, budget)
}

/** Parses a multipart form. Throws INVALID_FORM. */
export async function parseForm(bytes: Uint8Array, contentType: string): Promise<FormData> {
  try {
    return await new Response(bytes as BodyInit, { headers: { 'content-type': contentType } }).formData()
  } catch {
    throw new ApiError('INVALID_FORM', { message: 'The request body is not a well-formed multipart form.' })
  }
}

async function readBytes(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  budget: Budget | undefined,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  const length = await readChunks(body, { maxBytes, budget, take: (chunk) => void chunks.push(chunk) })
  return concatBytes(chunks, length)
}

type Reading = { readonly maxBytes: number; readonly budget: Budget | undefined; take(chunk: Uint8Array): void }

/** Passes the chunks of a body to `take` as they arrive; resolves with the total length. */
async function readChunks(body: ReadableStream<Uint8Array>, { maxBytes, budget, take }: Reading): Promise<number> {
  let length = 0
  let counted = 0
  const reader = body.getReader()
  let isLate = false
  const expire = () => {
    isLate = true
    reader.cancel(new Error('too slow')).catch(() => {})
  }
  const end = budget?.deadline(expire, ARRIVAL_MS)
  const endPace = budget && paced(budget, { arrived: () => length, expire })
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(endedEarly)
      if (isLate) throw tooSlow()
      if (done) return length
      length += value.length
      if (length > maxBytes) throw tooLarge(maxBytes)
      budget?.take(value.length)
      counted = length
      take(value)
    }
  } catch (error) {
    reader.cancel(error).catch(() => {})
    throw error
  } finally {
    end?.()
    endPace?.()
    budget?.give(counted)
  }
}

/**
 * Calls `expire` for a body that falls below the least rate in two windows in a row: one alone may be a pause of this
 * process. Returns a function that ends the watch.
 */
function paced(
  budget: Pick<Budget, 'deadline'>,
  { arrived, expire }: { arrived(): number; expire(): void },
): () => void {
  let before = 0
  let slow = 0
  let end = budget.deadline(check, PACE_MS)
  return () => end()

  function check(): void {
    slow = arrived() - before < (LEAST_RATE * PACE_MS) / 1000 ? slow + 1 : 0
    before = arrived()
    if (slow === 2) return expire()
    end = budget.deadline(check, PACE_MS)
  }
}

/** The caller disconnected. No alert, and hardly anybody reads the reply. */
function incomplete(): ApiError {
  return new ApiError('INCOMPLETE_BODY', {
    message: 'The connection ended before the whole request body had arrived. Nothing was charged.',
  })
}

function endedEarly(): never {
  throw incomplete()
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError('TOO_LARGE', {
    message: `The request body may be at most ${maxBytes} bytes.`,
    fields: { max_bytes: maxBytes },
  })
}

function tooSlow(): ApiError {
  return new ApiError('TOO_SLOW', { message: 'The request body did not arrive in time. Nothing was charged.' })
}

export type Budget = {
  /** Counts bytes that have arrived. Throws BUSY when the budget, or the share of this caller, is exhausted. */
  take(bytes: number, by?: Taker): void
  give(bytes: number, caller?: string): void
  /** Calls `late` after this time. Returns a function that cancels it. */
  deadline(late: () => void, ms: number): () => void
  /**
   * Calls `late` when a small body has not arrived within 30 s, or up to 5 s later. Returns a function that cancels it.
   */
  smallDeadline(late: () => void): () => void
}

/** A caller, and the bytes that this request of it has taken already. */
type Taker = { readonly caller: string; readonly own: number }

/** Bytes that one request takes from a budget until it is answered. `give` returns a part of them, `release` all. */
export type Hold = Budget & { release(): void; isEmpty(): boolean }

/** Long enough for the largest body on a slow line, and for a small one. */
const ARRIVAL_MS = 120_000
/** Bytes per second, and the time over which they are counted. */
const LEAST_RATE = 16_384
const PACE_MS = 10_000
const SMALL_ARRIVAL = { ms: 30_000, everyMs: 5_000 }

/** Largest request body by default, without and with files, in bytes. */
export const MAX_BODY = 1 << 20
export const MAX_UPLOAD = 32 << 20

/** Bytes to be released before `onFreed` is called: garbage collection costs about as much as reading this many. */
const WORTH_COLLECTING = 32 << 20

type BudgetOptions = {
  /** The most that several bodies of one caller may take together, in bytes; by default everything. */
  readonly share?: number
  readonly onFreed?: (() => void) | undefined
}

/**
 * A memory budget for request bodies. `onFreed` is called after much has been released, because a runtime may hold on
 * to the memory of dead bodies for long.
 *
 * Counts bytes that have arrived, not declared lengths: idle connections take nothing from others.
 */
export function budget(bytes: number, clock: Clock, { onFreed, share = bytes }: BudgetOptions = {}): Budget {
  const { after } = deadlinesOf(clock)
  const shares = new Map<string, number>()
  let total = 0
  let freed = 0
  return {
    smallDeadline: sharedDeadlines(clock, SMALL_ARRIVAL),
    take(count, { caller, own } = NOBODY) {
      const inUse = shares.get(caller) ?? 0
      if (total + count > bytes) throw busy('Too many uploads are in progress.')
      if (inUse > own && inUse + count > share) throw busy('Too many uploads of your address are in progress.')
      total += count
      if (caller !== '') shares.set(caller, inUse + count)
    },
    give(count, caller = '') {
      total -= count
      const left = (shares.get(caller) ?? 0) - count
      if (left > 0) shares.set(caller, left)
      else shares.delete(caller)
      freed += count
      if (freed < WORTH_COLLECTING) return
      freed = 0
      onFreed?.()
    },
    deadline: (late, ms) => after(ms, late),
  }
}

const NOBODY: Taker = { caller: '', own: 0 }

function busy(why: string): ApiError {
  return new ApiError('BUSY', {
    message: `${why} Nothing was charged; send the same request again.`,
    headers: { 'retry-after': '2' },
  })
}

/** A byte of a body is in memory up to three times: raw, as text, and in the parsed values. */
const COPIES = 3

/**
 * A hold on a budget for one request, which counts the copies of every byte too. `caller` is the key of its address;
 * '' if the host does not know it.
 */
export function holdOn(shared: Budget, caller: string): Hold {
  let total = 0
  return {
    take(bytes) {
      shared.take(bytes * COPIES, { caller, own: total })
      total += bytes * COPIES
    },
    give() {},
    deadline: shared.deadline,
    smallDeadline: shared.smallDeadline,
    isEmpty: () => total === 0,
    release() {
      if (total > 0) shared.give(total, caller)
      total = 0
    },
  }
}

/** The same stream, and a call when it has been read, has failed or was left. */
export function whenEnded(stream: ReadableStream<Uint8Array>, ended: () => void): ReadableStream<Uint8Array> {
  const reader = stream.getReader()
  return new ReadableStream<Uint8Array>(
    {
      async pull(out) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          ended()
          throw error
        })
        if (!done) return out.enqueue(value)
        ended()
        out.close()
      },
      cancel(reason) {
        ended()
        return reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}
