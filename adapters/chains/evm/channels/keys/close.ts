/** Sends back what is left of a key, at the wish of its holder or its wallet (decision 155). */
import type { KeyClosing, KeyClosingOptions, Refunding } from '../../../../../core/ports/mod.ts'
import { lower } from '../../../lib/hex.ts'
import { signedCalls, withoutChildren } from './child_calls.ts'
import { type KeyParts, type Opened, statesOf } from './key_channels.ts'

/** Calls that a close settles at the same time. */
const MAX_SETTLING = 16

export async function close(
  parts: KeyParts,
  { address, payer, key }: KeyClosing,
  at: KeyClosingOptions,
): Promise<Refunding | undefined> {
  const { network, calls, channels, refunds } = parts
  const all = await statesOf(parts, address, at.now)
  const found = payer === undefined ? all : all.filter((state) => state.config.payer === lower(payer))
  const before = found.find(({ balance, charged }) => balance > charged) ?? found[0]
  if (!before) return undefined
  const { channelId, config } = before
  // A thief may have ordered what nobody collects; its result is charged now, so that nothing waits for it.
  const waiting = [...signedCalls(before, at.now)]
  const settleWaiting = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      // The record of a restored backup has no voucher that covers it.
      if (key && !key.isChild) calls.present({ channelId, name, signer: (key as Opened).signer })
      const call = { name, isLate: false, until: at.now }
      await at.settleFinished(channels.keyOf(network, { channelId, name }), (offer) =>
        channels.payment({ offer, config }, call),
      )
    }
  }
  await Promise.all(Array.from({ length: MAX_SETTLING }, settleWaiting))
  return await refunds.close({ kind: 'closing', config, channelId, closed: withoutChildren }, at)
}
