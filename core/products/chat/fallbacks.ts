/** The models that may answer a request: its own, then the fallbacks that can. */
import type { ChatRow, ChatVendor } from '../../ports/vendors/chat.ts'
import type { Offering } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { stopsIn } from './controls.ts'
import { answersOf, readsAll } from './request.ts'
import type { ChatInput } from './sized_request.ts'
import { supportsMultipleAnswers } from './unsupported_fields.ts'

export type Candidate = { readonly row: ChatRow; readonly vendor: ChatVendor }

/**
 * The row and its fallbacks, limited to those that are available, hold the prompt and read its parts. A fallback is
 * judged when the model before it has failed.
 */
export function* candidatesFor(
  { row, promptTokens, chat }: ChatInput,
  { catalog, vendors }: Offering,
): Generator<Candidate> {
  const own = vendors.chat(row)
  if (own) yield { row, vendor: own }
  const isAble = (other: ChatRow) =>
    answersOf(chat) === 1 || supportsMultipleAnswers(chat, { row: other, format: 'chat', vendor: vendors.chat(other) })
  const isFit = (other: ChatRow) =>
    other.contextWindow > promptTokens &&
    readsAll(other, chat) &&
    stopsIn(chat.stop).length <= (other.maxStops ?? Number.POSITIVE_INFINITY) &&
    isAble(other)
  for (const id of row.fallbacks ?? []) {
    const other = catalog.chat.get(id)
    const vendor = other && isFit(other) ? vendors.chat(other) : undefined
    if (other && vendor) yield { row: other, vendor }
  }
}

export function isServed(input: ChatInput, offering: Offering): boolean {
  return offering.vendors.chat(input.row) !== undefined || candidatesFor(input, offering).next().done !== true
}

/** `isServed`, for an order. Throws where every vendor of the model has as many requests as it takes. */
export function isOpen(input: ChatInput, offering: Offering): boolean {
  if (hasRoom(input, offering)) return true
  if (isServed(input, offering)) throw fullError(input.row)
  return false
}

export function hasRoom(input: ChatInput, offering: Offering): boolean {
  for (const { vendor } of candidatesFor(input, offering)) if (!vendor.isFull?.()) return true
  return false
}

export const fullError = ({ id }: ChatRow): ApiError =>
  new ApiError('MODEL_UNAVAILABLE', {
    message: `${id} has as many requests as it takes. Nothing was charged; send the same request again.`,
    headers: { 'retry-after': String(FULL_RETRY_SECONDS) },
  })

const FULL_RETRY_SECONDS = 5
