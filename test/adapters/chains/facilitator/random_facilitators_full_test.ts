/**
 * Random histories of two facilitators that lie, lose answers and send late, over the real node. Whatever they say, a
 * payment is settled by the transfer that the chain has, and by no other.
 */
import { afterAll, expect, test } from 'bun:test'
import { type Hex, keccak256, toHex } from 'viem'
import type { Payment } from '../../../../core/mod.ts'
import type { Settlement } from '../../../../core/ports/mod.ts'
import { chance, type Chance, seedOf } from '../../../simulation/chance.ts'
import { world } from '../evm/evm_kit.ts'
import { type Answer, type ApiRequest, desk, type Harness, harness, land } from './facilitator_kit.ts'

const SEED = 7
const HISTORIES = 100
const CENT = 10_000n

const chainWorld = await world()
const desks = [desk(), desk()]
const h = await harness(chainWorld, desks, { failures: 1_000, confirmMs: 2 })
afterAll(async () => {
  h.chain.close()
  for (const each of desks) await each.close()
  await chainWorld.close()
})

type Sold = {
  readonly payment: Payment
  readonly payer: string
  transaction: Hex | undefined
  reported: Settlement | undefined
}
type History = { readonly dice: Chance; readonly sold: Sold[] }

const success = (transaction: string) => Response.json({ success: true, transaction, network: h.offer.network })
const failure = (errorReason: string) => Response.json({ success: false, errorReason, transaction: '' })

/** A payment that anybody lands counts once: the token takes an authorization once. */
async function landed(sale: Sold): Promise<Hex> {
  sale.transaction ??= await land(chainWorld, sale.payment)
  return sale.transaction
}

/** Ways of a facilitator to settle, honest ones included. */
const WAYS: readonly ((history: History, sale: Sold) => Response | Promise<Response>)[] = [
  async (_, sale) => success(await landed(sale)),
  async (_, sale) => success(await landed(sale)),
  async (_, sale) => (await landed(sale), new Response('the answer is lost', { status: 502 })),
  async (_, sale) => (await landed(sale), failure('insufficient_funds')),
  () => failure('invalid_exact_evm_transaction_failed'),
  () => new Response('busy', { status: 503 }),
  () => success(keccak256(toHex('a transaction that nobody has sent'))),
  ({ sold, dice }) => success(dice.pick(sold).transaction ?? `0x${'0'.repeat(64)}`),
  () => Response.json({ success: 'perhaps' }),
]

const nonceOf = ({ payload }: { payload: unknown }): unknown =>
  (payload as { authorization?: { nonce?: unknown } }).authorization?.nonce

const answering =
  (history: History): Answer =>
  async ({ json }: ApiRequest) => {
    const sale = history.sold.find(({ payment }) => nonceOf(payment) === nonceOf(json.paymentPayload))
    if (!sale) throw new Error('this payment was not sold')
    return await history.dice.pick(WAYS)(history, sale)
  }

const at = (on: Harness) => ({ now: on.now(), signal: AbortSignal.timeout(10_000) })

/** As core does it: whatever is not settled is asked again, by settling or by its fate. */
async function attempt({ dice }: History, sale: Sold): Promise<void> {
  if (sale.reported?.kind === 'settled') return
  if (dice.isLucky(0.2)) await landed(sale)
  if (sale.reported && dice.isLucky(0.4)) {
    const fate = await h.chain.fate(sale.payment, h.offer, at(h))
    if (fate.kind === 'paid') sale.reported = { kind: 'settled', receipt: fate.receipt }
    return
  }
  sale.reported = await h.chain.settle(sale.payment, h.offer, at(h))
  if (sale.reported.kind === 'refused')
    expect({ settlement: sale.reported, transaction: sale.transaction }).toMatchObject({ transaction: undefined })
}

async function play(seed: number): Promise<void> {
  const history: History = { dice: chance(seed), sold: [] }
  for (const each of desks) each.answer = answering(history)
  for (let count = 2 + history.dice.below(2); count > 0; count--) {
    const payer = await h.payer(CENT)
    history.sold.push({
      payment: await h.sign(payer, h.offer),
      payer: payer.address,
      transaction: undefined,
      reported: undefined,
    })
  }
  for (let step = 0; step < 8; step++) await attempt(history, history.dice.pick(history.sold))

  const proofs = new Set<string>()
  for (const sale of history.sold) {
    const fate = await h.chain.fate(sale.payment, h.offer, at(h))
    expect(fate).toMatchObject(
      sale.transaction ? { kind: 'paid', receipt: { transaction: sale.transaction } } : { kind: 'open' },
    )
    expect(await h.balanceOf(sale.payer)).toBe(sale.transaction ? 0n : CENT)
    if (sale.reported?.kind !== 'settled') continue
    const { transaction } = sale.reported.receipt
    expect(transaction).toBe(sale.transaction ?? 'none was sent')
    expect(proofs.has(transaction)).toBe(false)
    proofs.add(transaction)
  }
}

for (let run = 0; run < HISTORIES; run++)
  test(`facilitators that lie settle nothing that the chain does not have (seed ${SEED}, history ${run})`, () =>
    play(seedOf(SEED, run)))
