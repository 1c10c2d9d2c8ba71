/** A node with a mempool, whose blocks, prices and losses are decided by whoever plays it. */
import { keccak256 } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Answer } from '../../../adapters/chains/lib/json_rpc.ts'
import type { Hex } from '../../../adapters/chains/lib/hex.ts'

/** `data` names the payment: the token executes each payment once, and reverts it after that. */
type Tx = {
  readonly from: Hex
  readonly nonce: number
  readonly data: Hex
  readonly gas: bigint
  readonly max: bigint
  readonly tip: bigint
  readonly hash: Hex
}

type MinedTx = Tx & { readonly block: number; readonly success: boolean; readonly cost: bigint }

type Account = { balance: bigint; readonly pool: Map<number, Tx>; readonly counts: number[] }

export type ScriptedNode = {
  readonly mined: Map<Hex, MinedTx>
  /** The transaction that executed each payment. */
  readonly executed: Map<Hex, Hex>
  baseFee: bigint
  /** Blocks that the answering node is behind. */
  lag: number
  /** Refuses an offer below the base fee, instead of keeping it for later. */
  isStrict: boolean
  fund(account: Hex, wei: bigint): void
  balanceOf(account: Hex): bigint
  waiting(): readonly Tx[]
  /** Mines what can be mined, of what `takes` lets through. */
  mine(takes: (tx: Tx) => boolean): void
  drop(tx: Tx): void
  answer(method: string, params: readonly unknown[]): Answer
}

const GAS_USED = 60_000n

const result = (value: unknown): Answer => ({ kind: 'result', value })
const error = (message: string): Answer => ({ kind: 'error', code: -32_000, message })
const quantity = (value: bigint | number): Hex => `0x${value.toString(16)}`

/** Signs nothing: its transactions are the fields, encoded. */
export function accountOf(address: Hex): PrivateKeyAccount {
  return {
    address,
    signTransaction: async (tx: {
      nonce: number
      data: Hex
      gas: bigint
      maxFeePerGas: bigint
      maxPriorityFeePerGas: bigint
    }) => {
      const fields = [address, tx.nonce, tx.data, tx.gas, tx.maxFeePerGas, tx.maxPriorityFeePerGas].join(' ')
      return `0x${Buffer.from(fields).toString('hex')}`
    },
  } as unknown as PrivateKeyAccount
}

/** The transaction that `accountOf` has encoded. */
export function parsed(raw: Hex): Tx {
  const text = Buffer.from(raw.slice(2), 'hex').toString()
  const [from, nonce, data, gas, max, tip] = text.split(' ') as [Hex, string, Hex, string, string, string]
  return {
    from,
    nonce: Number(nonce),
    data,
    gas: BigInt(gas),
    max: BigInt(max),
    tip: BigInt(tip),
    hash: keccak256(raw),
  }
}

export function scriptedNode(): ScriptedNode {
  const accounts = new Map<Hex, Account>()
  let head = 0

  function accountAt(address: Hex): Account {
    const known = accounts.get(address) ?? { balance: 0n, pool: new Map(), counts: [0] }
    accounts.set(address, known)
    return known
  }
  const seen = () => Math.max(0, head - node.lag)
  const countAt = ({ counts }: Account, block: number) => counts[Math.min(block, counts.length - 1)] ?? 0

  function pendingCount(account: Account): number {
    let count = countAt(account, seen())
    while (account.pool.has(count)) count++
    return count
  }

  function accept(tx: Tx): Answer {
    const account = accountAt(tx.from)
    const before = account.pool.get(tx.nonce)
    if (before?.hash === tx.hash) return error('already known')
    if (tx.nonce < countAt(account, seen())) return error('nonce too low')
    if (node.isStrict && tx.max < node.baseFee) return error('max fee per gas less than block base fee')
    const isRaised = !before || (tx.max * 10n >= before.max * 11n && tx.tip * 10n >= before.tip * 11n)
    if (!isRaised) return error('replacement transaction underpriced')
    const others = [...account.pool.values()].filter(({ nonce }) => nonce !== tx.nonce)
    const needed = [...others, tx].reduce((sum, { gas, max }) => sum + gas * max, 0n)
    if (needed > account.balance) return error('insufficient funds for gas * price + value')
    account.pool.set(tx.nonce, tx)
    return result(tx.hash)
  }

  function execute(account: Account, tx: Tx): void {
    const price = node.baseFee + tx.tip < tx.max ? node.baseFee + tx.tip : tx.max
    const success = !node.executed.has(tx.data)
    const cost = GAS_USED * price
    account.balance -= cost
    node.mined.set(tx.hash, { ...tx, block: head, success, cost })
    if (success) node.executed.set(tx.data, tx.hash)
  }

  function receiptOf(hash: Hex): Answer {
    const tx = node.mined.get(hash)
    if (!tx || tx.block > seen()) return result(null)
    return result({
      transactionHash: hash,
      status: tx.success ? '0x1' : '0x0',
      blockNumber: quantity(tx.block),
      logs: [],
      gasUsed: quantity(GAS_USED),
      effectiveGasPrice: quantity(tx.cost / GAS_USED),
    })
  }

  const node: ScriptedNode = {
    mined: new Map(),
    executed: new Map(),
    baseFee: 1_000_000_000n,
    lag: 0,
    isStrict: false,
    fund: (account, wei) => void (accountAt(account).balance += wei),
    balanceOf: (account) => accountAt(account).balance,
    waiting: () => [...accounts.values()].flatMap(({ pool }) => [...pool.values()]),
    mine(takes) {
      head++
      for (const account of accounts.values()) {
        let count = account.counts.at(-1) ?? 0
        for (let tx = account.pool.get(count); tx; tx = account.pool.get(count)) {
          if (tx.max < node.baseFee || GAS_USED * tx.max > account.balance || !takes(tx)) break
          account.pool.delete(count)
          execute(account, tx)
          count++
        }
        for (const nonce of account.pool.keys()) if (nonce < count) account.pool.delete(nonce)
        while (account.counts.length <= head) account.counts.push(account.counts.at(-1) ?? 0)
        account.counts[head] = count
      }
    },
    drop: ({ from, nonce }) => void accountAt(from).pool.delete(nonce),
    answer(method, [first, second]) {
      if (method === 'eth_getBlockByNumber') return result({ baseFeePerGas: quantity(node.baseFee) })
      if (method === 'eth_maxPriorityFeePerGas') return result(quantity(1_000_000n))
      if (method === 'eth_getBalance') return result(quantity(accountAt(first as Hex).balance))
      if (method === 'eth_getTransactionReceipt') return receiptOf(first as Hex)
      if (method.startsWith('eth_sendRawTransaction')) return accept(parsed(first as Hex))
      if (method === 'eth_getTransactionCount') {
        const account = accountAt(first as Hex)
        return result(quantity(second === 'pending' ? pendingCount(account) : countAt(account, seen())))
      }
      throw new Error(`the scripted node does not know ${method}`)
    },
  }
  return node
}
