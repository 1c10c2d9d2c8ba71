/** Calls that are paid by an API key: admitted, charged, refused, and what becomes of the key. */
import { describe, expect, test } from 'bun:test'
import { keccak256, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { KEY_HEADERS } from '../../../core/identity/presented_key.ts'
import { keyText, privateKeyOf } from '../../../core/x402/api_key.ts'
import type { Offer, Payment } from '../../../core/mod.ts'
import { keyBuyer, voucherBuyer } from '../../adapters/chains/evm/channels/vouchers.ts'
import { streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import { decodeHeader, door, encodePayment, FOX, GENERATIONS, slowVendor } from '../../kit.ts'
import { CHARGE, closeByWallet, KEY, QUOTE, SEED, selling } from './keys_kit.ts'
import { COMPLETIONS, HELLO, SKY, STREAM } from './stream_kit.ts'

describe('a call with an API key', () => {
  test('is charged what it used, without a 402 first, and says what is left (contract 23.5)', async () => {
    const subject = await selling()
    for (const name of KEY_HEADERS) {
      const headers = { [name]: name === 'authorization' ? `Bearer ${KEY}` : KEY }
      const response = await subject.ask(SKY, { headers })
      expect(response.status).toBe(200)
      expect(response.headers.get('x-payment-charged')).toBe('0.001017')
    }
    const last = await subject.ask(SKY)
    expect(last.headers.get('x-payment-balance')).toBe('0.094915')
    expect(last.headers.get('cache-control')).toContain('no-store')
    expect(decodeHeader(last.headers.get('payment-response')).payer).toBe(subject.buyer.payer.address)
    const five = await subject.calls()
    expect(five.map(({ payer }) => payer)).toEqual(Array(5).fill(subject.buyer.payer.address))
    expect(await subject.channel()).toMatchObject({ charged: CHARGE * 5n, reserved: 0n, available: 94_915n })
  })

  test('is charged for a stream at its end, and the stream says how much (contract 23.5)', async () => {
    const subject = await selling(async () => streamAnswer(HELLO))
    const text = await (await subject.ask(STREAM)).text()
    expect(text).toContain(': x-payment-charged 0.001017\n')
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
  })

  test('buys an image, which is charged its quote; a poll with the same key reads it again (contract 23.5)', async () => {
    const subject = await selling()
    const response = await subject.ask(FOX, { path: GENERATIONS })
    expect(response.status).toBe(200)
    const [call] = await subject.calls()
    expect(await subject.channel()).toMatchObject({ charged: call?.quote, reserved: 0n })
    const again = await subject.ask(undefined, { path: `${GENERATIONS}/${call?.id}` })
    expect(again.status).toBe(200)
    expect(await subject.channel()).toMatchObject({ charged: call?.quote, reserved: 0n })
    const other = keyText(new Uint8Array(32).fill(9), 'test')
    const stranger = await subject.ask(undefined, {
      path: `${GENERATIONS}/${call?.id}`,
      headers: { 'x-api-key': other },
    })
    expect(stranger.status).toBe(403)
  })

  test('that fails upstream costs nothing and reserves nothing (contract 23.5)', async () => {
    let turn = 0
    const subject = await selling(
      async () => {
        if (turn++ === 0) throw new Error('the vendor is down')
        return wholeAnswer()
      },
      { balance: QUOTE },
    )
    expect((await subject.ask(SKY)).status).toBeGreaterThanOrEqual(500)
    expect(await subject.channel()).toMatchObject({ charged: 0n, reserved: 0n, available: QUOTE })
    expect((await subject.ask(SKY)).status).toBe(200)
  })

  test('of 64 at once is served as far as the balance covers their quotes (contract 23.6)', async () => {
    const ready = door()
    const subject = await selling(
      async () => {
        await ready.passed
        return wholeAnswer()
      },
      { balance: QUOTE * 20n + 500n },
    )
    const all = Array.from({ length: 64 }, () => subject.ask(SKY))
    const refused = await Promise.all(all.slice(20))
    expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([402]))
    const [one] = refused as [Response]
    expect((await one.json()).error.message).toContain('0.040000 USDC are reserved by calls that are open')
    ready.open()
    expect((await Promise.all(all)).filter(({ status }) => status === 200)).toHaveLength(20)
    expect(await subject.channel()).toMatchObject({ charged: CHARGE * 20n, reserved: 0n })
    expect((await subject.calls()).reduce((sum, { charge }) => sum + (charge ?? 0n), 0n)).toBe(CHARGE * 20n)
  })

  test('of 64 at once over two replicas is served no further, and every charge is kept (contract 23.6)', async () => {
    const memory = memoryStorage()
    const ready = door()
    const script = async () => {
      await ready.passed
      return wholeAnswer()
    }
    const at = { balance: QUOTE * 20n + 500n }
    const first = await selling(script, { ...at, storage: { ...memory, isShared: true } })
    const second = await selling(script, { ...at, storage: { ...memory, isShared: true } })
    let refused = 0
    const counted = (response: Response) => {
      if (response.status === 402 && ++refused === 44) ready.open()
      return response
    }
    const all = Array.from({ length: 64 }, async (_, i) => counted(await (i % 2 ? first : second).ask(SKY)))
    expect((await Promise.all(all)).filter(({ status }) => status === 200)).toHaveLength(20)
    expect(await first.channel()).toMatchObject({ charged: CHARGE * 20n, reserved: 0n })
    expect((await first.calls()).reduce((sum, { charge }) => sum + (charge ?? 0n), 0n)).toBe(CHARGE * 20n)
  })
})

describe('a key that does not pay', () => {
  test('is 402 without a challenge when it is used up, in the format of the caller (contract 23.7)', async () => {
    const subject = await selling(undefined, { balance: QUOTE - 1n })
    const response = await subject.ask(SKY)
    expect([response.status, response.headers.get('payment-required')]).toEqual([402, null])
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect((await response.json()).error).toMatchObject({
      code: 'insufficient_quota',
      type: 'insufficient_quota',
      message: expect.stringContaining('the key has 0.001999 USDC left, and the call may cost 0.002000 USDC'),
    })
    const messages = await subject.ask(SKY, { path: '/api/v1/messages', headers: { 'x-api-key': KEY } })
    expect(messages.status).toBe(402)
    expect((await messages.json()).error.type).toBe('billing_error')
  })

  test('is 401 when it is unknown, mistyped or of the other mode, and is never repeated (contract 23.3)', async () => {
    const subject = await selling()
    const bad = [keyText(new Uint8Array(32).fill(7), 'test'), `${KEY.slice(0, -1)}0`, keyText(SEED, 'live')]
    for (const key of bad) {
      const response = await subject.ask(SKY, { headers: { 'x-api-key': key } })
      const text = await response.text()
      expect([response.status, response.headers.get('x-should-retry')]).toEqual([401, 'false'])
      expect(text).not.toContain(key)
    }
    const query = await subject.ask(SKY, { path: `${COMPLETIONS}?key=${KEY}`, headers: {} })
    expect([query.status, (await query.text()).includes(KEY)]).toEqual([400, false])
  })

  test('is ignored where keys are off, as any placeholder is (contract 7.6)', async () => {
    const subject = await selling(undefined, { takesKeys: false })
    const response = await subject.ask(SKY)
    expect([response.status, response.headers.has('payment-required')]).toEqual([402, true])
  })
})

test('a body that contains a key is refused before anybody gets it; a mistyped one is text (contract 23.17)', async () => {
  let orders = 0
  const subject = await selling(async () => (orders++, wholeAnswer()))
  const saying = (content: string) => ({ ...SKY, messages: [{ role: 'user', content }] })
  for (const key of [KEY, keyText(new Uint8Array(32).fill(9), 'live'), keyText(SEED, 'child')]) {
    const response = await subject.ask(saying(`my key is "${key}", why does it not work?`))
    const text = await response.text()
    expect([response.status, text.includes(key), orders]).toEqual([400, false, 0])
  }
  // The text around a key does not hide it: JSON writes a new line before it as \n, and may write its digits as \u0073.
  for (const text of [`it is\n${KEY}`, `_${KEY}_`, `${KEY}0`])
    expect([(await subject.ask(saying(text))).status, orders]).toEqual([400, 0])
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
  const body = JSON.stringify(saying(KEY)).replace('sk-fbx', String.raw`\u0073k\u002dfbx`)
  const escaped = new Request(`https://gateway.example${COMPLETIONS}`, { method: 'POST', headers, body })
  expect([(await subject.gateway.fetch(escaped, { ip: '192.0.2.1' })).status, orders]).toEqual([400, 0])
  expect((await subject.ask(saying(`${KEY.slice(0, -1)}0`))).status).toBe(200)
})

test('no error repeats a key, wherever the request had it (contract 23.4)', async () => {
  const subject = await selling()
  const answers = [
    await subject.ask({}, { path: `/api/v1/keys/${KEY}/close` }),
    await subject.ask({}, { path: `/api/v1/keys/${KEY}/revoke` }),
    await subject.ask(undefined, { path: `/api/v1/models/${KEY}` }),
    await subject.ask(undefined, { path: `/api/v1/calls/${KEY}` }),
    await subject.ask({ ...SKY, model: KEY.slice(0, -1) }),
    await subject.ask({ ...SKY, max_tokens: `x${KEY}` }),
    await subject.ask({ name: KEY, cap: KEY }, { path: '/api/v1/keys' }),
  ]
  for (const answer of answers) {
    const text = await answer.text()
    expect([answer.status >= 400, text.includes(KEY.slice(0, 30)), answer.headers.get('location')]).toEqual([
      true,
      false,
      null,
    ])
  }
})

test('a key in a cookie pays nothing and shows nothing, so no page of another origin can use it (contract 23.2)', async () => {
  const subject = await selling()
  const headers = { cookie: `key=${KEY}; authorization=Bearer ${KEY}`, origin: 'https://evil.example' }
  const order = await subject.ask(SKY, { headers })
  expect([order.status, order.headers.has('payment-required')]).toEqual([402, true])
  expect(order.headers.get('access-control-allow-credentials')).toBeNull()
  for (const [path, body] of [
    ['/v1/key', undefined],
    ['/api/v1/keys', undefined],
    ['/api/v1/keys/close', {}],
  ] as const)
    expect((await subject.ask(body, { path, headers })).status).toBe(401)
  expect(await subject.channel()).toMatchObject({ charged: 0n, reserved: 0n })
})

test('the 401 of a key says the same whether nobody made it or another seller has its channel (contract 23.3)', async () => {
  const [subject, other] = [await selling(), await selling()]
  const elsewhere = keyText(new Uint8Array(32).fill(0x55), 'test')
  const offer = decodeHeader((await other.post(SKY)).headers.get('payment-required')).accepts[0] as Offer
  const at = { now: other.clock.now(), signal: AbortSignal.timeout(10_000) }
  const deposit = await keyBuyer(new Uint8Array(32).fill(0x55), offer).deposit(100_000n)
  expect(await other.chain.apiKeys?.deposit(deposit, at)).toMatchObject({ kind: 'deposited' })
  expect((await other.ask(SKY, { headers: { 'x-api-key': elsewhere } })).status).toBe(200)
  for (const path of [COMPLETIONS, '/v1/key']) {
    const body = path === COMPLETIONS ? SKY : undefined
    const texts = []
    for (const key of [elsewhere, keyText(new Uint8Array(32).fill(0x56), 'test')]) {
      const answer = await subject.ask(body, { path, headers: { 'x-api-key': key } })
      texts.push(`${answer.status} ${await answer.text()}`)
    }
    expect([path, texts[0]]).toEqual([path, texts[1] as string])
    expect(texts[0]).toStartWith('401')
  }
})

test('a deposit that is no object is 400 (contract 23.9)', async () => {
  const subject = await selling()
  for (const body of [null, [], 'text', 1, { payment: 1 }])
    expect((await subject.ask(body, { path: '/api/v1/keys/deposit' })).status).toBe(400)
})

test('whoever guesses keys is limited by address, parents and children alike (contract 23.3)', async () => {
  const subject = await selling()
  const guess = (i: number) => keyText(new Uint8Array(32).fill(100 + i), i % 2 ? 'test' : 'child')
  const statuses = []
  for (let i = 0; i < 61; i++) statuses.push((await subject.ask(SKY, { headers: { 'x-api-key': guess(i) } })).status)
  expect(statuses).toEqual([...Array(60).fill(401), 429])
  // The owner of a key behind the same address goes on.
  expect((await subject.ask(SKY)).status).toBe(200)
})

test('a key is in no log line, record, call or order to a vendor (contract 23.8)', async () => {
  const seen: unknown[] = []
  const memory = memoryStorage()
  const spied = Object.fromEntries(
    Object.entries(memory).map(([verb, run]) => {
      if (typeof run !== 'function') return [verb, run]
      return [verb, (...given: unknown[]) => (seen.push(given), (run as (...all: unknown[]) => unknown)(...given))]
    }),
  )
  const script = async (...order: unknown[]) => (seen.push(order), streamAnswer(HELLO))
  const subject = await selling(script, { storage: { ...memory, ...spied } })
  await (await subject.ask(STREAM)).text()
  await subject.ask(FOX, { path: GENERATIONS })
  await subject.ask(SKY, { headers: { 'x-goog-api-key': `${KEY.slice(0, -1)}0` } })
  const all = [seen, subject.log.lines, await subject.calls()]
  const written = JSON.stringify(all, (_, value) => (typeof value === 'bigint' ? String(value) : value))
  expect(written).toContain('"Why is the sky blue?"')
  expect(written).toContain(subject.buyer.payer.address)
  const secret = Buffer.from(privateKeyOf(SEED))
  const secrets = [KEY, KEY.slice(9, 40), Buffer.from(SEED).toString('hex'), secret.toString('hex')]
  for (const each of [...secrets, secret.toString('base64')]) expect(written).not.toContain(each)
})

test('the bytes of a key are wiped when its calls have ended, whatever became of them (contract 23.8)', async () => {
  let turn = 0
  const subject = await selling(async () => {
    if (turn++ === 0) throw new Error('the vendor is down')
    return streamAnswer(HELLO)
  })
  const orders = [STREAM, STREAM, { ...STREAM, max_tokens: 100_000 }, { ...STREAM, messages: 'none' }]
  for (const order of orders) await (await subject.ask(order)).text()
  await subject.ask(FOX, { path: GENERATIONS })
  expect(subject.opened).toHaveLength(5)
  for (const { seed, key } of subject.opened) {
    expect(seed.every((byte) => byte === 0)).toBe(true)
    const { signer } = key as unknown as { signer: { sign(digest: string): Promise<string> } }
    await expect(signer.sign(`0x${'1'.repeat(64)}`)).rejects.toThrow('closed')
  }
})

describe('the routes of keys', () => {
  const deposit = '/api/v1/keys/deposit'
  const paid = (payment: Payment) => ({ payment: encodePayment(payment) })

  test('deposit without a call, once, and make the key known (contract 23.9)', async () => {
    const subject = await selling()
    const offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0] as Offer
    const seed = new Uint8Array(32).fill(0x33)
    const other = keyBuyer(seed, offer)
    const headers = { 'x-api-key': keyText(seed, 'test') }
    expect((await subject.ask(undefined, { path: '/api/v1/key', headers })).status).toBe(401)
    const payment = await other.deposit(100_000n)
    const first = await (await subject.ask(paid(payment), { path: deposit, headers: {} })).json()
    expect(first).toMatchObject({
      object: 'key.deposit',
      channel: { payer: other.payer.address, available: '0.100000' },
    })
    expect(await (await subject.ask(paid(payment), { path: deposit, headers: {} })).json()).toEqual(first)
    // A key that was refused before is known at once.
    expect((await subject.ask(SKY, { headers })).status).toBe(200)
  })

  test('refuse a deposit that is not signed by its payer, and one whose key is a wallet (contract 23.9)', async () => {
    const subject = await selling()
    const offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0] as Offer
    const other = keyBuyer(new Uint8Array(32).fill(0x34), offer)
    const forged = await other.open({ ...offer, amount: '0' }, 5_000n, { by: other.key })
    const self = await voucherBuyer('self').open({ ...offer, amount: '0' }, 5_000n)
    for (const payment of [forged, self]) {
      const response = await subject.ask(paid(payment), { path: deposit, headers: {} })
      expect([response.status, (await response.json()).code]).toEqual([400, 'INVALID_PARAMETER'])
    }
    expect((await subject.ask({ payment: 'none' }, { path: deposit, headers: {} })).status).toBe(400)
  })

  test('refuse a stranger who names a key that it does not have, as a deposit or as a payment (contract 23.9)', async () => {
    const subject = await selling()
    const offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0] as Offer
    const before = await subject.channel()
    const victim = await keyBuyer(SEED, offer).deposit(5_000n)
    const stranger = await voucherBuyer('stranger').open({ ...offer, amount: '0' }, 5_000n)
    const { voucher, channelConfig } = victim.payload as unknown as { voucher: object; channelConfig: object }
    const { signature } = (stranger.payload as unknown as { voucher: { signature: string } }).voucher
    const forged = { ...victim, payload: { ...victim.payload, voucher: { ...voucher, signature } } }
    const response = await subject.ask(paid(forged), { path: deposit, headers: {} })
    expect([response.status, (await response.json()).message]).toEqual([
      400,
      expect.stringContaining('voucher.signature'),
    ])
    const until = subject.clock.now() + 600_000
    const payload = { type: 'key', channelConfig, call: 'key/mine', isLate: true, until }
    const bought = await subject.post(SKY, { payment: { x402Version: 2, accepted: offer, payload } })
    expect([bought.status, bought.headers.has('payment-required')]).toEqual([402, true])
    expect(await subject.channel()).toEqual(before as NonNullable<typeof before>)
    expect(await subject.calls()).toEqual([])
  })

  test('say what a key has in the shapes that tools ask for, and nothing without it (contract 23.10)', async () => {
    const subject = await selling()
    await subject.ask(SKY)
    const get = async (path: string) => await (await subject.ask(undefined, { path })).json()
    expect((await get('/api/v1/key')).data).toMatchObject({
      label: '0x8c55…ee22',
      limit: 0.1,
      limit_remaining: 0.098983,
      usage: 0.001017,
    })
    expect(await get('/api/v1/auth/key')).toEqual(await get('/api/v1/key'))
    expect(await get('/api/v1/credits')).toEqual({ data: { total_credits: 0.1, total_usage: 0.001017 } })
    for (const start of ['', '/v1', '/api/v1']) {
      const limits = await get(`${start}/dashboard/billing/subscription`)
      expect(limits).toMatchObject({ object: 'billing_subscription', hard_limit_usd: 0.1 })
      expect(await get(`${start}/dashboard/billing/usage?start_date=2026-01-01`)).toEqual({
        object: 'list',
        total_usage: 0.1017,
      })
    }
    expect(await get('/key/info')).toMatchObject({
      key: subject.buyer.key.address,
      info: { spend: 0.001017, max_budget: 0.1, user_id: subject.buyer.payer.address },
    })
    for (const path of ['/api/v1/key', '/api/v1/credits', '/key/info']) {
      expect((await subject.ask(undefined, { path, headers: {} })).status).toBe(401)
      expect((await subject.ask(undefined, { path: `${path}?key=${KEY}`, headers: {} })).status).toBe(400)
    }
  })

  test('send back what is neither charged nor reserved by an open call (contract 23.11)', async () => {
    const ready = door()
    const subject = await selling(async () => {
      await ready.passed
      return wholeAnswer()
    })
    const close = () => subject.ask({}, { path: '/api/v1/keys/close' })
    const open = subject.ask(SKY)
    await subject.clock.settle()
    const first = await close()
    expect([first.status, await first.json()]).toMatchObject([
      200,
      { object: 'key.refund', payer: subject.buyer.payer.address, amount: '0.098000', reserved: '0.002000' },
    ])
    expect(subject.refunded).toEqual([100_000n - QUOTE])
    const refused = await subject.ask(SKY)
    expect([refused.status, (await refused.json()).error.message]).toEqual([402, expect.stringContaining('closed')])
    ready.open()
    expect((await open).status).toBe(200)
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n, available: 0n })
    expect((await (await close()).json()).amount).toBe('0.000983')
    expect(subject.refunded).toEqual([100_000n - QUOTE, QUOTE - CHARGE])
  })

  test('charge a result that nobody has collected when the key is closed, once (contract 23.11)', async () => {
    const subject = await selling(undefined, { inlineMs: 0 })
    const ordered = await subject.ask(FOX, { path: GENERATIONS })
    expect(ordered.status).toBe(202)
    await subject.idle()
    const [call] = await subject.calls()
    expect(await subject.channel()).toMatchObject({ charged: 0n, reserved: call?.quote })
    const closed = await subject.ask({}, { path: '/api/v1/keys/close' })
    expect(closed.status).toBe(200)
    expect(subject.refunded).toEqual([100_000n - (call?.quote ?? 0n)])
    expect(await subject.channel()).toMatchObject({ charged: call?.quote, reserved: 0n, available: 0n })
    const poll = () => subject.ask(undefined, { path: `${GENERATIONS}/${call?.id}` })
    expect([(await poll()).status, (await poll()).status]).toEqual([200, 200])
    expect(await subject.channel()).toMatchObject({ charged: call?.quote })
  })

  test('keep what work under way may cost when the key is closed, and hand its result out (contract 23.11)', async () => {
    const { vendor, ready } = slowVendor()
    const subject = await selling(undefined, { inlineMs: 0, vendor })
    const ordered = await (await subject.ask(FOX, { path: GENERATIONS })).json()
    const [call] = await subject.calls()
    const quote = call?.quote ?? 0n
    expect((await subject.ask({}, { path: '/api/v1/keys/close' })).status).toBe(200)
    expect(subject.refunded).toEqual([100_000n - quote])
    ready()
    await subject.idle()
    expect((await subject.ask(undefined, { path: new URL(ordered.poll_url, 'https://x').pathname })).status).toBe(200)
    expect(await subject.channel()).toMatchObject({ deposited: quote, charged: quote, reserved: 0n })
  })

  test('send the rest back to the wallet that signs in, for its keys alone (contract 23.12)', async () => {
    const subject = await selling()
    expect((await subject.ask(SKY)).status).toBe(200)
    const path = `/api/v1/keys/${subject.buyer.key.address}/close`
    const close = (account: PrivateKeyAccount, to = path, as = to) => closeByWallet(subject, account, to, as)
    const stranger = privateKeyToAccount(keccak256(toHex('stranger')))
    expect((await close(stranger)).status).toBe(404)
    // Nor does the key itself stand in for the wallet, nor a signature for another path.
    expect((await close(subject.buyer.key)).status).toBe(404)
    expect((await close(subject.buyer.payer, `/api/v1/keys/${stranger.address}/close`, path)).status).toBe(402)
    expect(subject.refunded).toEqual([])
    const closed = await close(subject.buyer.payer)
    expect([closed.status, await closed.json()]).toMatchObject([200, { payer: subject.buyer.payer.address }])
    expect(subject.refunded).toEqual([100_000n - CHARGE])
    expect((await subject.ask({}, { path: '/api/v1/keys/0x12/close', headers: {} })).status).toBe(400)
  })

  test('are there where the price list says that keys are taken, and nowhere else (contract 8.11)', async () => {
    for (const takesKeys of [true, false]) {
      const subject = await selling(undefined, { takesKeys })
      const { status } = await subject.ask(undefined, { path: '/api/v1/key' })
      const prices = (await (await subject.ask(undefined, { path: '/api/pricing' })).json()) as { api_keys: boolean }
      expect([status, prices.api_keys]).toEqual([takesKeys ? 200 : 404, takesKeys])
    }
  })
})
