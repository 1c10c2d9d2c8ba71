/** Helpers that build the rows of the chat catalog. */
import { dollars } from '../../x402/money.ts'
import type { ChatBilling, ChatRow } from '../../ports/vendors/chat.ts'

// ── rows ────────────────────────────────────────────────────────────────────────────────────────────

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
