import { keccak256 } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { type ChainReceipt, readReceipt, type Target } from './payload.ts'
import type { GasWatch } from './gas.ts'
import type { Fee } from './reads.ts'
import type { Answer, Rpc, Trouble } from './rpc.ts'
import { type Hex, isQuantity, numberIn } from './hex.ts'

export type Outgoing = Target & { readonly gas: bigint }

export type Sent =
  /** `hasOtherNonces`: versions with another nonce were sent as well, and may still be mined. */
  | { readonly kind: 'mined'; readonly receipt: ChainReceipt; readonly strays: boolean }
  /** No node has it, and its nonce is free again. `isUnderfunded`: the account cannot pay for it. */
  | { readonly kind: 'rejected'; readonly reason: string; readonly isDry?: true }
  /** Another transaction took its nonce, or the relayer is closed. Read the outcome from the chain. */
  | { readonly kind: 'lost'; readonly reason: string }

export type Relayer = {
  /**
   * Sends one transaction and waits until it is mined, however long that takes. Never rejects. `now` only ages the gas
   * price.
   */
  send(call: Outgoing, now: number): Promise<Sent>
  /** The gas price that a transaction would offer now. */
  feeAt(now: number): Promise<Fee | Trouble>
  /** Whether the node holds a send open until the receipt exists (EIP-7966), as found by `check`. */
  foundSync(found: boolean): void
  close(): void
}

export type RelayerConfig = {
  readonly chainId: number
  /** Highest price of one unit of gas, in wei. Default 500 gwei. */
  readonly maxFeePerGas?: bigint
  /** Resends after this long without a receipt. Default 4,000 ms. Every third resend offers a quarter more. */
  readonly resendMs?: number
  /** Longest pause between two polls for a receipt. Default 1,000 ms. */
  readonly pollMs?: number
  /** Receives what transactions may cost and did cost. */
  readonly gasWatch?: Pick<GasWatch, 'hold' | 'ranDry'>
}

/** One transaction under way. Every version ever signed is kept: any of them may be mined. */
type Slot = {
  readonly call: Outgoing
  readonly now: number
  nonce: number
  fee: Fee
  /** The newest signed version; undefined after a change of nonce or fee. */
  raw: Hex | undefined
  readonly hashes: Set<Hex>
  gaps: number
  strays: boolean
}

/** A node's answer to a send. Only unambiguous texts are trusted; after an unclear one it may have been broadcast. */
type Word =
  | { readonly kind: 'mined'; readonly receipt: ChainReceipt }
  | { readonly kind: 'accepted' | 'unclear' | 'stale' | 'cheap' }
  | { readonly kind: 'refused'; readonly reason: string; readonly isDry: boolean }

const FEES_LIVE_MS = 4_000
const SYNC_MS = 3_000
const TRIES = 12

/**
 * The nonce queue of one key. It uses the lowest nonce that neither the chain nor a pending transaction has, so a
 * transaction that was never broadcast leaves no gap. Use a key in one process only (decision 24).
 */
export function evmRelayer(rpc: Rpc, account: PrivateKeyAccount, config: RelayerConfig): Relayer {
  const resendMs = config.resendMs ?? 4_000
  const pollMs = config.pollMs ?? 1_000
  const cap = config.maxFeePerGas ?? 500_000_000_000n
  const slots = new Set<Slot>()
  const naps = new Set<() => void>()
  /** Nonces below this are known to be used. */
  let floor: number | undefined
  let counting: Promise<number | Trouble> | undefined
  let price: { fee: Fee; at: number } | undefined
  let sync = false
  let closed = false
  /** Smoothed time from a send to its receipt in milliseconds; decides when to poll first. */
  let typical = 0

  async function send(call: Outgoing, now: number): Promise<Sent> {
    const [fee, first] = await Promise.all([feeAt(now), floor ?? recount()])
    if ('kind' in fee) return { kind: 'rejected', reason: fee.reason }
    if (typeof first !== 'number') return { kind: 'rejected', reason: first.reason }
    const slot: Slot = {
      call,
      now,
      nonce: lowestFree(),
      fee,
      raw: undefined,
      hashes: new Set(),
      gaps: 0,
      strays: false,
    }
    slots.add(slot)
    const most = call.gas * fee.max
    const end = config.gasWatch?.hold(most)
    let cost = 0n
    try {
      const sent = await carry(slot)
      if (sent.kind !== 'rejected') floor = Math.max(floor ?? 0, slot.nonce + 1)
      if (sent.kind === 'mined') cost = sent.receipt.cost ?? most
      if (sent.kind === 'rejected' && sent.isDry) config.gasWatch?.ranDry(most)
      return sent
    } finally {
      end?.(cost)
      slots.delete(slot)
    }
  }

  /** Until a node may have it, a transaction may change nonce and price freely, and may be given up. */
  async function carry(slot: Slot): Promise<Sent> {
    for (let tries = 1; tries <= TRIES && !closed; tries++) {
      const word = await broadcast(slot)
      if (word.kind === 'mined') return mined(slot, word.receipt)
      if (word.kind === 'refused') return { kind: 'rejected', reason: word.reason, ...(word.isDry && { isDry: true }) }
      if (word.kind === 'accepted' || word.kind === 'unclear') return watch(slot, word)
      if (word.kind === 'cheap') await reprice(slot)
      if (word.kind === 'stale') {
        const count = await recount()
        if (typeof count !== 'number') return { kind: 'rejected', reason: count.reason }
        if (tries > 1) floor = Math.max(count, slot.nonce + 1) // the node that counts is behind the one that accepts
        renumber(slot, lowestFree(slot))
      }
    }
    return { kind: 'rejected', reason: 'the node accepted it at no nonce and no price' }
  }

  /**
   * Resends a broadcast transaction until it is mined or its nonce is taken: a dropped one would block all after it.
   */
  async function watch(slot: Slot, said: Word): Promise<Sent> {
    let word = said
    let timeouts = 0
    let gone = 0
    let held = 0
    while (!closed) {
      const isSure = word.kind === 'accepted' && gone === 0
      timeouts = isSure ? resendMs : Math.min(Math.max(timeouts * 2, resendMs / 16), resendMs)
      const receipt = await look(slot, timeouts)
      if (receipt) return mined(slot, receipt)
      const count = await countOf('latest')
      if (typeof count !== 'number') {
        word = { kind: 'unclear' }
        continue
      }
      gone = count > slot.nonce ? gone + 1 : 0
      if (gone > 3) return { kind: 'lost', reason: 'another transaction took its nonce' }
      if (gone > 0) continue // its receipt may be late
      closeGap(slot, count)
      held = isSure && count === slot.nonce ? held + 1 : 0
      if (held === 3 || word.kind === 'cheap') {
        held = 0
        await reprice(slot)
      }
      word = await broadcast(slot)
      if (word.kind === 'mined') return mined(slot, word.receipt)
    }
    return { kind: 'lost', reason: 'the relayer is closed' }
  }

  /** Polls for a receipt for this long: first at the typical time, then at growing pauses. */
  async function look(slot: Slot, timeouts: number): Promise<ChainReceipt | undefined> {
    let waited = 0
    let pause = Math.min(typical * 0.8, pollMs, timeouts)
    for (;;) {
      const receipt = await receiptOf(slot)
      if (receipt) typical += (waited - typical) / 8
      if (receipt || closed || waited >= timeouts) return receipt
      await nap(pause)
      waited += Math.max(pause, 1)
      pause = Math.min(pause * 1.5 + 1, pollMs, Math.max(1, timeouts - waited))
    }
  }

  /**
   * Moves this transaction to a missing lower nonce once the gap was seen twice: after a node reset, or a nonce given
   * back.
   */
  function closeGap(slot: Slot, count: number): void {
    const isMissing = count < slot.nonce && ![...slots].some((each) => each.nonce === count)
    slot.gaps = isMissing ? slot.gaps + 1 : 0
    if (slot.gaps < 2) return
    slot.gaps = 0
    slot.strays = true
    floor = Math.min(floor ?? count, count)
    renumber(slot, count)
  }

  function renumber(slot: Slot, nonce: number): void {
    slot.nonce = nonce
    slot.raw = undefined
  }

  /** A replacement must raise both prices by at least a tenth; a quarter satisfies every node. */
  async function reprice(slot: Slot): Promise<void> {
    price = undefined
    const today = await feeAt(slot.now)
    const more = (wei: bigint, now: bigint) => (now > (wei * 5n) / 4n ? now : (wei * 5n) / 4n + 1n)
    const { max, tip } = 'kind' in today ? slot.fee : today
    slot.fee = capped({ max: more(slot.fee.max, max), tip: more(slot.fee.tip, tip) })
    slot.raw = undefined
  }

  async function broadcast(slot: Slot): Promise<Word> {
    const raw = (slot.raw ??= await signed(slot))
    slot.hashes.add(keccak256(raw))
    if (!sync) return wordOf(await rpc.ask('eth_sendRawTransaction', [raw]), slot)
    const answer = await rpc.alone('eth_sendRawTransactionSync', [raw], { timeoutMs: SYNC_MS })
    const word = wordOf(answer, slot)
    if (word.kind !== 'unclear' || answer.kind !== 'error') return word
    sync = /time(d )?-?out/i.test(answer.message) // any other error: the node does not support this call
    return wordOf(await rpc.ask('eth_sendRawTransaction', [raw]), slot)
  }

  function signed({ call, nonce, fee }: Slot): Promise<Hex> {
    const { to, data, gas } = call
    const fees = { maxFeePerGas: fee.max, maxPriorityFeePerGas: fee.tip }
    return account.signTransaction({ type: 'eip1559', chainId: config.chainId, nonce, to, data, gas, ...fees })
  }

  async function receiptOf(slot: Slot): Promise<ChainReceipt | undefined> {
    const answers = await Promise.all(
      [...slot.hashes].slice(-6).map((hash) => rpc.ask('eth_getTransactionReceipt', [hash])),
    )
    const receipts = answers.map((answer) => (answer.kind === 'result' ? readReceipt(answer.value) : undefined))
    return receipts.find((receipt) => receipt && slot.hashes.has(receipt.transactionHash))
  }

  function lowestFree(self?: Slot): number {
    const taken = new Set([...slots].filter((slot) => slot !== self).map((slot) => slot.nonce))
    let nonce = floor ?? 0
    while (taken.has(nonce)) nonce++
    return nonce
  }

  /**
   * Reads the count once for all concurrent callers. Transactions in the mempool, perhaps of an earlier process, count
   * as used.
   */
  function recount(): Promise<number | Trouble> {
    counting ??= countOf('pending').then((count) => {
      counting = undefined
      if (typeof count === 'number') floor = count
      return count
    })
    return counting
  }

  async function countOf(tag: 'latest' | 'pending'): Promise<number | Trouble> {
    const answer = await rpc.ask('eth_getTransactionCount', [account.address, tag])
    if (answer.kind === 'trouble') return answer
    const count = answer.kind === 'result' ? numberIn(answer.value) : undefined
    return count ?? { kind: 'trouble', reason: 'eth_getTransactionCount: the answer is not a count' }
  }

  /** Twice the base fee, which survives several full blocks, plus the tip that the node suggests. */
  async function feeAt(now: number): Promise<Fee | Trouble> {
    if (price && Math.abs(now - price.at) < FEES_LIVE_MS) return price.fee
    const [block, suggested] = await Promise.all([
      rpc.ask('eth_getBlockByNumber', ['latest', false]),
      rpc.ask('eth_maxPriorityFeePerGas', []),
    ])
    const base =
      block.kind === 'result' ? (block.value as { baseFeePerGas?: unknown } | null)?.baseFeePerGas : undefined
    if (!isQuantity(base)) return price?.fee ?? { kind: 'trouble', reason: 'the price of gas cannot be read' }
    const tip = suggested.kind === 'result' && isQuantity(suggested.value) ? BigInt(suggested.value) : 1_000_000n
    const fee = capped({ max: BigInt(base) * 2n + tip, tip })
    price = { fee, at: now }
    return fee
  }

  function capped({ max, tip }: Fee): Fee {
    const most = max < cap ? max : cap
    return { max: most, tip: tip < most ? tip : most }
  }

  function nap(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        naps.delete(end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      naps.add(end)
    })
  }

  return {
    send,
    feeAt,
    foundSync: (found) => void (sync = found),
    close() {
      closed = true
      for (const end of naps) end()
    },
  }
}

function mined({ strays }: Slot, receipt: ChainReceipt): Sent {
  return { kind: 'mined', receipt, strays }
}

function wordOf(answer: Answer, slot: Slot): Word {
  if (answer.kind === 'trouble') return { kind: 'unclear' }
  if (answer.kind === 'result') {
    const receipt = readReceipt(answer.value)
    return receipt && slot.hashes.has(receipt.transactionHash) ? { kind: 'mined', receipt } : { kind: 'accepted' }
  }
  const { message } = answer
  if (/already known|already imported|known transaction|already exists/i.test(message)) return { kind: 'accepted' }
  if (/nonce (is )?too low|old nonce|nonce has already been used/i.test(message)) return { kind: 'stale' }
  if (/underpriced|block base fee|fee (is )?too low|fee cap/i.test(message)) return { kind: 'cheap' }
  if (/insufficient funds|intrinsic gas|block gas limit|gas limit|invalid sender|chain id/i.test(message)) {
    return {
      kind: 'refused',
      reason: `the node refused the relayer's transaction: ${message}`,
      isDry: /insufficient funds/i.test(message),
    }
  }
  return { kind: 'unclear' }
}
