/** The ledger as its wallets read it: what was spent on which model, and how many tokens that took. */
import type { Row } from './ledger.ts'
import { usdc } from '../x402/money.ts'
import type { Json } from '../lib/json.ts'
import type { Spend, Usage } from '../ports/mod.ts'

/** One settled call. `since` is inclusive; undefined for a call that is not this wallet's, or did not settle by then. */
export function spendOf(row: Row, payer: string, since: number): Spend | undefined {
  const { gateway, endpoint, model, asset, usage, settledAt } = row
  if (row.paymentStatus !== 'settled' || row.payer !== payer || settledAt === null || settledAt < since)
    return undefined
  const spent = row.paid ?? row.quote
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

/** Sums by gateway, endpoint, model and asset, dearest first, then by name; parts of one group may come one by one or already summed. */
export function summed(parts: Iterable<Spend>): readonly Spend[] {
  const groups = new Map<string, Spend>()
  for (const part of parts) {
    const { gateway, endpoint, model, asset } = part
    const group = JSON.stringify([gateway, endpoint, model, asset])
    const sum = groups.get(group)
    groups.set(group, sum ? plus(sum, part) : part)
  }
  return [...groups.values()].sort(dearestFirst)
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

/** A database would order text by its own rules, so no database does. */
function dearestFirst(one: Spend, other: Spend): number {
  if (one.spent !== other.spent) return one.spent > other.spent ? -1 : 1
  const names = ({ endpoint, model, gateway, asset }: Spend) => [endpoint, model ?? '', gateway, asset]
  const [left, right] = [names(one), names(other)]
  const at = left.findIndex((name, place) => name !== right[place])
  if (at < 0) return one.model === null ? -1 : 1
  return (left[at] ?? '') < (right[at] ?? '') ? -1 : 1
}

/**
 * Tokens by what a vendor says it used, on any of the four wires; null where it says nothing of the kind. What came from a cache was read,
 * and what was thought was written: Anthropic counts the first outside of `input_tokens`, Gemini the second outside of its candidates.
 */
export function tokensOf(usage: Json): Usage | null {
  if (typeof usage !== 'object' || usage === null || Array.isArray(usage)) return null
  const told = usage as { readonly [key: string]: Json }
  const sum = (...names: readonly string[]) => names.reduce((all, name) => all + count(told[name]), 0)
  const counted = (first: string, ...more: readonly string[]) =>
    typeof told[first] === 'number' ? sum(first, ...more) : undefined
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

/** The ledger is no place for half tokens, or for more of them than there ever were. */
function count(told: Json | undefined): number {
  return typeof told === 'number' && told >= 0 && told <= MAX ? Math.floor(told) : 0
}

const MAX = 1e12
