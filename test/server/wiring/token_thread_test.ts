import { afterAll, describe, expect, test } from 'bun:test'
import { countTokens } from '../../../adapters/token_counter.ts'
import { tokenThread } from '../../../server/wiring/token_thread.ts'

const thread = tokenThread()
afterAll(() => thread.close())

const LONG = 'The quick brown fox jumps over the lazy dog.\n'.repeat(1_200)

describe('a count on the thread', () => {
  test.each([
    ['an empty text', ''],
    ['a word', 'Hello'],
    ['special tokens, as plain text', '<|endoftext|> and <|im_start|>'],
    ['a pair of surrogates', '🦊'.repeat(300)],
    ['spaces', ' '.repeat(40_000)],
    ['a text of several batches', LONG],
  ])('is that of the event loop: %s', async (_, text) => {
    expect(await thread.countTokens(text)).toBe(await countTokens(text))
  })

  test('of many texts at once gives each its own', async () => {
    const texts = Array.from({ length: 50 }, (_, index) => 'fox '.repeat(index))
    expect(await Promise.all(texts.map((text) => thread.countTokens(text)))).toEqual(
      await Promise.all(texts.map((text) => countTokens(text))),
    )
  })

  test('of a short text is right beside counts of several batches', async () => {
    const texts = [LONG, 'a fox', LONG, '', 'two foxes', LONG]
    expect(await Promise.all(texts.map((text) => thread.countTokens(text)))).toEqual(
      await Promise.all(texts.map((text) => countTokens(text))),
    )
  })

  test('stops above its limit', async () => {
    const tokens = await thread.countTokens(LONG, { limit: 10 })
    expect(tokens).toBeGreaterThan(10)
    expect(tokens).toBeLessThan(100)
  })

  test('spends the same weight', async () => {
    const spent = async (count: typeof countTokens) => {
      let sum = 0
      await count(`${LONG}é漢🦊`, { spend: (weight) => (sum += weight) })
      return sum
    }
    expect(await spent(thread.countTokens)).toBe(await spent(countTokens))
  })

  test('is not made when its budget is spent', async () => {
    const spend = () => {
      throw new Error('spent')
    }
    expect(thread.countTokens(LONG, { spend })).rejects.toThrow('spent')
  })
})

test('no thread is started before the first count', () => {
  let started = 0
  tokenThread(() => {
    started += 1
    throw new Error('unexpected')
  })
  expect(started).toBe(0)
})

test('a count that is under way when the thread ends is rejected, and the next one starts another thread', async () => {
  const other = tokenThread()
  const counting = other.countTokens('hello')
  other.close()
  expect(counting).rejects.toThrow('the tokens of a text cannot be counted: the server stops')
  expect(await other.countTokens('hello')).toBe(1)
  other.close()
})

test('a thread that fails rejects what it was asked, and is replaced', async () => {
  const source = URL.createObjectURL(new Blob(['throw new Error("no tables")'], { type: 'text/javascript' }))
  const broken = tokenThread(() => new Worker(source))
  expect(broken.countTokens('hello')).rejects.toThrow('no tables')
  await broken.countTokens('hello').catch(() => {})
  broken.close()
})
