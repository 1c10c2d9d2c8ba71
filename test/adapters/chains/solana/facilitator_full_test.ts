import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { solanaFacilitator, type SolanaFacilitatorConfig } from '../../../../adapters/chains/solana/facilitator.ts'
import { findByScan } from '../../../../adapters/chains/solana/exact/fate.ts'
import { checkPayment } from '../../../../adapters/chains/solana/exact/payload.ts'
import type { SolanaReads } from '../../../../adapters/chains/solana/node/reads.ts'
import type { Payment } from '../../../../core/x402/protocol.ts'
import { everyChainLaw } from '../../../conformance/chain_histories.ts'
import { runLaws } from '../../../conformance/law.ts'
import { type Answer, desk, HANGS, VALID } from '../facilitator/facilitator_kit.ts'
import {
  facilitatorHarness,
  type FacilitatorHarness,
  referenceSolanaDesk,
  type SolanaDesk,
  solanaFacilitatorSubject,
  supporting,
} from './facilitator_kit.ts'
import {
  ask,
  base64,
  cosigned,
  draftOf,
  EXCEPT,
  type Key,
  newKey,
  paymentOf,
  solanaWorld,
  chatFormatOf,
} from './solana_kit.ts'

const node = await solanaWorld()
const reference = await referenceSolanaDesk(node)
const feePayer = await newKey()
node.airdropSol(feePayer.address)
/** Says what it is told to say. */
const puppet: SolanaDesk = Object.assign(desk(), { feePayer })
const open: FacilitatorHarness[] = []
afterEach(() => {
  for (const { chain } of open.splice(0)) chain.close()
  node.fakeReply('getTransaction')
  puppet.supported = supporting(feePayer.address)
  puppet.answer = VALID
  puppet.requests.length = 0
})
afterAll(() => Promise.all([reference.close(), puppet.close(), node.stop()]))

runLaws('solana facilitator', everyChainLaw, () => solanaFacilitatorSubject(node, [reference]), { except: EXCEPT })

type World = { readonly h: FacilitatorHarness; readonly payer: Key; readonly payment: Payment }

async function world(settle: Answer, change: Partial<SolanaFacilitatorConfig> = {}): Promise<World> {
  puppet.supported = supporting(feePayer.address)
  puppet.answer = (order, request) => (order.path.endsWith('/verify') ? VALID() : settle(order, request))
  const h = await facilitatorHarness(node, [puppet], { confirmMs: 4, settleMs: 500, ...change })
  open.push(h)
  const payer = await h.payer()
  return { h, payer: h.key(payer), payment: await h.sign(payer, h.offer) }
}

const at = () => ({ now: node.now(), signal: AbortSignal.timeout(5_000) })
const settle = ({ h, payment }: World) => h.chain.settle(payment, h.offer, at())
const fate = ({ h, payment }: World) => h.chain.fate(payment, h.offer, at())
/** Sends it, and names the transaction. */
const land = async (payment: Payment) =>
  ask<string>(node, 'sendTransaction', await cosigned(payment, feePayer), { encoding: 'base64', skipPreflight: true })
const NOT_OURS = '1'.repeat(64)

test('verify() dates a balance by the bank that shows it', async () => {
  const { h, payment } = await world(VALID)
  node.setTime(Math.ceil(node.now() / 2_000) * 2_000)
  const then = node.now()
  const verified = (now: number) => h.chain.verify(payment, h.offer, { ...at(), now })
  expect([await verified(then + 20_000), await verified(then - 2_000)]).toMatchObject([
    { balance: 1_000_000n, asOf: then },
    { balance: 1_000_000n, asOf: then - 2_000 },
  ])
})

describe('settle()', () => {
  test('sends our own offer and the transaction alone', async () => {
    const given = await world(() =>
      Response.json({ success: false, errorReason: 'invalid_exact_svm_payload_amount_mismatch' }),
    )
    const { h, payment } = given
    const loud = {
      ...payment,
      extensions: { gift: true },
      resource: { url: 'http://elsewhere' },
      payload: { ...payment.payload, note: 'x' },
      accepted: { ...payment.accepted, amount: '1', payTo: given.payer.address },
    }
    expect(await h.chain.settle(loud, h.offer, at())).toMatchObject({ kind: 'refused' })
    const { transaction } = payment.payload
    expect(puppet.requests.at(-1)?.json).toEqual({
      x402Version: 2,
      paymentPayload: { x402Version: 2, accepted: h.offer, payload: { transaction } },
      paymentRequirements: h.offer,
    })
  })

  test('believes a yes only where our node shows the transfer', async () => {
    const given = await world(() =>
      Response.json({ success: true, transaction: NOT_OURS, network: 'solana', payer: '' }),
    )
    expect(await settle(given)).toMatchObject({ kind: 'unknown' })
    const other = await given.h.sign(given.payer, given.h.offer)
    const stranger = await land(other)
    puppet.answer = () => Response.json({ success: true, transaction: stranger, network: 'solana', payer: '' })
    expect(await settle(given)).toMatchObject({ kind: 'unknown' })
    const transaction = await land(given.payment)
    expect(await settle(given)).toMatchObject({
      kind: 'settled',
      receipt: { transaction, payer: given.payer.address, amount: '10000' },
    })
  })

  test('finds what landed, whatever the facilitator says of it', async () => {
    const sayings: readonly (() => Response | Promise<Response>)[] = [
      () => Response.json({ success: false, errorReason: 'settlement_pending', transaction: NOT_OURS }),
      () => Response.json({ success: false, errorReason: 'duplicate_settlement', transaction: '' }),
      () =>
        Response.json({
          success: false,
          errorReason: 'invalid_exact_svm_transaction_simulation_failed',
          transaction: '',
        }),
      () => new Response('<html>503</html>', { status: 503 }),
      HANGS,
    ]
    for (const say of sayings) {
      const given: World = await world(async () => (await land(given.payment), say()), { settleMs: 40 })
      expect(await settle(given)).toMatchObject({ kind: 'settled', receipt: { payer: given.payer.address } })
      expect(await node.balanceOf(given.payer.address)).toBe(990_000n)
    }
  })

  test('is refused where it cannot have been sent, unknown where it can, and unknown ever after', async () => {
    const refusing = () =>
      Response.json({ success: false, errorReason: 'invalid_exact_svm_payload_amount_mismatch', transaction: '' })
    const given = await world(refusing)
    expect(await settle(given)).toMatchObject({ kind: 'refused' })
    puppet.answer = () => new Response('<html>503</html>', { status: 503 })
    expect(await settle(given)).toMatchObject({ kind: 'unknown' })
    puppet.answer = refusing
    expect(await settle(given)).toMatchObject({ kind: 'unknown' })
  })

  test('names the dead blockhash of what was refused, and of what never landed', async () => {
    const given = await world(() =>
      Response.json({
        success: false,
        errorReason: 'invalid_exact_svm_transaction_simulation_failed',
        transaction: '',
      }),
    )
    await given.h.chain.identify(given.payment, given.h.offer, at())
    node.advance(151)
    expect(await settle(given)).toMatchObject({ kind: 'refused', code: 'PAYMENT_BLOCKHASH_STALE' })
    puppet.answer = () =>
      Response.json({ isValid: false, invalidReason: 'invalid_exact_svm_transaction_simulation_failed' })
    expect(await given.h.chain.verify(given.payment, given.h.offer, at())).toMatchObject({
      kind: 'refused',
      code: 'PAYMENT_BLOCKHASH_STALE',
    })
    node.advance(31)
    expect(await fate(given)).toEqual({ kind: 'dead', code: 'PAYMENT_BLOCKHASH_STALE' })
    expect(await settle(given)).toMatchObject({ kind: 'refused', code: 'PAYMENT_BLOCKHASH_STALE' })
  })
})

describe('fate()', () => {
  test('is found among other transactions of the payer, with a memo and without', async () => {
    const { h, payer, payment } = await world(VALID)
    const draft = await draftOf(node, payer, h.offer)
    const bare = paymentOf(
      h.offer,
      base64(await chatFormatOf({ ...draft, instructions: draft.instructions.slice(0, 3) })),
    )
    const [first, second] = [await land(payment), await land(bare)]
    for (let i = 0; i < 12; i++) await land(await h.sign(payer, h.offer))
    expect(await h.chain.fate(payment, h.offer, at())).toMatchObject({ kind: 'paid', receipt: { transaction: first } })
    expect(await h.chain.fate(bare, h.offer, at())).toMatchObject({ kind: 'paid', receipt: { transaction: second } })
  })

  test('is unknown, and not dead, where a transaction of the payer cannot be looked into', async () => {
    const given = await world(VALID)
    await fate(given)
    const { h, payer } = given
    const draft = await draftOf(node, payer, h.offer)
    await land(
      paymentOf(h.offer, base64(await chatFormatOf({ ...draft, instructions: draft.instructions.slice(0, 3) }))),
    )
    node.advance(182)
    node.fakeReply('getTransaction', () => null)
    expect(await fate(given)).toMatchObject({ kind: 'unknown' })
    node.fakeReply('getTransaction')
    expect(await fate(given)).toMatchObject({ kind: 'dead' })
  })
})

test('a payer of many transactions can be proven not to have paid: none is looked into that ran before the payment could', async () => {
  const { h, payment } = await world(VALID)
  const exact = await checkPayment(payment, h.offer, { network: h.offer.network, feePayers: [feePayer.address] })
  if (exact.kind === 'refused') throw new Error(exact.reason)
  const now = node.now()
  const polled: string[] = []
  const rows = Array.from({ length: 1_000 }, (_, i) => ({
    signature: `${i}`,
    time: i === 0 ? undefined : now / 1000 - i,
    memo: undefined,
  }))
  const reads = {
    signatures: async () => ({ kind: 'signatures', found: rows }),
    transaction: async (signature: string) => (
      polled.push(signature),
      { kind: 'landed', id: 'another', failed: false, tokenChange: () => 0n }
    ),
  } as unknown as SolanaReads
  expect(await findByScan(reads)(exact, {})).toMatchObject({ kind: 'failure' })
  polled.length = 0
  expect(await findByScan(reads)(exact, { earliest: now - 150_000 })).toEqual({ kind: 'none' })
  expect(polled).toEqual(Array.from({ length: 151 }, (_, i) => `${i}`))
})

describe('check()', () => {
  const config = (change: Partial<SolanaFacilitatorConfig> = {}): SolanaFacilitatorConfig => ({
    ...base,
    random: (bytes) => new Uint8Array(bytes),
    ...change,
  })
  let base: Omit<SolanaFacilitatorConfig, 'random'>
  const check = async (change: Partial<SolanaFacilitatorConfig> = {}) => {
    const { h } = await world(VALID)
    const { network, rpcUrl, mint, payTo, facilitators } = h.config
    base = { network, rpcUrl, mint, payTo, facilitators }
    const chain = solanaFacilitator(config(change))
    const checked = await chain.check({ now: node.now() })
    const offered = chain.terms(node.now())[0]?.extra.feePayer
    chain.close()
    expect(offered !== undefined).toBe(checked.kind === 'ready')
    return { checked, offered }
  }

  test('pins one fee payer, whichever the facilitator names at the moment (contract 21.3)', async () => {
    const others = [await newKey(), await newKey(), await newKey()].map(({ address }) => address)
    const offers = new Set<unknown>()
    for (const named of others) {
      const { h } = await world(VALID)
      puppet.supported = supporting(named, others)
      const chain = solanaFacilitator({ ...h.config })
      await chain.check({ now: node.now() })
      offers.add(chain.terms(node.now())[0]?.extra.feePayer)
      chain.close()
    }
    expect([...offers]).toEqual([others.toSorted()[0]])
  })

  test('takes the fee payer that the operator names, if somebody signs for it', async () => {
    expect(await check({ feePayer: feePayer.address })).toEqual({
      checked: { kind: 'ready', warnings: [] },
      offered: feePayer.address,
    })
    expect((await check({ feePayer: reference.feePayer.address })).checked).toEqual({
      kind: 'wrong',
      problems: [`fee_payer: no facilitator signs for ${reference.feePayer.address}`],
    })
    expect(() => solanaFacilitator(config({ feePayer: 'alice' }))).toThrow('fee_payer')
  })

  test('warns of one that cannot stand in, and waits for the first where its fee payer is not known', async () => {
    const both = [{ url: puppet.url }, { url: reference.url }]
    expect((await check({ facilitators: both })).checked).toMatchObject({
      kind: 'ready',
      warnings: [expect.stringContaining('facilitators.1.url: ')],
    })
    const gone = desk()
    await gone.close()
    expect((await check({ facilitators: [{ url: gone.url }, { url: puppet.url }] })).checked).toMatchObject({
      kind: 'unavailable',
    })
    expect(
      (await check({ facilitators: [{ url: gone.url }, { url: puppet.url }], feePayer: feePayer.address })).checked,
    ).toMatchObject({ kind: 'ready' })
  })

  test('names one that does not serve the network, and a recipient that is the fee payer', async () => {
    await node.openAccount(feePayer.address)
    expect((await check({ payTo: feePayer.address })).checked).toMatchObject({
      kind: 'wrong',
      problems: [expect.stringContaining('pay_to: ')],
    })
    const foreign = desk()
    foreign.supported = () => Response.json({ kinds: [{ x402Version: 2, scheme: 'exact', network: 'eip155:8453' }] })
    expect((await check({ facilitators: [{ url: foreign.url }] })).checked).toMatchObject({
      kind: 'wrong',
      problems: [expect.stringContaining('facilitators.0.url: ')],
    })
    foreign.supported = () => Response.json({ kinds: [{ x402Version: 2, scheme: 'exact', network: 'solana:*' }] })
    expect((await check({ facilitators: [{ url: foreign.url }] })).checked).toEqual({
      kind: 'wrong',
      problems: ['facilitators.0.url: names no fee payer'],
    })
    await foreign.close()
  })
})
