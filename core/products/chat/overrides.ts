/** What an operator changes about the chat catalog: rows edited, added, hidden or redirected (decision 21). */
import { type Dollars, dollars } from '../../x402/money.ts'
import { isBelow } from '../../x402/pricing.ts'
import { duplicatesIn } from '../../lib/duplicates.ts'
import type { ChatBilling, ChatRow } from '../../ports/vendors/chat.ts'

/**
 * One row's changes, in the words of the configuration file. Rates are decimal US dollars for a million tokens, `flat` and `live_search` for
 * a call, `flat` with the fee inside. `fallbacks` replaces the row's own; `redirect` names the row that does the work instead.
 */
export type ChatOverride = {
  readonly id: string
  readonly aliases?: readonly string[]
  readonly name?: string
  readonly description?: string
  readonly maker?: string
  readonly vendor?: string
  readonly upstream?: string
  /** Unix seconds of its release. */
  readonly created?: number
  readonly context_window?: number
  readonly max_output?: number
  readonly categories?: ChatRow['categories']
  readonly input?: string
  readonly output?: string
  readonly cache_read?: string
  readonly cache_write?: string
  readonly long?: { readonly from: number; readonly input: string; readonly output: string }
  readonly flat?: string
  readonly free?: boolean
  readonly structured?: ChatRow['structured']
  readonly images?: NonNullable<ChatRow['images']>
  readonly strips?: readonly string[]
  readonly refuses?: readonly string[]
  readonly no_forced_tools?: boolean
  readonly tools_by_responses?: boolean
  readonly live_search?: string
  readonly prompt_cache?: boolean
  readonly surfaces?: NonNullable<ChatRow['surfaces']>
  readonly fallbacks?: readonly string[]
  readonly hidden?: boolean
  readonly redirect?: string
}

export type OverriddenChat = { readonly rows: readonly ChatRow[]; readonly mistakes: readonly string[] }

/** Tells of a mistake in a field of the row that is being read. */
type Tell = (field: string, what: string) => undefined

/** Release of a row that does not say it: 2026-11-20. */
const UNDATED = 1_795_132_800

/** Applies overrides in order. Mistakes name the row and the field; the rows are good only when there are none. */
export function overrideChat(rows: readonly ChatRow[], overrides: readonly ChatOverride[]): OverriddenChat {
  const mistakes: string[] = []
  const teller =
    (id: string): Tell =>
    (field, what) =>
      void mistakes.push(`chat ${id}.${field}: ${what}`)
  const byId = new Map(rows.map((row) => [row.id, row]))
  for (const id of duplicatesIn(overrides.map(({ id }) => id))) mistakes.push(`chat: two entries change ${id}`)
  for (const override of overrides) {
    const row = changed(byId.get(override.id), override, teller(override.id))
    if (row) byId.set(row.id, row)
  }
  for (const { id, redirect } of overrides) {
    if (redirect === undefined) continue
    const tell = teller(id)
    const isChained =
      redirect !== id && overrides.some((other) => other.id === redirect && other.redirect !== undefined)
    if (isChained) tell('redirect', `${redirect} is redirected itself; name the row that does the work`)
    const row = redirected(byId.get(id), byId.get(redirect), { redirect, tell })
    if (row) byId.set(id, row)
  }
  const named = new Set(overrides.filter(({ fallbacks }) => fallbacks).map(({ id }) => id))
  const all = [...byId.values()].map((row) => fallingBack(row, byId, named.has(row.id) ? teller(row.id) : undefined))
  for (const name of duplicatesIn(all.flatMap((row) => [row.id, ...row.aliases])))
    mistakes.push(`chat: two rows are called ${name}`)
  return { rows: all, mistakes }
}

/** A row with its changes, or a new one, which has to say what it cannot inherit. */
function changed(known: ChatRow | undefined, override: ChatOverride, tell: Tell): ChatRow | undefined {
  const billing = billed(known?.billing, override, tell)
  const merged = { ...known, ...written(override, tell), ...(billing && { billing }) }
  if (known) return checked({ ...known, ...merged }, tell)
  const { vendor, upstream, contextWindow, maxOutput } = merged
  if (!vendor || !upstream || !contextWindow || !maxOutput || !billing) {
    return tell(
      'id',
      'not a row of the contract, so vendor, upstream, context_window, max_output and a price (input and output, flat, or free) must be given',
    )
  }
  const usual = {
    aliases: [],
    name: override.id,
    description: '',
    maker: vendor,
    created: UNDATED,
    categories: ['chat'],
    structured: 'forwarded',
  } as const
  return checked({ ...usual, ...merged, id: override.id, vendor, upstream, contextWindow, maxOutput, billing }, tell)
}

/** The fields that are written down as they are, under the catalog's names for them. */
function written(override: ChatOverride, tell: Tell): Partial<ChatRow> {
  const { context_window, max_output, no_forced_tools, tools_by_responses, live_search, prompt_cache, ...rest } =
    override
  const {
    id: _id,
    input: _in,
    output: _out,
    cache_read: _read,
    cache_write: _write,
    long: _long,
    flat: _flat,
    free: _free,
    redirect: _to,
    ...same
  } = rest
  const liveSearch = live_search === undefined ? undefined : amount('live_search', live_search, tell)
  return {
    ...same,
    ...(context_window !== undefined && { contextWindow: context_window }),
    ...(max_output !== undefined && { maxOutput: max_output }),
    ...(no_forced_tools !== undefined && { noForcedTools: no_forced_tools }),
    ...(tools_by_responses !== undefined && { toolsByResponses: tools_by_responses }),
    ...(prompt_cache !== undefined && { promptCache: prompt_cache }),
    ...(liveSearch && { liveSearch }),
  }
}

function checked(row: ChatRow, tell: Tell): ChatRow {
  const { contextWindow, maxOutput } = row
  if (!isCount(contextWindow)) tell('context_window', `not a count of tokens: ${contextWindow}`)
  if (!isCount(maxOutput)) tell('max_output', `not a count of tokens: ${maxOutput}`)
  else if (maxOutput > contextWindow) tell('max_output', `more than the context window of ${contextWindow}`)
  if (row.liveSearch && row.billing.mode === 'free') tell('live_search', 'a free row cannot take a surcharge')
  return row
}

const isCount = (tokens: number): boolean => Number.isSafeInteger(tokens) && tokens > 0

/** The billing that an override asks for; a paid row may have single rates changed. Undefined: as it was. */
function billed(known: ChatBilling | undefined, override: ChatOverride, tell: Tell): ChatBilling | undefined {
  const { input, output, cache_read, cache_write, long, flat, free } = override
  const ofPaid = Object.entries({ input, output, cache_read, cache_write, long }).flatMap(([field, given]) =>
    given === undefined ? [] : [field],
  )
  const isPaid = ofPaid.length > 0
  if ([isPaid, flat !== undefined, free === true].filter(Boolean).length > 1) {
    return tell(flat === undefined ? 'free' : 'flat', 'a row costs one thing only: input and output, or flat, or free')
  }
  if (free === false && known?.mode === 'free' && !isPaid && flat === undefined)
    return tell('free', 'then say what it costs: input and output, or flat')
  if (free) return { mode: 'free' }
  if (flat !== undefined) {
    const price = amount('flat', flat, tell)
    return price && { mode: 'flat', price }
  }
  if (!isPaid) return undefined
  return rates(known?.mode === 'paid' ? known : undefined, override, { first: ofPaid[0] ?? 'input', tell })
}

type Paid = Extract<ChatBilling, { mode: 'paid' }>

function rates(
  known: Paid | undefined,
  { input, output, cache_read, cache_write, long }: ChatOverride,
  { first, tell }: { first: string; tell: Tell },
): Paid | undefined {
  const read = (field: string, given: string | undefined, kept: Dollars | undefined) =>
    given === undefined ? kept : amount(field, given, tell)
  if (!known && (input === undefined || output === undefined))
    return tell(first, 'both input and output must be given, for the row had no rates')
  const [perInput, perOutput] = [read('input', input, known?.input), read('output', output, known?.output)]
  const [cacheRead, cacheWrite] = [
    read('cache_read', cache_read, known?.cacheRead),
    read('cache_write', cache_write, known?.cacheWrite),
  ]
  const longer = long ? longRates(long, tell) : known?.long
  if (!perInput || !perOutput) return undefined
  return {
    mode: 'paid',
    input: perInput,
    output: perOutput,
    ...(cacheRead && { cacheRead }),
    ...(cacheWrite && { cacheWrite }),
    ...(longer && { long: longer }),
  }
}

function longRates({ from, input, output }: NonNullable<ChatOverride['long']>, tell: Tell): Paid['long'] {
  if (!isCount(from)) return tell('long.from', `not a count of tokens: ${from}`)
  const [perInput, perOutput] = [amount('long.input', input, tell), amount('long.output', output, tell)]
  return perInput && perOutput && { from, input: perInput, output: perOutput }
}

function amount(field: string, decimal: string, tell: Tell): Dollars | undefined {
  try {
    return dollars(decimal)
  } catch (error) {
    return tell(field, (error as Error).message)
  }
}

/** Keeps what the row is called and takes all else from the fallback, whose rates must be the same or lower (contract 21.11). */
function redirected(
  row: ChatRow | undefined,
  fallback: ChatRow | undefined,
  { redirect, tell }: { redirect: string; tell: Tell },
): ChatRow | undefined {
  if (!row) return undefined
  if (!fallback || fallback.id === row.id) return tell('redirect', `there is no other row called ${redirect}`)
  const why = dearer(fallback, row)
  if (why) tell('redirect', `${redirect} ${why}`)
  const { id, aliases, name, description, maker, created, hidden, fallbacks } = row
  const { surfaces: theirs, hidden: _hidden, fallbacks: _fallbacks, ...served } = fallback
  const surfaces = row.surfaces?.filter((surface) => theirs?.includes(surface)) ?? []
  return {
    ...served,
    id,
    aliases,
    name,
    description,
    maker,
    created,
    servedBy: fallback.id,
    contextWindow: Math.min(row.contextWindow, fallback.contextWindow),
    maxOutput: Math.min(row.maxOutput, fallback.maxOutput),
    ...(surfaces.length > 0 && { surfaces }),
    ...(hidden !== undefined && { hidden }),
    ...(fallbacks && { fallbacks }),
  }
}

/** Fallbacks that an operator names must hold; those of the catalog that no longer do, because rows have changed, are left out. */
function fallingBack(row: ChatRow, byId: ReadonlyMap<string, ChatRow>, tell: Tell | undefined): ChatRow {
  if (!row.fallbacks) return row
  const fallbacks = row.fallbacks.filter((id) => {
    const fallback = byId.get(id)
    const why = !fallback || fallback === row ? 'is no other row' : dearer(fallback, row)
    if (why) tell?.('fallbacks', `${id} ${why}`)
    return !why
  })
  return { ...row, fallbacks }
}

/** The least that a paid call comes to: floor and fee (contract 6.37). */
const LEAST_PAID = dollars('0.002')

/** Why `other` may not do the work of `row` at `row`'s price; undefined where it may. A paid call is never answered by a free model. */
function dearer(other: ChatRow, row: ChatRow): string | undefined {
  const [theirs, ours] = [other.billing, row.billing]
  if (ours.mode !== 'free' && theirs.mode === 'free')
    return 'is free, and a paid call is never answered by a free model'
  const isDearer =
    costsMore(theirs, ours) ||
    (other.effort?.scalesQuote && !row.effort?.scalesQuote) ||
    (row.liveSearch && other.liveSearch && isBelow(row.liveSearch, other.liveSearch))
  return isDearer ? 'costs more' : undefined
}

function costsMore(theirs: ChatBilling, ours: ChatBilling): boolean {
  if (ours.mode === 'free' || theirs.mode === 'free') return theirs.mode !== ours.mode
  if (theirs.mode === 'flat') return isBelow(ours.mode === 'flat' ? ours.price : LEAST_PAID, theirs.price)
  if (ours.mode === 'flat') return true
  return [0, theirs.long?.from ?? 0, ours.long?.from ?? 0].some((tokens) => {
    const [their, our] = [ratesAt(theirs, tokens), ratesAt(ours, tokens)]
    return isBelow(our.input, their.input) || isBelow(our.output, their.output)
  })
}

const ratesAt = (billing: Paid, tokens: number) =>
  billing.long && tokens >= billing.long.from ? billing.long : billing
