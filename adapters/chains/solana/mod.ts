import type { CallOptions, CheckResult } from '../lib/results.ts'
import { solanaFamily } from './family.ts'
import { type Offer, type Payment, type Terms, type Usdc, usdc } from '../../../core/x402/mod.ts'
import type { Chain, Closed, Fate, Identity, Settlement, Verdict } from '../../../core/ports/mod.ts'
import { jsonRpc, type Rpc, type RpcConfig } from '../lib/json_rpc.ts'
import { type CheckConfig, checkSolana } from './check.ts'
import {
  findByScan,
  findBySignature,
  type FateConfig,
  type TransactionFinder,
  solanaFates,
  type SolanaFates,
} from './exact/fate.ts'
import { BLOCKHASH_LIFE_MS, blockhashTracker, type BlockhashTracker } from './node/blockhash.ts'
import { type FeePayer, parseFeePayer, isValidProof, signedOn } from './node/keys.ts'
import { type FeePayerMonitor, type FeePayerState, feePayerMonitor } from './node/gas.ts'
import {
  DEFAULT_FEE_LIMITS,
  type FeeLimits,
  feeOf,
  checkPayment,
  type SolanaExact,
  tokenAccount,
} from './exact/payload.ts'
import { parseTokenAccount, type SolanaReads, solanaReads, TOKEN, TOKEN_2022 } from './node/reads.ts'
import { type SettleConfig, type SolanaSettler, solanaSettler } from './exact/settle.ts'
import { solanaTerms } from './exact/terms.ts'
import { solanaVerifier, stale, type SolanaVerifier, type VerifyConfig } from './exact/verify.ts'
import type { Address } from '@solana/kit'
import { parseAddress, toBase58 } from './node/transaction.ts'

/** Configuration of one gateway on a Solana cluster. Defaults suit a public node. */
export type SolanaConfig = {
  /** CAIP-2: `solana:` and the first 32 characters of the genesis hash. */
  readonly network: string
  readonly rpcUrl: string
  /** A token with 6 decimals under Token or Token-2022, such as USDC. */
  readonly mint: string
  /** A wallet whose token account exists. */
  readonly payTo: string
  /**
   * 64-byte key pairs, in base58 or as JSON arrays. The first with enough SOL is offered, the same on every replica;
   * payments under any of them are accepted. Their accounts hold SOL for fees and nothing else.
   */
  readonly feePayerKeys: readonly string[]
  /** A fee payer below this many lamports is not offered until topped up. Default 2,000,000. */
  readonly feePayerFloor?: number
} & Partial<FeeLimits> &
  Pick<CheckConfig, 'minFeePayerLamports'> &
  Omit<RpcConfig, 'url'> &
  VerifyConfig &
  FateConfig &
  SettleConfig

export type SolanaChain = Chain &
  Required<Pick<Chain, 'balance' | 'proves'>> & {
    /** Compares the configuration with the chain. When it passes, terms open and stay open. Moves nothing. */
    check(at: { now: number }): Promise<CheckResult>
    /** Renews the blockhash in the terms and monitors the fee payers. Call it every few seconds. Never rejects. */
    refresh(at: { now: number }): Promise<void>
    feePayers(): readonly FeePayerState[]
    /** Stops background work; pending settlements resolve with `unknown`. */
    close(): void
  }

/** Least remaining lifetime when work begins. Settlement itself uses all of it. */
const MIN_REMAINING_MS = 6_000

/** State of `solanaChain`. */
type SolanaParts = {
  readonly config: SolanaConfig
  readonly mint: string
  readonly network: string
  readonly limits: FeeLimits
  readonly keys: FeePayer[]
  readonly feePayers: Address[]
  readonly rpc: Rpc
  readonly reads: SolanaReads
  readonly blockhashes: BlockhashTracker
  readonly fates: SolanaFates
  readonly monitor: FeePayerMonitor
  readonly verifier: SolanaVerifier
  readonly settler: SolanaSettler
  isReady: boolean
  readonly termsFor: ReturnType<typeof solanaTerms>
}

/**
 * USDC on one Solana cluster, verified and settled by this gateway. Throws RangeError, without quoting the value, when
 * the URL, a key or the network is malformed.
 *
 * @example
 * const chain = solanaChain({
 *   network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
 *   rpcUrl: 'https://api.devnet.solana.com',
 *   mint: '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU',
 *   payTo,
 *   feePayerKeys: [feePayerKey],
 * })
 * await chain.check({ now: Date.now() })
 */
export function solanaChain(config: SolanaConfig): SolanaChain {
  const { mint, payTo } = config
  const network = networkOf(config.network)

  const keys = config.feePayerKeys.map(parseKey)
  const [first] = keys
  if (!first) throw new RangeError('fee_payer_keys: at least one is required')
  const feePayers = keys.map(({ address }) => address)
  const rpc = jsonRpc({ maxBatch: 1, maxRequests: 32, ...config, url: config.rpcUrl })
  const reads = solanaReads(rpc)
  const blockhashes = blockhashTracker(reads)
  const [bySignature, byScan] = [
    findBySignature(reads, async (exact) => toBase58(await sign(chain, exact))),
    findByScan(reads),
  ]
  const find: TransactionFinder = (exact, at) => (feePayers.includes(exact.feePayer) ? bySignature : byScan)(exact, at)
  const fates = solanaFates({ reads, find }, { ...config, network })
  const monitor = feePayerMonitor(reads, { addresses: feePayers, floor: config.feePayerFloor })
  const verifier = solanaVerifier(
    { reads, find, expiryOf: blockhashes.expiryOf, reportUnderfunded: monitor.reportUnderfunded },
    config,
  )

  const chain: SolanaParts = {
    config,
    mint,
    network,
    limits: { ...DEFAULT_FEE_LIMITS, ...config },
    keys,
    feePayers,
    rpc,
    reads,
    blockhashes,
    fates,
    monitor,
    verifier,
    settler: solanaSettler(
      {
        reads,
        find,
        fates,
        verifier,
        sign: (...args) => sign(chain, ...args),
        onSent: ({ feePayer, tx }) => monitor.recordSpent(feePayer, feeOf(tx)),
      },
      config,
    ),
    isReady: false,
    termsFor: solanaTerms({ network, mint, payTo }),
  }
  return {
    families: [solanaFamily],
    terms: (...args) => terms(chain, ...args),
    closed: () => closed(chain),
    identify: (...args) => identify(chain, ...args),
    verify: (...args) => verify(chain, ...args),
    settle: (...args) => settle(chain, ...args),
    fate: (...args) => fate(chain, ...args),
    balance: (...args) => balance(chain, ...args),
    proves: isValidProof,
    hasSigned: signedOn(config.network),
    check: (...args) => check(chain, ...args),
    refresh: (...args) => refresh(chain, ...args),
    feePayers: monitor.states,
    close: () => close(chain),
  }
}

async function sign(chain: SolanaParts, { feePayer, tx }: SolanaExact): Promise<Uint8Array> {
  const key = chain.keys.find(({ address }) => address === feePayer)
  if (!key) throw new RangeError('the fee payer is not configured')
  return await key.sign(tx.message)
}

function terms(chain: SolanaParts, now: number): readonly Terms[] {
  const feePayer = chain.feePayers.find((address) => !chain.monitor.isLow(address))
  if (!chain.isReady || !feePayer) return []
  return chain.termsFor(feePayer, chain.blockhashes.extra(now))
}

function closed(chain: SolanaParts): Closed | undefined {
  const low = chain.monitor
    .states()
    .flatMap((state, i) => (state.low === undefined ? [] : [`fee_payer_keys.${i}: ${state.low}`]))
  return low.length === chain.feePayers.length ? { code: 'no_gas', reason: low.join('; ') } : undefined
}

/**
 * Also identifies buyers who signed for a fee payer that is no longer configured: they keep access to what they
 * bought.
 */
async function identify(chain: SolanaParts, payment: Payment, offer: Offer, { now }: CallOptions): Promise<Identity> {
  const former = parseAddress(offer.extra?.feePayer)
  const isFormer = former !== undefined && !chain.feePayers.includes(former)
  const exact = await checkPayment(payment, offer, {
    network: chain.network,
    feePayers: isFormer ? [former] : chain.feePayers,
  })
  if (exact.kind === 'refused') return exact
  const { payer, key, tx } = exact
  // A blockhash that we did not offer may be of any age: it lives at most a minute from when it was first seen.
  const first = chain.fates.firstSeenAt(key, now)
  return { kind: 'known', payer, key, expiresAt: chain.blockhashes.expiryOf(tx.blockhash) ?? first + BLOCKHASH_LIFE_MS }
}

async function verify(chain: SolanaParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  const exact = await checkPayment(payment, offer, {
    network: chain.network,
    feePayers: chain.feePayers,
    limits: chain.limits,
  })
  if (exact.kind === 'refused') return exact
  chain.fates.firstSeenAt(exact.key, at.now)
  const verdict = await chain.verifier.verify(exact, at)
  const end = chain.blockhashes.expiryOf(exact.tx.blockhash)
  const isLate = verdict.kind === 'valid' && end !== undefined && end < at.now + MIN_REMAINING_MS
  return isLate ? stale('the blockhash expires in less than 6 seconds') : verdict
}

async function settle(chain: SolanaParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Settlement> {
  const exact = await checkPayment(payment, offer, {
    network: chain.network,
    feePayers: chain.feePayers,
    limits: chain.limits,
  })
  if (exact.kind === 'refused') return { kind: 'refused', reason: exact.reason }
  return await chain.settler.settle(exact, at)
}

/** Also covers payments signed for a fee payer that is no longer configured. */
async function fate(
  chain: SolanaParts,
  payment: Payment,
  offer: Offer,
  at: CallOptions & { readonly expiresAt?: number },
): Promise<Fate> {
  const former = parseAddress(offer.extra?.feePayer)
  const exact = await checkPayment(payment, offer, {
    network: chain.network,
    feePayers: former ? [...chain.feePayers, former] : chain.feePayers,
  })
  return exact.kind === 'refused' ? { kind: 'unknown', reason: exact.reason } : await chain.fates.fate(exact, at)
}

async function check(chain: SolanaParts, { now }: { now: number }): Promise<CheckResult> {
  const problems = await Promise.all(
    chain.keys.map((key, i) =>
      key.sign(new Uint8Array(1)).then(
        () => [],
        (error: Error) => [`fee_payer_keys.${i}: ${error.message}`],
      ),
    ),
  )
  if (problems.flat().length > 0) return { kind: 'wrong', problems: problems.flat() }
  const checked = await checkSolana(
    { rpc: chain.rpc, reads: chain.reads },
    { ...chain.config, feePayers: chain.feePayers },
    now,
  )
  if (checked.kind !== 'ready') return checked
  await Promise.all([chain.blockhashes.refresh(now), chain.monitor.read(now)])
  chain.isReady = true
  return checked
}

function close(chain: SolanaParts): void {
  chain.settler.close()
  chain.rpc.close()
}

const balance = (chain: SolanaParts, address: string, { signal }: { signal: AbortSignal }) =>
  balanceOf(chain.reads, { address, mint: chain.mint }, signal)

const refresh = async (chain: SolanaParts, { now }: { now: number }) =>
  void (await Promise.all([chain.blockhashes.refresh(now), chain.monitor.refresh(now)]))

/**
 * USDC of a wallet under either token program; 0 without an account. Rejects for an invalid address and when the node
 * does not answer.
 */
export async function balanceOf(
  reads: SolanaReads,
  { address, mint }: { address: string; mint: string },
  signal: AbortSignal,
): Promise<Usdc> {
  const [owner, token] = [parseAddress(address), parseAddress(mint)]
  if (!owner || !token) throw new RangeError('not an address: must be 32 bytes in base58')
  const accounts = await Promise.all([TOKEN, TOKEN_2022].map((program) => tokenAccount(owner, token, program)))
  const bank = await reads.accounts(accounts, { commitment: 'confirmed', signal })
  if (bank.kind === 'failure') throw new Error(bank.reason)
  return usdc(bank.found.reduce((sum, account) => sum + (parseTokenAccount(account, mint)?.amount ?? 0n), 0n))
}

/** Validates a cluster's CAIP-2 name. Throws RangeError for anything else. */
export function networkOf(network: string): string {
  if (/^solana:[1-9A-HJ-NP-Za-km-z]{32}$/.test(network)) return network
  throw new RangeError(
    `network must be solana:<32 characters of the genesis hash>, got ${JSON.stringify(network.slice(0, 40))}`,
  )
}

function parseKey(secret: string, index: number): FeePayer {
  try {
    return parseFeePayer(secret)
  } catch (error) {
    throw new RangeError(`fee_payer_keys.${index}: ${(error as Error).message}`)
  }
}
