/** Speech as sound, for clients that ask for it so: OpenAI's own SDK does. */
import { describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { scriptedAudio, TONE_BYTES } from '../../../fakes/audio.ts'
import { encodePayment, kit, ORIGIN, read } from '../../../kit.ts'

const PATH = '/api/v1/audio/speech'
const ORDER = { model: 'elevenlabs/flash-v2.5', input: 'Hello' }

/** A gateway, and a fetch that pays what it asks. `replies` are the paid ones. */
function paying() {
  const subject = kit({ audio: scriptedAudio() })
  const alice = subject.buyer()
  const replies: Response[] = []
  async function pay(url: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const demand = await subject.gateway.fetch(new Request(url, init))
    if (demand.status !== 402) return demand
    const headers = new Headers(init.headers)
    headers.set('payment-signature', encodePayment(alice.sign(await read(demand))))
    const reply = await subject.gateway.fetch(new Request(url, { ...init, headers }))
    replies.push(reply)
    return reply
  }
  const speak = (accept: string) =>
    pay(ORIGIN + PATH, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept },
      body: JSON.stringify(ORDER),
    })
  return { ...subject, pay, speak, replies }
}

describe('speech', () => {
  test('is the sound itself for the SDK of OpenAI, with the receipt in the headers (contract 14.16)', async () => {
    const { pay, replies } = paying()
    const openai = new OpenAI({ baseURL: `${ORIGIN}/api/v1`, apiKey: 'none', fetch: pay as typeof fetch })
    const spoken = await openai.audio.speech.create({ ...ORDER, voice: 'sarah', response_format: 'wav' })
    expect(Buffer.from(await spoken.arrayBuffer()).equals(TONE_BYTES)).toBe(true)
    expect(spoken.headers.get('content-type')).toBe('audio/wav')
    expect(replies[0]?.headers.get('payment-response')).toBeString()
  })

  test('is JSON with a URL unless the client accepts sound alone (contract 14.16)', async () => {
    const { speak } = paying()
    const typeFor = async (accept: string) => (await speak(accept)).headers.get('content-type')
    for (const accept of ['*/*', 'application/json', 'audio/mpeg, */*', 'application/json, application/octet-stream'])
      expect([accept, await typeFor(accept)]).toEqual([accept, 'application/json'])
    for (const accept of ['audio/*', 'audio/wav', 'application/octet-stream'])
      expect([accept, await typeFor(accept)]).toEqual([accept, 'audio/wav'])
  })

  test('that cannot be read from the store is answered with its URL: it is paid for', async () => {
    const { speak, ports } = paying()
    const { get } = ports.objects
    Object.assign(ports.objects, { get: () => Promise.reject(new Error('the store is away')) })
    const reply = await speak('audio/*')
    Object.assign(ports.objects, { get })
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'application/json'])
    expect(((await reply.json()) as { data: { url: string }[] }).data[0]?.url).toStartWith(
      `${ORIGIN}/api/media/audios/`,
    )
  })
})
