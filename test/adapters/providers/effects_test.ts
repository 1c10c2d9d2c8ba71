/** Bland, Coinbase's onramp and Polymarket's bridge before stand-ins that replay what their documents say. */
import { describe, expect, test } from 'bun:test'
import { cdpBearer } from '../../../adapters/chains/facilitator/cdp_auth.ts'
import { bland } from '../../../adapters/providers/bland/calls.ts'
import { coinbaseOnramp } from '../../../adapters/providers/coinbase/onramp.ts'
import { polymarketBridge } from '../../../adapters/providers/polymarket/bridge.ts'
import type { Ringing } from '../../../core/mod.ts'
import { countingRandom } from '../../kit.ts'
import {
  type Answer,
  calm,
  outcome,
  prose,
  recorded,
  replay,
  errorText,
  setup,
  standIn,
  testRecordings,
  until,
} from './lib/provider_kit.ts'

const [KEY, ENCRYPTED] = ['sk-bland-0123456789', 'encrypted-0123456789']
const RING: Ringing = {
  to: '+14155550123',
  from: '+14155550100',
  task: 'Book a table.',
  voice: 'nat',
  language: 'en-US',
  maxMinutes: 5,
  model: 'base',
}
const WALLET = '0x209693bc6afc0c5328ba36faf03c514ef312287c'

function on<Vendor>(
  make: (at: {
    baseUrl: string
    clock: ReturnType<typeof setup>['clock']
    log: ReturnType<typeof setup>['log']
  }) => Vendor,
  answer: Answer,
) {
  const server = standIn(answer)
  const { clock, log } = setup(server.url)
  return { vendor: make({ baseUrl: server.url, clock, log }), seen: server.seen, clock, log }
}

const blandOn = (answer: Answer) => on((at) => bland({ ...at, key: KEY, encryptedKey: ENCRYPTED }), answer)
const bridgeOn = (answer: Answer) => on((at) => polymarketBridge(at), answer)
const onrampOn = (answer: Answer, bearer = async () => 'a.b.c') => on((at) => coinbaseOnramp({ ...at, bearer }), answer)

describe('bland()', () => {
  test('rings with the words of its document, and both keys', async () => {
    const { vendor, seen } = blandOn(() => replay(recorded('bland', 'accepted')))
    expect(
      await vendor.ring(
        {
          ...RING,
          firstSentence: 'Hi',
          waitForGreeting: false,
          interruptionMs: 100,
          voicemail: { action: 'leave_message', message: 'Bye' },
        },
        calm(),
      ),
    ).toEqual({ handle: '9d404c1b-6a23-4426-953a-a52c392ff8f1' })
    const [{ path, json, headers } = { headers: new Headers() }] = seen
    expect([path, headers.get('authorization'), headers.get('encrypted_key')]).toEqual(['/v1/calls', KEY, ENCRYPTED])
    expect(json).toEqual({
      phone_number: RING.to,
      from: RING.from,
      task: RING.task,
      voice: 'nat',
      language: 'en-US',
      max_duration: 5,
      model: 'base',
      first_sentence: 'Hi',
      wait_for_greeting: false,
      interruption_threshold: 100,
      voicemail_action: 'leave_message',
      voicemail_message: 'Bye',
    })
  })

  test.each([502, 503, 529])('rings once, whatever it is answered: %i', async (status) => {
    const { vendor, seen, log } = blandOn(() => new Response('', { status }))
    expect([await outcome(vendor.ring(RING, calm()), log), seen.length]).toEqual(['UPSTREAM_FAILED', 1])
  })

  test('gives up after 30 s, as one of whom it is not known whether it has rung', async () => {
    const { vendor, clock, log, seen } = blandOn(() => new Promise<Response>(() => {}))
    const ringing = vendor.ring(RING, calm())
    await until(() => seen.length > 0)
    clock.expire()
    expect(await outcome(ringing, log)).toBe('UPSTREAM_FAILED')
  })

  test('looks at a call by its id, and at nothing else', async () => {
    const { vendor, seen } = blandOn(() => replay(recorded('bland', 'details')))
    expect(await vendor.callStatus('9d404c1b-6a23-4426-953a-a52c392ff8f1', calm())).toMatchObject({
      completed: true,
      answered_by: 'human',
    })
    expect(vendor.callStatus('../me', calm())).rejects.toThrow(RangeError)
    expect(seen.map(({ path }) => path)).toEqual(['/v1/calls/9d404c1b-6a23-4426-953a-a52c392ff8f1'])
    expect(await blandOn(() => new Response('', { status: 404 })).vendor.callStatus('9d404c1b', calm())).toBeUndefined()
  })
})

describe('coinbaseOnramp()', () => {
  test('asks for one wallet, network and asset, with a token for that address alone', async () => {
    const { privateKey } = (await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])) as CryptoKeyPair
    const { d = '', x = '' } = await crypto.subtle.exportKey('jwk', privateKey)
    const keySecret = Buffer.concat([Buffer.from(d, 'base64url'), Buffer.from(x, 'base64url')]).toString('base64')
    const { vendor, seen } = on(
      (at) => coinbaseOnramp({ ...at, bearer: cdpBearer({ keyId: 'key-1', keySecret }, countingRandom()) }),
      () => replay(recorded('coinbase_onramp', 'token')),
    )
    expect(await vendor.link({ address: WALLET, network: 'base', asset: 'USDC', ip: '192.0.2.1' }, calm())).toBe(
      'https://pay.coinbase.com/buy/select-asset?sessionToken=ZWJlNDgwYmItNjBkMi00ZmFiLWIxYTQtMTM3MGI2YjJiNjFh',
    )
    const [{ path, json, headers } = { headers: new Headers() }] = seen
    const [, claims = ''] = (headers.get('authorization') ?? '').split('.')
    expect([path, json]).toEqual([
      '/onramp/v1/token',
      { addresses: [{ address: WALLET, blockchains: ['base'] }], assets: ['USDC'], clientIp: '192.0.2.1' },
    ])
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({
      sub: 'key-1',
      iss: 'cdp',
      uris: [expect.stringMatching(/^POST 127\.0\.0\.1:\d+\/onramp\/v1\/token$/)],
    })
  })

  test('with a key that cannot sign is an operator error', async () => {
    const { vendor, log, seen } = onrampOn(
      () => replay(recorded('coinbase_onramp', 'token')),
      () => Promise.reject(new RangeError('no key')),
    )
    expect([
      await outcome(vendor.link({ address: WALLET, network: 'base', asset: 'USDC', ip: '' }, calm()), log),
      seen,
      log.lines.map(({ level }) => level),
    ]).toEqual(['NOT_CONFIGURED', [], ['alert']])
    // A person is told once of an outage, however many requests run into it.
    for (let count = 0; count < 3; count++)
      await vendor.link({ address: WALLET, network: 'base', asset: 'USDC', ip: '' }, calm()).catch(() => {})
    expect(log.lines.map(({ level }) => level)).toEqual(['alert'])
  })
})

describe('polymarketBridge()', () => {
  test('says where the deposits of an account are taken, in lower case', async () => {
    const { vendor, seen } = bridgeOn(() => replay(recorded('polymarket_bridge', 'addresses')))
    expect(await vendor.depositAddress(WALLET, calm())).toBe('0x23566f8b2e82adfcf01846e54899d110e97ac053')
    expect([seen.map(({ path, json }) => [path, json]), vendor.networks.includes('eip155:8453')]).toEqual([
      [['/deposit', { address: WALLET }]],
      true,
    ])
  })
})

const TABLE = {
  bland: {
    ask: (answer: Answer) => ((made) => ({ work: made.vendor.ring(RING, calm()), log: made.log }))(blandOn(answer)),
    read: ['accepted', 'details'],
    expected: {
      invalid: 'PASSED_ON',
      wrong_key: 'NOT_CONFIGURED',
      no_balance: 'NOT_CONFIGURED',
      rate_limited: 'RATE_LIMITED 12',
      internal: 'UPSTREAM_FAILED',
      no_id: 'UPSTREAM_FAILED',
    },
  },
  coinbase_onramp: {
    ask: (answer: Answer) =>
      ((made) => ({
        work: made.vendor.link({ address: WALLET, network: 'base', asset: 'USDC', ip: '192.0.2.1' }, calm()),
        log: made.log,
      }))(onrampOn(answer)),
    read: ['token'],
    expected: {
      invalid: 'NOT_CONFIGURED',
      wrong_key: 'NOT_CONFIGURED',
      rate_limited: 'RATE_LIMITED 30',
      internal: 'UPSTREAM_FAILED',
      no_token: 'UPSTREAM_FAILED',
    },
  },
  polymarket_bridge: {
    ask: (answer: Answer) =>
      ((made) => ({ work: made.vendor.depositAddress(WALLET, calm()), log: made.log }))(bridgeOn(answer)),
    read: ['addresses'],
    expected: { invalid: 'INVALID_BODY', internal: 'UPSTREAM_FAILED', no_address: 'UPSTREAM_FAILED' },
  },
} as const

for (const [protocol, { ask, read, expected }] of Object.entries(TABLE)) {
  describe(`a refusal of ${protocol}`, () => {
    test.each(Object.entries(expected))('%s reads as %s, and quotes no key', async (name, outcomeOf) => {
      const { work, log } = ask(() => replay(recorded(protocol, name)))
      expect(await outcome(work as Promise<unknown>, log)).toBe(outcomeOf)
      const words = await errorText(work as Promise<unknown>, log)
      const quotes = prose(recorded(protocol, name).body).filter((sentence) => words.includes(sentence))
      expect([[KEY, ENCRYPTED, 'a.b.c'].filter((secret) => words.includes(secret)), quotes.length > 0]).toEqual([
        [],
        outcomeOf === 'PASSED_ON',
      ])
    })

    testRecordings(protocol, [...read, ...Object.keys(expected)])
  })
}
