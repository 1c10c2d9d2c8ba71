/** The worked example of mppx 0.11, each value recomputed there with plain HMAC and keccak. */
import { expect, test } from 'bun:test'
import { privateKeyToAccount } from 'viem/accounts'
import { chargeReceipt } from '../../../core/mpp/receipt.ts'
import { chargeRequest, evmCharge, nonceOf } from '../../../adapters/chains/evm/charge.ts'
import { boundText, endOf, issuer, readChallenges, writeChallenge } from '../../../core/mpp/challenge.ts'
import type { Challenge } from '../../../core/mpp/method.ts'
import { canonicalJson, decodeUrl, encodeUrl } from '../../../core/mpp/codec.ts'
import { credentialProblem, decodeCredential } from '../../../core/mpp/credential.ts'
import { credentialFor, readChallenge } from '../../../server/proxy/mpp.ts'

const SECRET = new TextEncoder().encode('farebox-test-vector-secret-0123456789abcdef')
const PAYER = '0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A'
const OFFER = {
  scheme: 'exact',
  network: 'eip155:84532',
  amount: '2000',
  asset: '0x036cbd53842c5426634e7929541ec2318f3dcf7e',
  payTo: '0x41fd86e5a01411c2d7dd4f08f4ce5fef159af01b',
  maxTimeoutSeconds: 60,
  extra: { name: 'USDC', version: '2' },
}
const REQUEST =
  'eyJhbW91bnQiOiIyMDAwIiwiY3VycmVuY3kiOiIweDAzNkNiRDUzODQyYzU0MjY2MzRlNzkyOTU0MWVDMjMxOGYzZENGN2UiLCJtZXRob2REZXRhaWxzIjp7ImNoYWluSWQiOjg0NTMyLCJjcmVkZW50aWFsVHlwZXMiOlsiYXV0aG9yaXphdGlvbiJdLCJkZWNpbWFscyI6Nn0sInJlY2lwaWVudCI6IjB4NDFGRDg2RTVBMDE0MTFDMkQ3ZGQ0RjA4ZjRDRTVGRUYxNTlhZjAxYiJ9'
const SLOTS = {
  realm: 'pay.example.com',
  method: 'evm',
  intent: 'charge',
  request: REQUEST,
  expires: '2030-01-01T00:00:00Z',
}
const PLAIN: Challenge = { id: 'TK1BgzM5_I_z4a-wevOPrDIS4c-lRL5VHMYJeQQijuU', ...SLOTS }
const WITH_HEADER: Challenge = {
  ...SLOTS,
  id: 'A63Jh6rfOr4GIAii8isHoiGpJcEOzfeO4EiRgwBEf_s',
  header: 'Payment-Authorization',
}
const WITH_MORE: Challenge = {
  ...SLOTS,
  id: 'XFJaPt_4qqpJvYuJqbFrsGwKjWY8kgHHG83aoRNJGBM',
  description: 'one chat call',
  digest: 'sha-256=XLdyauKcRctifAjpHCHgddiVEwZOPgMT0KLiBwSOQTA=',
  opaque: 'eyJxdW90ZSI6InExIn0',
}
const OURS = issuer([SECRET], (bytes) => new Uint8Array(bytes))

test('the request of an offer is canonical JSON in base64url, with checksummed addresses', () => {
  expect(chargeRequest(OFFER)).toBe(REQUEST)
  expect(encodeUrl(canonicalJson(decodeUrl(REQUEST)))).toBe(REQUEST)
})

test('the id binds seven slots, and an eighth where the credential has a header of its own', () => {
  const { id: _, ...slots } = PLAIN
  expect(boundText(slots)).toBe(`pay.example.com|evm|charge|${REQUEST}|2030-01-01T00:00:00Z||`)
  expect(boundText(WITH_HEADER)).toEndWith('|2030-01-01T00:00:00Z||Payment-Authorization|')
  for (const challenge of [PLAIN, WITH_HEADER, WITH_MORE]) expect(OURS.isIssued(challenge)).toBe(true)
  for (const name of ['realm', 'method', 'intent', 'request', 'expires', 'digest', 'opaque'] as const)
    expect([name, OURS.isIssued({ ...WITH_MORE, [name]: 'another' })]).toEqual([name, false])
  expect(OURS.isIssued({ ...PLAIN, header: 'Payment-Authorization' })).toBe(false)
  expect(issuer([new Uint8Array(32), SECRET], (bytes) => new Uint8Array(bytes)).isIssued(PLAIN)).toBe(true)
  expect(issuer([new Uint8Array(32)], (bytes) => new Uint8Array(bytes)).isIssued(PLAIN)).toBe(false)
})

test('the nonce is keccak of the texts of id and realm, the end that of expires', () => {
  expect(nonceOf(PLAIN)).toBe('0xe9425f61a48e379cef013a6a409692ed873766e8e1ba818fea638115eaf179c8')
  expect(nonceOf(WITH_HEADER)).toBe('0x10bc80b2f81c8ec518186fd488cbac3ee1cddaadbc176488d1bbbd6a10f1c4ba')
  expect(endOf(PLAIN)).toBe(1_893_456_000)
})

test('the header of a challenge is written as mppx writes it, and read in any order and beside other schemes', () => {
  const written = `Payment id="${PLAIN.id}", realm="pay.example.com", method="evm", intent="charge", request="${REQUEST}", expires="2030-01-01T00:00:00Z"`
  expect(writeChallenge(PLAIN)).toBe(written)
  expect(writeChallenge(WITH_MORE)).toEndWith(
    `, description="one chat call", digest="${WITH_MORE.digest}", expires="2030-01-01T00:00:00Z", opaque="eyJxdW90ZSI6InExIn0"`,
  )
  for (const header of [written, `X402 requirements=eyJ4=, ${written}`, `${written}, X402 requirements=eyJ4=`])
    expect(readChallenges(header)).toEqual([{ ...PLAIN } as Record<string, string>])
  expect(readChallenges(`${written}, ${writeChallenge(WITH_MORE)}`).map(({ id }) => id)).toEqual([
    PLAIN.id,
    WITH_MORE.id,
  ])
  expect(readChallenges('Payment id="a", id="b"')).toEqual([])
})

const credentialOf = (challenge: Challenge, signature: string, changed: object = {}) => ({
  challenge,
  payload: {
    type: 'authorization',
    from: PAYER,
    to: '0x41FD86E5A01411C2D7dd4F08f4CE5FEF159af01b',
    value: '2000',
    validAfter: '0',
    validBefore: '1893456000',
    nonce: nonceOf(challenge),
    signature,
    ...changed,
  },
  source: `did:pkh:eip155:84532:${PAYER}`,
})
const SIGNED_PLAIN =
  '0x7e08c0080eeb497b994fedf7f2220ba806949e8f8a4f29dace6cc97acef65069027c2a67a5f09e5e6aaabc76e3a750a585ba4303367cdd046a501019d77995ea1b'
const SIGNED_HEADER =
  '0xcf34da21160fc1645f7c3bc3dfaf85960795b5c023d07836374e0987840a33e134af45b0d7167baab3a70bb383252f8417b8514198e9db812efa8b513270110e1c'

test('a credential is the payment of an exact offer, whose authorization has its nonce', () => {
  for (const [challenge, signature] of [
    [PLAIN, SIGNED_PLAIN],
    [WITH_HEADER, SIGNED_HEADER],
  ] as const) {
    const decoded = decodeCredential(`Payment ${encodeUrl(JSON.stringify(credentialOf(challenge, signature)))}`, {
      methods: [evmCharge],
      idempotencyKey: null,
    })
    if (!decoded.ok) throw new Error(decoded.reason)
    expect(credentialProblem(decoded, { issuer: OURS, realm: SLOTS.realm, now: 0 })).toBeUndefined()
    const { type: _, signature: signed, ...authorization } = decoded.credential.payload as Record<string, string>
    expect(decoded.payment.payload).toEqual({ signature: signed, authorization })
    expect(decoded.payment.accepted).toMatchObject({ scheme: 'exact', network: 'eip155:84532', amount: '2000' })
  }
})

test('the receipt has the four members of the core, the id of the challenge and the chain', () => {
  const transaction = `0x${'ab'.repeat(32)}`
  const settledAt = Date.parse('2030-01-01T00:00:00Z')
  const written = chargeReceipt(
    { transaction, network: 'eip155:84532' },
    { method: evmCharge, challengeId: PLAIN.id, settledAt },
  )
  expect(decodeUrl(written)).toEqual({
    status: 'success',
    method: 'evm',
    timestamp: '2030-01-01T00:00:00.000Z',
    reference: transaction,
    challengeId: PLAIN.id,
    chainId: 84_532,
  })
  const core = { method: 'evm', reference: transaction, status: 'success', timestamp: '2030-01-01T00:00:00Z' }
  expect(encodeUrl(canonicalJson(core))).toBe(
    'eyJtZXRob2QiOiJldm0iLCJyZWZlcmVuY2UiOiIweGFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWIiLCJzdGF0dXMiOiJzdWNjZXNzIiwidGltZXN0YW1wIjoiMjAzMC0wMS0wMVQwMDowMDowMFoifQ',
  )
})

test('our buyer signs what mppx signs: the signatures of both challenges, and the whole credential', async () => {
  const account = privateKeyToAccount(`0x${'11'.repeat(32)}`)
  for (const [challenge, signature] of [
    [PLAIN, SIGNED_PLAIN],
    [WITH_HEADER, SIGNED_HEADER],
  ] as const) {
    const read = readChallenge(writeChallenge(challenge), 0)
    if (!read) throw new Error('the challenge cannot be read')
    const { payment } = await credentialFor(read, account)
    expect(decodeUrl(payment.replace('Payment ', ''))).toEqual(credentialOf(challenge, signature))
  }
})
