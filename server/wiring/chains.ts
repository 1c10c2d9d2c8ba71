/**
 * Builds the chains of a gateway from its payment methods: who verifies and settles. A chain is checked before its
 * offers open, and maintained while the process runs.
 */
import type { ChainSide, ServedChain, TransferRange } from '../../adapters/chains/lib/manifest.ts'
import { chainManifest } from '../../adapters/chains/manifests.ts'
import { systemClock } from '../../adapters/local.ts'
import { randomBytes } from '../../adapters/machine.ts'
import { multiChain } from '../../adapters/chains/multi_chain.ts'
import type { Chain, Storage } from '../../core/mod.ts'
import type { ChainKeys } from '../../core/ports/mod.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import { isPlayMoney, type PaymentMethod } from '../config/payment_methods.ts'
import type { Balance, Metrics } from '../metrics.ts'
import type { Account } from '../operator/accounts.ts'
import type { LowAccount } from '../signals/conditions.ts'
import { StartError } from '../start_error.ts'
import type { Opening } from './vendors.ts'

export type WatchedAccounts = {
  low(): readonly LowAccount[]
  /** With what they have and why they run low, if they do. */
  all(): readonly Account[]
  leases(): readonly { readonly gateway: string; readonly address: string; readonly isLeased: boolean }[]
  /** Where the chain takes API keys. */
  readonly apiKeys?: ChainKeys | undefined
}

type Chaining = Opening & {
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
        chain
          .accounts()
          .flatMap(({ address, isLeased }) => (isLeased === undefined ? [] : [{ gateway: name, address, isLeased }])),
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
export async function chainOf(
  name: string,
  method: PaymentMethod,
  { isDevnet, storage, workerId, leaseMs, log }: Chaining,
): Promise<ServedChain> {
  try {
    const at = {
      isDevnet,
      isTest: isPlayMoney(method),
      storage,
      workerId,
      leaseMs,
      alert: log.alert,
      random: randomBytes,
    }
    return await chainManifest(method).open(method, at)
  } catch (error) {
    throw new StartError(`Gateway ${name}: ${(error as Error).message}`)
  }
}

/** Every account that pays for settlements of a method, read from its node or, offline, only named. */
export const payingAccounts = (method: PaymentMethod, { isOffline = false } = {}) =>
  chainManifest(method).accounts(method, { now: systemClock.now(), isOffline })

/** A method on a network whose payments can be read back from the chain. */
export type ComparableMethod = Exclude<PaymentMethod, { readonly kind: 'batched' }>

export const isComparable = (method: PaymentMethod): method is ComparableMethod =>
  chainManifest(method).chainSide !== undefined

/** Reads the payments to the payee of this method from the chain. */
export const chainSide = async (method: ComparableMethod, range: TransferRange): Promise<ChainSide> => {
  const side = await chainManifest(method).chainSide?.(method, range)
  if (!side) throw new Error('the payments of this network cannot be read back')
  return side
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
const balancesOf = (chain: Pick<ServedChain, 'accounts'>): readonly Balance[] =>
  chain
    .accounts()
    .flatMap(({ unit, address, balance }) =>
      balance === undefined ? [] : [{ unit, address, amount: Number(balance) }],
    )

const lowAccountsOf = (chain: Pick<ServedChain, 'accounts'>): readonly Omit<LowAccount, 'gateway'>[] =>
  chain.accounts().flatMap(({ address, low }) => (low === undefined ? [] : [{ address, reason: low }]))

const accountsOf = (chain: Pick<ServedChain, 'accounts'>): readonly Omit<Account, 'gateway'>[] =>
  chain.accounts().map(({ unit, address, balance, low }) => ({
    unit,
    address,
    amount: balance === undefined ? undefined : Number(balance),
    low,
  }))

/** Logs each change of which accounts run low, and of whether the gateway still sells. */
export function teller(
  gateway: string,
  chain: Pick<ServedChain, 'accounts' | 'closed'>,
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
