/** Inline reasoning and usage that nobody counted, in a stream. */
import { expect, test } from 'bun:test'
import { chunk, DONE, streamAnswer } from '../../../../fakes/chat.ts'
import { objectsOf } from '../../../../../core/lib/json.ts'
import { forwardedStream } from '../../../../../core/products/chat/formats/forwarded_stream.ts'
import { estimatedUsage } from '../../../../../core/products/chat/formats/usage.ts'

async function read(pieces: readonly string[], more: { readonly showsReasoningTokens?: boolean } = {}) {
  const answer = streamAnswer(pieces)
  if (answer.kind !== 'stream') throw new Error('a stream is scripted')
  const stream = forwardedStream(answer.stream, {
    format: 'chat',
    ...more,
    estimate: (characters) => estimatedUsage({ prompt: 7, characters }),
  })
  let text = ''
  for (let bytes = await stream.next(); bytes; bytes = await stream.next()) text += new TextDecoder().decode(bytes)
  const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data))
  const deltas = events.flatMap(({ choices }) => objectsOf(choices).map(({ delta }) => delta as any))
  const textOf = (name: string) => deltas.map((delta) => delta[name] ?? '').join('')
  return {
    content: textOf('content'),
    reasoning: textOf('reasoning_content'),
    usage: events.at(-1)?.usage,
    id: events.at(-1)?.id,
    stream,
  }
}

test('a <think> block is moved to the reasoning wherever it is cut (contract 6.25)', async () => {
  const whole = '<think>I think.</think>\n\nBlue <b>.'
  for (let size = 1; size <= whole.length; size++) {
    const pieces = whole.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
    const { content, reasoning } = await read([
      ...pieces.map((content) => chunk({ content })),
      chunk({}, { finish: 'stop' }),
      DONE,
    ])
    expect([size, content, reasoning]).toEqual([size, 'Blue <b>.', 'I think.'])
  }
})

test('text that only looks like a tag stays text, at the end of a stream too', async () => {
  for (const text of ['a < b', 'a <thin', '<thinking>x', 'a <'])
    expect((await read([chunk({ content: text }), chunk({}, { finish: 'stop' }), DONE])).content).toBe(text)
})

test('usage that the vendor leaves out is estimated in a last chunk, and marked (contract 6.65)', async () => {
  const { usage, stream } = await read([chunk({ content: 'Hello' }), chunk({}, { finish: 'stop' }), DONE])
  expect(usage).toEqual({ prompt_tokens: 7, completion_tokens: 2, total_tokens: 9, estimated: true })
  expect([stream.usage(), stream.closing()]).toEqual([usage, DONE])
})

test('usage is estimated from all words, also where the end comes in one piece with them (contract 6.65)', async () => {
  const words = [chunk({ content: 'Hel' }), chunk({ content: 'lo the' }), chunk({ content: 're' })]
  const end = [chunk({}, { finish: 'stop' }), DONE]
  const expected = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10, estimated: true }
  for (const pieces of [
    [[...words, ...end].join('')],
    [words.join(''), end.join('')],
    [words[0] ?? '', [...words.slice(1), ...end].join('')],
  ]) {
    const { usage, id } = await read(pieces)
    expect([usage, id]).toEqual([expected, 'chatcmpl-1'])
  }
})

test('reasoning tokens are shown only where they are to be, in streams as well (contract 6.23)', async () => {
  const usage = {
    prompt_tokens: 1,
    completion_tokens: 5,
    total_tokens: 6,
    completion_tokens_details: { reasoning_tokens: 3 },
  }
  const pieces = [chunk({ content: 'Hi' }), chunk({}, { finish: 'stop', usage }), DONE]
  const details = async (showsReasoningTokens: boolean) =>
    (await read(pieces, { showsReasoningTokens })).usage.completion_tokens_details
  expect([await details(true), await details(false)]).toEqual([{ reasoning_tokens: 3 }, undefined])
})
