/** Helpers that build the rows of the chat catalog. */
import { dollars } from '../../../x402/money.ts'
import type { ChatBilling, ChatRow } from '../../../ports/vendors/chat.ts'

// ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────

type RowNames = Pick<ChatRow, 'id' | 'aliases' | 'name' | 'maker' | 'vendor' | 'upstream'>
type RowFields = Omit<ChatRow, keyof RowNames> & Partial<RowNames> & { readonly also?: readonly string[] }

/**
 * Builds a row from its public id and its maker's id, such as `openai/gpt-6-sol`; `also` are older ids of the maker.
 * Aliases are the ids that public clients send: all of these with and without the maker, with dots and with dashes. An
 * older id with a slash is used unchanged.
 */
export function chatRow(id: string, upstreamId: string, { also = [], ...fields }: RowFields): ChatRow {
  const [vendor = '', name = ''] = id.split('/')
  const [maker, upstream = ''] = upstreamId.split('/')
  const spellings = [upstream, ...also].flatMap((each) => [each, each.replaceAll('.', '-')])
  const aliases = [...new Set(spellings.flatMap((each) => (each.includes('/') ? [each] : [`${maker}/${each}`, each])))]
  return { id, aliases, name: name.split('-').map(capital).join(' '), maker: vendor, vendor, upstream, ...fields }
}

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

type PaidOptions = {
  readonly read?: string
  readonly write?: string
  readonly long?: { readonly from: number; readonly input: string; readonly output: string }
}

/** Token rates in US dollars per million tokens. */
export function paid(input: string, output: string, { read, write, long }: PaidOptions = {}): ChatBilling {
  return {
    mode: 'paid',
    input: dollars(input),
    output: dollars(output),
    ...(read && { cacheRead: dollars(read) }),
    ...(write && { cacheWrite: dollars(write) }),
    ...(long && { long: { from: long.from, input: dollars(long.input), output: dollars(long.output) } }),
  }
}

/** Where a prompt is long: "above" begins one token later, "at" with the token itself (contract 6.39). */
export const above272K = (input: string, output: string) => ({ from: 272_001, input, output })
export const above200K = (input: string, output: string) => ({ from: 200_001, input, output })
export const at200K = (input: string, output: string) => ({ from: 200_000, input, output })

export const released = (year: number, month: number, day: number) => ({
  created: Date.UTC(year, month - 1, day) / 1000,
})

export const THINKS_AND_SEES = ['chat', 'reasoning', 'coding', 'vision'] as const
export const THINKS = ['chat', 'reasoning', 'coding'] as const

export const FREE: ChatBilling = { mode: 'free' }
