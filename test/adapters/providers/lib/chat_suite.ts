/** Laws of every adapter of a chat format besides the laws of its port, by its own orders and replies. */
import { describe, expect, test } from 'bun:test'
import type { ChatVendorConfig } from '../../../../adapters/providers/lib/chat/provider.ts'
import type { ChatOrder, ChatVendor, Fields } from '../../../../core/mod.ts'
import { rowsOf } from '../../../vectors/rows.ts'
import { chatSetup, drain, eventsIn, HELLO, ordered, reading, STREAMED, streamOf, wholeOf } from './chat_kit.ts'
import { inPieces } from './chat_stand_in.ts'
import { type Answer, calm, errorText, KEY, type Seen, standIn } from './provider_kit.ts'

type Create = (config: ChatVendorConfig) => ChatVendor
type ChatAdapter = {
  readonly create: Create
  /** Behind the host in the base URL. */
  readonly path?: string
  /** An order in its own format. */
  readonly own: ChatOrder
  /** The two formats that it supports, and one that it does not. */
  readonly formats: readonly [own: string, other: string, unsupported: ChatOrder['format']]
  /** A whole reply, and a streamed one with what it is in chat: its deltas, and the chunk with its usage. */
  readonly reply: Fields
  readonly stream: string
  readonly deltas: readonly Fields[]
  readonly last: Fields
  /** Whole replies that hold no answer. */
  readonly unreadable?: readonly (readonly [what: string, body: () => Response])[]
  /** Events of a stream that fails before its first chunk, and of one that fails later. */
  readonly early?: { readonly events: string; readonly why: string }
  readonly late: string
  /** `test/vectors/chat/<vectors>.jsonl`, and what the refused orders ask for. */
  readonly refusals: { readonly vectors: string; readonly request: Fields; readonly headers?: Record<string, string> }
}

/** The adapter before a stand-in (`vendorOn`), or before a stream that `fetch` itself cuts (`streaming`). */
export function chatBench({ create, path = '', reply }: Pick<ChatAdapter, 'create' | 'path' | 'reply'>) {
  const vendorOn = (answer: Answer, more: Partial<ChatVendorConfig> = {}) => {
    const server = standIn(answer)
    const { config, ...rest } = chatSetup(server.url + path, more)
    return { server, config, ...rest, vendor: create(config) }
  }
  /** `urls` are the addresses that it asked. */
  const streaming = (response: () => Response, more: Partial<ChatVendorConfig> = {}) => {
    const urls: string[] = []
    const fetch = async (url: string) => (urls.push(url), response())
    const { config, ...rest } = chatSetup(`https://api.example.com${path}`, { fetch, ...more })
    return { ...rest, urls, vendor: create(config) }
  }
  async function sent(order: ChatOrder, more: Partial<ChatVendorConfig> = {}): Promise<Seen> {
    const { server, vendor } = vendorOn(() => Response.json(reply), more)
    await vendor.ask(order, calm())
    return server.seen[0] as Seen
  }
  return { vendorOn, streaming, sent }
}

export function chatSuite(name: string, adapter: ChatAdapter): void {
  const { vendorOn, streaming } = chatBench(adapter)
  const { own, formats, reply, stream, deltas, last, unreadable = [], early, late, refusals } = adapter

  describe(`requests of ${name}()`, () =>
    test('nothing for another format', async () => {
      const { vendor } = vendorOn(() => Response.json(reply))
      const [first, second, unsupported] = formats
      await expect(vendor.ask({ ...HELLO, format: unsupported }, calm())).rejects.toThrow(
        `supports the formats ${first} and ${second}, not ${unsupported}`,
      )
    }))

  describe(`replies of ${name}()`, () => {
    test('its own format untouched, whole and streamed', async () => {
      expect(wholeOf(await vendorOn(() => Response.json(reply)).vendor.ask(own, calm()))).toEqual(reply)
      const { vendor } = streaming(() => inPieces(stream, 7))
      expect(await drain(streamOf(await vendor.ask({ ...own, stream: true }, calm())))).toBe(stream)
    })

    test.each([1, 5, 100_000])('a stream in chat that came in pieces of %d bytes', async (size) => {
      const { vendor } = streaming(() => inPieces(stream, size))
      const text = await drain(streamOf(await vendor.ask(STREAMED, calm())))
      const chunks = eventsIn(text)
      expect(chunks.flatMap(({ choices }) => choices.map(({ delta }: any) => delta))).toEqual([...deltas])
      expect(chunks.at(-2).choices[0].finish_reason).toBe('tool_calls')
      expect(chunks.at(-1)).toMatchObject({ ...last, choices: [] })
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    })

    for (const [what, answer] of unreadable)
      test(`${what} is MODEL_UNAVAILABLE`, async () => {
        const { vendor, log } = vendorOn(answer)
        for (const order of [HELLO, STREAMED, own])
          expect(await reading(vendor.ask(order, calm()), log)).toBe('MODEL_UNAVAILABLE')
      })
  })

  describe(`a stream of ${name}() in chat that fails`, () => {
    if (early)
      test.each([1, 100_000])('before its first chunk is a refusal, in pieces of %d bytes', async (size) => {
        const { vendor, log } = streaming(() => inPieces(early.events, size))
        expect(await reading(vendor.ask(STREAMED, calm()), log)).toBe('MODEL_UNAVAILABLE')
        expect(log.lines.map(({ fields }) => fields.why)).toEqual([early.why])
      })

    test('later says so in our words, and ends without [DONE]', async () => {
      const { vendor } = streaming(() => inPieces(late))
      const text = await drain(streamOf(await vendor.ask(STREAMED, calm())))
      const message = 'The model is temporarily unavailable. Nothing was charged.'
      expect(eventsIn(text).at(-1)).toEqual({
        error: { message, type: 'upstream_error', param: null, code: 'MODEL_UNAVAILABLE' },
      })
      expect([text.includes('[DONE]'), text.includes(KEY)]).toEqual([false, false])
    })
  })

  describe(`a refusal of ${name}()`, () => {
    const rows = rowsOf<[what: string, status: number, body: Fields, expected: string]>(refusals.vectors, { $KEY: KEY })
    test.each([...rows])('%s', async (_, status, body, expected) => {
      for (const order of [ordered(refusals.request), ordered(refusals.request, STREAMED)]) {
        const { vendor, log } = vendorOn(() => Response.json(body, { status, headers: refusals.headers ?? {} }))
        const work = vendor.ask(order, calm())
        expect(await reading(work, log)).toBe(expected)
        const words = await errorText(work, log)
        expect([words.includes(KEY), words.includes('org-9f8e7d')]).toEqual([false, false])
      }
    })
  })
}
