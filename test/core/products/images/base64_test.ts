/** Images in the reply itself (contract 5.53). */
import { describe, expect, test } from 'bun:test'
import { memoryObjects } from '../../../../adapters/objects/memory.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { door, FOX, kit } from '../../../kit.ts'

const BYTES = PIXEL.slice(PIXEL.indexOf(',') + 1)
const BASE64 = { ...FOX, response_format: 'b64_json' }

describe('an image in base64', () => {
  test('is in the poll of a slow job as well, and in each later one', async () => {
    const subject = kit({ inlineMs: 0 })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(BASE64))
    const { body: job } = await alice.buy(BASE64, { payment })
    await subject.idle()
    const first = await alice.poll(job.poll_url, payment)
    const again = await alice.poll(job.poll_url, alice.sign(await alice.ask(BASE64)))
    for (const { status, body } of [first, again])
      expect([status, body.data[0].b64_json, typeof body.data[0].url]).toEqual([200, BYTES, 'string'])
    expect(subject.chain.transfers).toHaveLength(1)
  })

  test('is read again from a bounded part of the memory: then the reply has the URL alone', async () => {
    const objects = memoryObjects()
    const large = new Uint8Array(20 * 1024 * 1024)
    const subject = kit({
      inlineMs: 0,
      ports: {
        objects: {
          ...objects,
          async get(key) {
            const found = await objects.get(key)
            return found && { ...found, body: large, size: large.length }
          },
        },
      },
    })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(BASE64))
    const { body: job } = await alice.buy(BASE64, { payment })
    await subject.idle()
    const read = async (proof = payment) => (await alice.poll(job.poll_url, proof)).body.data[0]
    const reads = []
    for (let at = 0; at < 15; at++) reads.push('b64_json' in (await read()))
    expect(reads.indexOf(false)).toBe(13)
    expect(typeof (await read()).url).toBe('string')
    await subject.clock.advance(300_000)
    expect('b64_json' in (await read(alice.sign(await alice.ask(BASE64))))).toBe(true)
  })

  test('of a store that hangs leaves the paid URL after a while', async () => {
    const objects = memoryObjects()
    const requested = door()
    const subject = kit({
      inlineMs: 0,
      ports: {
        objects: {
          ...objects,
          get() {
            requested.open()
            return new Promise(() => {})
          },
        },
      },
    })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(BASE64))
    const { body: job } = await alice.buy(BASE64, { payment })
    await subject.idle()
    const polled = alice.poll(job.poll_url, payment)
    await requested.passed
    await subject.clock.advance(20_000)
    const { status, body } = await polled
    expect([status, 'b64_json' in body.data[0], typeof body.data[0].url]).toEqual([200, false, 'string'])
  })

  test('costs what its URL costs, and another response_format is 400', async () => {
    const alice = kit().buyer()
    const amount = async (body: object) => (await alice.ask(body)).body.accepts[0].amount
    expect(await amount(BASE64)).toBe(await amount(FOX))
    const { status, body } = await alice.ask({ ...FOX, response_format: 'png' })
    expect([status, JSON.stringify(body)]).toEqual([400, expect.stringContaining('response_format')])
  })

  test.each(['is gone', 'cannot be read', 'is too large'])('that %s leaves the paid URL', async (how) => {
    const objects = memoryObjects()
    const subject = kit({
      inlineMs: 0,
      ports: {
        objects: {
          ...objects,
          async get(key) {
            if (how === 'cannot be read') throw new Error('the store does not answer')
            const found = how === 'is gone' ? undefined : await objects.get(key)
            return found && { ...found, body: new Uint8Array(0), size: 25 * 1024 * 1024 }
          },
        },
      },
    })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(BASE64))
    const { body: job } = await alice.buy(BASE64, { payment })
    await subject.idle()
    const { status, body } = await alice.poll(job.poll_url, payment)
    expect([status, 'b64_json' in body.data[0], typeof body.data[0].url]).toEqual([200, false, 'string'])
  })
})
