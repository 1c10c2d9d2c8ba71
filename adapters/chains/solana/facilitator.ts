import { usdc } from '../../../core/x402/money.ts'
import type { Chain, Fate, Identity, Refused, Settlement, Verdict } from '../../../core/ports/mod.ts'
import type { Terms } from '../../../core/x402/offer.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { evmRpc, type RpcConfig } from '../evm/rpc.ts'
import { type ApiConfig, blameIn, deadline, type FacilitatorRow, type NamedApi, namedApis } from '../facilitator/api.ts'
import { readSettleReply, readSolanaSupport, type SettleReply } from '../facilitator/replies.ts'
import { firstVerdict, requestOf } from '../facilitator/verdict.ts'
import { outOfTime } from '../in_flight.ts'
import { lruCache } from '../lru_cache.ts'
import { balanceOf, networkOf, type SolanaChain } from './mod.ts'
import { checkSolana, type SolanaChecked } from './check.ts'
import { bySearch, type FateConfig, solanaFates } from './fate.ts'
import { LIFE_MS, solanaHint } from './hint.ts'
import { isProof } from './keys.ts'
import { type Caps, judgeSolana, type SolanaExact } from './payload.ts'
import { holdingIn, isPaidIn, solanaReads } from './reads.ts'
import { ended, pause } from './settle.ts'
import { awayIn, dateOf, GONE, replayed, stale, unfunded, type VerifyConfig } from './verify.ts'
import { addressOf, fromBase58, writeFormat } from './wire.ts'

/**
 * Configuration of one gateway on a Solana cluster whose payments facilitators verify and settle. `fetch` calls the
 * node and the facilitators.
 */
export type SolanaFacilitatorConfig = {
  /** CAIP-2: `solana:` and the first 32 characters of the genesis hash. */
  readonly network: string
  /** A read-only node, for balances and the fate of payments. */
  readonly rpcUrl: string
  readonly mint: string
  /** A wallet whose token account exists. */
  readonly payTo: string
  /** Preferred first. The others stand in for one that does not answer, if they sign for the same fee payer. */
  readonly facilitators: readonly FacilitatorRow[]
  /**
   * The fee payer of every offer. Default: alphabetically first of the first facilitator's signers, as some name
   * another one each time.
   */
  readonly feePayer?: string
  /** Deadline of one verification. Default 3 s. */
  readonly verifyMs?: number
  /** Deadline of one settlement. Default 20 s: less than the caller has, because the chain is read afterwards. */
  readonly settleMs?: number
  /** How long our node may take to show a transaction that a facilitator reports as settled. Default 4 s. */
  readonly confirmMs?: number
  /** First pause between two reads of it. Default 100 ms; it grows. */
  readonly lookMs?: number
} & Omit<RpcConfig, 'url'> &
  VerifyConfig &
  FateConfig &
  ApiConfig

export type SolanaFacilitatorChain = Chain & Omit<SolanaChain, 'feePayers'>

type At = { readonly now: number; readonly signal: AbortSignal }

/** The protocol's own limits: the fee is the facilitator's to judge. */
const CAPS: Caps = {
  maxComputeUnits: 1_400_000,
  maxComputeUnitPrice: 5_000_000,
  maxSignatures: 12,
  maxFeeLamports: Infinity,
}
const FATE_MS = 8_000
/** Transactions of a payer to inspect after a refusal: the payment may have been spent. */
const GLANCE = 10
const REMEMBERED = 10_000

/**
 * USDC on one Solana cluster, settled by remote facilitators. Only our own node decides that a payment is paid; a
 * facilitator's reply does not. Throws RangeError, without quoting the value, when a URL or the network is malformed.
 *
 * @example
 * const chain = solanaFacilitator({
 *   network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
 *   rpcUrl: 'https://api.devnet.solana.com',
 *   mint: '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU',
 *   payTo,
 *   facilitators: [{ url: 'https://facilitator.example' }],
 *   random: randomBytes,
 * })
 */
export function solanaFacilitator(config: SolanaFacilitatorConfig): SolanaFacilitatorChain {
  const { mint, payTo } = config
  const network = networkOf(config.network)
  const rpc = evmRpc({ maxBatch: 1, maxRequests: 32, ...config, url: config.rpcUrl })
  const reads = solanaReads(rpc)
  const hint = solanaHint(reads)
  const [find, glance] = [bySearch(reads), bySearch(reads, GLANCE)]
  const fates = solanaFates({ reads, find }, { ...config, network })
  const facilitators = namedApis(config.facilitators, config)
  const [verifyMs, settleMs, confirmMs] = [
    config.verifyMs ?? 3_000,
    config.settleMs ?? 20_000,
    config.confirmMs ?? 4_000,
  ]
  const jobs = new Map<string, Promise<Settlement>>()
  /** Payments sent to a facilitator and not refused at once. */
  const handed = lruCache<true>(REMEMBERED)
  const closing = new AbortController()
  let feePayer = config.feePayer === undefined ? undefined : addressOf(config.feePayer)
  if (config.feePayer !== undefined && !feePayer) throw new RangeError('fee_payer is not an address')
  /** Facilitators that sign for the offered fee payer. */
  let signing: readonly NamedApi[] = []

  function terms(now: number): readonly Terms[] {
    if (signing.length === 0) return []
    return [{ scheme: 'exact', network, asset: mint, payTo, extra: { feePayer, ...hint.extra(now) } }]
  }

  /** Offers are our own: each names the fee payer pinned when it was made. */
  function judge(payment: Payment, offer: Offer, caps?: Caps): Promise<SolanaExact | Refused> {
    const named = addressOf(offer.extra?.feePayer)
    return judgeSolana(payment, offer, { network, feePayers: named ? [named] : [], ...(caps && { caps }) })
  }

  async function identify(payment: Payment, offer: Offer, { now }: At): Promise<Identity> {
    const exact = await judge(payment, offer)
    if (exact.kind === 'refused') return exact
    const { payer, key, wire } = exact
    const first = fates.seen(key, now)
    return { kind: 'known', payer, key, expiresAt: hint.endOf(wire.blockhash) ?? first + LIFE_MS }
  }

  async function verify(payment: Payment, offer: Offer, at: At): Promise<Verdict> {
    const exact = await judge(payment, offer, CAPS)
    if (exact.kind === 'refused') return exact
    const { key, source, wire, amount } = exact
    fates.seen(key, at.now)
    const end = fates.ended(key)
    if (end) return end.kind === 'dead' && end.code ? stale(GONE) : replayed()
    const stop = deadline(verifyMs, [at.signal])
    const asked = [
      firstVerdict(signing, requestOf({ transaction: writeFormat(wire) }, offer), {
        now: at.now,
        timeoutMs: verifyMs,
        signal: at.signal,
      }),
      reads.accounts([source], { commitment: 'confirmed', signal: stop.signal }),
      reads.validity(wire.blockhash, 'confirmed', stop.signal),
    ] as const
    const [said, bank, alive] = await Promise.all(asked)
    stop.end()
    const fresh =
      bank.kind === 'accounts' && awayIn(bank, { now: at.now, lagSeconds: config.lagSeconds ?? 30 }) === undefined
        ? bank
        : undefined
    const balance = fresh && (holdingIn(fresh.found[0], exact.mint)?.amount ?? 0n)
    if (said.kind !== 'valid' && alive.kind === 'validity' && fresh && !alive.valid) return stale(GONE)
    if (balance !== undefined && balance < amount) return unfunded(exact, balance)
    if (said.kind !== 'valid')
      return said.kind === 'refused' && fates.conclude(exact, await glance(exact, at)) ? replayed() : said
    return {
      kind: 'valid',
      ...(balance !== undefined && { balance: usdc(balance) }),
      asOf: fresh ? dateOf(fresh, at.now) : at.now,
      ...(fresh && { block: fresh.slot }),
    }
  }

  async function settle(payment: Payment, offer: Offer, { now, signal }: At): Promise<Settlement> {
    const exact = await judge(payment, offer, CAPS)
    if (exact.kind === 'refused') return { kind: 'refused', reason: exact.reason }
    fates.seen(exact.key, now)
    const end = fates.ended(exact.key)
    if (end) return ended(end)
    if (signal.aborted || closing.signal.aborted) return unknown('no time left to settle')
    const order = { offer, now }
    const earlier = jobs.get(exact.key)
    const outcome = await wait(earlier ?? begin(exact, order), signal)
    if (!earlier || outcome.kind !== 'unknown' || signal.aborted) return outcome
    return await wait(jobs.get(exact.key) ?? begin(exact, order), signal)
  }

  function wait(job: Promise<Settlement>, signal: AbortSignal): Promise<Settlement> {
    return Promise.race([job, outOfTime(signal, job, 'no outcome in time')])
  }

  /** Runs to its end whether or not a caller still waits; a payment under way is not sent twice. */
  function begin(exact: SolanaExact, order: { offer: Offer; now: number }): Promise<Settlement> {
    const job = carry(exact, order).catch(() => unknown('its outcome could not be determined'))
    jobs.set(exact.key, job)
    void job.then(() => jobs.delete(exact.key))
    return job
  }

  /**
   * Sends it to the first reachable facilitator and to no other afterwards: that one may act on it whatever becomes of
   * its reply.
   */
  async function carry(exact: SolanaExact, { offer, now }: { offer: Offer; now: number }): Promise<Settlement> {
    if (handed.get(exact.key)) {
      const fate = await fateOf(exact, now)
      if (fate.kind === 'paid' || fate.kind === 'dead') return ended(fate)
    }
    const troubles: string[] = []
    for (const { name, api } of signing) {
      const said = await api.ask('settle', {
        body: requestOf({ transaction: writeFormat(exact.wire) }, offer),
        read: readSettleReply,
        now,
        timeoutMs: settleMs,
      })
      if (said.kind === 'said' ? !said.value.isRefusal : !said.unsent) handed.set(exact.key, true)
      if (said.kind === 'said') return await conclude(exact, { name, reply: said.value, now })
      troubles.push(`${name}: ${said.reason}`)
      if (!said.unsent) break
    }
    const fate = await fateOf(exact, now)
    if (fate.kind === 'paid' || fate.kind === 'dead') return ended(fate)
    return unknown(`${handed.get(exact.key) ? 'it may have been sent' : 'nothing was sent'}: ${troubles.join('; ')}`)
  }

  /** Believes a success once our node shows the transfer, and a refusal when nothing can have been sent. */
  async function conclude(
    exact: SolanaExact,
    { name, reply, now }: { name: string; reply: SettleReply; now: number },
  ): Promise<Settlement> {
    const { success, word, named, isRefusal } = reply
    const signature = named !== undefined && fromBase58(named, 64) ? named : undefined
    const end = signature && (await endIn(exact, signature, success ? confirmMs : 0))
    if (end) return ended(end)
    const fate = await fateOf(exact, now)
    if (fate.kind === 'paid' || fate.kind === 'dead') return ended(fate)
    if (success) return unknown(`${name} reports it as settled, but our node does not show it`)
    if (!isRefusal || handed.get(exact.key)) return unknown(`${name}: ${word}`)
    const alive = await reads.validity(exact.wire.blockhash, 'confirmed')
    return {
      kind: 'refused',
      reason: `${name}: ${word}`,
      ...(alive.kind === 'validity' && !alive.valid && { code: 'PAYMENT_BLOCKHASH_STALE' as const }),
    }
  }

  /** What the transaction named by a facilitator did, if it is this payment's. Our node may be some blocks behind. */
  async function endIn(exact: SolanaExact, signature: string, waitMs: number) {
    let nap = config.lookMs ?? 100
    for (let waited = 0; ; waited += nap, nap *= 1.5) {
      const landed = await reads.transaction(signature)
      if (landed.kind === 'landed' && landed.id !== exact.wire.id) return undefined
      if (landed.kind === 'landed')
        return fates.conclude(
          exact,
          isPaidIn(landed, exact) ? { kind: 'paid', transaction: signature, slot: landed.slot } : { kind: 'failed' },
        )
      if (closing.signal.aborted || waited + nap > waitMs) return undefined
      await pause(nap, closing.signal)
    }
  }

  /** For a shared settlement: a later caller must not wait for a slow node forever. */
  async function fateOf(exact: SolanaExact, now: number): Promise<Fate> {
    const stop = deadline(FATE_MS, [closing.signal])
    const fate = await fates.fate(exact, { now, signal: stop.signal })
    stop.end()
    return fate
  }

  async function fate(payment: Payment, offer: Offer, at: At & { readonly expiresAt?: number }): Promise<Fate> {
    const exact = await judge(payment, offer)
    return exact.kind === 'refused' ? unknown(exact.reason) : await fates.fate(exact, at)
  }

  async function check({ now }: { now: number }): Promise<SolanaChecked> {
    const read = (body: unknown, isOk: boolean) => (isOk ? readSolanaSupport(body, network) : undefined)
    const [chain, ...replies] = await Promise.all([
      checkSolana({ rpc, reads }, { ...config, network, feePayers: [] }, now),
      ...facilitators.map(async (row) => ({
        row,
        said: await row.api.ask('supported', { read, now, timeoutMs: verifyMs }),
      })),
    ])
    const [first] = replies
    const pinned =
      feePayer ??
      (first?.said.kind === 'said'
        ? first.said.value.signers.map(addressOf).find((signer) => signer !== undefined)
        : undefined)
    const able = replies
      .filter(
        ({ said }) =>
          said.kind === 'said' && said.value.isSupported && pinned !== undefined && said.value.signers.includes(pinned),
      )
      .map(({ row }) => row)
    const problems = replies.flatMap(({ row: { name }, said }) => {
      if (said.kind === 'trouble') return blameIn(name, said)
      return said.value.isSupported ? [] : [`${name}.url: does not settle exact payments on ${network}`]
    })
    if (chain.kind === 'wrong') return { kind: 'wrong', problems: [...chain.problems, ...problems] }
    if (problems.length > 0) return { kind: 'wrong', problems }
    if (chain.kind === 'unavailable') return chain
    const away = replies.flatMap(({ row: { name }, said }) =>
      said.kind === 'trouble' ? [`${name}.url: ${said.reason}`] : [],
    )
    if (!pinned && first?.said.kind === 'trouble') return { kind: 'unavailable', reason: away.join('; ') }
    if (!pinned) return { kind: 'wrong', problems: ['facilitators.0.url: names no fee payer'] }
    if (pinned === payTo)
      return { kind: 'wrong', problems: [`pay_to: must not be the fee payer ${pinned}, which only pays fees`] }
    if (able.length === 0 && away.length > 0) return { kind: 'unavailable', reason: away.join('; ') }
    if (able.length === 0) return { kind: 'wrong', problems: [`fee_payer: no facilitator signs for ${pinned}`] }
    const others = replies
      .filter(({ row, said }) => said.kind === 'said' && !able.includes(row))
      .map(({ row: { name } }) => `${name}.url: does not sign for the fee payer ${pinned}, so it cannot stand in`)
    await hint.refresh(now)
    feePayer = pinned
    signing = able
    return { ...chain, warnings: [...chain.warnings, ...away, ...others] }
  }

  function close(): void {
    closing.abort()
    for (const { api } of facilitators) api.close()
    rpc.close()
  }

  const balance = (address: string, { signal }: { signal: AbortSignal }) => balanceOf(reads, { address, mint }, signal)
  return {
    terms,
    identify,
    verify,
    settle,
    fate,
    balance,
    proves: isProof,
    check,
    refresh: ({ now }) => hint.refresh(now),
    close,
  }
}

const unknown = (reason: string): { kind: 'unknown'; reason: string } => ({ kind: 'unknown', reason })
