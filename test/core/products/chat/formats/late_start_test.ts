/** A model that begins too late, whatever comments its server sends meanwhile. */
import { expect, test } from 'bun:test'
import { chatPieces } from '../../../../fakes/chat.ts'
import type { ApiError } from '../../../../../core/http/errors.ts'
import { forwardedStream } from '../../../../../core/products/chat/formats/forwarded_stream.ts'
import { whenAnswerStarts } from '../../../../../core/products/chat/formats/answer_start.ts'
import { testClock } from '../../../../kit.ts'

test('a stream of comments ends at the time by which its answer had to begin: 504, and its vendor is left (contract 6.64)', async () => {
  const clock = testClock()
  const pieces = chatPieces(': keep-alive\n\n')
  if (pieces.answer.kind !== 'stream') throw new Error('a stream is scripted')
  const stream = forwardedStream(pieces.answer.stream, { format: 'chat' })
  const beginsBy = clock.now() + 30_000
  const answer = whenAnswerStarts(stream, { signal: new AbortController().signal, clock, beginsBy }).catch(
    (error: unknown) => error,
  )
  for (let at = 0; at < 30; at += 10) {
    expect(pieces.isCancelled()).toBe(false)
    await clock.advance(10_000)
    pieces.push(': keep-alive\n\n')
  }
  expect([((await answer) as ApiError).code, pieces.isCancelled()]).toEqual(['UPSTREAM_TIMEOUT', true])
})
