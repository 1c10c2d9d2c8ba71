/**
 * Builds the chains of a gateway from its payment methods: who verifies and settles. A chain is checked before its
 * offers open, and maintained while the process runs.
 */
import type { ChannelSettings, EvmChain } from '../../adapters/chains/evm/mod.ts'
import type { LeasedChain } from '../../adapters/chains/evm/relayer_lease.ts'
import { randomBytes } from '../../adapters/local.ts'
import type { Chain, Storage } from '../../core/mod.ts'
import { multiChain } from '../../adapters/chains/multi_chain.ts'
import type { SolanaChain } from '../../adapters/chains/solana/mod.ts'
import type { CheckResult } from '../../adapters/chains/lib/results.ts'
import type { Balance, Metrics } from '../metrics.ts'
import type { ChainKeys } from '../../core/ports/mod.ts'
import type { Account } from '../operator/accounts.ts'
import type { LowAccount } from '../signals/conditions.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import {
  type EvmPaymentMethod,
  isTestNetwork,
  type PaymentMethod,
  type SolanaPaymentMethod,
} from '../config/payment_methods.ts'
import { defined } from '../config/settings.ts'
import { StartError } from '../start_error.ts'
import type { Opening } from './vendors.ts'

/** Members of a chain that wiring uses besides the port. */
type ServedChain = Chain &
  Pick<EvmChain, 'close'> & { check(at: { now: number }): Promise<CheckResult> } & Partial<
    Pick<LeasedChain, 'renew' | 'release' | 'keys'> & Pick<SolanaChain, 'feePayers'>
  > & {
    /** Updates the data that offers contain, and tends to payments in progress. */
    refresh?(at: { now: number }): Promise<void>
  }

export type WatchedAccounts = {
  low(): readonly LowAccount[]
  /** With what they have and why they run low, if they do. */
  all(): readonly Account[]
  leases(): readonly { readonly gateway: string; readonly address: string; readonly isLeased: boolean }[]
  /** Where the chain takes API keys. */
  readonly apiKeys?: ChainKeys | undefined
}

export type Chaining = Opening & {
  readonly isDevnet: boolean
  readonly storage: Storage
  readonly workerId: string
  readonly leaseMs: number
  readonly meters?: Pick<Metrics, 'balances'> | undefined
  /** Adds accounts that pay for settlements, read for alerts and metrics. */
  readonly watchAccounts?: (accounts: WatchedAccounts) => void
}

/** How many times per lease a process renews it. */
export const RENEWALS = 6
const REFRESH_EVERY_MS = 2_000

/** Opens the chains of a process's gateways; gateways with the same payment method share one. */
export function chains(chaining: Chaining): (row: GatewayConfig) => Promise<Chain> {
  const opened = new Map<string, Promise<ServedChain>>()

  return async ({ name, paymentMethods }) => {
    const all = await Promise.all(
      paymentMethods.map((paymentMethod) => {
        const key = JSON.stringify(paymentMethod)
        const chain = opened.get(key) ?? open(name, paymentMethod)
        opened.set(key, chain)
        void chain.then(
          (open) => chaining.meters?.balances(name, () => balancesOf(open)),
          () => {},
        )
        return chain
      }),
    )
    return all.length === 1 && all[0] ? all[0] : multiChain(all)
  }

  async function open(name: string, paymentMethod: PaymentMethod): Promise<ServedChain> {
    // With a single process, its successor may take over the key at once.
    const chain = await chainOf(name, paymentMethod, chaining)
    chaining.undo.push(() => chain.close())
    chaining.watchAccounts?.({
      apiKeys: chain.apiKeys,
      low: () => lowAccountsOf(chain).map((account) => ({ gateway: name, ...account })),
      all: () => accountsOf(chain).map((account) => ({ gateway: name, ...account })),
      leases: () =>
        (chain.keys?.() ?? []).map(({ address, kind }) => ({ gateway: name, address, isLeased: kind === 'serving' })),
    })
    await openChain(name, chain, chaining)
    await leaseKey(name, chain, chaining)
    scheduleRefresh(name, chain, { ...chaining, tell: teller(name, chain, chaining) })
    return chain
  }
}

/**
 * Whoever settles, the chain is read through our own node. Errors of an adapter, about a URL or a key, are reported to
 * the operator.
 */
export async function chainOf(name: string, paymentMethod: PaymentMethod, chaining: Chaining): Promise<ServedChain> {
  try {
    if (paymentMethod.kind === 'evm') return await evmPaymentMethod(paymentMethod, chaining)
    if (paymentMethod.kind === 'solana') return await solanaPaymentMethod(paymentMethod)
    const { batchedChain } = await import('../../adapters/chains/evm/batched/mod.ts')
    return batchedChain({
      apiUrl: paymentMethod.url,
      networks: paymentMethod.networks,
      payTo: paymentMethod.payTo,
      alert: chaining.log.alert,
    })
  } catch (error) {
    throw new StartError(`Gateway ${name}: ${(error as Error).message}`)
  }
}

async function evmPaymentMethod(
  { network, rpcUrl, asset, payTo, domain, schemes, channels: channelsRow, settles }: EvmPaymentMethod,
  { isDevnet, storage, workerId, leaseMs, log }: Chaining,
): Promise<ServedChain> {
  // An idle local chain makes no blocks, so its latest one may be minutes old. And anvil never mines a transaction that
  // arrives while another is being mined: one at a time, each with up to fifty payments, is as fast.
  const row = { network, rpcUrl, asset, payTo, domain, ...(isDevnet && { readAt: 'pending' as const, maxInFlight: 1 }) }
  if (settles.by === 'facilitators') {
    const { facilitatorChain } = await import('../../adapters/chains/evm/facilitator.ts')
    return facilitatorChain({ ...row, facilitators: settles.rows, random: randomBytes })
  }
  const [{ addressOfKey }, { evmChain }, { leasedChain }] = await Promise.all([
    import('../../adapters/chains/evm/key_address.ts'),
    import('../../adapters/chains/evm/mod.ts'),
    import('../../adapters/chains/evm/relayer_lease.ts'),
  ])
  const keys = settles.keys.map((key) => {
    const address = addressOfKey(key as `0x${string}`)
    return { name: `relayer:${network}:${address}`, key, address }
  })
  const takeLease = (name: string, at: { now: number; until: number }) => storage.lease(name, workerId, at)
  // The coins of test networks cost nothing.
  const channels = channelsRow && { ...(isTestNetwork(network) && { coinPrice: 0 }), ...channelsRow }
  const shared = {
    ...row,
    gasFloor: gasFloorOf(settles),
    facilitators: keys.map(({ address }) => address),
    ...(schemes && { schemes }),
    ...(channels && { channels: channelSettings(channels, { storage, takeLease, alert: log.alert }) }),
  }
  return leasedChain({
    keys,
    build: (relayerKey, role) => evmChain({ ...shared, relayerKey, watchesGas: role === 'sender' }),
    takeLease,
    leaseMs,
  })
}

/** Below this balance a relayer's key is not used. */
export function gasFloorOf({
  relayerFloorWei: wei,
  relayerFloorSettlements: settlements,
}: Extract<EvmPaymentMethod['settles'], { by: 'relayer' }>) {
  return defined({ wei: bigint(wei), settlements })
}

const bigint = (amount: number | string | undefined): bigint | undefined =>
  amount === undefined ? undefined : BigInt(amount)

function channelSettings(
  row: NonNullable<EvmPaymentMethod['channels']>,
  shared: Pick<ChannelSettings, 'storage' | 'takeLease' | 'alert'>,
): ChannelSettings {
  return defined({
    ...shared,
    authorizerKey: row.key,
    withdrawDelay: row.channelWithdrawSeconds,
    minDeposit: bigint(row.channelMinDeposit),
    gasPerWallet: bigint(row.channelGasPerWallet),
    claimAbove: bigint(row.channelClaimAbove),
    coinPrice: row.coinPrice,
    apiKeys: row.keys,
  })
}

async function solanaPaymentMethod({
  network,
  rpcUrl,
  asset: mint,
  payTo,
  settles,
}: SolanaPaymentMethod): Promise<ServedChain> {
  const row = { network, rpcUrl, mint, payTo }
  if (settles.by === 'facilitators') {
    const { solanaFacilitator } = await import('../../adapters/chains/solana/facilitator.ts')
    return solanaFacilitator({ ...row, facilitators: settles.rows, random: randomBytes })
  }
  const { solanaChain } = await import('../../adapters/chains/solana/mod.ts')
  const { keys: feePayerKeys, maxFeeLamports, priorityLamports, feePayerFloorLamports: feePayerFloor } = settles
  return solanaChain({
    ...row,
    ...defined({ feePayerKeys, maxFeeLamports, priorityLamportsPerToken: priorityLamports, feePayerFloor }),
  })
}

/** Refreshes a chain every few seconds. */
function scheduleRefresh(
  gateway: string,
  chain: ServedChain,
  { log, clock, undo, tell }: Opening & { tell(): void },
): void {
  const { refresh } = chain
  if (!refresh) return
  const stop = new AbortController()
  undo.push(() => stop.abort())
  void (async () => {
    while (!stop.signal.aborted) {
      await refresh({ now: clock.now() }).catch((error: Error) =>
        log.warn('refreshing a chain failed', { gateway, error: error.message }),
      )
      tell()
      await clock.wait(REFRESH_EVERY_MS, stop.signal)
    }
  })()
}

/** Balances of the accounts that pay for settlements. */
function balancesOf(chain: ServedChain): readonly Balance[] {
  const relayers = (chain.keys?.() ?? []).map(({ address, balance }) => ({ unit: 'wei' as const, address, balance }))
  const feePayers = (chain.feePayers?.() ?? []).map(({ address, balance }) => ({
    unit: 'lamports' as const,
    address,
    balance,
  }))
  return [...relayers, ...feePayers].flatMap(({ balance, ...rest }) =>
    balance === undefined ? [] : [{ ...rest, amount: Number(balance) }],
  )
}

function lowAccountsOf(chain: Pick<ServedChain, 'keys' | 'feePayers'>): readonly Omit<LowAccount, 'gateway'>[] {
  const relayers = (chain.keys?.() ?? []).flatMap(({ address, kind, reason }) =>
    kind === 'low' || kind === 'wrong' ? [{ address, reason }] : [],
  )
  const feePayers = (chain.feePayers?.() ?? []).flatMap(({ address, low }) =>
    low === undefined ? [] : [{ address, reason: low }],
  )
  return [...relayers, ...feePayers]
}

function accountsOf(chain: Pick<ServedChain, 'keys' | 'feePayers'>): readonly Omit<Account, 'gateway'>[] {
  const relayers = (chain.keys?.() ?? []).map(({ address, balance, kind, reason }) => ({
    unit: 'wei' as const,
    address,
    amount: balance === undefined ? undefined : Number(balance),
    low: kind === 'low' || kind === 'wrong' ? reason : undefined,
  }))
  const feePayers = (chain.feePayers?.() ?? []).map(({ address, balance, low }) => ({
    unit: 'lamports' as const,
    address,
    amount: balance === undefined ? undefined : Number(balance),
    low,
  }))
  return [...relayers, ...feePayers]
}

/** Logs each change of which accounts run low, and of whether the gateway still sells. */
export function teller(
  gateway: string,
  chain: Pick<ServedChain, 'keys' | 'feePayers' | 'closed'>,
  { log, clock }: Pick<Opening, 'log' | 'clock'>,
): () => void {
  let known = new Set<string>()
  let wasClosed = false
  return () => {
    const low = lowAccountsOf(chain)
    for (const { address, reason } of low)
      if (!known.has(address)) log.alert('an account that pays for settlements is low', { gateway, address, reason })
    known = new Set(low.map(({ address }) => address))
    const closed = chain.closed?.(clock.now())
    const isClosed = closed?.code === 'no_gas'
    if (isClosed && !wasClosed)
      log.alert('the gateway has stopped selling: nothing pays for settlements; it answers 503', {
        gateway,
        reason: closed.reason,
      })
    if (wasClosed && !closed) log.info('the gateway sells again: settlements can be paid for', { gateway })
    wasClosed = isClosed || (wasClosed && closed !== undefined)
  }
}

/** Renews a relayer key while the process runs, and looks for a free one when it has none. */
async function leaseKey(gateway: string, chain: ServedChain, { log, clock, undo, leaseMs }: Chaining): Promise<void> {
  if (!chain.renew) return
  const stop = new AbortController()
  undo.push(async () => {
    stop.abort()
    await chain.release?.(clock.now())
  })
  let hasKey = true
  const renew = async () => {
    const has = await chain.renew?.(clock.now()).catch(() => false)
    const reason = has ? undefined : chain.closed?.(clock.now())?.reason
    if (has !== hasKey)
      log.warn(
        has
          ? 'a relayer key is held; the gateway is open'
          : 'no relayer key serves; the gateway answers 503 until one does',
        { gateway, ...(reason !== undefined && { reason }) },
      )
    hasKey = has ?? false
  }
  await renew()
  void (async () => {
    while (!stop.signal.aborted) {
      await clock.wait(leaseMs / RENEWALS, stop.signal)
      if (!stop.signal.aborted) await renew()
    }
  })()
}

/**
 * Checks a chain before its offers open. A misconfiguration stops the start; an unreachable node is retried until it
 * answers.
 */
async function openChain(gateway: string, chain: ServedChain, { log, clock, undo }: Opening): Promise<void> {
  const first = await chain.check({ now: clock.now() })
  if (first.kind === 'wrong')
    throw new StartError(
      `Gateway ${gateway} does not match its chain:\n${first.problems.map((problem) => `  - ${problem}`).join('\n')}`,
    )
  if (first.kind === 'ready') {
    for (const warning of first.warnings) log.warn(warning, { gateway })
    return
  }
  log.warn('a chain is unreachable; its gateway answers 503 until it responds', { gateway, reason: first.reason })
  const stop = new AbortController()
  undo.push(() => stop.abort())
  void retry()

  async function retry(): Promise<void> {
    for (;;) {
      await clock.wait(5_000, stop.signal)
      if (stop.signal.aborted) return
      const again = await chain.check({ now: clock.now() })
      if (again.kind === 'ready') return log.info('the chain answers; the gateway is open', { gateway })
      if (again.kind === 'wrong')
        log.alert('a gateway does not match its chain and stays closed', { gateway, problems: again.problems })
    }
  }
}
