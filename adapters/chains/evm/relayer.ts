import { keccak256 } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { type ChainReceipt, readReceipt, type Target } from './payload.ts'
import type { GasWatch } from './gas.ts'
import type { Fee } from './reads.ts'
import type { Answer, Rpc, Trouble } from './rpc.ts'
import { type Hex, isQuantity, numberIn } from './hex.ts'

export type Outgoing = Target & { readonly gas: bigint }

export type Sent =
  /** `strays`: versions of it with another nonce were sent as well, and may still be mined. */
  | { readonly kind: 'mined'; readonly receipt: ChainReceipt; readonly strays: boolean }
  /** No node has it, and its nonce is free again. `isDry`: the account cannot pay for it. */
  | { readonly kind: 'rejected'; readonly reason: string; readonly isDry?: true }
  /** Another transaction took its nonce, or the relayer is closed: what became of it has to be read from the chain. */
  | { readonly kind: 'lost'; readonly reason: string }

export type Relayer = {
  /** Carries one transaction until it is mined, however long that takes; never rejects. `now` only ages the price of gas. */
  send(call: Outgoing, now: number): Promise<Sent>
  /** What a transaction would offer for gas now. */
  feeAt(now: number): Promise<Fee | Trouble>
  /** Whether the node holds a send open until the receipt is there (EIP-7966); `check` finds out. */
  foundSync(found: boolean): void
  close(): void
}

export type RelayerConfig = {
  readonly chainId: number
  /** Most that a unit of gas may cost, in wei; 500 gwei unless told. */
  readonly maxFeePerGas?: bigint
  /** Without a receipt for so long, a transaction is sent again; 4,000 ms unless told. Every third time it offers a quarter more. */
  readonly resendMs?: number
  /** Longest pause between two looks for a receipt; 1,000 ms unless told. */
  readonly pollMs?: number
  /** Is told what transactions may cost, and did. */
  readonly gasWatch?: Pick<GasWatch, 'hold' | 'ranDry'>
}

/** One transaction on its way. All versions ever signed are remembered: any of them may be the one that is mined. */
type Slot = {
  readonly call: Outgoing
  readonly now: number
  nonce: number
  fee: Fee
  /** The newest version; undefined when nonce or fee have changed since. */
  raw: Hex | undefined
  readonly hashes: Set<Hex>
  gaps: number
  strays: boolean
}

/** What a node said to a send. Only texts that leave no doubt are believed; what is unclear may have been broadcast. */
type Word =
  | { readonly kind: 'mined'; readonly receipt: ChainReceipt }
  | { readonly kind: 'accepted' | 'unclear' | 'stale' | 'cheap' }
  | { readonly kind: 'refused'; readonly reason: string; readonly isDry: boolean }

const FEES_LIVE_MS = 4_000
const SYNC_MS = 3_000
const TRIES = 12

/**
 * The nonce queue of one key. The next nonce is the lowest that neither the chain nor a transaction under way has, so one that was never
 * broadcast leaves no hole. One process per key (decision 24).
 */
export function evmRelayer(rpc: Rpc, account: PrivateKeyAccount, config: RelayerConfig): Relayer {
  const resendMs = config.resendMs ?? 4_000
  const pollMs = config.pollMs ?? 1_000
  const cap = config.maxFeePerGas ?? 500_000_000_000n
  const slots = new Set<Slot>()
  const naps = new Set<() => void>()
  /** Nonces below this are spent, as far as we know. */
  let floor: number | undefined
  let counting: Promise<number | Trouble> | undefined
  let price: { fee: Fee; at: number } | undefined
  let sync = false
  let closed = false
  /** Smoothed time from a send to its receipt: when to look first. */
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

  /** Until a node may have it, a transaction changes its nonce and price freely, and can be given up. */
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
        if (tries > 1) floor = Math.max(count, slot.nonce + 1) // the node that counts is behind the one that takes
        renumber(slot, lowestFree(slot))
      }
    }
    return { kind: 'rejected', reason: 'the node took it at no nonce and no price' }
  }

  /** From then on it is sent until it is mined or another has its nonce: one that was dropped would wedge all those behind it. */
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
      if (gone > 0) continue // its receipt may be on the way
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

  /** Looks for a receipt for so long: first when one usually comes, then at growing pauses. */
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

  /** After a reset of the node, or a nonce given back below us: seen twice, this transaction moves down to the missing nonce. */
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

  /** A replacement must offer at least a tenth more of both; a quarter passes every node's rule. */
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
    sync = /time(d )?-?out/i.test(answer.message) // else it is no node for this call after all
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

  /** Asks once for all who wonder. What waits in the mempool, perhaps from an earlier process, counts as spent. */
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

  /** Twice the base fee, so that it survives several full blocks, and the tip that the node suggests. */
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
