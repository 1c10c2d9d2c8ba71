/** Filling the storage with channels that moved no money, so that those which did are not found to be claimed. */
import { CHANNEL_KIND } from '../../../adapters/chains/evm/channels/records.ts'
import { channelOf, signExact, signVoucher } from '../../conformance/schemes/signers.ts'
import type { Attack, Outcome } from './attack.ts'
import { get, offerFor, ORDERS, post, walletWith } from './caller.ts'
import type { Target } from './target.ts'

const POLLS = 200

/** Polls of one's own call, each with a voucher of another channel that holds nothing. */
async function flood(target: Target): Promise<Outcome> {
  const thief = await walletWith(target, 1_000_000n)
  const exact = await offerFor(target, ORDERS.chat, 'exact')
  await post(target, ORDERS.chat, await signExact(thief, { offer: exact, now: Date.now() }))
  const { payments } = await target.operator('GET', `/payments?payer=${thief.address}`)
  const [id] = /job_[0-9a-f]{32}/.exec(JSON.stringify(payments)) ?? []
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const count = () => target.ledger.count('records', `kind = '${CHANNEL_KIND}'`)
  const before = await count()
  for (let i = 1; i <= POLLS; i += 20) {
    const vouchers = await Promise.all(
      Array.from({ length: 20 }, (_, j) =>
        signVoucher(thief, { offer, channel: channelOf(offer, { payer: thief.address, salt: BigInt(i + j) }) }),
      ),
    )
    await Promise.all(vouchers.map((payment) => get(target, `/api/v1/calls/${id}`, { payment })))
  }
  const stored = Math.min(POLLS, Math.max(0, (await count()) - before))
  return { tried: POLLS, refused: POLLS - stored, note: `${stored} channels stored by polls that moved no money` }
}

export const attacks: readonly Attack[] = [
  { family: 'claims', name: 'polls with vouchers of channels that hold nothing', run: flood },
]
