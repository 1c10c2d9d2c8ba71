/** Spend reports: what a wallet spent on each model, and how many tokens it used. */
import type { Row } from '../ledger/mod.ts'
import { usdc } from '../../x402/money.ts'
import type { Json } from '../../lib/json.ts'
import type { Spend, Usage } from '../../ports/mod.ts'

const DAY_MS = 86_400_000

/** The first whole day at or after `since`, in days since 1970, and when it begins: calls before it are read singly. */
export function wholeDays(since: number): { readonly day: number; readonly until: number } {
  const day = Math.ceil(since / DAY_MS)
  return { day, until: day * DAY_MS }
}

/**
 * The spend of one settled call. Undefined for a call of another wallet, or one that did not settle at or after `since`
 * (milliseconds, inclusive).
 */
export function spendOf(row: Row, payer: string, since: number): Spend | undefined {
  const { gateway, endpoint, model, asset, usage, settledAt } = row
  if (row.paymentStatus !== 'settled' || row.payer !== payer || settledAt === null || settledAt < since)
    return undefined
  const spent = row.charge ?? row.quote
  return {
    gateway,
    endpoint,
    model,
    asset,
    calls: 1,
    spent,
    inputTokens: usage?.input ?? 0,
    outputTokens: usage?.output ?? 0,
    lastAt: settledAt,
  }
}

/**
 * Sums by gateway, endpoint, model and asset, most expensive first, then by name. Parts may be single calls or partial
 * sums.
 */
export function summed(parts: Iterable<Spend>): readonly Spend[] {
  const groups = new Map<string, Spend>()
  for (const part of parts) {
    const { gateway, endpoint, model, asset } = part
    const group = JSON.stringify([gateway, endpoint, model, asset])
    const sum = groups.get(group)
    groups.set(group, sum ? plus(sum, part) : part)
  }
  return [...groups.values()].sort(mostExpensiveFirst)
}

function plus(one: Spend, other: Spend): Spend {
  return {
    ...one,
    calls: one.calls + other.calls,
    spent: usdc(one.spent + other.spent),
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    lastAt: Math.max(one.lastAt, other.lastAt),
  }
}

/** Sorted here, because databases order text by rules of their own. */
function mostExpensiveFirst(one: Spend, other: Spend): number {
  if (one.spent !== other.spent) return one.spent > other.spent ? -1 : 1
  const names = ({ endpoint, model, gateway, asset }: Spend) => [endpoint, model ?? '', gateway, asset]
  const [left, right] = [names(one), names(other)]
  const at = left.findIndex((name, index) => name !== right[index])
  if (at < 0) return one.model === null ? -1 : 1
  return (left[at] ?? '') < (right[at] ?? '') ? -1 : 1
}

/**
 * Tokens by the usage that a vendor reports, in any of the four chat formats; null where it reports none. Cached tokens
 * count as input and reasoning tokens as output: Anthropic reports the former beside `input_tokens`, Gemini the latter
 * beside its candidates.
 */
export function tokensOf(usage: Json): Usage | null {
  if (typeof usage !== 'object' || usage === null || Array.isArray(usage)) return null
  const reported = usage as { readonly [key: string]: Json }
  const sum = (...names: readonly string[]) => names.reduce((all, name) => all + count(reported[name]), 0)
  const counted = (first: string, ...more: readonly string[]) =>
    typeof reported[first] === 'number' ? sum(first, ...more) : undefined
  const input =
    counted('prompt_tokens') ??
    counted('input_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens') ??
    counted('promptTokenCount', 'toolUsePromptTokenCount')
  const output =
    counted('completion_tokens') ??
    counted('output_tokens') ??
    counted('candidatesTokenCount', 'thoughtsTokenCount') ??
    counted('thoughtsTokenCount')
  return input === undefined && output === undefined ? null : { input: input ?? 0, output: output ?? 0 }
}

/** A whole number of tokens from 0 to `MAX`; anything else counts as 0. */
function count(reported: Json | undefined): number {
  return typeof reported === 'number' && reported >= 0 && reported <= MAX ? Math.floor(reported) : 0
}

const MAX = 1e12
