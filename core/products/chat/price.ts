/** Prices of chat requests (contract 6.37, 6.17). */
import type { ChatBilling, Effort } from '../../ports/vendors/chat.ts'
import { percentOf, withMarginOf } from '../../endpoint/prices.ts'
import { type Dollars, dollars, type Usdc, usdc, roundUp, plus, print, times } from '../../x402/money.ts'
import { FLOOR, isBelow, type Markup, NOTHING, perToken, raise, STANDARD_MARKUP } from '../../x402/pricing.ts'

/** Inputs of a chat quote. `effort` is the one sent upstream (contract 6.38); `surcharge` is for searches. */
type ChatPriceInputs = {
  readonly billing: ChatBilling
  readonly promptTokens: number
  readonly maxTokens: number
  readonly effort?: Effort | undefined
  readonly scalesQuote?: boolean | undefined
  readonly surcharge?: Dollars | undefined
  /** How often the prompt is sent; 1 if absent. `promptTokens` is the longest of them. */
  readonly rounds?: number | undefined
  /** The standard one by default. */
  readonly markup?: Markup | undefined
}

/**
 * Exact US dollars as decimals, unrounded; `total` is the charged amount. The price of a flat model is in `total`, fee
 * included.
 */
type ChatPriceParts = {
  readonly input: string
  readonly output: string
  readonly floorApplied: boolean
  readonly surcharge: string
  readonly fee: string
  readonly total: string
}

/** The share of `max_tokens` that is quoted, and what multiplies it where the effort that is sent scales the quote. */
export const OUTPUT_SHARE = dollars('0.1')
export const EFFORT_FACTORS: Readonly<Partial<Record<Effort, Dollars>>> = {
  high: dollars('2.5'),
  xhigh: dollars('3'),
  max: dollars('4.5'),
}

/** Chat: input + share of output, at least 0.001, + surcharge + fee (contract 6.37, 6.17). Throws for a free model. */
export function chatPrice(order: ChatPriceInputs): Usdc {
  const { tokens, surcharge, fee } = chatCost(order)
  return roundUp(plus(plus(tokens, surcharge), fee))
}

/**
 * The cost at list price where the whole of `maxTokens` is used, without the fee: what an early round writes is read
 * again by each later one. A flat price is all there is.
 */
export function chatWorstCost(inputs: ChatPriceInputs): Usdc {
  const { billing, promptTokens, maxTokens, surcharge = NOTHING, rounds = 1 } = inputs
  if (billing.mode === 'free') return usdc(0n)
  if (billing.mode === 'flat') return roundUp(plus(billing.price, surcharge))
  const readAgain = rounds > 1 ? maxTokens : 0
  const { input, output } = ratesOf(billing, promptTokens + readAgain)
  const read = promptTokens * rounds + readAgain * (rounds - 1)
  const tokens = plus(times(perToken(input), BigInt(read)), times(perToken(output), BigInt(maxTokens)))
  return roundUp(plus(tokens, surcharge))
}

/** The components of `chatPrice`, with the operator's margin in percent. Throws for a free model. */
export function chatPriceParts(order: ChatPriceInputs, percent = '0'): ChatPriceParts {
  const { input, output, floorApplied, surcharge, fee } = chatCost(order)
  const margin = percentOf(percent)
  const listed = (part: Dollars) => decimal(raise(part, margin))
  return {
    input: listed(input),
    output: listed(output),
    floorApplied,
    surcharge: listed(surcharge),
    fee: listed(fee),
    total: print(withMarginOf(chatPrice(order), percent)),
  }
}

function chatCost({
  billing,
  promptTokens,
  maxTokens,
  effort,
  scalesQuote = false,
  surcharge = NOTHING,
  rounds = 1,
  markup = STANDARD_MARKUP,
}: ChatPriceInputs) {
  if (billing.mode === 'free') throw new RangeError('a free model has no price')
  if (billing.mode === 'flat')
    return { input: NOTHING, output: NOTHING, tokens: billing.price, floorApplied: false, surcharge, fee: NOTHING }
  const rates = ratesOf(billing, promptTokens)
  const factor = scalesQuote && effort && EFFORT_FACTORS[effort]
  const share = factor ? times(OUTPUT_SHARE, factor) : OUTPUT_SHARE
  const input = times(perToken(rates.input), BigInt(promptTokens * rounds))
  const output = times(times(perToken(rates.output), BigInt(maxTokens)), share)
  const tokens = plus(input, output)
  const floorApplied = isBelow(tokens, FLOOR)
  return { input, output, tokens: floorApplied ? FLOOR : tokens, floorApplied, surcharge, fee: markup.fee }
}

/** The rates of the whole request: those of a long prompt where it is one. */
function ratesOf({ input, output, long }: Extract<ChatBilling, { mode: 'paid' }>, promptTokens: number) {
  return long && promptTokens >= long.from ? long : { input, output }
}

/** Prints an amount exactly, with at least six decimals. Denominators here are always powers of ten. */
function decimal({ num, den }: Dollars): string {
  const decimals = den.toString().length - 1
  const digits = num.toString().padStart(decimals + 1, '0')
  const fraction = digits
    .slice(digits.length - decimals)
    .replace(/0+$/, '')
    .padEnd(6, '0')
  return `${digits.slice(0, digits.length - decimals)}.${fraction}`
}
