/** API keys on one network: which channels they pay from, deposits that pay for no call, and what is sent back. */
import type { ChainKeys } from '../../../../../core/ports/mod.ts'
import { keySigner } from './api_key.ts'
import type { KeyCalls } from './calls.ts'
import { close } from './close.ts'
import {
  type ChannelKeysConfig,
  type ChannelKeysContext,
  channelsOf,
  type KeyParts,
  listKeys,
  type Opened,
} from './key_channels.ts'
import { deposit } from './key_deposit.ts'
import { childrenOf, findChild, lend, revoke } from './lend.ts'
import { pay, payAgain } from './pay.ts'

export function channelKeys(context: ChannelKeysContext, config: ChannelKeysConfig): ChainKeys {
  const parts: KeyParts = { ...context, ...config }
  const { calls, channels } = context
  return {
    modes: [config.mode],
    open: (seed, { isChild } = { isChild: false }) => open(calls, seed, isChild),
    lend: (key, lending, at) => lend(parts, { key, lending }, at),
    child: (address, { now }) => findChild(parts, address, now),
    children: (address, { now }) => childrenOf(parts, address, now),
    revoke: (lender, address, { now }) => revoke(parts, { lender, address }, now),
    pay: (key, order, at) => pay(parts, { key, order }, at),
    payAgain: (key, { key: authorization, offer }, at) => payAgain(parts, { key, authorization, offer }, at),
    deposit: (payment, at) => deposit(parts, payment, at),
    close: (closing, at) => close(parts, closing, at),
    list: (at) => listKeys(parts, at),
    channels: (address, { now }) => channelsOf(parts, address, now),
    async release(authorization, now) {
      const call = channels.callOf(config.network, authorization)
      if (call) await calls.release(call.channelId, call.name, now)
    },
    recorded(authorization) {
      const call = channels.callOf(config.network, authorization)
      if (call) calls.noteRecorded(call.channelId, call.name)
    },
  }
}

/** Its end closes the key, unless a call of it is charged later. */
async function open(calls: KeyCalls, seed: Uint8Array, isChild: boolean): Promise<Opened> {
  const signer = await keySigner(seed)
  const end = () => {
    calls.withdraw(signer)
    if (!calls.isSigning(signer)) signer.close()
  }
  return { address: signer.address, isChild, signer, end }
}
