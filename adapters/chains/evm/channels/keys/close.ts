/** Sends back what is left of a key, at the wish of its holder or its wallet. */
import type { KeyClosing, KeyClosingOptions, Refunding } from '../../../../../core/ports/mod.ts'
import { lower } from '../../../lib/hex.ts'
import { signedCalls } from './child_calls.ts'
import { type KeyParts, statesOf } from './key_channels.ts'

/** Calls that a close settles at the same time. */
const MAX_SETTLING = 16

export async function close(
  parts: KeyParts,
  { address, payer }: KeyClosing,
  at: KeyClosingOptions,
): Promise<Refunding | undefined> {
  const { network, calls, channels, refunds } = parts
  const all = await statesOf(parts, address, at.now)
  const found = payer === undefined ? all : all.filter((state) => state.config.payer === lower(payer))
  const before = found.find(({ balance, charged }) => balance > charged) ?? found[0]
  if (!before) return undefined
  const { channelId, config: channel } = before
  await calls.endChildren(channelId, at.now)
  // A thief may have ordered what nobody collects; its result is charged now, so that nothing waits for it.
  const waiting = [...signedCalls(before, at.now)]
  const settleWaiting = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const call = { name, isLate: false, until: at.now }
      await at.settleFinished(channels.keyOf(network, { channelId, name }), (offer) =>
        channels.payment({ offer, config: channel }, call),
      )
    }
  }
  await Promise.all(Array.from({ length: MAX_SETTLING }, settleWaiting))
  const request = { kind: 'refund', config: channel, channelId, ceiling: undefined, signature: '0x' } as const
  const ours = { ...request, key: '', fundedBy: '', amount: undefined }
  // The key or its wallet was shown, so nobody else has asked.
  return await refunds.refund(ours, { ...at, isFree: async () => true, isFrom: async () => true })
}
