import { describe, expect, test } from 'bun:test'
import { catalog } from '../../../../core/products/catalog.ts'
import { type ChatBilling, EFFORTS, type Effort } from '../../../../core/ports/vendors/chat.ts'
import { dollars, plus, print, roundUp } from '../../../../core/x402/money.ts'
import { chatPrice, chatPriceParts } from '../../../../core/products/chat/price.ts'
import { STANDARD_MARKUP } from '../../../../core/x402/pricing.ts'
import vectors from '../../../vectors/chat_quotes.json'

const { chat } = catalog()

type Frozen = {
  mode: string
  input?: string
  output?: string
  price?: string
  long?: { from: number; input: string; output: string }
  scales_quote?: boolean
  live_search?: string
  context_window: number
  max_output: number
}
const frozen: Readonly<Record<string, Frozen>> = vectors.rows

function billingOf({ mode, input = '', output = '', price = '', long }: Frozen): ChatBilling {
  if (mode === 'free') return { mode }
  if (mode === 'flat') return { mode, price: dollars(price) }
  return {
    mode: 'paid',
    input: dollars(input),
    output: dollars(output),
    ...(long && { long: { from: long.from, input: dollars(long.input), output: dollars(long.output) } }),
  }
}

const number = ({ num, den }: { num: bigint; den: bigint }): number => Number(num) / Number(den)
const PAID = {
  mode: 'paid',
  input: dollars('2'),
  output: dollars('10'),
  long: { from: 1000, input: dollars('4'), output: dollars('15') },
} as const

describe('quotes worked out by hand', () => {
  test('are made of the rates at which the rows are sold', () => {
    for (const [id, row] of Object.entries(frozen)) {
      const sold = chat.get(id)
      expect({ id, mode: String(sold?.billing.mode), window: sold?.contextWindow, most: sold?.maxOutput }).toEqual({
        id,
        mode: row.mode,
        window: row.context_window,
        most: row.max_output,
      })
      if (sold?.billing.mode === 'flat') expect(number(sold.billing.price)).toBe(Number(row.price))
      if (sold?.billing.mode !== 'paid') continue
      const { input, output, long } = sold.billing
      expect([id, number(input), number(output)]).toEqual([id, Number(row.input), Number(row.output)])
      expect(long && { from: long.from, input: number(long.input), output: number(long.output) }).toEqual(
        row.long && { from: row.long.from, input: Number(row.long.input), output: Number(row.long.output) },
      )
      expect(sold.effort?.scalesQuote ?? false).toBe(row.scales_quote ?? false)
      if (row.live_search) expect(sold.liveSearch).toEqual(dollars(row.live_search))
    }
  })

  test('are at least forty-five, and each names its row, or an alias of it', () => {
    expect(vectors.quotes.length).toBeGreaterThanOrEqual(45)
    for (const { body, row } of vectors.quotes) expect(chat.get(body.model)?.id).toBe(row)
  })

  for (const { name, row, prompt_tokens, max_tokens, effort_sent, surcharge, micro_usdc, sum } of vectors.quotes) {
    const { scales_quote, ...rest } = frozen[row] ?? { mode: '', context_window: 0, max_output: 0 }
    const order = {
      billing: billingOf(rest),
      promptTokens: prompt_tokens,
      maxTokens: max_tokens,
      effort: (effort_sent as Effort | null) ?? undefined,
      scalesQuote: scales_quote,
      surcharge: surcharge === null ? undefined : dollars(surcharge),
    }
    if (micro_usdc === null) {
      test(`${name}: there is no price`, () => {
        expect(() => chatPrice(order)).toThrow('a free model has no price')
      })
      continue
    }
    test(`${name}: ${sum} = ${micro_usdc}`, () => {
      expect(String(chatPrice(order))).toBe(micro_usdc)
      expect(chatPriceParts(order).total).toBe(print(chatPrice(order)))
    })
  }
})

describe('a chat price', () => {
  const quote = (more: Partial<Parameters<typeof chatPrice>[0]> = {}) =>
    chatPrice({ billing: PAID, promptTokens: 100, maxTokens: 10_000, ...more })

  test('never counts more output than max_tokens, whatever the effort (contract 6.38)', () => {
    const whole = roundUp(plus(dollars('0.1002'), STANDARD_MARKUP.fee))
    for (const effort of EFFORTS) expect(quote({ effort, scalesQuote: true })).toBeLessThanOrEqual(whole)
  })

  test('grows with the effort only where the row says so (contract 6.38)', () => {
    const scaled = EFFORTS.map((effort) => Number(quote({ effort, scalesQuote: true }) - quote()))
    expect(scaled).toEqual([0, 0, 0, 0, 15_000, 20_000, 35_000])
    expect(new Set(EFFORTS.map((effort) => quote({ effort })))).toEqual(new Set([quote()]))
  })

  test('is long for the whole request from the first long token on (contract 6.39)', () => {
    expect([999, 1000].map((promptTokens) => Number(quote({ promptTokens })))).toEqual([
      999 * 2 + 10_000 + 1000,
      1000 * 4 + 15_000 + 1000,
    ])
  })

  test('is rounded up once: a fraction of tokens and a fraction of the surcharge share one step', () => {
    const billing = { mode: 'paid', input: dollars('0.3'), output: dollars('1000') } as const
    expect(Number(quote({ billing, promptTokens: 1, maxTokens: 10, surcharge: dollars('0.0000007') }))).toBe(2001)
    expect(Number(quote({ billing, promptTokens: 1, maxTokens: 10, surcharge: dollars('0.0000008') }))).toBe(2002)
  })

  test('of a flat row is the price of the row, fee included, plus any surcharge (contract 6.41)', () => {
    const billing = { mode: 'flat', price: dollars('0.002') } as const
    expect(Number(quote({ billing, effort: 'max', scalesQuote: true }))).toBe(2000)
    expect(Number(quote({ billing, surcharge: dollars('0.3') }))).toBe(302_000)
  })

  test('of half a token is refused', () => {
    for (const wrong of [0.5, Number.NaN, Number.POSITIVE_INFINITY])
      expect(() => quote({ promptTokens: wrong, maxTokens: 0 })).toThrow()
  })
})

describe('its parts', () => {
  test('are exact decimals, and say whether the floor was applied (contract 6.17, 6.37)', () => {
    const small = chatPriceParts({
      billing: { mode: 'paid', input: dollars('0.03'), output: dollars('0.13') },
      promptTokens: 7,
      maxTokens: 1,
    })
    expect(small).toEqual({
      input: '0.00000021',
      output: '0.000000013',
      floorApplied: true,
      surcharge: '0.000000',
      fee: '0.001000',
      total: '0.002000',
    })
    const searched = chatPriceParts({ billing: PAID, promptTokens: 100, maxTokens: 10_000, surcharge: dollars('0.30') })
    expect(searched).toEqual({
      input: '0.000200',
      output: '0.010000',
      floorApplied: false,
      surcharge: '0.300000',
      fee: '0.001000',
      total: '0.311200',
    })
  })

  test('of a flat row are all in its total', () => {
    expect(
      chatPriceParts({ billing: { mode: 'flat', price: dollars('0.001') }, promptTokens: 9, maxTokens: 9 }),
    ).toEqual({
      input: '0.000000',
      output: '0.000000',
      floorApplied: false,
      surcharge: '0.000000',
      fee: '0.000000',
      total: '0.001000',
    })
  })

  test('of large rates keep their whole dollars', () => {
    expect(chatPriceParts({ billing: PAID, promptTokens: 999_999, maxTokens: 1_000_000 })).toMatchObject({
      input: '3.999996',
      output: '1.500000',
      total: '5.500996',
    })
  })
})
