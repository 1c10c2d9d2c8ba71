import { beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { countTokens as unsliced } from 'gpt-tokenizer/encoding/o200k_base'
import { countTokens, sliceEnd, warmTokenizer } from '../../adapters/token_counter.ts'

const plainly = { disallowedSpecial: new Set<string>() }
const fill = (text: string, length: number) => text.repeat(Math.ceil(length / text.length)).slice(0, length)
const many = (count: number, make: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => make(index)).join('')

const ENGLISH =
  "The gateway sells work by the call. Nobody pays for what did not come: a request is priced, its payment is checked, the work is done, and only then does money move. If a buyer's connection breaks, the result waits; she may sign again on Tuesday at 9:45 and collect it for $0.012.\n\n"
const GERMAN =
  'Übrigens kostet die Abfrage des Zahlungsstatus nichts, solange das Ergebnis noch nicht vorliegt; die Größe der Antwort hängt vom gewählten Modell ab, und Überweisungsbestätigungen folgen später.\n'
const CHINESE =
  '人工智能是计算机科学的一个分支，它企图了解智能的实质，并生产出一种新的能以人类智能相似的方式做出反应的智能机器。该领域的研究包括机器人、语言识别和专家系统等。'
const CODE =
  'export function total(rows: readonly Row[]): bigint {\n  let sum = 0n\n  for (const { amount } of rows) {\n    if (amount < 0n) throw new RangeError(`below zero: ${amount}`)\n    sum += amount\n  }\n\n  return sum // in micro-USDC\n}\n'

const texts: Readonly<Record<string, string>> = {
  spaces: ' '.repeat(3_000),
  'line breaks': '\n'.repeat(3_000),
  'one letter': 'a'.repeat(3_000),
  ideographs: many(3_000, (index) => String.fromCodePoint(0x4e00 + ((index * 7_919) % 20_000))),
  emoji: many(1_500, (index) => String.fromCodePoint(0x1f300 + ((index * 131) % 500))),
  'emoji, off by one': `x${'😀'.repeat(1_500)}`,
  'lone surrogates': '\ud83d'.repeat(3_000),
  base64: Buffer.from(Array.from({ length: 2_250 }, (_, index) => (index * index * 31 + index * 7) % 251)).toString(
    'base64',
  ),
  punctuation: fill('}/\n//=>{!?', 3_000),
  english: fill(ENGLISH, 3_000),
}

beforeAll(warmTokenizer)

function slices(text: string): string[] {
  const cut: string[] = []
  for (let start = 0; start < text.length; start = sliceEnd(text, start))
    cut.push(text.slice(start, sliceEnd(text, start)))
  return cut
}

/** How many turns the event loop takes while the work is done. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let isDone = false
  const turn = () => {
    if (isDone) return
    turns += 1
    setImmediate(turn)
  }
  setImmediate(turn)
  await work()
  isDone = true
  return turns
}

describe('countTokens()', () => {
  test('is literal', async () => {
    expect(await countTokens('')).toBe(0)
    expect(await countTokens('hello world')).toBe(2)
    expect(await countTokens('Pay per call, in USDC.')).toBe(8)
    expect(await countTokens('a')).toBe(1)
  })

  test('agrees with unsliced counting on any text of one slice', async () => {
    for (const text of Object.values(texts))
      expect(await countTokens(text.slice(0, 256))).toBe(unsliced(text.slice(0, 256), plainly))
  })

  for (const [name, text] of Object.entries({ ENGLISH, GERMAN, CODE })) {
    test(`counts ${name.toLowerCase()} exactly as if it were not sliced`, async () => {
      expect(await countTokens(fill(text, 20_000))).toBe(unsliced(fill(text, 20_000), plainly))
    })
  }

  test('is within 3% where there is no space to cut at, and never below', async () => {
    for (const text of [CHINESE, texts.base64 ?? '', JSON.stringify({ a: 1, list: [true, null, 'word'] })]) {
      const whole = unsliced(fill(text, 4_000), plainly)
      const sliced = await countTokens(fill(text, 4_000))
      expect(sliced).toBeGreaterThanOrEqual(whole)
      expect(sliced).toBeLessThanOrEqual(whole * 1.03)
    }
  })

  test('text that looks like a special token is plain text, also across a cut', async () => {
    for (const special of ['<|endoftext|>', '<|endofprompt|>', '<|im_start|>']) {
      expect(await countTokens(special)).toBeGreaterThan(1)
      expect(await countTokens(`${'x'.repeat(250)}${special} and ${special}`)).toBeGreaterThan(10)
    }
  })

  test('a token is at least one byte, whatever the text', async () => {
    for (const text of Object.values(texts))
      expect(await countTokens(text)).toBeLessThanOrEqual(new TextEncoder().encode(text).length)
  })

  test('says the same each time, and whatever else is counted meanwhile', async () => {
    const alone: number[] = []
    for (const text of Object.values(texts)) alone.push(await countTokens(text))
    expect(await Promise.all(Object.values(texts).map((text) => countTokens(text)))).toEqual(alone)
  })

  test('what came first is counted first, also where more comes all the time', async () => {
    const one = fill(ENGLISH, 250)
    const ended: number[] = []
    const late: Promise<void>[] = []
    const counted = async (number: number) => {
      await countTokens(one)
      ended.push(number)
      // Each that ends brings another one, as callers who ask again at once do.
      if (number < 200) late.push(counted(200 + number))
    }
    await Promise.all(Array.from({ length: 200 }, (_, number) => counted(number)))
    await Promise.all(late)
    expect(ended.slice(0, 200)).toEqual(Array.from({ length: 200 }, (_, number) => number))
  })

  test('other work runs at least every 64 KB of a text of 1 MB', async () => {
    for (const text of [' '.repeat(1 << 20), fill(ENGLISH, 1 << 20)])
      expect(await turnsDuring(() => countTokens(text))).toBeGreaterThanOrEqual(16)
  })

  test('other work runs as often when the 1 MB comes in small texts, or in many at once', async () => {
    const one = fill(ENGLISH, 1_000)
    const inTurn = async () => {
      for (let count = 0; count < 1_000; count++) await countTokens(one)
    }
    expect(await turnsDuring(inTurn)).toBeGreaterThanOrEqual(16)
    expect(
      await turnsDuring(() => Promise.all(Array.from({ length: 1_000 }, () => countTokens(one)))),
    ).toBeGreaterThanOrEqual(16)
    expect(
      await turnsDuring(() => Promise.all(Array.from({ length: 20 }, () => countTokens(fill(ENGLISH, 50_000))))),
    ).toBeGreaterThanOrEqual(16)
  })
})

describe('sliceEnd()', () => {
  for (const [name, text] of Object.entries(texts)) {
    test(`cuts ${name} into slices of 1 to 256 characters that make up the text, at most twice as many as needed`, () => {
      const cut = slices(text)
      expect(cut.join('')).toBe(text)
      for (const slice of cut) expect(slice.length).toBeWithin(1, 257)
      expect(cut.length).toBeLessThanOrEqual(2 * Math.ceil(text.length / 255))
    })
  }

  test('splits no surrogate pair', () => {
    for (const text of [texts.emoji ?? '', texts['emoji, off by one'] ?? '']) {
      for (const slice of slices(text)) expect(() => encodeURIComponent(slice)).not.toThrow()
    }
  })

  test('cuts before the last word that does not fit, or after a line break', () => {
    expect(sliceEnd(`${'a'.repeat(200)} ${'b'.repeat(20)} ${'c'.repeat(100)}`, 0)).toBe(221)
    expect(sliceEnd(`${'a'.repeat(200)}\n${'b'.repeat(100)}`, 0)).toBe(201)
    expect(sliceEnd(`${'a'.repeat(200)}  ${'b'.repeat(100)}`, 0)).toBe(256)
    expect(sliceEnd('short', 0)).toBe(5)
  })
})

test('nothing is loaded before the first count', async () => {
  const script = `
    const isLoaded = () => Object.keys(require.cache).some((path) => path.includes('o200k_base'))
    const { countTokens } = await import(${JSON.stringify(join(import.meta.dirname, '../../adapters/token_counter.ts'))})
    console.log(JSON.stringify([isLoaded(), await countTokens('hello world'), isLoaded()]))`
  const program = Bun.spawn([process.execPath, '-e', script], { stderr: 'inherit' })
  expect(await new Response(program.stdout).json()).toEqual([false, 2, true])
}, 300_000)
