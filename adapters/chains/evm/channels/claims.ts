/** Brings what was charged to the chain: claims of many channels in one transaction, and the watch on withdrawals. */
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Reads } from '../reads.ts'
import type { Relayer } from '../relayer.ts'
import { type Hex, lower } from '../../hex.ts'
import { allOf, claimCall, mirrorCalls, mirrorIn, settleCall } from './contract.ts'
import type { ChannelDigests } from './digests.ts'
import type { ChannelRefunds } from './refunds.ts'
import type { ChannelState, ChannelStates } from './state.ts'

export type ClaimsConfig = {
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly lagSeconds: number
  /** In seconds. */
  readonly withdrawDelay: number
  /** Claims are sent when so much is due in all, in base units, or when a payer withdraws. */
  readonly claimAbove: bigint
  /** Takes the lease of this work, so that one replica at a time does it. */
  readonly takeLease: (name: string, at: { now: number; until: number }) => Promise<boolean>
  readonly alert?: ((message: string, fields: Record<string, unknown>) => void) | undefined
}

export type ClaimsContext = {
  readonly reads: Pick<Reads, 'view'>
  readonly relayer: Pick<Relayer, 'send'>
  readonly states: ChannelStates
  readonly authorizer: Pick<PrivateKeyAccount, 'sign' | 'address'>
  readonly digests: ChannelDigests
  readonly refunds: Pick<ChannelRefunds, 'resume'>
}

const MAX_ROWS = 100
/** Channels whose three views are read in one request. */
const MIRRORS = 50
const GAS = { base: 220_000n, row: 70_000n } as const
const EVERY_MS = 60_000

/** Returns the work, which is called every few seconds and looks at most once a minute. It never rejects. */
export function channelClaims(
  { reads, relayer, states, authorizer, digests, refunds }: ClaimsContext,
  config: ClaimsConfig,
) {
  const everyMs = Math.min(EVERY_MS, config.withdrawDelay * 100)
  const leaseName = `channels:${config.network}:${lower(authorizer.address)}`
  const alerted = new Set<Hex>()
  const lost = new Set<Hex>()
  let nextAt = 0
  let running: Promise<void> | undefined

  function maintain({ now }: { now: number }): Promise<void> {
    if (running) return running
    if (now < nextAt) return Promise.resolve()
    nextAt = now + everyMs
    running = work(now)
      .catch((error: Error) => config.alert?.('channels could not be claimed', { reason: error.message }))
      .finally(() => (running = undefined))
    return running
  }

  async function work(now: number): Promise<void> {
    if (await config.takeLease(leaseName, { now, until: now + 2 * everyMs })) await claimDue(now, config.claimAbove)
  }

  /** Claims where at least `above` is due in all, or a payer withdraws. */
  async function claimDue(now: number, above: bigint): Promise<{ claimed: bigint }> {
    const all = await states.list(now)
    await refunds.resume(all, now)
    const unclaimed = all.filter(({ charged, claimed }) => charged > claimed)
    const current = await mirrored(unclaimed, now)
    for (const state of current) if (state.charged > state.balance) warnLoss(state)
    const open = current.map(payable).filter(({ charged, claimed }) => charged > claimed)
    const withdrawing = open.filter((state) => state.withdrawing > 0n)
    for (const state of withdrawing) warn(state)
    const due = sumOf(open)
    const rows = due >= above ? open : withdrawing
    if (rows.length === 0) return { claimed: 0n }
    const done: ChannelState[] = []
    for (let i = 0; i < rows.length; i += MAX_ROWS) done.push(...(await claim(rows.slice(i, i + MAX_ROWS), now)))
    await mirrored(done, now)
    return { claimed: sumOf(done) }
  }

  /**
   * The rows that are claimed, and paid out in the same transaction. A batch that would revert is halved until the row
   * that spoils it stands alone.
   */
  async function claim(rows: readonly ChannelState[], now: number): Promise<readonly ChannelState[]> {
    const hash = digests.claims(rows.map(({ channelId, ceiling, charged }) => ({ channelId, ceiling, charged })))
    const claims = claimCall(rows, await authorizer.sign({ hash }))
    const call = allOf([claims, settleCall(lower(config.payTo), lower(config.asset))])
    const gas = GAS.base + GAS.row * BigInt(rows.length)
    const seen = await reads.view([call], { lagSeconds: config.lagSeconds, gas, direct: true })
    if (seen.kind === 'failure') return []
    if (seen.results[0]?.ok) {
      const sent = await relayer.send({ ...call, gas }, now)
      if (sent.kind === 'mined' && sent.receipt.success) return rows
      if (sent.kind !== 'mined') return []
    }
    const [first] = rows
    if (rows.length === 1 && first) {
      const { channelId, charged, claimed, balance } = first
      const amounts = { due: String(charged - claimed), balance: String(balance) }
      config.alert?.('a channel cannot be claimed', { network: config.network, channel: channelId, ...amounts })
      return []
    }
    const half = Math.ceil(rows.length / 2)
    return [...(await claim(rows.slice(0, half), now)), ...(await claim(rows.slice(half), now))]
  }

  async function mirrored(list: readonly ChannelState[], now: number): Promise<readonly ChannelState[]> {
    const after: ChannelState[] = []
    for (let i = 0; i < list.length; i += MIRRORS) {
      const some = list.slice(i, i + MIRRORS)
      const calls = some.flatMap(({ channelId }) => mirrorCalls(channelId))
      const seen = await reads.view(calls, { lagSeconds: config.lagSeconds })
      if (seen.kind === 'failure') throw new Error(seen.reason)
      for (const [index, { channelId }] of some.entries()) {
        const mirror = mirrorIn(seen.results.slice(index * 3, index * 3 + 3))
        const state = mirror && (await states.mirror(channelId, mirror, now))
        if (state) after.push(state)
      }
    }
    return after
  }

  /** The payer has taken money back before it was claimed. */
  function warnLoss({ channelId, charged, claimed, balance, config: { payer } }: ChannelState): void {
    if (lost.has(channelId)) return
    lost.add(channelId)
    config.alert?.('a payer has withdrawn what was due; only a part of it can be claimed', {
      network: config.network,
      channel: channelId,
      payer,
      due: String(charged - claimed),
      claimable: String(balance - claimed),
    })
  }

  function warn({
    channelId,
    config: channel,
    withdrawing,
    withdrawRequestedAt,
    charged,
    claimed,
  }: ChannelState): void {
    if (alerted.has(channelId)) return
    alerted.add(channelId)
    const until = new Date((withdrawRequestedAt + channel.withdrawDelay) * 1000).toISOString()
    const amounts = { withdrawing: String(withdrawing), due: String(charged - claimed) }
    config.alert?.('a payer withdraws from a channel; what is due is claimed now', {
      network: config.network,
      channel: channelId,
      payer: channel.payer,
      ...amounts,
      until,
    })
  }

  return { maintain, claimDue }
}

/** With as much charged as can be claimed: the contract refuses a claim beyond the balance, all of it. */
const payable = (state: ChannelState): ChannelState =>
  state.charged > state.balance ? { ...state, charged: state.balance } : state

const sumOf = (list: readonly ChannelState[]): bigint =>
  list.reduce((sum, { charged, claimed }) => sum + charged - claimed, 0n)
