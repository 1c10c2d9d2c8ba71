/**
 * Every reply of a facilitator, in each dialect that we know of, and its outcome, whatever has happened on chain.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { type Hex, keccak256, toHex } from 'viem'
import type { FacilitatorConfig } from '../../../../adapters/chains/evm/facilitator.ts'
import type { Payment } from '../../../../core/x402/protocol.ts'
import vectors from '../../../vectors/facilitators.json' with { type: 'json' }
import { instead, isReceipt, NETWORK, world } from '../evm/evm_kit.ts'
import { type Answer, desk, HANGS, type Harness, harness, land, VALID } from './facilitator_kit.ts'

const chainWorld = await world()
const logged = desk()
/** A chain of `told` alone, whose breaker never opens. */
const h = await harness(chainWorld, [logged], { failures: 1_000, confirmMs: 2 })
afterAll(async () => {
  h.chain.close()
  await logged.close()
  await chainWorld.close()
})

const at = (on: Harness) => ({ now: on.now(), signal: AbortSignal.timeout(10_000) })
const verify = (on: Harness, payment: Payment) => on.chain.verify(payment, on.offer, at(on))
const settle = (on: Harness, payment: Payment) => on.chain.settle(payment, on.offer, at(on))
const signed = async (on: Harness, balance?: bigint) => on.sign(await on.payer(balance), on.offer)

async function requestAlone(
  work: (own: Harness) => Promise<void>,
  change: Partial<FacilitatorConfig> = {},
): Promise<void> {
  const own = await harness(chainWorld, [logged], change)
  try {
    await work(own)
  } finally {
    own.chain.close()
  }
}

type Vector = (typeof vectors)[number]
const STRAY = keccak256(toHex('a transaction that nobody has sent'))

/** Says what was recorded, with the hash of what has landed, or of nothing. */
function saying(vector: Vector, hash: Hex = STRAY): Answer {
  const { status, body } = vector
  const type = 'type' in vector ? String(vector.type) : 'application/json'
  const text = typeof body === 'string' ? body : JSON.stringify(body).replace('{hash}', hash)
  return () => new Response(text, { status, headers: { 'content-type': type } })
}

const rowsOf = (call: string, expected: Record<string, string>) =>
  vectors
    .filter((each) => each.call === call)
    .map((vector) => ({ name: vector.name, vector, expected: expected[vector.name] ?? 'nothing is expected of it' }))

const verdicts = rowsOf('verify', {
  reference_valid: 'valid',
  reference_balance: 'PAYMENT_UNFUNDED',
  reference_nonce: 'PAYMENT_REPLAY',
  reference_signature: 'PAYMENT_INVALID',
  reference_simulation: 'PAYMENT_INVALID',
  reference_no_reason: 'PAYMENT_INVALID',
  cdp_funds: 'PAYMENT_UNFUNDED',
  cdp_expired: 'PAYMENT_UNFUNDED',
  cdp_early: 'PAYMENT_UNFUNDED',
  cdp_payload: 'PAYMENT_INVALID',
  cdp_screened: 'PAYMENT_INVALID',
  cdp_unclassified: 'unavailable',
  cdp_network: 'unavailable',
  cdp_internal: 'unavailable',
  cdp_rate_limit: 'unavailable',
  circle_expired: 'PAYMENT_UNFUNDED',
  circle_replay: 'PAYMENT_REPLAY',
  specification_unexpected: 'unavailable',
  x402_rs_bad_request: 'unavailable',
  edge_html: 'unavailable',
  yes_with_an_error_status: 'unavailable',
  yes_as_text: 'unavailable',
  nothing: 'unavailable',
})

const settlements = rowsOf('settle', {
  reference_settled: 'unknown',
  reference_balance: 'refused',
  reference_nonce: 'unknown',
  reference_pending: 'unknown',
  reference_failed_after_sending: 'unknown',
  x402_org_scheme: 'unknown',
  x402_rs_funds: 'refused',
  cdp_payload: 'refused',
  cdp_screened: 'refused',
  cdp_pending: 'unknown',
  cdp_node_failure: 'unknown',
  cdp_confirmation: 'unknown',
  cdp_payment_method: 'unknown',
  circle_pending: 'unknown',
  circle_accepted: 'unknown',
  circle_batched: 'unknown',
  bofai_internal: 'unknown',
  edge_html: 'unknown',
  yes_with_an_error_status: 'unknown',
  no_without_a_reason: 'unknown',
  no_with_a_name_for_what_was_sent: 'unknown',
  nothing: 'unknown',
})

describe('a verdict', () => {
  test.each(verdicts)('$name reads as $expected', async ({ vector, expected }) => {
    logged.answer = saying(vector)
    const verdict = await verify(h, await signed(h))
    expect(String(verdict.kind === 'refused' ? verdict.code : verdict.kind)).toBe(expected)
  })

  test.each(verdicts)('$name does not hide that the authorization is used', async ({ vector }) => {
    logged.answer = saying(vector)
    const payment = await signed(h)
    await land(chainWorld, payment)
    expect(await verify(h, payment)).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  })

  test('of a facilitator that knows no balances does not hide an empty wallet', async () => {
    logged.answer = VALID
    expect(await verify(h, await signed(h, 9_999n))).toMatchObject({
      kind: 'refused',
      code: 'PAYMENT_UNFUNDED',
      reason: expect.stringContaining('9999'),
    })
  })

  test('stands without a balance when only our own node is away', async () => {
    logged.answer = VALID
    h.line.judge = () => 'lost'
    const verdict = await verify(h, await signed(h))
    h.line.judge = undefined
    expect(Object.keys(verdict)).toEqual(['kind', 'asOf'])
  })
})

describe('a settlement', () => {
  test.each(settlements)('$name of what has not landed is $expected', async ({ vector, expected }) => {
    logged.answer = saying(vector)
    const payment = await signed(h)
    expect(String((await settle(h, payment)).kind)).toBe(expected)
    expect(await h.chain.fate(payment, h.offer, at(h))).toEqual({ kind: 'open' })
  })

  test.each(settlements)('$name of what has landed is settled, with that transfer', async ({ vector }) => {
    const payment = await signed(h)
    const transaction = await land(chainWorld, payment)
    logged.answer = saying(vector, transaction)
    expect(await settle(h, payment)).toMatchObject({
      kind: 'settled',
      receipt: { transaction, network: NETWORK, amount: '10000' },
    })
  })

  test.each(settlements)('$name of what was canceled is refused', async ({ vector }) => {
    logged.answer = saying(vector)
    const payer = await h.payer()
    const payment = await h.sign(payer, h.offer)
    await h.cancel(payer, payment)
    expect(await settle(h, payment)).toMatchObject({ kind: 'refused', reason: expect.stringContaining('dead') })
  })

  test('that a facilitator proves with another transfer is unknown', async () => {
    const [payment, another] = [await signed(h), await signed(h)]
    const transaction = await land(chainWorld, another)
    logged.answer = () => Response.json({ success: true, transaction, network: NETWORK })
    expect(await settle(h, payment)).toMatchObject({
      kind: 'unknown',
      reason: expect.stringContaining('our node does not show it'),
    })
  })

  test('whose transaction has reverted is refused', async () => {
    const payment = await signed(h)
    const reverted = instead(isReceipt, {
      result: { transactionHash: STRAY, status: '0x0', blockNumber: '0x1', logs: [] },
    })
    h.line.judge = (messages) => (messages.some(isReceipt) ? reverted : 'fine')
    logged.answer = () =>
      Response.json({ success: false, errorReason: 'invalid_exact_evm_transaction_failed', transaction: STRAY })
    expect(await settle(h, payment)).toMatchObject({ kind: 'refused' })
    h.line.judge = undefined
  })

  test('waits until our own node has seen the transaction', () =>
    requestAlone(async (own) => {
      const payment = await signed(own)
      const transaction = await land(chainWorld, payment)
      logged.answer = () => Response.json({ success: true, transaction })
      let polls = 0
      own.line.judge = (messages) =>
        messages.some(isReceipt) && ++polls <= 3 ? instead(isReceipt, { result: null }) : 'fine'
      expect(await settle(own, payment)).toMatchObject({ kind: 'settled', receipt: { transaction } })
      expect(polls).toBe(4)
    }))

  test('that our node cannot confirm is unknown, and later paid', async () => {
    const payment = await signed(h)
    const transaction = await land(chainWorld, payment)
    logged.answer = () => Response.json({ success: true, transaction })
    h.line.judge = () => 'lost'
    expect(await settle(h, payment)).toMatchObject({ kind: 'unknown' })
    h.line.judge = undefined
    expect(await h.chain.fate(payment, h.offer, at(h))).toMatchObject({ kind: 'paid', receipt: { transaction } })
  })

  test('that landed although the facilitator hangs is settled by its fate', () =>
    requestAlone(
      async (own) => {
        logged.answer = HANGS
        const payment = await signed(own)
        const transaction = await land(chainWorld, payment)
        expect(await settle(own, payment)).toMatchObject({ kind: 'settled', receipt: { transaction } })
      },
      { settleMs: 10 },
    ))

  test('that a hung facilitator never sent is unknown and open, and settles when sent again', () =>
    requestAlone(
      async (own) => {
        logged.answer = HANGS
        const payment = await signed(own)
        expect(await settle(own, payment)).toMatchObject({
          kind: 'unknown',
          reason: expect.stringContaining('may have been sent'),
        })
        expect(await own.chain.fate(payment, own.offer, at(own))).toEqual({ kind: 'open' })
        logged.answer = async () => Response.json({ success: true, transaction: await land(chainWorld, payment) })
        expect(await settle(own, payment)).toMatchObject({ kind: 'settled' })
      },
      { settleMs: 250 }, // a real answer has to come in within it
    ))
})

test('every recorded reply is used, and names its document and how sure it is', () => {
  expect([...verdicts, ...settlements].map(({ vector }) => vector).toSorted(byName)).toEqual(vectors.toSorted(byName))
  expect([...verdicts, ...settlements].filter(({ expected }) => expected.startsWith('nothing is'))).toEqual([])
  expect(
    vectors.filter(
      ({ document, certainty }) => document.length < 10 || !['quoted', 'types', 'inferred'].includes(certainty),
    ),
  ).toEqual([])
})

function byName(a: Vector, b: Vector): number {
  return `${a.call} ${a.name}`.localeCompare(`${b.call} ${b.name}`)
}
