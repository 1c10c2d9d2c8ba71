/** Operator overrides of the chat catalog: rows edited, added, hidden or redirected (decision 21). */
import { type Dollars, dollars } from '../../../x402/money.ts'
import { isBelow } from '../../../x402/pricing.ts'
import { duplicatesIn } from '../../../lib/text.ts'
import type { ChatBilling, ChatRow } from '../../../ports/vendors/chat.ts'
import { missingOf } from '../../lib/row_overrides.ts'

/**
 * Changes to one row, with the field names of the configuration file. Rates are decimal US dollars per million tokens;
 * `flat` and `live_search` are per call, `flat` including the fee. `fallbacks` replaces the row's own. `redirect` names
 * the row that serves requests instead.
 */
export type ChatOverride = {
  readonly id: string
  readonly aliases?: readonly string[]
  readonly name?: string
  readonly description?: string
  readonly maker?: string
  readonly vendor?: string
  readonly upstream?: string
  /** Release time in Unix seconds. */
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
  readonly reads?: NonNullable<ChatRow['reads']>
  readonly strips?: readonly string[]
  readonly refuses?: readonly string[]
  readonly max_stops?: number
  readonly no_forced_tools?: boolean
  readonly tools_by_responses?: boolean
  readonly multiple_answers?: boolean
  readonly live_search?: string
  readonly prompt_cache?: boolean
  readonly surfaces?: NonNullable<ChatRow['surfaces']>
  readonly fallbacks?: readonly string[]
  readonly hidden?: boolean
  readonly redirect?: string
}

type OverriddenChat = { readonly rows: readonly ChatRow[]; readonly mistakes: readonly string[] }

/** Reports a mistake in a field of the current row. */
type Report = (field: string, what: string) => undefined

/** Default release time: 2026-11-20. */
const UNDATED = 1_795_132_800

/**
 * Applies overrides in order. Mistakes name the row and the field; use the rows only if there are none.
 *
 * @example
 * const { rows, mistakes } = overrideChat(chatRows, [{ id: 'vendor-a/chat-6-small', name: 'Small' }])
 */
export function overrideChat(rows: readonly ChatRow[], overrides: readonly ChatOverride[]): OverriddenChat {
  const mistakes: string[] = []
  const reporterFor =
    (id: string): Report =>
    (field, what) =>
      void mistakes.push(`chat ${id}.${field}: ${what}`)
  const byId = new Map(rows.map((row) => [row.id, row]))
  for (const id of duplicatesIn(overrides.map(({ id }) => id))) mistakes.push(`chat: two entries change ${id}`)
  for (const override of overrides) {
    const row = withOverride(byId.get(override.id), override, reporterFor(override.id))
    if (row) byId.set(row.id, row)
  }
  for (const { id, redirect } of overrides) {
    if (redirect === undefined) continue
    const report = reporterFor(id)
    const isChained =
      redirect !== id && overrides.some((other) => other.id === redirect && other.redirect !== undefined)
    if (isChained) report('redirect', `${redirect} is redirected itself; name the row that does the work`)
    const row = redirected(byId.get(id), byId.get(redirect), { redirect, report })
    if (row) byId.set(id, row)
  }
  const changedFallbacks = new Set(overrides.filter(({ fallbacks }) => fallbacks).map(({ id }) => id))
  const allRows = [...byId.values()].map((row) =>
    withValidFallbacks(row, byId, changedFallbacks.has(row.id) ? reporterFor(row.id) : undefined),
  )
  for (const name of duplicatesIn(allRows.flatMap((row) => [row.id, ...row.aliases])))
    mistakes.push(`chat: two rows are called ${name}`)
  return { rows: allRows, mistakes }
}

/** Changes a row, or adds one, which must set every field without a default. */
function withOverride(existing: ChatRow | undefined, override: ChatOverride, report: Report): ChatRow | undefined {
  const billing = billingOf(existing?.billing, override, report)
  const merged = { ...existing, ...directFields(override, report), ...(billing && { billing }) }
  if (existing) return validated({ ...existing, ...merged }, report)
  const { vendor, upstream, contextWindow, maxOutput } = merged
  const missing = missingOf({
    vendor,
    upstream,
    context_window: contextWindow,
    max_output: maxOutput,
    'a price (input and output, flat, or free)': billing,
  })
  if (missing) report('id', missing)
  if (!vendor || !upstream || !contextWindow || !maxOutput || !billing) return undefined
  const defaults = {
    aliases: [],
    name: override.id,
    description: '',
    maker: vendor,
    created: UNDATED,
    categories: ['chat'],
    structured: 'forwarded',
  } as const
  return validated(
    { ...defaults, ...merged, id: override.id, vendor, upstream, contextWindow, maxOutput, billing },
    report,
  )
}

/** The fields that are copied, renamed to the catalog's names. */
function directFields(override: ChatOverride, report: Report): Partial<ChatRow> {
  const {
    context_window,
    max_output,
    max_stops,
    no_forced_tools,
    tools_by_responses,
    multiple_answers,
    live_search,
    prompt_cache,
    ...rest
  } = override
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
  const liveSearch = live_search === undefined ? undefined : amount('live_search', live_search, report)
  return {
    ...same,
    ...(context_window !== undefined && { contextWindow: context_window }),
    ...(max_output !== undefined && { maxOutput: max_output }),
    ...(max_stops !== undefined && { maxStops: max_stops }),
    ...(no_forced_tools !== undefined && { noForcedTools: no_forced_tools }),
    ...(tools_by_responses !== undefined && { toolsByResponses: tools_by_responses }),
    ...(multiple_answers !== undefined && { multipleAnswers: multiple_answers }),
    ...(prompt_cache !== undefined && { promptCache: prompt_cache }),
    ...(liveSearch && { liveSearch }),
  }
}

function validated(row: ChatRow, report: Report): ChatRow {
  const { contextWindow, maxOutput } = row
  if (!isCount(contextWindow)) report('context_window', `must be a positive integer of tokens, got ${contextWindow}`)
  if (!isCount(maxOutput)) report('max_output', `must be a positive integer of tokens, got ${maxOutput}`)
  else if (maxOutput > contextWindow) report('max_output', `must be at most the context window of ${contextWindow}`)
  if (row.liveSearch && row.billing.mode === 'free') report('live_search', 'a free row cannot have a surcharge')
  return row
}

const isCount = (tokens: number): boolean => Number.isSafeInteger(tokens) && tokens > 0

/** The billing that an override sets; single rates of a paid row may be changed. Undefined: unchanged. */
function billingOf(existing: ChatBilling | undefined, override: ChatOverride, report: Report): ChatBilling | undefined {
  const { input, output, cache_read, cache_write, long, flat, free } = override
  const rateFields = Object.entries({ input, output, cache_read, cache_write, long }).flatMap(([field, given]) =>
    given === undefined ? [] : [field],
  )
  const isPaid = rateFields.length > 0
  if ([isPaid, flat !== undefined, free === true].filter(Boolean).length > 1) {
    return report(
      flat === undefined ? 'free' : 'flat',
      'set only one kind of price: input and output, or flat, or free',
    )
  }
  if (free === false && existing?.mode === 'free' && !isPaid && flat === undefined)
    return report('free', 'a row that is not free needs a price: input and output, or flat')
  if (free) return { mode: 'free' }
  if (flat !== undefined) {
    const price = amount('flat', flat, report)
    return price && { mode: 'flat', price }
  }
  if (!isPaid) return undefined
  return rates(existing?.mode === 'paid' ? existing : undefined, override, {
    first: rateFields[0] ?? 'input',
    report,
  })
}

type Paid = Extract<ChatBilling, { mode: 'paid' }>

function rates(
  existing: Paid | undefined,
  { input, output, cache_read, cache_write, long }: ChatOverride,
  { first, report }: { first: string; report: Report },
): Paid | undefined {
  const rateOf = (field: string, given: string | undefined, inherited: Dollars | undefined) =>
    given === undefined ? inherited : amount(field, given, report)
  if (!existing && (input === undefined || output === undefined))
    return report(first, 'input and output are both required, because the row has no rates')
  const [perInput, perOutput] = [rateOf('input', input, existing?.input), rateOf('output', output, existing?.output)]
  const [cacheRead, cacheWrite] = [
    rateOf('cache_read', cache_read, existing?.cacheRead),
    rateOf('cache_write', cache_write, existing?.cacheWrite),
  ]
  const longer = long ? longRates(long, report) : existing?.long
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

function longRates({ from, input, output }: NonNullable<ChatOverride['long']>, report: Report): Paid['long'] {
  if (!isCount(from)) return report('long.from', `must be a positive integer of tokens, got ${from}`)
  const [perInput, perOutput] = [amount('long.input', input, report), amount('long.output', output, report)]
  return perInput && perOutput && { from, input: perInput, output: perOutput }
}

function amount(field: string, decimal: string, report: Report): Dollars | undefined {
  try {
    return dollars(decimal)
  } catch (error) {
    return report(field, (error as Error).message)
  }
}

/**
 * Keeps the row's names and takes the rest from the fallback, whose rates must be the same or lower (contract 21.11).
 */
function redirected(
  row: ChatRow | undefined,
  fallback: ChatRow | undefined,
  { redirect, report }: { redirect: string; report: Report },
): ChatRow | undefined {
  if (!row) return undefined
  if (!fallback || fallback.id === row.id) return report('redirect', `no other row is named ${redirect}`)
  const problem = priceProblem(fallback, row)
  if (problem) report('redirect', `${redirect} ${problem}`)
  const { id, aliases, name, description, maker, created, hidden, fallbacks } = row
  const { surfaces: fallbackSurfaces, hidden: _hidden, fallbacks: _fallbacks, ...served } = fallback
  const family = fallback.family ?? fallback.maker
  const surfaces = row.surfaces?.filter((surface) => fallbackSurfaces?.includes(surface)) ?? []
  return {
    ...served,
    id,
    aliases,
    name,
    description,
    maker,
    created,
    servedBy: fallback.id,
    ...(family !== maker && { family }),
    contextWindow: Math.min(row.contextWindow, fallback.contextWindow),
    maxOutput: Math.min(row.maxOutput, fallback.maxOutput),
    ...(surfaces.length > 0 && { surfaces }),
    ...(hidden !== undefined && { hidden }),
    ...(fallbacks && { fallbacks }),
  }
}

/** Invalid fallbacks that the operator set are mistakes; those of the catalog are dropped. */
function withValidFallbacks(row: ChatRow, byId: ReadonlyMap<string, ChatRow>, report: Report | undefined): ChatRow {
  if (!row.fallbacks) return row
  const fallbacks = row.fallbacks.filter((id) => {
    const fallback = byId.get(id)
    const problem = !fallback || fallback === row ? 'is not another row' : priceProblem(fallback, row)
    if (problem) report?.('fallbacks', `${id} ${problem}`)
    return !problem
  })
  return { ...row, fallbacks }
}

/** Smallest price of a paid call: floor and fee (contract 6.37). */
const MIN_PAID = dollars('0.002')

/** Why `other` cannot serve `row` at its price; undefined where it can. A paid call is never served by a free model. */
function priceProblem(other: ChatRow, row: ChatRow): string | undefined {
  const [otherBilling, billing] = [other.billing, row.billing]
  if (billing.mode !== 'free' && otherBilling.mode === 'free')
    return 'is free, and a paid call is never served by a free model'
  const isMoreExpensive =
    costsMore(otherBilling, billing) ||
    (other.effort?.scalesQuote && !row.effort?.scalesQuote) ||
    (row.liveSearch && other.liveSearch && isBelow(row.liveSearch, other.liveSearch))
  return isMoreExpensive ? 'costs more' : undefined
}

function costsMore(otherBilling: ChatBilling, billing: ChatBilling): boolean {
  if (billing.mode === 'free' || otherBilling.mode === 'free') return otherBilling.mode !== billing.mode
  if (otherBilling.mode === 'flat')
    return isBelow(billing.mode === 'flat' ? billing.price : MIN_PAID, otherBilling.price)
  if (billing.mode === 'flat') return true
  return [0, otherBilling.long?.from ?? 0, billing.long?.from ?? 0].some((tokens) => {
    const [their, our] = [ratesAt(otherBilling, tokens), ratesAt(billing, tokens)]
    return isBelow(our.input, their.input) || isBelow(our.output, their.output)
  })
}

const ratesAt = (billing: Paid, tokens: number) =>
  billing.long && tokens >= billing.long.from ? billing.long : billing
