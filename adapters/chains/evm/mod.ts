import { type CheckResult, unavailable } from '../lib/results.ts'
import { evmFamily } from './family.ts'
import { chainIdOf, type Domain } from './exact/eip3009.ts'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { concurrencyLimiter } from '../../../core/lib/mod.ts'
import { type Offer, type Terms } from '../../../core/x402/mod.ts'
import type { Chain } from '../../../core/ports/mod.ts'
import { type CheckConfig, checkEvm } from './check.ts'
import { evmReads, type Reads, type ReadsConfig } from './node/reads.ts'
import { type GasFloor, type GasState, type GasMonitor, gasMonitor, type KeyStatus, readKeyStatus } from './node/gas.ts'
import { evmRelayer, type Relayer, type RelayerConfig } from './node/relayer.ts'
import { jsonRpc, type Rpc, type RpcConfig } from '../lib/json_rpc.ts'
import { type SettleConfig, TRANSFER_GAS } from './exact/transaction.ts'
import { evmUpto } from './upto/mod.ts'
import { type KeyRecovering, type KeysRecovered } from './channels/keys/recovery.ts'
import { type Hex } from '../lib/hex.ts'
import type { EvmScheme } from './node/x402_contracts.ts'
import { type ChannelSettings, channelsOf } from './channels/mod.ts'
import { type EvmExact, evmExact } from './exact/mod.ts'

export type { ChannelSettings } from './channels/mod.ts'
export type { EvmScheme } from './node/x402_contracts.ts'

/** Configuration of one gateway on an EVM chain. Defaults suit a public node of an L2. */
export type EvmConfig = {
  /** CAIP-2, for example `eip155:8453`. */
  readonly network: string
  readonly rpcUrl: string
  /** A token with EIP-3009, such as USDC. */
  readonly asset: string
  readonly payTo: string
  /** EIP-712 domain of the asset. It differs per deployment; `check` compares it with the token. */
  readonly domain: Domain
  /** Pays the gas. Use a key in one process only: two would compete for nonces. */
  readonly relayerKey: string
} & Omit<RpcConfig, 'url'> &
  Omit<RelayerConfig, 'chainId'> &
  ReadsConfig &
  Omit<SettleConfig, 'relayer'> &
  Pick<CheckConfig, 'lowGas'> & {
    /** Schemes that it accepts, preferred first. Default: `exact`. `upto` charges by use, through Permit2. */
    readonly schemes?: readonly EvmScheme[]
    /** Required for `batch-settlement`. */
    readonly channels?: ChannelSettings
    /** Accounts of other replicas that buyers by `upto` may have signed for. */
    readonly facilitators?: readonly string[]
    /** Sales stop below this balance until the account is topped up. */
    readonly gasFloor?: GasFloor
    /** False for a read-only instance, which neither checks nor monitors the account of its key. Default true. */
    readonly watchesGas?: boolean
  }

export type EvmChain = Chain &
  Required<Pick<Chain, 'balance' | 'hasSigned'>> & {
    /** Compares the configuration with the chain. When it passes, terms open and stay open. Moves nothing. */
    check(at?: { now: number }): Promise<CheckResult>
    /** Monitors the relayer's gas. Call it every few seconds. Never rejects. */
    refresh(at: { now: number }): Promise<void>
    /** The relayer's gas balance, and whether it is too low to sell. */
    gas(): GasState
    /** Reads the account of another key: whether it could serve, or why not. */
    keyStatus(relayerKey: string, now: number): Promise<KeyStatus>
    /** Whether no settlement is under way. */
    isIdle(): boolean
    /**
     * Claims what is due in channels, and sends it to the payee. `above`: only where at least so much is due in all, in
     * base units. Absent without the scheme `batch-settlement`.
     */
    claimChannels?(at: { now: number; above?: bigint }): Promise<{ readonly claimed: bigint }>
    /**
     * Finds the channels of API keys in the logs of the chain, after the loss of the database. Absent where keys are
     * off. Rejects where the node does not answer.
     */
    recoverKeys?(at: KeyRecovering): Promise<KeysRecovered>
    /** Stops background work; pending settlements resolve with `unknown`. */
    close(): void
  }

/** State of `evmChain`. */
type EvmParts = {
  readonly config: EvmConfig
  readonly chainId: number
  readonly account: ReturnType<typeof parseKey>
  readonly rpc: Rpc
  readonly reads: Reads
  readonly watchesGas: boolean
  readonly gas: GasMonitor
  readonly relayer: Relayer
  readonly exact: EvmExact
  readonly channels: ReturnType<typeof channelsOf> | undefined
  /** A scheme without its row does not compile. */
  readonly byScheme: Readonly<Record<EvmScheme, Scheme>>
  terms: readonly Terms[]
}

/**
 * USDC on one EVM chain, verified and settled by this gateway. Throws RangeError, without quoting the value, when the
 * URL, the key or the network is malformed.
 *
 * @example
 * const chain = evmChain({
 *   network: 'eip155:84532',
 *   rpcUrl: 'https://sepolia.base.org',
 *   asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
 *   payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
 *   domain: { name: 'USDC', version: '2' },
 *   relayerKey,
 * })
 * await chain.check({ now: Date.now() })
 */
export function evmChain(config: EvmConfig): EvmChain {
  requireSettings(config)
  const chainId = chainIdOf(config.network)
  const account = parseKey(config.relayerKey)
  const rpc = jsonRpc({ ...config, url: config.rpcUrl })
  const reads = evmReads(rpc, config)
  const watchesGas = config.watchesGas ?? true
  const transferGas = config.gas?.transfer ?? TRANSFER_GAS
  const gas: GasMonitor = gasMonitor(
    { rpc, feeAt: (now) => relayer.feeAt(now) },
    { address: account.address, transferGas, floor: config.gasFloor },
  )
  const alone = evmRelayer(rpc, account, { ...config, chainId, gasMonitor: gas })
  // Both schemes send with one key, so they share its transactions under way.
  const sending = concurrencyLimiter(config.maxInFlight ?? 4)
  const relayer: Relayer = { ...alone, send: (call, now) => sending(() => alone.send(call, now)) }
  const settings = { ...config, chainId, lagSeconds: lagSeconds(config) }
  const relayerAddress = account.address
  const exact = evmExact({ rpc, reads, relayer, gasMonitor: gas }, { ...settings, relayer: relayerAddress })
  const facilitators = [relayerAddress, ...((config.facilitators ?? []) as Hex[])]
  const upto = evmUpto({ rpc, reads, relayer }, { ...settings, facilitator: relayerAddress, facilitators })
  const { checkSignature } = exact
  const channels = schemesOf(config).includes('batch-settlement')
    ? channelsOf(
        { rpc, reads, relayer, checkSignature, gasPrice: gas.price, relayerAddress },
        settings,
        requireChannels(config),
      )
    : undefined
  const balance: EvmChain['balance'] = (address, { signal }) =>
    reads.balance(config.asset, address, { lagSeconds: lagSeconds(config), signal })
  const byScheme = { exact, upto, 'batch-settlement': channels ?? WITHOUT_CHANNELS }
  const chain: EvmParts = {
    config,
    chainId,
    account,
    rpc,
    reads,
    watchesGas,
    gas,
    relayer,
    exact,
    channels,
    byScheme,
    terms: [],
  }
  return {
    families: [evmFamily],
    terms: () => (low(chain) === undefined ? current(chain) : []),
    closed() {
      const reason = low(chain)
      return reason === undefined ? undefined : { code: 'no_gas', reason: `relayer_key: ${reason}` }
    },
    identify: async (payment, offer, at) => await schemeOf(chain, offer).identify(payment, offer, at),
    hasSigned: exact.hasSigned,
    verify: async (payment, offer, at) => await schemeOf(chain, offer).verify(payment, offer, at),
    settle: async (payment, offer, at) => await schemeOf(chain, offer).settle(payment, offer, at),
    ...(channels && {
      secure: async (payment, offer, at) =>
        offer.scheme === 'batch-settlement' ? await channels.secure(payment, offer, at) : { kind: 'secured' },
      drawDown: async (payment, offer, at) =>
        offer.scheme === 'batch-settlement' ? await channels.drawDown(payment, offer, at) : undefined,
    }),
    fate: async (payment, offer, at) => await schemeOf(chain, offer).fate(payment, offer, at),
    balance,
    check: (...args) => check(chain, ...args),
    async refresh({ now }) {
      if (!watchesGas) return
      // Claims wait for blocks, and what offers need does not wait for them.
      void channels?.maintain({ now })
      await gas.refresh(now)
    },
    ...(channels && {
      refund: channels.refund,
      claimChannels: ({ now, above = 1n }) => channels.claimDue(now, above),
      ...(channels.apiKeys && { apiKeys: channels.apiKeys, recoverKeys: channels.recoverKeys }),
    }),
    gas: gas.state,
    keyStatus: (key, now) =>
      readKeyStatus(
        { rpc, feeAt: relayer.feeAt },
        { address: parseKey(key).address, transferGas, floor: config.gasFloor },
        now,
      ),
    isIdle: () => exact.isIdle() && upto.isIdle() && (channels?.isIdle() ?? true),
    close: () => close(chain),
  }
}

/** Throws RangeError for a setting that a program without types has left out. */
function requireSettings(config: EvmConfig): void {
  const lacking = (['network', 'rpcUrl', 'asset', 'payTo', 'relayerKey'] as const).find(
    (name) => typeof config[name] !== 'string',
  )
  if (lacking) throw new RangeError(`evmChain: ${lacking} is missing`)
  if (typeof config.domain?.name !== 'string' || typeof config.domain.version !== 'string')
    throw new RangeError("evmChain: domain is missing; it is the token's, such as { name: 'USDC', version: '2' }")
}

/** The settings of channels, with the account that signs claims. */
function requireChannels({ channels }: EvmConfig) {
  if (!channels) throw new RangeError('evmChain: channels is missing; the scheme batch-settlement needs it')
  return { ...channels, authorizer: parseKey(channels.authorizerKey, 'channels.authorizerKey') }
}

const schemesOf = ({ schemes = ['exact'] }: EvmConfig): readonly EvmScheme[] => schemes

/**
 * Terms as they are now: those of channels follow the price of gas. Returns the same list while nothing has changed.
 */
function current(chain: EvmParts): readonly Terms[] {
  const priced = chain.channels?.terms()
  if (priced && chain.terms.some((each) => each.scheme === 'batch-settlement' && each !== priced))
    chain.terms = chain.terms.map((each) => (each.scheme === 'batch-settlement' ? priced : each))
  return chain.terms
}

type Scheme = Pick<Chain, 'identify' | 'verify' | 'settle' | 'fate'> & { terms?(): Terms }

/** Any other scheme is read as `exact`, which names what is wrong. */
function schemeOf(chain: EvmParts, { scheme }: Offer): Scheme {
  return scheme === 'upto' || scheme === 'batch-settlement' ? chain.byScheme[scheme] : chain.byScheme.exact
}

async function check(chain: EvmParts, { now }: { now: number } = { now: 0 }): Promise<CheckResult> {
  const usesPermit2 = schemesOf(chain.config).includes('upto')
  const checked = await checkEvm(chain.rpc, {
    ...chain.config,
    usesPermit2,
    usesChannels: chain.channels !== undefined,
    chainId: chain.chainId,
    relayer: chain.account.address,
    checksRelayer: chain.watchesGas,
  })
  if (checked.kind !== 'ready') return checked
  if (chain.watchesGas) await chain.gas.readNow(now)
  await chain.reads.setMulticall(checked.multicall)
  chain.relayer.setSync(checked.sync)
  chain.terms = schemesOf(chain.config).flatMap((scheme) => chain.byScheme[scheme].terms?.() ?? [])
  return checked
}

function close(chain: EvmParts): void {
  chain.exact.close()
  chain.relayer.close()
  chain.rpc.close()
}

const low = (chain: EvmParts) => (chain.watchesGas ? chain.gas.state().low : undefined)

const NO_CHANNELS = unavailable('this gateway has no channels any more')
const WITHOUT_CHANNELS: Scheme = {
  identify: async () => NO_CHANNELS,
  verify: async () => NO_CHANNELS,
  settle: async () => NO_CHANNELS,
  fate: async () => ({ kind: 'unknown', reason: NO_CHANNELS.reason }),
}

function lagSeconds(config: EvmConfig): number {
  return config.lagSeconds ?? 4
}

/** Parses the key. The error never quotes it. */
function parseKey(key: string, name = 'relayerKey'): PrivateKeyAccount {
  try {
    if (/^0x[0-9a-fA-F]{64}$/.test(key)) return privateKeyToAccount(key as Hex)
  } catch {
    // The number is outside the curve's range.
  }
  throw new RangeError(`${name} must be 0x and 64 hex digits of a valid private key`)
}
