/** One facilitator on the wire: its deadline, its breaker, where a key may go, and what may be said about it. */
import { afterAll, describe, expect, test } from 'bun:test'
import { generateKeyPairSync, type KeyObject, verify as verifySignature } from 'node:crypto'
import { privateKeyToAccount } from 'viem/accounts'
import { cdpBearer, type CdpKey } from '../../../../adapters/chains/facilitator/cdp_auth.ts'
import { facilitatorChain } from '../../../../adapters/chains/evm/facilitator.ts'
import { type ApiConfig, facilitatorApi, type FacilitatorRow } from '../../../../adapters/chains/facilitator/api.ts'
import { parseVerifyReply } from '../../../../adapters/chains/facilitator/replies.ts'
import { DOMAIN, NETWORK, offerTo, signPayment } from '../evm/evm_kit.ts'
import { type Answer, desk, HANGS, VALID } from './facilitator_kit.ts'
import { until } from '../../providers/lib/provider_kit.ts'

const NOW = Date.UTC(2026, 10, 20)
const [logged, other] = [desk(), desk()]
afterAll(() => Promise.all([logged.close(), other.close()]))

let drawn = 0
const random = (bytes: number) => new Uint8Array(bytes).fill(++drawn)

function api(answer: Answer, { row = {}, ...config }: Partial<ApiConfig> & { row?: Partial<FacilitatorRow> } = {}) {
  logged.answer = answer
  for (const each of [logged, other]) each.requests.length = 0
  const made = facilitatorApi({ url: logged.url, ...row }, { random, ...config })
  const ask = (now = NOW, more: { timeoutMs?: number; signal?: AbortSignal } = {}) =>
    made.request('verify', { body: { hello: 'there' }, read: parseVerifyReply, now, timeoutMs: 5_000, ...more })
  const settle = () => made.request('settle', { body: {}, read: parseVerifyReply, now: NOW, timeoutMs: 5_000 })
  return { ...made, request: ask, settle }
}

const busy: Answer = () => new Response('<html>', { status: 503 })
const yes = { kind: 'result', value: { kind: 'valid' } }
const leftAlone = { kind: 'failure', unsent: true, reason: expect.stringContaining('is paused') }

describe('a request', () => {
  const hangs: Answer = () =>
    new Response(new ReadableStream({ start: (it) => it.enqueue(new TextEncoder().encode('{"isValid":')) }))

  test.each([
    ['hangs', HANGS],
    ['stops in mid-reply', hangs],
  ])('ends at its deadline when the facilitator %s, and counts as sent', async (_, answer) => {
    const { request: ask, close } = api(answer)
    expect(await ask(NOW, { timeoutMs: 10 })).toEqual({ kind: 'failure', reason: 'no reply in 10 ms', unsent: false })
    close()
  })

  test('ends with its caller, and at once when closed', async () => {
    const { request: ask, close } = api(HANGS)
    const stop = new AbortController()
    const pending = ask(NOW, { signal: stop.signal })
    stop.abort()
    expect(await pending).toMatchObject({ kind: 'failure', unsent: false })
    const last = ask()
    close()
    expect(await last).toMatchObject({ kind: 'failure', unsent: false })
    expect(await ask()).toMatchObject({ kind: 'failure', unsent: true })
  })

  test('reads no more than it must', async () => {
    const { request: ask } = api(() => Response.json({ isValid: true, padding: 'x'.repeat(2_000) }), {
      maxReplyBytes: 1_000,
    })
    expect(await ask()).toMatchObject({ kind: 'failure', reason: expect.stringContaining('longer than 1000 bytes') })
  })
})

describe('verdicts', () => {
  // two at once may arrive in either order
  test.each([1, 2])('are asked for %d at once; the others wait their turn, in order', async (verdicts) => {
    const blocked: (() => void)[] = []
    const { request: ask } = api(() => new Promise((resolve) => blocked.push(() => resolve(VALID()))), {
      maxVerdicts: verdicts,
    })
    const ends: number[] = []
    const pending = [0, 1, 2, 3].map((index) => ask().then(() => ends.push(index)))
    for (let served = 0; served < 4; served++) {
      await until(() => blocked.length > served)
      expect(blocked.length).toBeLessThanOrEqual(served + verdicts)
      blocked[served]?.()
      await until(() => ends.length > served)
    }
    await Promise.all(pending)
    expect([verdicts === 1 ? ends : ends.toSorted(), logged.requests.length]).toEqual([[0, 1, 2, 3], 4])
  })

  test('that never get their turn are not sent, and say nothing against the facilitator', async () => {
    const { request: ask, close } = api(HANGS, { maxVerdicts: 1, failures: 2 })
    const first = ask()
    await until(() => logged.requests.length === 1)
    const load = await Promise.all(Array.from({ length: 9 }, () => ask(NOW, { timeoutMs: 5 })))
    expect(new Set(load.map(({ kind, ...errorText }) => `${kind} ${JSON.stringify(errorText)}`))).toEqual(
      new Set(['failure {"reason":"too many concurrent requests: no slot within 5 ms","unsent":true}']),
    )
    expect(logged.requests).toHaveLength(1)
    close()
    expect(await first).toMatchObject({ kind: 'failure', reason: expect.not.stringContaining('is paused') })
  })

  test('hold up no settlement', async () => {
    const {
      request: ask,
      settle,
      close,
    } = api(({ path }) => (path.endsWith('/settle') ? Response.json({ isValid: true }) : HANGS()), { maxVerdicts: 1 })
    const verdict = ask()
    await until(() => logged.requests.length === 1)
    expect(await settle()).toMatchObject(yes)
    close()
    await verdict
  })
})

describe('a breaker', () => {
  test('leaves a facilitator alone after five failures in a row, and lets one request try again later', async () => {
    const { request: ask } = api(busy)
    for (let i = 0; i < 5; i++) expect(await ask()).toMatchObject({ kind: 'failure', unsent: false })
    expect(await ask(NOW + 29_999)).toMatchObject(leftAlone)
    expect(logged.requests).toHaveLength(5)
    const all = await Promise.all([ask(NOW + 30_000), ask(NOW + 30_000), ask(NOW + 30_000)])
    expect(all.filter(({ kind }) => kind === 'failure')).toHaveLength(3)
    expect(logged.requests).toHaveLength(6)
    expect(await ask(NOW + 59_999)).toMatchObject(leftAlone)
    logged.answer = VALID
    expect(await ask(NOW + 60_000)).toEqual(yes as never)
    expect(await Promise.all([ask(NOW + 60_001), ask(NOW + 60_001)])).toEqual([yes, yes] as never)
    logged.answer = busy
    for (let i = 0; i < 5; i++) expect(await ask(NOW + 60_002)).toMatchObject({ kind: 'failure', unsent: false })
    expect(await ask(NOW + 60_003)).toMatchObject(leftAlone)
    expect(logged.requests).toHaveLength(14)
  })

  test('opens for one that hangs, so that nobody waits for it any more', async () => {
    const { request: ask, close } = api(HANGS, { failures: 2 })
    for (let i = 0; i < 2; i++) await ask(NOW, { timeoutMs: 5 })
    expect(await ask()).toMatchObject(leftAlone)
    close()
  })

  test.each([
    ['a verdict in between', () => Response.json({ isValid: false, invalidReason: 'insufficient_funds' })],
    ['what it cannot read in a payment', () => Response.json({ error: 'Invalid request' }, { status: 400 })],
  ])('does not open for %s', async (_, answer) => {
    const { request: ask } = api(busy, { failures: 2 })
    for (let i = 0; i < 6; i++) {
      logged.answer = i === 0 ? busy : answer
      await ask()
    }
    expect(logged.requests).toHaveLength(6)
  })

  test('does not open for callers who leave', async () => {
    const { request: ask, close } = api(HANGS, { failures: 1 })
    const stop = new AbortController()
    const pending = ask(NOW, { signal: stop.signal })
    stop.abort()
    await pending
    logged.answer = VALID
    expect(await ask()).toEqual(yes as never)
    close()
  })
})

describe('a redirect', () => {
  const to =
    (location: string, status = 308): Answer =>
    ({ path }) =>
      path === '/x402/verify' ? new Response(null, { status, headers: { location } }) : Response.json({ isValid: true })

  test('within the origin is followed, as the request that it was', async () => {
    const { request: ask } = api(to('/v2/verify'))
    expect(await ask()).toEqual(yes as never)
    expect(logged.requests.map(({ method, path, json }) => [method, path, json.hello])).toEqual([
      ['POST', '/x402/verify', 'there'],
      ['POST', '/v2/verify', 'there'],
    ])
  })

  test('is followed once', async () => {
    const { request: ask } = api(() => new Response(null, { status: 307, headers: { location: '/again' } }))
    expect(await ask()).toMatchObject({ kind: 'failure', unsent: true, setting: 'url' })
    expect(logged.requests).toHaveLength(2)
  })

  test('to another origin is followed only where configured', async () => {
    const { origin } = new URL(other.url)
    other.answer = VALID
    expect(await api(to(`${other.url}/verify`)).request()).toMatchObject({
      kind: 'failure',
      unsent: true,
      setting: 'url',
    })
    expect(other.requests).toEqual([])
    expect(await api(to(`${other.url}/verify`), { row: { redirectOrigins: [origin] } }).request()).toEqual(yes as never)
  })

  test.each([301, 302, 303])('with status %d, which would lose the request, is not followed', async (status) => {
    const { request: ask } = api(to('/v2/verify', status))
    expect(await ask()).toMatchObject({ kind: 'failure', unsent: false })
    expect(logged.requests).toHaveLength(1)
  })

  test.each([`http://user:pass@${new URL(logged.url).host}/`, 'file:///etc/passwd', 'javascript:1', '//', ''])(
    'to %j is not followed',
    async (location) => {
      expect(await api(to(location)).request()).toMatchObject({ kind: 'failure', unsent: true })
    },
  )
})

// ── CDP ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const ed = generateKeyPairSync('ed25519')
const { d, x } = ed.privateKey.export({ format: 'jwk' })
const ED_SECRET = Buffer.concat([d, x].map((part) => Buffer.from(String(part), 'base64url'))).toString('base64')
const sec1 = String(ec.privateKey.export({ type: 'sec1', format: 'pem' }))
const pkcs8 = String(ec.privateKey.export({ type: 'pkcs8', format: 'pem' }))
const KEY_ID = '41a7f3e2-9c1d-4b8a-a5d6-0e9f8b7c6d5e'

const parts = (token: string) => token.split('.') as [string, string, string]
const decoded = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())

function isSigned(token: string, key: KeyObject): boolean {
  const [header, claims, signature] = parts(token)
  const algorithm = key.asymmetricKeyType === 'ec' ? 'sha256' : null
  return verifySignature(
    algorithm,
    Buffer.from(`${header}.${claims}`),
    { key, dsaEncoding: 'ieee-p1363' },
    Buffer.from(signature, 'base64url'),
  )
}

describe('a token for CDP', () => {
  const url = new URL('https://api.cdp.coinbase.com/platform/v2/x402/verify')

  test.each([
    ['ES256', 'a SEC1 PEM', sec1, ec.publicKey],
    ['ES256', 'a PKCS#8 PEM', pkcs8, ec.publicKey],
    ['ES256', 'a PEM with its newlines written out', sec1.replaceAll('\n', '\\n'), ec.publicKey],
    ['EdDSA', 'base64', ED_SECRET, ed.publicKey],
  ])('is %s from %s, names one address, and lives 120 seconds', async (alg, _, keySecret, publicKey) => {
    const token = await cdpBearer({ keyId: KEY_ID, keySecret }, () => new Uint8Array(16).fill(0xab))(
      'POST',
      url,
      NOW + 999,
    )
    const [header, claims] = parts(token)
    const seconds = NOW / 1000
    expect(decoded(header)).toEqual({ alg, kid: KEY_ID, typ: 'JWT', nonce: 'ab'.repeat(16) })
    const uris = ['POST api.cdp.coinbase.com/platform/v2/x402/verify']
    expect(decoded(claims)).toEqual({ sub: KEY_ID, iss: 'cdp', uris, iat: seconds, nbf: seconds, exp: seconds + 120 })
    expect(isSigned(token, publicKey)).toBe(true)
    expect(isSigned(token.replace(claims, header), publicKey)).toBe(false)
  })

  test.each([
    '',
    'sk_live_0123456789',
    sec1.slice(0, -60),
    ED_SECRET.slice(4),
    String(ed.privateKey.export({ type: 'pkcs8', format: 'pem' })),
  ])('is not made from anything else, and the error does not say from what (%#)', async (keySecret) => {
    const error = await cdpBearer({ keyId: KEY_ID, keySecret }, random)('POST', url, NOW).catch(
      (reason: Error) => reason,
    )
    expect(String(error)).toBe(
      'RangeError: the key is neither a PEM EC key on P-256 nor 64 bytes of an Ed25519 key in base64',
    )
  })

  const cdp: CdpKey = { keyId: KEY_ID, keySecret: ED_SECRET }
  const bearerOf = ({ headers }: { headers: Headers }) => String(headers.get('authorization')).replace('Bearer ', '')

  test('is made for each request, and for the address that a redirect leads to', async () => {
    const { host } = new URL(logged.url)
    const { request: ask } = api(
      ({ path }) =>
        path === '/x402/verify'
          ? new Response(null, { status: 308, headers: { location: '/v2/verify?a=b' } })
          : VALID(),
      { row: { cdp } },
    )
    expect(await ask()).toEqual(yes as never)
    const tokens = logged.requests.map(bearerOf)
    expect(tokens.map((token) => decoded(parts(token)[1]).uris)).toEqual([
      [`POST ${host}/x402/verify`],
      [`POST ${host}/v2/verify`],
    ])
    expect(tokens.every((token) => isSigned(token, ed.publicKey))).toBe(true)
    expect(new Set(tokens.map((token) => decoded(parts(token)[0]).nonce)).size).toBe(2)
  })

  test('never goes to another origin, even where a redirect may', async () => {
    other.answer = VALID
    const { request: ask } = api(
      () => new Response(null, { status: 308, headers: { location: `${other.url}/verify` } }),
      {
        row: { cdp, redirectOrigins: [new URL(other.url).origin] },
      },
    )
    expect(await ask()).toEqual(yes as never)
    expect(other.requests.map(({ headers }) => headers.has('authorization'))).toEqual([false])
  })

  test("that cannot be made stops the request before it is sent, and is the setting's fault", async () => {
    const { request: ask } = api(VALID, { row: { cdp: { ...cdp, keySecret: 'none' } } })
    expect(await ask()).toEqual({
      kind: 'failure',
      reason: 'its key cannot sign',
      unsent: true,
      setting: 'cdp_key_secret',
    })
    expect(logged.requests).toEqual([])
  })

  test("that the facilitator does not accept is the key's fault", async () => {
    const { request: ask } = api(() => new Response(null, { status: 401 }), { row: { cdp } })
    expect(await ask()).toMatchObject({ setting: 'cdp_key_id' })
  })
})

// ── secrets ─────────────────────────────────────────────────────────────────────────────────────────────────────────

describe('no secret', () => {
  const url = `${logged.url}/path-key-0123456789?token=query-key-0123456789`
  const rpcUrl = 'http://127.0.0.1:9/rpc-key-0123456789'
  const payTo = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
  const offer = offerTo(payTo)
  const cdp = { keyId: KEY_ID, keySecret: ED_SECRET }
  const config = { network: NETWORK, rpcUrl, asset: offer.asset, payTo, domain: DOMAIN, random, failures: 1_000 }
  const at = { now: NOW, signal: AbortSignal.timeout(30_000) }

  /** Everything that a chain says in answer to everything that it is asked. */
  async function errorText(more: { fetch?: typeof fetch } = {}): Promise<string> {
    const chain = facilitatorChain({ ...config, facilitators: [{ url, cdp }], ...more })
    const payment = await signPayment(privateKeyToAccount(`0x${'11'.repeat(32)}`), offer, { now: NOW })
    const answers = [
      await chain.check(at),
      await chain.verify(payment, offer, at),
      await chain.settle(payment, offer, at),
      await chain.fate(payment, offer, at),
    ]
    chain.close()
    return JSON.stringify(answers)
  }

  const found = (text: string, tokens: readonly string[]) =>
    [KEY_ID, ED_SECRET, 'path-key', 'query-key', 'rpc-key', '127.0.0.1', ...tokens].filter((secret) =>
      text.includes(secret),
    )

  const leaks: readonly [string, Answer][] = [
    [
      'a verdict that quotes the token',
      ({ headers }) =>
        Response.json({ isValid: false, invalidReason: headers.get('authorization'), invalidMessage: ED_SECRET }),
    ],
    [
      'a settlement that quotes the key',
      ({ headers }) =>
        Response.json({ success: false, errorReason: KEY_ID, errorMessage: headers.get('authorization') }),
    ],
    [
      'an error page that quotes all',
      ({ headers }, request) => new Response(`${headers.get('authorization')} ${request.url}`, { status: 500 }),
    ],
    ['a refusal of the key', () => new Response(KEY_ID, { status: 401 })],
    [
      'a redirect',
      () => new Response(null, { status: 308, headers: { location: 'https://example.com/path-key-0123456789' } }),
    ],
  ]

  test.each(leaks)('is in what %s comes to', async (_, answer) => {
    logged.answer = answer
    logged.supported = answer
    logged.requests.length = 0
    const text = await errorText()
    const tokens = logged.requests.map(({ headers }) => String(headers.get('authorization')).slice('Bearer '.length))
    expect(found(text, tokens)).toEqual([])
    expect(tokens.map((token) => token.length > 200)).toEqual([true, true])
  })

  test('is in what the error of a broken connection comes to', async () => {
    const broken = () => Promise.reject(new Error(`${url} ${rpcUrl} ${KEY_ID} ${ED_SECRET}`))
    expect(found(await errorText({ fetch: broken as never }), [])).toEqual([])
  })

  test.each([
    ['facilitators.0.url must be an http or https URL', { url: 'path-key-0123456789' }],
    ['facilitators.0.url must not hold a user name or password', { url: 'https://path-key:query-key@example.com' }],
    ['facilitators.0.url must be https: a key is sent there', { url: 'http://path-key.example.com', cdp }],
  ])('is in the error "%s"', (message, row) => {
    expect(() => facilitatorChain({ ...config, facilitators: [row] })).toThrow(new RangeError(message))
    expect(() => facilitatorChain({ ...config, facilitators: [] })).toThrow('at least one is required')
  })
})
