/** farebox proxy as its programs, a page of a browser, another user and hostile sellers meet it. */
import { afterAll, afterEach, beforeAll, describe, expect, setSystemTime, test } from 'bun:test'
import { join } from 'node:path'
import { keccak256, toBytes } from 'viem'
import { capOf } from '../../../server/buyer/budget.ts'
import { payeeList } from '../../../server/proxy/payees.ts'
import type { ProxyOptions } from '../../../server/proxy/mod.ts'
import {
  NOW,
  demand,
  encodeHeader,
  honest,
  OFFER,
  PAYEE,
  PAYER,
  seller,
  type Started,
  startProxy,
  TOKEN,
} from './proxy_kit.ts'

beforeAll(() => void setSystemTime(NOW))
afterAll(() => void setSystemTime())

const opened: { stop(): Promise<unknown> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.stop()
})

async function open(vendor: ReturnType<typeof seller>, given: Partial<ProxyOptions> = {}): Promise<Started> {
  const started = await startProxy(vendor.url, given)
  opened.push(started, vendor)
  return started
}

const spent = ({ journal }: Started) => Number(journal.today())
const messageOf = async (reply: Response) => ((await reply.json()) as any).error.message as string

describe('a program with the token', () => {
  test('is served what it asks, unchanged, and one payment is signed for it', async () => {
    const vendor = honest(() =>
      Response.json(
        { id: 'x' },
        { headers: { 'payment-response': encodeHeader({ success: true, transaction: '0xab' }) } },
      ),
    )
    const started = await open(vendor)
    const reply = await started.chat({ 'x-custom': 'kept', cookie: 'secret=1', 'payment-signature': 'mine' })
    expect([reply.status, await reply.json()]).toEqual([200, { id: 'x' }])
    expect(vendor.received.map(({ body }) => body)).toEqual(Array(2).fill('{"model":"a","messages":[]}'))
    const [{ accepted, payload }] = vendor.payments()
    expect(accepted).toEqual(OFFER)
    expect(payload.authorization).toMatchObject({ from: PAYER, to: PAYEE, value: '2000' })
    expect(spent(started)).toBe(2_000)
    expect(started.calls).toEqual([
      {
        method: 'POST',
        path: '/v1/chat/completions',
        model: 'a',
        status: 200,
        paid: '0.002',
        today: '0.002',
        receipt: '0xab',
        isReplay: false,
      },
    ])
    for (const { request } of vendor.received) {
      expect(request.headers.get('x-custom')).toBe('kept')
      for (const name of ['authorization', 'cookie']) expect(request.headers.get(name)).toBeNull()
      expect(JSON.stringify([...request.headers])).not.toContain(TOKEN)
    }
  })

  test.each([
    ['authorization', `Bearer ${TOKEN}`],
    ['x-api-key', TOKEN],
    ['api-key', TOKEN],
    ['x-goog-api-key', TOKEN],
  ])('may send it as %s, and it does not reach the seller', async (name, value) => {
    const vendor = honest()
    const { url } = await open(vendor)
    const reply = await fetch(`${url}/v1beta/models/m:generateContent?key=${TOKEN}&alt=sse`, {
      method: 'POST',
      headers: { [name]: value },
      body: '{}',
    })
    expect(reply.status).toBe(200)
    for (const { request } of vendor.received) {
      expect(new URL(request.url).search).toBe('?alt=sse')
      expect(JSON.stringify([...request.headers])).not.toContain(TOKEN)
    }
  })

  test('gets each part of a stream as it arrives', async () => {
    let next = (_: string): void => {}
    let end = (): void => {}
    const vendor = honest(() => {
      const body = new ReadableStream({
        start(controller) {
          next = (text) => controller.enqueue(new TextEncoder().encode(text))
          end = () => controller.close()
          next('data: 1\n\n')
        },
      })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    })
    const { chat, calls } = await open(vendor)
    const reader = (await chat()).body!.getReader()
    const read = async () => new TextDecoder().decode((await reader.read()).value)
    expect(await read()).toBe('data: 1\n\n')
    next('data: 2\n\n')
    expect(await read()).toBe('data: 2\n\n')
    next(': x-payment-receipt 0xfeed\n\ndata: [DONE]\n\n')
    expect(await read()).toContain('[DONE]')
    end()
    expect((await reader.read()).done).toBe(true)
    expect(calls.map(({ receipt }) => receipt)).toEqual(['0xfeed'])
  })

  test('is reported with the receipt of its stream, however long the event after it is', async () => {
    const parts = [': x-payment-rec', 'eipt 0xfe', 'ed\n\nevent: response.completed\ndata: ', 'x'.repeat(9_000), '\n\n']
    const vendor = honest(() => {
      const body = new ReadableStream({
        start(controller) {
          for (const part of parts) controller.enqueue(new TextEncoder().encode(part))
          controller.close()
        },
      })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    })
    const { chat, calls } = await open(vendor)
    expect(await (await chat()).text()).toBe(parts.join(''))
    expect(calls.map(({ receipt }) => receipt)).toEqual(['0xfeed'])
  })

  test('gets the result of a job, polled with the payment that ordered it', async () => {
    let polls = 0
    const vendor = honest(({ request }) => {
      if (request.method === 'POST') return Response.json({ id: 'j', poll_url: '/jobs/j' }, { status: 202 })
      return ++polls < 3 ? Response.json({ id: 'j' }, { status: 202 }) : Response.json({ data: [1] })
    })
    const started = await open(vendor)
    const reply = await started.chat()
    expect([reply.status, await reply.json()]).toEqual([200, { data: [1] }])
    expect([new Set(vendor.nonces()).size, polls, spent(started)]).toEqual([1, 3, 2_000])
  })

  test('reads errors in its own format, which tell it not to retry', async () => {
    const { url } = await open(honest(), {
      caps: { perCall: capOf('0.001'), perDay: capOf('5'), perSession: undefined },
    })
    const ask = async (path: string) => {
      const reply = await fetch(url + path, { method: 'POST', headers: { 'x-api-key': TOKEN }, body: '{}' })
      return [reply.status, reply.headers.get('x-should-retry'), await reply.json()]
    }
    const message = expect.stringContaining('The price is 0.002 USDC, above the cap of 0.001 USDC per call.')
    const openai = { message, type: 'insufficient_quota', param: null, code: 'insufficient_quota' }
    expect(await ask('/v1/responses')).toEqual([402, 'false', { error: openai }])
    const anthropic = { type: 'error', error: { type: 'billing_error', message } }
    expect(await ask('/v1/messages?beta=true')).toEqual([402, 'false', anthropic])
    const google = { error: { code: 402, message, status: 'FAILED_PRECONDITION' } }
    expect(await ask('/v1beta/models/a:generateContent')).toEqual([402, 'false', google])
  })

  test('buys nothing that names no model where models are listed, and reads what is free', async () => {
    const vendor = seller(({ request, payment }) =>
      request.url.endsWith('/free') || payment ? Response.json({}) : demand(),
    )
    const { url } = await open(vendor, { models: ['a'] })
    const get = async (path: string) => (await fetch(url + path, { headers: { 'x-api-key': TOKEN } })).status
    expect([await get('/v1/free'), await get('/v1/models')]).toEqual([200, 403])
    expect(vendor.payments()).toEqual([])
  })

  test('buys only the listed models, wherever the request names them', async () => {
    const vendor = honest()
    const { url, chat } = await open(vendor, { models: ['a'] })
    expect((await chat()).status).toBe(200)
    expect((await chat({}, { model: 'b' })).status).toBe(403)
    const gemini = (model: string) =>
      fetch(`${url}/v1beta/models/${model}:generateContent`, {
        method: 'POST',
        headers: { 'x-goog-api-key': TOKEN },
        body: '{"model":"a"}',
      })
    expect([(await gemini('b')).status, (await gemini('a')).status]).toEqual([403, 200])
  })
})

describe('nothing is signed and nothing reaches the seller', () => {
  test.each([
    ['no token', { authorization: '' }, 401],
    ['a wrong token', { authorization: `Bearer ${TOKEN}x` }, 401],
    ['a right and a wrong token', { 'x-api-key': 'x' }, 401],
    ['a page of another origin', { origin: 'https://evil.example' }, 403],
    ['a page without an origin', { origin: 'null' }, 403],
    ['a page of this machine', { 'sec-fetch-site': 'same-site' }, 403],
    ['a name that was pointed at this machine', { host: 'evil.example:8402' }, 403],
    ['another port of this machine', { host: '127.0.0.1:1' }, 403],
  ])('for %s', async (_, headers, status) => {
    const vendor = honest()
    const started = await open(vendor)
    const reply = await started.chat(headers)
    expect([reply.status, reply.headers.get('access-control-allow-origin')]).toEqual([status, null])
    expect([vendor.received.length, spent(started)]).toEqual([0, 0])
  })

  test('for the preflight of a page', async () => {
    const vendor = honest()
    const { url } = await open(vendor)
    const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    const reply = await fetch(`${url}/v1/chat/completions`, { method: 'OPTIONS', headers })
    expect([reply.status, [...reply.headers.keys()].filter((name) => name.startsWith('access-control'))]).toEqual([
      403,
      [],
    ])
    expect(vendor.received.length).toBe(0)
  })
})

describe('a seller', () => {
  const capped = { perCall: capOf('0.10'), perDay: capOf('5'), perSession: undefined }

  test.each([
    ['a price above the cap', { ...OFFER, amount: '100001' }],
    ['a payee that was not agreed', { ...OFFER, payTo: '0x00000000000000000000000000000000000000ee' }],
    ['another token', { ...OFFER, asset: '0x00000000000000000000000000000000000000aa' }],
    ['real money', { ...OFFER, network: 'eip155:8453', asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913' }],
    ['an unknown network', { ...OFFER, network: 'eip155:1' }],
    ['another scheme', { ...OFFER, scheme: 'permit-all' }],
    ['an allowance instead of a transfer', { ...OFFER, extra: { ...OFFER.extra, assetTransferMethod: 'permit2' } }],
    ['a signature that lives for days', { ...OFFER, maxTimeoutSeconds: 999_999 }],
    ['a signature that has ended', { ...OFFER, maxTimeoutSeconds: -1 }],
    ['an amount that is not a number', { ...OFFER, amount: '-5' }],
    ['a number for the amount', { ...OFFER, amount: 5 }],
  ])('that asks for %s gets no payment', async (_, offer) => {
    const vendor = seller(() => demand([offer]))
    const started = await open(vendor, { caps: capped })
    const reply = await started.chat()
    expect([reply.status, await messageOf(reply)]).toEqual([402, expect.stringContaining('Nothing was paid')])
    expect([vendor.payments(), spent(started)]).toEqual([[], 0])
  })

  test('whose header asks for more than its body is paid by the body that was checked', async () => {
    const dear = { x402Version: 2, accepts: [{ ...OFFER, amount: '90000' }] }
    const vendor = seller(({ payment }) => {
      if (payment) return Response.json({})
      const body = { x402Version: 2, accepts: [OFFER] }
      return Response.json(body, { status: 402, headers: { 'payment-required': encodeHeader(dear) } })
    })
    const started = await open(vendor)
    expect((await started.chat()).status).toBe(200)
    expect(vendor.payments().map(({ payload }) => payload.authorization.value)).toEqual(['2000'])
  })

  test.each([
    ['a huge demand', () => new Response('x'.repeat(300_000), { status: 402 })],
    ['a demand in another form', () => new Response('pay me', { status: 402 })],
    ['a redirect', () => new Response(null, { status: 307, headers: { location: 'http://127.0.0.1:1/' } })],
  ])('that answers with %s gets no payment', async (_, answer) => {
    const vendor = seller(answer)
    const started = await open(vendor)
    const reply = await started.chat()
    expect([reply.status, reply.headers.get('location')]).toEqual([502, null])
    expect([vendor.received.length, spent(started)]).toEqual([1, 0])
  })

  test('that redirects a payment does not lead it elsewhere', async () => {
    const other = honest()
    const vendor = honest(() => new Response(null, { status: 307, headers: { location: `${other.url}/v1` } }))
    opened.push(other)
    const started = await open(vendor)
    expect((await started.chat()).status).toBe(502)
    expect([other.received.length, vendor.payments().length, spent(started)]).toEqual([0, 1, 2_000])
  })

  test('that asks again after a payment gets the same payment only, however often a program retries', async () => {
    const vendor = seller(() => demand())
    const started = await open(vendor)
    for (let i = 0; i < 6; i++) expect((await started.chat()).status).toBe(402)
    expect([vendor.payments().length, new Set(vendor.nonces()).size, spent(started)]).toEqual([6, 1, 2_000])
  })

  test('that names a short time for a transaction of Solana gets no second one while the first can be sent', async () => {
    const solana = {
      ...OFFER,
      network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
      asset: '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU',
      payTo: 'DgCDyTe6nE1NxEZD3T73q42wKTsSR9DFVZGcotdASBqV',
      maxTimeoutSeconds: 1,
    }
    let signed = 0
    const payees = { isAllowed: async () => true }
    const vendor = seller(() => demand([solana]))
    const started = await open(vendor, {
      payees,
      signer: async () => ({ sign: async () => ({ payload: { transaction: `transaction ${++signed}` } }) }),
    })
    for (const seconds of [0, 30, 60]) {
      started.clock.now = NOW + seconds * 1000
      expect((await started.chat()).status).toBe(402)
    }
    expect([signed, vendor.payments().length]).toEqual([1, 3])
    started.clock.now = NOW + 300_000
    await started.chat()
    expect(signed).toBe(2)
  })

  test('whose answer to a payment is too long for a job is not taken for one that was delivered', async () => {
    const vendor = honest(() => new Response('x'.repeat(300_000), { status: 202 }))
    const started = await open(vendor)
    for (let i = 0; i < 2; i++) {
      const reply = await started.chat()
      expect([reply.status, await messageOf(reply)]).toEqual([502, expect.stringContaining('too long')])
    }
    expect(new Set(vendor.nonces()).size).toBe(1)
  })

  test('that sends a job elsewhere is not followed', async () => {
    const other = honest()
    opened.push(other)
    const vendor = honest(() => Response.json({ poll_url: `${other.url}/steal` }, { status: 202 }))
    const { chat } = await open(vendor)
    expect((await chat()).status).toBe(202)
    expect(other.received.length).toBe(0)
  })

  test('cannot open the proxy to pages, set a cookie or rewrite the terminal', async () => {
    const vendor = honest(() =>
      Response.json(
        { error: { message: '\u001b[2Jyou owe me' } },
        { status: 402, headers: { 'access-control-allow-origin': '*', 'set-cookie': 'a=b' } },
      ),
    )
    const { chat } = await open(vendor)
    const reply = await chat()
    expect(['access-control-allow-origin', 'set-cookie'].map((name) => reply.headers.get(name))).toEqual([null, null])
    expect(await messageOf(reply)).toContain('?[2Jyou owe me')
  })

  test('cannot get more than the caps of a day and of a session by many parallel calls', async () => {
    const day = { perCall: capOf('0.10'), perDay: capOf('0.005'), perSession: undefined }
    const session = { perCall: capOf('0.10'), perDay: capOf('5'), perSession: capOf('0.005') }
    for (const caps of [day, session]) {
      const vendor = honest()
      const started = await open(vendor, { caps })
      const replies = await Promise.all(Array.from({ length: 8 }, (_, i) => started.chat({}, { model: 'a', i })))
      expect(replies.filter(({ status }) => status === 200).length).toBe(2)
      expect([vendor.payments().length, spent(started)]).toEqual([2, 4_000])
    }
  })
})

describe('a retry', () => {
  test('after a lost answer sends the same payment, and gets its answer', async () => {
    let isDown = true
    const vendor = honest(() => (isDown ? Response.json({}, { status: 503 }) : Response.json({ ok: true })))
    const started = await open(vendor)
    expect((await started.chat()).status).toBe(503)
    isDown = false
    const reply = await started.chat({ 'x-stainless-retry-count': '1' })
    expect([reply.status, await reply.json()]).toEqual([200, { ok: true }])
    expect([vendor.nonces().length, new Set(vendor.nonces()).size, spent(started)]).toEqual([2, 1, 2_000])
    expect(started.calls.map(({ isReplay }) => isReplay)).toEqual([false, true])
  })

  test('after a stream that broke off sends the same payment', async () => {
    let isBroken = true
    const vendor = honest(() => {
      if (!isBroken) return new Response('data: whole\n\n')
      return new Response(
        new ReadableStream({
          start: (controller) => controller.enqueue(new TextEncoder().encode('data: half')),
          pull: (controller) => controller.error(new Error('gone')),
        }),
      )
    })
    const started = await open(vendor)
    await (await started.chat()).text().catch(() => {})
    isBroken = false
    expect(await (await started.chat()).text()).toBe('data: whole\n\n')
    expect([new Set(vendor.nonces()).size, spent(started)]).toEqual([1, 2_000])
  })

  test('after the program hung up sends the same payment: before the answer, and within a stream', async () => {
    for (const part of [[], ['data: half']]) {
      let isFirst = true
      let arrived = (): void => {}
      const hasArrived = new Promise<void>((resolve) => (arrived = resolve))
      const vendor = honest(async ({ request }) => {
        if (!isFirst) return Response.json({ ok: true })
        isFirst = false
        arrived()
        if (part.length === 0) await new Promise((resolve) => request.signal.addEventListener('abort', resolve))
        const bytes = part.map((text) => new TextEncoder().encode(text))
        return new Response(
          new ReadableStream({ start: (controller) => bytes.forEach((each) => controller.enqueue(each)) }),
        )
      })
      const started = await open(vendor)
      const hangUp = new AbortController()
      const first = started.chat({}, undefined, hangUp.signal)
      await hasArrived
      if (part.length > 0) await (await first).body!.getReader().read()
      hangUp.abort()
      await first.catch(() => {})
      // The proxy sees the end of a connection before the next one is answered.
      await started.chat({ authorization: '' })
      expect((await started.chat()).status).toBe(200)
      expect([vendor.nonces().length, new Set(vendor.nonces()).size, spent(started)]).toEqual([2, 1, 2_000])
    }
  })

  test('of a payment that the seller has used is answered with the result of its call', async () => {
    let answers = 0
    const vendor = honest(({ request }) => {
      if (request.method === 'GET') return Response.json({ stored: true })
      if (++answers === 1) return Response.json({}, { status: 504 })
      return Response.json({ code: 'PAYMENT_REPLAY', poll_url: '/v1/calls/1?key=k' }, { status: 402 })
    })
    const started = await open(vendor)
    expect((await started.chat()).status).toBe(504)
    const reply = await started.chat()
    expect([reply.status, await reply.json()]).toEqual([200, { stored: true }])
    expect([new Set(vendor.nonces()).size, spent(started)]).toEqual([1, 2_000])
  })

  test('pays again when the first signature is dead, and two equal calls that were answered are two', async () => {
    const vendor = honest(({ body }) => Response.json({}, { status: body.includes('down') ? 503 : 200 }))
    const started = await open(vendor)
    await started.chat({}, { model: 'down' })
    started.clock.now += 301_000
    await started.chat({}, { model: 'down' })
    expect(new Set(vendor.nonces()).size).toBe(2)
    await started.chat()
    await started.chat()
    expect(new Set(vendor.nonces()).size).toBe(4)
  })

  test('carries the same identifier where the seller declares one', async () => {
    const declared = { 'payment-identifier': { info: { required: false } } }
    const vendor = seller(({ payment }) =>
      payment ? Response.json({}, { status: 503 }) : demand([OFFER], { extensions: declared }),
    )
    const { chat } = await open(vendor)
    await chat()
    await chat()
    const ids = vendor.payments().map(({ extensions }) => extensions['payment-identifier'].info.id)
    expect([ids[0], ids.length, new Set(ids).size]).toEqual([expect.stringMatching(/^pay_[0-9a-f]{32}$/), 2, 1])
  })
})

describe('a payee', () => {
  test('is asked for once on a terminal, and remembered; parallel calls ask one question', async () => {
    const vendor = honest()
    const questions: string[] = []
    const started = await open(vendor)
    const path = join(started.scratch, 'payees.json')
    const ask = async (question: string) => {
      questions.push(question)
      return 'y'
    }
    const payees = payeeList({ path, only: undefined, ask })
    const payee = { seller: vendor.url, network: OFFER.network, payTo: PAYEE }
    expect(await Promise.all([payees.isAllowed(payee), payees.isAllowed(payee)])).toEqual([true, true])
    expect(questions).toEqual([`${vendor.url} is paid at ${PAYEE} on eip155:84532. Pay this address? [y/N] `])
    const later = payeeList({ path, only: undefined, ask: undefined })
    expect(await later.isAllowed(payee)).toBe(true)
    expect(await later.isAllowed({ ...payee, seller: 'https://other.example' })).toBe(false)
    expect(await later.isAllowed({ ...payee, network: 'eip155:8453' })).toBe(false)
  })

  test('is refused without a terminal', async () => {
    const vendor = honest()
    const payees = payeeList({ path: '/nonexistent/payees.json', only: undefined, ask: undefined })
    const { chat } = await open(vendor, { payees })
    const reply = await chat()
    expect([reply.status, await messageOf(reply)]).toEqual([402, expect.stringContaining(`Add --payees ${PAYEE}`)])
    expect(vendor.payments()).toEqual([])
  })
})

describe('a seller that speaks MPP alone', () => {
  const terms = {
    amount: '2000',
    currency: OFFER.asset,
    methodDetails: { chainId: 84532, credentialTypes: ['authorization'], decimals: 6 },
    recipient: PAYEE,
  }
  const challengeOf = (request: object, more = '') =>
    `Bearer realm="x", Payment id="abc", realm="pay.example.com", method="evm", intent="charge", request="${Buffer.from(
      JSON.stringify(request),
    ).toString('base64url')}", expires="2026-11-24T12:05:00Z", opaque="eyJuIjoiMSJ9"${more}`
  const mppSeller = (challenge: string) => {
    const credentials: any[] = []
    const vendor = seller(({ request }) => {
      const sent = request.headers.get('payment-authorization') ?? request.headers.get('authorization')
      if (!sent) return new Response('pay', { status: 402, headers: { 'www-authenticate': challenge } })
      credentials.push(JSON.parse(Buffer.from(sent.replace('Payment ', ''), 'base64url').toString()))
      const receipt = Buffer.from(JSON.stringify({ status: 'success', reference: '0xbeef' })).toString('base64url')
      return Response.json({ ok: true }, { headers: { 'payment-receipt': receipt } })
    })
    return { vendor, credentials }
  }

  test.each([
    ['in Authorization', ''],
    ['in a field of its own', ', header="Payment-Authorization"'],
  ])('is paid once by the prescribed nonce, %s, within the caps', async (_, more) => {
    const { vendor, credentials } = mppSeller(challengeOf(terms, more))
    const started = await open(vendor)
    expect((await started.chat()).status).toBe(200)
    const [{ challenge, payload, source }] = credentials
    expect(challenge).toMatchObject({ id: 'abc', realm: 'pay.example.com', opaque: 'eyJuIjoiMSJ9' })
    expect(payload).toMatchObject({ from: PAYER, to: PAYEE, value: '2000', validBefore: '1795521900' })
    expect(payload.nonce).toBe(keccak256(toBytes('abcpay.example.com')))
    expect(source).toBe(`did:pkh:eip155:84532:${PAYER}`)
    expect([credentials.length, spent(started), started.calls[0]?.receipt]).toEqual([1, 2_000, '0xbeef'])
  })

  test.each([
    ['a price above the cap', challengeOf({ ...terms, amount: '100001' })],
    ['another payee', challengeOf({ ...terms, recipient: '0x00000000000000000000000000000000000000ee' })],
    ['another token', challengeOf({ ...terms, currency: '0x00000000000000000000000000000000000000aa' })],
    ['real money', challengeOf({ ...terms, methodDetails: { ...terms.methodDetails, chainId: 8453 } })],
    ['a transaction', challengeOf({ ...terms, methodDetails: { chainId: 84532, credentialTypes: ['transaction'] } })],
    ['a part for somebody else', challengeOf({ ...terms, methodDetails: { ...terms.methodDetails, splits: [] } })],
    ['a credential in another field', challengeOf(terms, ', header="Cookie"')],
    ['a life of days', challengeOf(terms).replace('2026-11-24', '2026-12-24')],
    ['a payment that is over', challengeOf(terms).replace('12:05', '11:59')],
    ['two prices', challengeOf(terms, ', request="e30"')],
  ])('that asks for %s gets nothing', async (_, challenge) => {
    const { vendor, credentials } = mppSeller(challenge)
    const started = await open(vendor)
    expect([402, 502]).toContain((await started.chat()).status)
    expect([credentials, spent(started)]).toEqual([[], 0])
  })
})
