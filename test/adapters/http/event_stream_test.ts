import { describe, expect, test } from 'bun:test'
import { chatStream } from '../../../adapters/http/event_stream.ts'

/** A stream whose first chunk was read, and the deadlines that it asked for. */
function opened(rest: ReadableStream<Uint8Array>) {
  const controller = new AbortController()
  const late: (() => void)[] = []
  let isMet = false
  const stream = chatStream(
    { reader: rest.getReader(), first: new Uint8Array([1]) },
    {
      signal: new AbortController().signal,
      controller,
      after(_ms, due) {
        late.push(due)
        return () => void (isMet = true)
      },
      broken: () => new Error('broken'),
    },
  )
  return { stream, controller, late, isMet: () => isMet }
}

const turn = () => new Promise<void>((resolve) => void setImmediate(resolve))

describe('chatStream() after its last event', () => {
  test('reads the end of the reply and aborts nothing, so that the connection can serve the next call', async () => {
    let isRead = false
    const { stream, controller, isMet } = opened(
      new ReadableStream(
        {
          pull(body) {
            isRead = true
            body.close()
          },
        },
        { highWaterMark: 0 },
      ),
    )
    await stream.next()
    stream.finish?.()
    await turn()
    expect([isRead, controller.signal.aborted, isMet()]).toEqual([true, false, true])
    expect(await stream.next()).toBeUndefined()
  })

  test('ends the call when the reply stays open', async () => {
    const { stream, controller, late } = opened(new ReadableStream({}, { highWaterMark: 0 }))
    await stream.next()
    stream.finish?.()
    await turn()
    expect(controller.signal.aborted).toBe(false)
    for (const due of late) due()
    expect(controller.signal.aborted).toBe(true)
  })

  test('ends the call when the reply goes on', async () => {
    const { stream, controller, isMet } = opened(
      new ReadableStream({ pull: (body) => body.enqueue(new Uint8Array(32_768)) }, { highWaterMark: 0 }),
    )
    await stream.next()
    stream.finish?.()
    for (let turns = 0; turns < 10; turns++) await turn()
    expect([controller.signal.aborted, isMet()]).toEqual([true, true])
  })
})
