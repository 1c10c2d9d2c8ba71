import { type Usdc, usdc } from '../../../core/x402/money.ts'
import type { Chain, Closed, Fate, Identity, Settlement, Verdict } from '../../../core/ports/mod.ts'
import type { Terms } from '../../../core/x402/offer.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { evmRpc, type RpcConfig } from '../evm/rpc.ts'
import { type CheckConfig, checkSolana, type SolanaChecked } from './check.ts'
import { bySearch, bySignature, type FateConfig, type Finder, solanaFates } from './fate.ts'
import { LIFE_MS, solanaHint } from './hint.ts'
import { type FeePayer, feePayerOf, isProof } from './keys.ts'
import { type FeePayerState, feePayerWatch } from './gas.ts'
import { CAPS, type Caps, feeOf, judgeSolana, type SolanaExact, TOKEN, TOKEN_2022, tokenAccount } from './payload.ts'
import { holdingIn, type SolanaReads, solanaReads } from './reads.ts'
import { type SettleConfig, solanaSettler } from './settle.ts'
import { solanaVerifier, stale, type VerifyConfig } from './verify.ts'
import { addressOf, toBase58 } from './wire.ts'

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
} & Partial<Caps> &
  Pick<CheckConfig, 'minFeePayerLamports'> &
  Omit<RpcConfig, 'url'> &
  VerifyConfig &
  FateConfig &
  SettleConfig

export type SolanaChain = Chain &
  Required<Pick<Chain, 'balance' | 'proves'>> & {
    /** Compares the configuration with the chain. When it passes, terms open and stay open. Moves nothing. */
    check(at: { now: number }): Promise<SolanaChecked>
    /** Renews the blockhash in the terms and monitors the fee payers. Call it every few seconds. Never rejects. */
    refresh(at: { now: number }): Promise<void>
    feePayers(): readonly FeePayerState[]
    /** Stops background work; pending settlements resolve with `unknown`. */
    close(): void
  }

/** Least remaining lifetime when work begins. Settlement itself uses all of it. */
const WORK_MS = 6_000

type At = { readonly now: number; readonly signal: AbortSignal }

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
  const caps: Caps = { ...CAPS, ...config }
  const keys = config.feePayerKeys.map(keyOf)
  const [first] = keys
  if (!first) throw new RangeError('fee_payer_keys: at least one is required')
  const feePayers = keys.map(({ address }) => address)
  const rpc = evmRpc({ maxBatch: 1, maxRequests: 32, ...config, url: config.rpcUrl })
  const reads = solanaReads(rpc)
  const hint = solanaHint(reads)
  const [direct, searching] = [bySignature(reads, async (exact) => toBase58(await sign(exact))), bySearch(reads)]
  const find: Finder = (exact, at) => (feePayers.includes(exact.feePayer) ? direct : searching)(exact, at)
  const fates = solanaFates({ reads, find }, { ...config, network })
  const watch = feePayerWatch(reads, { addresses: feePayers, floor: config.feePayerFloor })
  const verifier = solanaVerifier({ reads, find, endOf: hint.endOf, ranDry: watch.ranDry }, config)
  const settler = solanaSettler(
    { reads, find, fates, verifier, sign, spent: ({ feePayer, wire }) => watch.spent(feePayer, feeOf(wire)) },
    config,
  )
  let isReady = false

  async function sign({ feePayer, wire }: SolanaExact): Promise<Uint8Array> {
    const key = keys.find(({ address }) => address === feePayer)
    if (!key) throw new RangeError('the fee payer is not configured')
    return await key.sign(wire.message)
  }

  function terms(now: number): readonly Terms[] {
    const feePayer = feePayers.find((address) => !watch.isLow(address))
    if (!isReady || !feePayer) return []
    return [{ scheme: 'exact', network, asset: mint, payTo, extra: { feePayer, ...hint.extra(now) } }]
  }

  function closed(): Closed | undefined {
    const low = watch
      .states()
      .flatMap((state, i) => (state.low === undefined ? [] : [`fee_payer_keys.${i}: ${state.low}`]))
    return low.length === feePayers.length ? { code: 'no_gas', reason: low.join('; ') } : undefined
  }

  /**
   * Also identifies buyers who signed for a fee payer that is no longer configured: they keep access to what they
   * bought.
   */
  async function identify(payment: Payment, offer: Offer, { now }: At): Promise<Identity> {
    const former = addressOf(offer.extra?.feePayer)
    const isFormer = former !== undefined && !feePayers.includes(former)
    const exact = await judgeSolana(payment, offer, { network, feePayers: isFormer ? [former] : feePayers })
    if (exact.kind === 'refused') return exact
    const { payer, key, wire } = exact
    // A blockhash that we did not offer may be of any age: it lives at most a minute from when it was first seen.
    const first = fates.seen(key, now)
    return { kind: 'known', payer, key, expiresAt: hint.endOf(wire.blockhash) ?? first + LIFE_MS }
  }

  async function verify(payment: Payment, offer: Offer, at: At): Promise<Verdict> {
    const exact = await judgeSolana(payment, offer, { network, feePayers, caps })
    if (exact.kind === 'refused') return exact
    fates.seen(exact.key, at.now)
    const verdict = await verifier.verify(exact, at)
    const end = hint.endOf(exact.wire.blockhash)
    const isLate = verdict.kind === 'valid' && end !== undefined && end < at.now + WORK_MS
    return isLate ? stale('the blockhash expires in less than 6 seconds') : verdict
  }

  async function settle(payment: Payment, offer: Offer, at: At): Promise<Settlement> {
    const exact = await judgeSolana(payment, offer, { network, feePayers, caps })
    if (exact.kind === 'refused') return { kind: 'refused', reason: exact.reason }
    return await settler.settle(exact, at)
  }

  /** Also covers payments signed for a fee payer that is no longer configured. */
  async function fate(payment: Payment, offer: Offer, at: At & { readonly expiresAt?: number }): Promise<Fate> {
    const former = addressOf(offer.extra?.feePayer)
    const exact = await judgeSolana(payment, offer, { network, feePayers: former ? [...feePayers, former] : feePayers })
    return exact.kind === 'refused' ? { kind: 'unknown', reason: exact.reason } : await fates.fate(exact, at)
  }

  async function check({ now }: { now: number }): Promise<SolanaChecked> {
    const problems = await Promise.all(
      keys.map((key, i) =>
        key.sign(new Uint8Array(1)).then(
          () => [],
          (error: Error) => [`fee_payer_keys.${i}: ${error.message}`],
        ),
      ),
    )
    if (problems.flat().length > 0) return { kind: 'wrong', problems: problems.flat() }
    const checked = await checkSolana({ rpc, reads }, { ...config, feePayers }, now)
    if (checked.kind !== 'ready') return checked
    await Promise.all([hint.refresh(now), watch.read(now)])
    isReady = true
    return checked
  }

  function close(): void {
    settler.close()
    rpc.close()
  }

  const balance = (address: string, { signal }: { signal: AbortSignal }) => balanceOf(reads, { address, mint }, signal)
  const refresh = async ({ now }: { now: number }) => void (await Promise.all([hint.refresh(now), watch.refresh(now)]))
  return {
    terms,
    closed,
    identify,
    verify,
    settle,
    fate,
    balance,
    proves: isProof,
    check,
    refresh,
    feePayers: watch.states,
    close,
  }
}

/**
 * USDC of a wallet under either token program; 0 without an account. Rejects for an invalid address and when the node
 * does not answer.
 */
export async function balanceOf(
  reads: SolanaReads,
  { address, mint }: { address: string; mint: string },
  signal: AbortSignal,
): Promise<Usdc> {
  const [owner, token] = [addressOf(address), addressOf(mint)]
  if (!owner || !token) throw new RangeError('not an address: must be 32 bytes in base58')
  const held = await Promise.all([TOKEN, TOKEN_2022].map((program) => tokenAccount(owner, token, program)))
  const bank = await reads.accounts(held, { commitment: 'confirmed', signal })
  if (bank.kind === 'trouble') throw new Error(bank.reason)
  return usdc(bank.found.reduce((sum, account) => sum + (holdingIn(account, mint)?.amount ?? 0n), 0n))
}

/** Validates a cluster's CAIP-2 name. Throws RangeError for anything else. */
export function networkOf(network: string): string {
  if (/^solana:[1-9A-HJ-NP-Za-km-z]{32}$/.test(network)) return network
  throw new RangeError(
    `network must be solana:<32 characters of the genesis hash>, got ${JSON.stringify(network.slice(0, 40))}`,
  )
}

function keyOf(secret: string, index: number): FeePayer {
  try {
    return feePayerOf(secret)
  } catch (error) {
    throw new RangeError(`fee_payer_keys.${index}: ${(error as Error).message}`)
  }
}
