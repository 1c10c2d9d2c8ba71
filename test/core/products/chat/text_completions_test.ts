/** The older completions API behind chat models (contract 6.68). */
import { expect, test } from 'bun:test'
import type { Fields } from '../../../../core/mod.ts'
import { chunk, DONE, scriptedChat, streamAnswer, USAGE, usageChunk, wholeAnswer } from '../../../fakes/chat.ts'
import { encodePayment, kit, ORIGIN } from '../../../kit.ts'

const PATH = '/api/v1/completions'

async function textOf(message: Fields, stream: boolean): Promise<string> {
  const vendor = scriptedChat(async () => {
    if (stream) return streamAnswer([chunk(message), chunk({}, { finish: 'stop' }), usageChunk(USAGE), DONE])
    const { kind, body } = wholeAnswer()
    return { kind, body: { ...body, choices: [{ index: 0, message, finish_reason: 'stop' }] } }
  })
  const { buyer, gateway } = kit({ chatVendor: vendor })
  const alice = buyer()
  const body = { model: 'vendor-d/chat-5.3', prompt: 'Say it.', stream }
  const headers = {
    'content-type': 'application/json',
    'payment-signature': encodePayment(alice.sign(await alice.ask(body, { path: PATH }))),
  }
  const request = new Request(ORIGIN + PATH, { method: 'POST', headers, body: JSON.stringify(body) })
  return await (await gateway.fetch(request, { ip: '192.0.2.1' })).text()
}

test.each([
  ['a refusal', { role: 'assistant', content: null, refusal: 'I will not.' }, 'I will not.'],
  [
    'in parts',
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'In ' },
        { type: 'text', text: 'parts.' },
      ],
    },
    'In parts.',
  ],
])('an answer that is %s has its words in the text that is paid for', async (_, message, words) => {
  for (const stream of [false, true]) expect(await textOf(message, stream)).toContain(`"text":"${words}"`)
})
