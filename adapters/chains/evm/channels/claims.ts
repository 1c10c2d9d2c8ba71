/** Brings what was charged to the chain: claims of many channels in one transaction, and the watch on withdrawals. */
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Reads } from '../node/reads.ts'
import type { Relayer } from '../node/relayer.ts'
import type { ContractCall } from '../node/multicall.ts'
import { type Hex, lower } from '../../lib/hex.ts'
import { allOf, claimCall, mirrorCalls, mirrorIn, settleCall } from './contract.ts'
import type { ChannelDigests } from './digests.ts'
import type { ChannelRefunds } from './refunds/mod.ts'
import { type ChannelState, gasPaidWith } from './state.ts'
import { type ChannelStates } from './records.ts'

export type ClaimsConfig = {
  readonly network: string
  readonly lagSeconds: number
  /** In seconds. */
  readonly withdrawDelay: number
  /** Claims are sent when so much is due in all, in base units, or when a payer withdraws. */
  readonly claimAbove: bigint
  /** Current price of so much gas, in base units of the token; undefined if it is not known. */
  readonly costOf?: ((gas: bigint, now: number) => Promise<bigint | undefined>) | undefined
  /** Takes the lease of this work, so that one replica at a time does it. */
  readonly takeLease: (name: string, at: { now: number; until: number }) => Promise<boolean>
  readonly alert?: ((message: string, fields: Record<string, unknown>) => void) | undefined
}

type ClaimsContext = {
  readonly reads: Pick<Reads, 'view'>
  readonly relayer: Pick<Relayer, 'send'>
  readonly states: ChannelStates
  readonly authorizer: Pick<PrivateKeyAccount, 'sign' | 'address'>
  readonly digests: ChannelDigests
  readonly refunds: Pick<ChannelRefunds, 'resume'>
  /** Sends back what is left of keys that nobody uses. */
  readonly closeIdle?: ((now: number) => Promise<void>) | undefined
}

const MAX_ROWS = 100
/** Channels whose three views are read in one request. */
const MIRRORS = 50
const GAS = { base: 220_000n, row: 70_000n, furtherPayee: 70_000n } as const
const EVERY_MS = 60_000
const ADOPT_MS = 3_600_000
/** Channels whose views are read in every round. More are read when an eighth of the withdraw delay has passed. */
const ALWAYS_READ = 1_000
/** A round begins so much later for each channel in which something is due. */
const MS_PER_CHANNEL = 5

/** Returns the work, which is called every few seconds and looks at most once a minute. It never rejects. */
export function channelClaims(context: ClaimsContext, config: ClaimsConfig) {
  const longestMs = config.withdrawDelay * 100
  const everyMs = Math.min(EVERY_MS, longestMs)
  const leaseName = `channels:${config.network}:${lower(context.authorizer.address)}`
  const claiming: Claiming = {
    ...context,
    config,
    alerted: new Set(),
    late: { isAlerted: false },
    unclaimed: { since: undefined, isAlerted: false },
  }
  let [nextAt, latest, adoptAt] = [0, 0, 0]
  let running: Promise<void> | undefined

  function maintain({ now }: { now: number }): Promise<void> {
    latest = now
    if (running) return running
    if (now < nextAt) return Promise.resolve()
    nextAt = now + everyMs
    running = work(now)
      .catch((error: Error) => config.alert?.('channels could not be claimed', { reason: error.message }))
      .finally(() => (running = undefined))
    return running
  }

  async function work(now: number): Promise<void> {
    let leasedAt = now
    const lease = (until: number) => config.takeLease(leaseName, { now: leasedAt, until })
    if (!(await lease(now + 2 * everyMs))) return
    const isOurs = async (): Promise<boolean> => {
      if (latest - leasedAt < everyMs) return true
      leasedAt = latest
      return lease(latest + 2 * everyMs)
    }
    const { seen } = await round(now, { above: config.claimAbove, isOurs })
    await context.closeIdle?.(now)
    const pauseMs = Math.min(longestMs, Math.max(everyMs, seen * MS_PER_CHANNEL))
    nextAt = now + pauseMs
    leasedAt = latest
    if (pauseMs > everyMs) await lease(latest + 2 * pauseMs)
  }

  /**
   * Looks at every channel in which something is due. Claims what is due where a payer withdraws, and everything where
   * at least `above` is due in all; of each channel only what is worth its gas.
   */
  async function round(now: number, { above, isOurs }: { above: bigint; isOurs: () => Promise<boolean> }) {
    if (now >= adoptAt) {
      await context.states.adopt(now)
      adoptAt = now + ADOPT_MS
    }
    const { seen, due, waiting, withdrawing, error } = await dueChannels(claiming, { now, isOurs })
    const ids = [...withdrawing, ...(due >= above ? waiting : [])]
    let claimed = 0n
    for (let at = 0; at < ids.length && (await isOurs()); at += MAX_ROWS) {
      // Others may be withdrawing by now: the next round looks at them first.
      if (at >= withdrawing.length && latest - now > longestMs) break
      claimed += await claimBatch(claiming, ids.slice(at, at + MAX_ROWS), now)
    }
    noteUnclaimed(claiming, { due: due - claimed, above, now })
    if (error) throw error
    return { claimed, seen }
  }

  return {
    maintain,
    /** One round, whoever has the lease. */
    async claimDue(now: number, above: bigint): Promise<{ claimed: bigint }> {
      const { claimed } = await round(now, { above, isOurs: async () => true })
      return { claimed }
    },
  }
}

type Claiming = ClaimsContext & {
  readonly config: ClaimsConfig
  /** Channels of whose withdrawal the operator was told. */
  readonly alerted: Set<Hex>
  readonly late: { isAlerted: boolean }
  /** Since when so much is due that it should be claimed, in milliseconds. */
  readonly unclaimed: { since: number | undefined; isAlerted: boolean }
}

type Due = {
  /** Sum of the claims that are worth their gas. */
  due: bigint
  seen: number
  /** Channels that were not looked at, or not claimed while a payer withdraws, for half of the withdraw delay. */
  late: number
  error?: Error
  /** The channels that are worth a claim. Only ids: there may be very many. */
  readonly waiting: Hex[]
  readonly withdrawing: Hex[]
}

/** Finds the channels with something to claim, by their state on chain. Ends early if the chain does not answer. */
async function dueChannels(
  claiming: Claiming,
  { now, isOurs }: { now: number; isOurs: () => Promise<boolean> },
): Promise<Due> {
  const { config, states, refunds, late } = claiming
  const found: Due = { due: 0n, seen: 0, late: 0, waiting: [], withdrawing: [] }
  const cost = await costOf(config, GAS.row, now)
  try {
    for await (const page of states.due(now)) {
      if (!(await isOurs())) break
      await refunds.resume(page, now)
      found.late += page.filter(({ syncedAt }) => now - syncedAt > config.withdrawDelay * 500).length
      for (const state of await readAgain(claiming, page, { now, before: found.seen })) {
        if (state.charged > state.balance) await noteLoss(claiming, state, now)
        const due = claimableIn(state)
        if (due <= cost) continue
        found.due += due
        found[state.withdrawing > 0n ? 'withdrawing' : 'waiting'].push(state.channelId)
        if (state.withdrawing === 0n) continue
        warn(claiming, state)
        if (now > (state.withdrawRequestedAt + config.withdrawDelay / 2) * 1000) found.late++
      }
      found.seen += page.length
    }
  } catch (error) {
    found.error = error as Error
  }
  if (found.late > 0 && !late.isAlerted)
    config.alert?.('claims of channels are late by half of the withdraw delay', {
      network: config.network,
      channels: found.late,
    })
  late.isAlerted = found.late > 0
  return found
}

/** A page as the chain has it: the first channels always, the rest where they were not read for long. */
async function readAgain(
  claiming: Claiming,
  page: readonly ChannelState[],
  { now, before }: { readonly now: number; readonly before: number },
): Promise<readonly ChannelState[]> {
  const staleMs = claiming.config.withdrawDelay * 125
  const isStale = ({ syncedAt }: ChannelState, at: number) => before + at < ALWAYS_READ || now - syncedAt > staleMs
  const fresh = page.filter((state, at) => !isStale(state, at))
  return [...fresh, ...(await mirrored(claiming, page.filter(isStale), now))]
}

/** Claims of at most `MAX_ROWS` channels, as the chain and their records are now. Returns what was claimed. */
async function claimBatch(claiming: Claiming, ids: readonly Hex[], now: number): Promise<bigint> {
  const { config, states } = claiming
  const known = (await Promise.all(ids.map((id) => states.get(id, now)))).filter((state) => state !== undefined)
  const cost = await costOf(config, GAS.row, now)
  const rows = (await mirrored(claiming, known, now)).map(payable).filter((state) => claimableIn(state) > cost)
  if (sumOf(rows) <= (await costOf(config, gasOf(rows), now))) return 0n
  const done = await claim(claiming, rows, now)
  const gas = done.length > 0 ? (await costOf(config, gasOf(done), now)) / BigInt(done.length) : 0n
  await Promise.all(
    done.map(({ channelId, charged }) => states.change(channelId, now, (state) => claimedTo(state, { charged, gas }))),
  )
  return sumOf(done)
}

/**
 * The rows that are claimed, and paid out in the same transaction. A batch that would revert is halved until the row
 * that spoils it stands alone.
 */
async function claim(claiming: Claiming, rows: readonly ChannelState[], now: number): Promise<readonly ChannelState[]> {
  const { config, authorizer, digests, reads, relayer } = claiming
  const { network, lagSeconds, alert } = config
  const hash = digests.claims(rows.map(({ channelId, ceiling, charged }) => ({ channelId, ceiling, charged })))
  const claims = claimCall(rows, await authorizer.sign({ hash }))
  const call = allOf([claims, ...payoutsOf(rows)])
  const gas = gasOf(rows)
  const seen = await reads.view([call], { lagSeconds, gas, direct: true })
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
    alert?.('a channel cannot be claimed', { network, channel: channelId, ...amounts })
    return []
  }
  const half = Math.ceil(rows.length / 2)
  return [...(await claim(claiming, rows.slice(0, half), now)), ...(await claim(claiming, rows.slice(half), now))]
}

/** Pays out what these channels owe. Those of an earlier payee go on paying that one. */
function payoutsOf(rows: readonly ChannelState[]): readonly ContractCall[] {
  const payees = new Map(rows.map(({ config: { receiver, token } }) => [`${receiver}/${token}`, { receiver, token }]))
  return [...payees.values()].map(({ receiver, token }) => settleCall(receiver, token))
}

/** The channels as the chain has them now, which their records note. Throws where the chain does not answer. */
async function mirrored(
  { reads, states, config: { lagSeconds } }: Claiming,
  list: readonly ChannelState[],
  now: number,
): Promise<readonly ChannelState[]> {
  const after: ChannelState[] = []
  for (let i = 0; i < list.length; i += MIRRORS) {
    const some = list.slice(i, i + MIRRORS)
    const seen = await reads.view(
      some.flatMap(({ channelId }) => mirrorCalls(channelId)),
      { lagSeconds },
    )
    if (seen.kind === 'failure') throw new Error(seen.reason)
    const noted = some.map(async ({ channelId }, index) => {
      const mirror = mirrorIn(seen.results.slice(index * 3, index * 3 + 3))
      return mirror && (await states.mirror(channelId, mirror, now))
    })
    after.push(...(await Promise.all(noted)).filter((state) => state !== undefined))
  }
  return after
}

/** The payer has taken money back before it was claimed. The operator is told once. */
async function noteLoss({ config, states }: Claiming, state: ChannelState, now: number): Promise<void> {
  const { channelId, lostAt, charged, claimed, balance } = state
  if (lostAt !== undefined) return
  config.alert?.('a payer has withdrawn what was due; only a part of it can be claimed', {
    network: config.network,
    channel: channelId,
    payer: state.config.payer,
    due: String(charged - claimed),
    claimable: String(balance - claimed),
  })
  await states.change(channelId, now, (current) => ({ ...current, lostAt: now }))
}

/** Tells the operator once that claims which are worth their gas are not mined. */
function noteUnclaimed(
  { config, unclaimed }: Claiming,
  { due, above, now }: { readonly due: bigint; readonly above: bigint; readonly now: number },
): void {
  if (due === 0n || due < above) Object.assign(unclaimed, { since: undefined, isAlerted: false })
  else unclaimed.since ??= now
  if (unclaimed.since === undefined || unclaimed.isAlerted) return
  if (now - unclaimed.since < config.withdrawDelay * 500) return
  unclaimed.isAlerted = true
  config.alert?.('what channels owe is not claimed for half of the withdraw delay', {
    network: config.network,
    due: String(due),
    since: new Date(unclaimed.since).toISOString(),
  })
}

function warn({ config, alerted }: Claiming, state: ChannelState): void {
  const { channelId, withdrawing, withdrawRequestedAt, charged, claimed } = state
  if (alerted.has(channelId)) return
  alerted.add(channelId)
  config.alert?.('a payer withdraws from a channel; what is due is claimed now', {
    network: config.network,
    channel: channelId,
    payer: state.config.payer,
    withdrawing: String(withdrawing),
    due: String(charged - claimed),
    until: new Date((withdrawRequestedAt + state.config.withdrawDelay) * 1000).toISOString(),
  })
}

function gasOf(rows: readonly ChannelState[]): bigint {
  const further = Math.max(0, payoutsOf(rows).length - 1)
  return GAS.base + GAS.row * BigInt(rows.length) + GAS.furtherPayee * BigInt(further)
}

const costOf = async ({ costOf: price }: ClaimsConfig, gas: bigint, now: number): Promise<bigint> =>
  (await price?.(gas, now)) ?? 0n

/** After a claim that was mined. */
const claimedTo = (
  state: ChannelState,
  { charged, gas }: { readonly charged: bigint; readonly gas: bigint },
): ChannelState => ({
  ...state,
  claimed: state.claimed < charged ? charged : state.claimed,
  gasPaid: gasPaidWith(state, gas),
})

/** With as much charged as can be claimed: the contract refuses a claim beyond the balance, all of it. */
const payable = (state: ChannelState): ChannelState =>
  state.charged > state.balance ? { ...state, charged: state.balance } : state

function claimableIn(state: ChannelState): bigint {
  const { charged, claimed } = payable(state)
  return charged - claimed
}

const sumOf = (list: readonly ChannelState[]): bigint =>
  list.reduce((sum, { charged, claimed }) => sum + charged - claimed, 0n)
