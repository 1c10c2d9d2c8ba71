import { describe, expect, test } from 'bun:test'
import { type TwilioConfig, twilio } from '../../../../adapters/providers/twilio/numbers.ts'
import document from '../../../vectors/twilio_openapi.json'
import { byOpenapi } from '../lib/openapi_stand_in.ts'
import {
  type Answer,
  calm,
  outcome,
  prose,
  recorded,
  recordings,
  replay,
  errorText,
  setup,
  standIn,
} from '../lib/provider_kit.ts'

const service = byOpenapi('twilio_openapi.json')
const SID = `AC${'0123456789abcdef'.repeat(2)}`
const TOKEN = 'token-0123456789abcdef'
const NUMBER = '+14155550100'
const ORDER = '0'.repeat(32)
const US = { country: 'US', order: ORDER }

function vendorAt(url: string, more: Partial<TwilioConfig> = {}) {
  const { log, clock } = setup(url)
  return {
    log,
    clock,
    vendor: twilio({ accountSid: SID, authToken: TOKEN, baseUrl: url, lookupsUrl: url, clock, log, ...more }),
  }
}

function vendorOn(answer: Answer, more: Partial<TwilioConfig> = {}) {
  const forms: string[] = []
  // Forms of this kind are no JSON, so the stand-in is asked with their text put aside.
  const server = standIn(answer)
  const made = vendorAt(server.url, {
    fetch: (url, init) => {
      if (!(init.body instanceof URLSearchParams)) return fetch(url, init)
      forms.push(init.body.toString())
      return fetch(url, { ...init, body: '' })
    },
    ...more,
  })
  return { ...made, seen: server.seen, forms }
}

const lines = (...names: readonly string[]) =>
  Response.json({
    incoming_phone_numbers: names.map((name, index) => ({
      sid: `PN${String(index).padStart(32, '0')}`,
      phone_number: `+1415555010${index}`,
      friendly_name: name,
    })),
    next_page_uri: null,
  })
const offered = (...numbers: readonly string[]) =>
  Response.json({ available_phone_numbers: numbers.map((number) => ({ phone_number: number })) })

describe('twilio() before a document', () => {
  test('asks of a number what each lookup is for, and hands the answer on', async () => {
    const { vendor } = vendorAt(service.url())
    for (const about of ['carrier', 'fraud'] as const)
      expect(JSON.parse(await vendor.lookup(NUMBER, about, calm()))).toMatchObject({
        phone_number: NUMBER,
        valid: true,
      })
  })

  test('finds what was bought under an order, and buys where there is nothing', async () => {
    const { vendor } = vendorAt(service.url())
    const line = { number: NUMBER, id: `PN${'0123456789abcdef'.repeat(2)}`, order: ORDER }
    expect(await vendor.buy(US, calm())).toEqual(line)
    expect(await vendor.buy({ country: 'US', areaCode: '415', order: 'f'.repeat(32) }, calm())).toEqual({
      ...line,
      order: 'f'.repeat(32),
    })
    expect(await vendor.lines(calm())).toEqual([line])
  })

  test('asks after a number and gives it back', async () => {
    const { vendor } = vendorAt(service.url())
    const id = `PN${'0123456789abcdef'.repeat(2)}`
    expect([await vendor.has(id, calm()), await vendor.release(id, calm())]).toEqual([true, undefined])
  })

  test('that differs from Twilio’s own is named', () => {
    expect([document['x-certainty'], document.info.description.startsWith('Not Twilio')]).toEqual(['inferred', true])
  })
})

describe('twilio()', () => {
  test('buys a number under the name of its order, once', async () => {
    const { vendor, seen, forms } = vendorOn(({ path, method }) => {
      if (method === 'POST')
        return Response.json(
          { sid: `PN${'a'.repeat(32)}`, phone_number: NUMBER, friendly_name: `farebox ${ORDER}` },
          { status: 201 },
        )
      return path.includes('Available') ? offered(NUMBER) : lines()
    })
    expect(await vendor.buy(US, calm())).toEqual({ number: NUMBER, id: `PN${'a'.repeat(32)}`, order: ORDER })
    expect([seen.map(({ method }) => method), forms]).toEqual([
      ['GET', 'GET', 'POST'],
      [`PhoneNumber=%2B14155550100&FriendlyName=farebox+${ORDER}`],
    ])
    expect(seen.every(({ headers }) => headers.get('authorization') === `Basic ${btoa(`${SID}:${TOKEN}`)}`)).toBe(true)
  })

  test('takes the next one where another was quicker, and says where there is none', async () => {
    let tries = 0
    const { vendor } = vendorOn(({ path, method }) => {
      if (method === 'POST')
        return ++tries < 3
          ? replay(recorded('twilio', 'taken'))
          : Response.json({ sid: `PN${'b'.repeat(32)}`, phone_number: '+14155550109' }, { status: 201 })
      return path.includes('Available') ? offered('+14155550107', '+14155550108', '+14155550109') : lines()
    })
    expect((await vendor.buy(US, calm()))?.number).toBe('+14155550109')
    for (const none of [() => offered(), () => replay(recorded('twilio', 'unknown_number'))]) {
      expect(
        await vendorOn(({ path }) => (path.includes('Available') ? none() : lines())).vendor.buy(US, calm()),
      ).toBeUndefined()
    }
  })

  test.each([502, 503, 500])('does not buy again after %i: it looks whether it has bought', async (status) => {
    for (const isBought of [true, false]) {
      let posts = 0
      const { vendor, log } = vendorOn(({ path, method }) => {
        if (method === 'POST') return (posts++, new Response('', { status }))
        if (path.includes('Available')) return offered(NUMBER)
        return posts > 0 && isBought ? lines(`farebox ${ORDER}`) : lines()
      })
      expect([await outcome(vendor.buy(US, calm()), log), posts]).toEqual([isBought ? 'made' : 'UPSTREAM_FAILED', 1])
    }
  })

  test('gives back what has gone already, and has what it is told of', async () => {
    const { vendor } = vendorOn(() => replay(recorded('twilio', 'unknown_number')))
    const id = `PN${'c'.repeat(32)}`
    expect([await vendor.has(id, calm()), await vendor.release(id, calm())]).toEqual([false, undefined])
  })

  test('reads all pages of its numbers, of this account alone, and those that it bought', async () => {
    const next = `/2010-04-01/Accounts/${SID}/IncomingPhoneNumbers.json?Page=1`
    let pages = 0
    const { vendor, seen } = vendorOn(async () => {
      const body = (await lines(`farebox ${ORDER}`, 'reception').json()) as object
      return Response.json({ ...body, next_page_uri: ++pages === 1 ? next : 'https://evil.example/' })
    })
    expect((await vendor.lines(calm())).map(({ order }) => order)).toEqual([ORDER, ORDER])
    expect(seen.length).toBe(2)
  })

  test('puts nothing into a path but numbers and SIDs', async () => {
    const { vendor, seen } = vendorOn(() => lines())
    for (const asking of [
      () => vendor.lookup('+1/../x', 'carrier', calm()),
      () => vendor.has('../Calls', calm()),
      () => vendor.release('PN1?x', calm()),
    ])
      expect(asking()).rejects.toThrow(RangeError)
    expect(seen).toEqual([])
  })
})

const REFUSALS = {
  wrong_key: 'NOT_CONFIGURED',
  unknown_number: 'PASSED_ON',
  rate_limited: 'RATE_LIMITED 30',
  internal: 'UPSTREAM_FAILED',
  taken: 'PASSED_ON',
}

describe('a refusal of twilio()', () => {
  test.each(Object.entries(REFUSALS))('%s reads as %s, and never quotes our token', async (name, expected) => {
    const { vendor, log } = vendorOn(() => replay(recorded('twilio', name)))
    const work = vendor.lookup(NUMBER, 'carrier', calm())
    expect(await outcome(work, log)).toBe(expected)
    const words = await errorText(work, log)
    const quotes = prose(recorded('twilio', name).body).filter((sentence) => words.includes(sentence))
    expect([words.includes(TOKEN), words.includes(btoa(`${SID}:${TOKEN}`)), quotes.length > 0]).toEqual([
      false,
      false,
      expected === 'PASSED_ON',
    ])
  })

  test('is passed on without our account and token if it quotes them', async () => {
    const { vendor, log } = vendorOn(() =>
      Response.json({ code: 20404, message: `no ${NUMBER} for ${SID}:${TOKEN}` }, { status: 404 }),
    )
    const words = await errorText(vendor.lookup(NUMBER, 'carrier', calm()), log)
    expect([words.includes(NUMBER), words.includes(SID), words.includes(TOKEN)]).toEqual([true, false, false])
  })

  test('is recorded, with its source', () => {
    expect(recordings('twilio')).toEqual(Object.keys(REFUSALS).sort())
  })
})
