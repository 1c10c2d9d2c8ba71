/** The gas of one relayer key: what its account holds, what is spent since that was read, and from where on it must not sell. */
import { formatEther } from 'viem'
import type { Fee } from './reads.ts'
import { hasCode, type Rpc, type Trouble } from './rpc.ts'
import { type Hex, isQuantity } from './hex.ts'

export type GasFloor = {
  /** Least balance in wei; 50,000,000,000,000 (0.00005 ether) unless told. */
  readonly wei?: bigint
  /** And at least what so many settlements cost at the price of gas now; 50 unless told, which is one full transaction. */
  readonly settlements?: number
}

export type GasState = {
  readonly address: Hex
  /** In wei, less what was spent since it was read; undefined until it was read once. */
  readonly balance: bigint | undefined
  /** In wei. */
  readonly floor: bigint
  /** Why this key must not sell, in one line for the operator; undefined while it may. */
  readonly low: string | undefined
}

export type GasWatch = {
  state(): GasState
  /** Reads the balance when the last reading is a minute old, and after a transaction that could not be paid. Never rejects. */
  refresh(now: number): Promise<void>
  /** Reads the balance now. Never rejects; where the node does not answer, the last reading stays. */
  read(now: number): Promise<void>
  /** Sets aside what a transaction may cost; what is returned ends that, with what it did cost. */
  hold(wei: bigint): (spent: bigint) => void
  /** The node refused a transaction that may cost so much, because the account cannot pay it. Stops selling at once. */
  ranDry(wei: bigint): void
  /** How many transfers of so much gas each one transaction may carry, beside `base` gas; by the balance as last read. */
  affordable(transferGas: bigint, base: bigint): number
}

const MIN_WEI = 50_000_000_000_000n
const SETTLEMENTS = 50
const READ_EVERY_MS = 60_000

type Ports = { readonly rpc: Rpc; readonly feeAt: (now: number) => Promise<Fee | Trouble> }
type Config = { readonly address: Hex; readonly transferGas: bigint; readonly floor?: GasFloor | undefined }

/** Watches one account. Driven by `refresh`, which is to be called every few seconds; it has no timer of its own. */
export function gasWatch({ rpc, feeAt }: Ports, { address, transferGas, floor = {} }: Config): GasWatch {
  const held = new Set<{ readonly wei: bigint }>()
  let read: { readonly wei: bigint; readonly at: number } | undefined
  let price = 0n
  /** Spent since the reading, by receipts. */
  let spent = 0n
  /** What the transaction needed that could not be paid; 0 once one was paid. */
  let needed = 0n
  let isDue = false
  let reading: Promise<void> | undefined

  function available(): bigint | undefined {
    return read && [...held].reduce((left, { wei }) => left - wei, read.wei - spent)
  }

  function floorNow(): bigint {
    return most(floor.wei ?? MIN_WEI, BigInt(floor.settlements ?? SETTLEMENTS) * transferGas * price, needed)
  }

  function state(): GasState {
    const [balance, least] = [available(), floorNow()]
    const isLow = isDue || (balance !== undefined && balance < least)
    return { address, balance, floor: least, low: isLow ? lowText(address, balance, least) : undefined }
  }

  async function take(now: number): Promise<void> {
    const [before, fee, answer] = [spent, await feeAt(now), await rpc.ask('eth_getBalance', [address, 'latest'])]
    if (answer.kind !== 'result' || !isQuantity(answer.value)) return
    if (!('kind' in fee)) price = fee.max
    read = { wei: BigInt(answer.value), at: now }
    // What was mined while it was read may not be in it yet.
    spent -= before
    isDue = false
  }

  function readNow(now: number): Promise<void> {
    reading ??= take(now).finally(() => (reading = undefined))
    return reading
  }

  return {
    state,
    read: readNow,
    async refresh(now) {
      // A reading under way may have begun before the account was topped up.
      if (reading) await reading
      if (isDue || !read || Math.abs(now - read.at) >= READ_EVERY_MS) await readNow(now)
    },
    hold(wei) {
      const entry = { wei }
      held.add(entry)
      return (cost) => {
        if (held.delete(entry)) spent += cost
        if (cost > 0n) needed = 0n
      }
    },
    ranDry(wei) {
      needed = wei
      isDue = true
    },
    affordable(each, base) {
      if (!read || price === 0n) return 0
      const gas = ((available() ?? 0n) / price - base) / each
      return gas > 0n ? Number(gas) : 0
    },
  }
}

export type KeyReading = {
  readonly address: Hex
  readonly balance?: bigint
  readonly kind: 'funded' | 'low' | 'wrong' | 'unreadable'
  readonly reason: string
}

/** Looks at the account of a key that nobody uses yet: whether it could serve, and else why not. */
export async function lookAtKey({ rpc, feeAt }: Ports, config: Config, now: number): Promise<KeyReading> {
  const { address } = config
  const watch = gasWatch({ rpc, feeAt }, config)
  const [code] = await Promise.all([rpc.ask('eth_getCode', [address, 'latest']), watch.read(now)])
  const { balance, low } = watch.state()
  if (balance === undefined) return { address, kind: 'unreadable', reason: `the balance of ${address} cannot be read` }
  const contract = codeProblem(address, hasCode(code))
  if (contract) return { address, balance, kind: 'wrong', reason: contract }
  return low ? { address, balance, kind: 'low', reason: low } : { address, balance, kind: 'funded', reason: '' }
}

/** A relayer is a plain account: one that delegates (EIP-7702) may be emptied by its code. */
export function codeProblem(address: Hex, isContract: boolean | undefined): string | undefined {
  return isContract
    ? `its account ${address} has code; a relayer must be a plain account, without a delegation (EIP-7702)`
    : undefined
}

function lowText(address: Hex, balance: bigint | undefined, floor: bigint): string {
  const holds = balance === undefined ? 'an unknown balance' : `${formatEther(balance)} ether`
  return `its account ${address} holds ${holds} for gas, below the floor of ${formatEther(floor)} ether; send it more`
}

function most(...values: readonly bigint[]): bigint {
  return values.reduce((highest, value) => (value > highest ? value : highest), 0n)
}
