/**
 * The gas balance of one relayer key: what the account holds, what was spent since, and when it must stop selling
 * (decision 93).
 */
import { formatEther } from 'viem'
import type { Fee } from './contracts.ts'
import { hasCode, type Rpc, type RpcFailure } from '../../lib/json_rpc.ts'
import { type Hex, isQuantity } from '../../lib/hex.ts'

export type GasFloor = {
  /** Least balance in wei. Default 50,000,000,000,000 (0.00005 ether). */
  readonly wei?: bigint
  /**
   * The floor also covers this many settlements at the current gas price. Default 50, which is one full transaction.
   */
  readonly settlements?: number
}

export type GasState = {
  readonly address: Hex
  /** In wei, minus what was spent since the last read; undefined until the first read. */
  readonly balance: bigint | undefined
  /** In wei. */
  readonly floor: bigint
  /** Why this key must not sell, in one line for the operator; undefined while it may. */
  readonly low: string | undefined
}

export type GasMonitor = {
  state(): GasState
  /** Price of one unit of gas in wei, as last read; 0 before the first read. */
  price(): bigint
  /** Reads the balance if the last read is a minute old or a transaction could not be paid. Never rejects. */
  refresh(now: number): Promise<void>
  /** Reads the balance now. Never rejects; if the node does not answer, the last read stays. */
  readNow(now: number): Promise<void>
  /**
   * Reserves the most that a transaction may cost. Call the returned function with what it did cost, to end the
   * reservation.
   */
  reserve(wei: bigint): (spent: bigint) => void
  /** Reports that the node refused a transaction of this cost for insufficient funds. Stops selling at once. */
  reportUnderfunded(wei: bigint): void
  /** How many transfers of `transferGas` one transaction can carry on top of `base` gas, by the last balance read. */
  affordable(transferGas: bigint, base: bigint): number
}

const MIN_WEI = 50_000_000_000_000n
const SETTLEMENTS = 50
const READ_EVERY_MS = 60_000

type Ports = { readonly rpc: Rpc; readonly feeAt: (now: number) => Promise<Fee | RpcFailure> }
type Config = { readonly address: Hex; readonly transferGas: bigint; readonly floor?: GasFloor | undefined }

/** Monitors one account. It has no timer: call `refresh` every few seconds. */
export function gasMonitor({ rpc, feeAt }: Ports, { address, transferGas, floor = {} }: Config): GasMonitor {
  const reservations = new Set<{ readonly wei: bigint }>()
  let lastRead: { readonly wei: bigint; readonly at: number } | undefined
  let gasPrice = 0n
  /** Wei spent since the last read, by receipts. */
  let spent = 0n
  /** Cost of the transaction that could not be paid; 0 once one was paid. */
  let needed = 0n
  let needsRead = false
  let reading: Promise<void> | undefined

  function available(): bigint | undefined {
    return lastRead && [...reservations].reduce((left, { wei }) => left - wei, lastRead.wei - spent)
  }

  function floorNow(): bigint {
    return max(floor.wei ?? MIN_WEI, BigInt(floor.settlements ?? SETTLEMENTS) * transferGas * gasPrice, needed)
  }

  /** Asked for every quote, so it is kept until something changes. */
  let known: GasState | undefined

  function state(): GasState {
    return (known ??= stateNow())
  }

  function stateNow(): GasState {
    const [balance, least] = [available(), floorNow()]
    const isLow = needsRead || (balance !== undefined && balance < least)
    return { address, balance, floor: least, low: isLow ? lowReason(address, balance, least) : undefined }
  }

  async function readBalance(now: number): Promise<void> {
    const [before, fee, answer] = [spent, await feeAt(now), await rpc.request('eth_getBalance', [address, 'latest'])]
    if (answer.kind !== 'result' || !isQuantity(answer.value)) return
    if (!('kind' in fee)) gasPrice = fee.max
    lastRead = { wei: BigInt(answer.value), at: now }
    // A transaction mined during the read may not be in the balance yet, so its cost stays subtracted.
    spent -= before
    needsRead = false
    known = undefined
  }

  function readNow(now: number): Promise<void> {
    reading ??= readBalance(now).finally(() => (reading = undefined))
    return reading
  }

  return {
    state,
    price: () => gasPrice,
    readNow,
    async refresh(now) {
      // A read under way may have begun before the account was topped up.
      if (reading) await reading
      if (needsRead || !lastRead || Math.abs(now - lastRead.at) >= READ_EVERY_MS) await readNow(now)
    },
    reserve(wei) {
      const entry = { wei }
      reservations.add(entry)
      known = undefined
      return (cost) => {
        if (reservations.delete(entry)) spent += cost
        if (cost > 0n) needed = 0n
        known = undefined
      }
    },
    reportUnderfunded(wei) {
      needed = wei
      needsRead = true
      known = undefined
    },
    affordable(each, base) {
      if (!lastRead || gasPrice === 0n) return 0
      const gas = ((available() ?? 0n) / gasPrice - base) / each
      return gas > 0n ? Number(gas) : 0
    },
  }
}

export type KeyStatus = {
  readonly address: Hex
  readonly balance?: bigint
  readonly kind: 'funded' | 'low' | 'wrong' | 'unreadable'
  readonly reason: string
}

/** Reads the account of an unused key and reports whether it can serve, or why not. */
export async function readKeyStatus({ rpc, feeAt }: Ports, config: Config, now: number): Promise<KeyStatus> {
  const { address } = config
  const watch = gasMonitor({ rpc, feeAt }, config)
  const [code] = await Promise.all([rpc.request('eth_getCode', [address, 'latest']), watch.readNow(now)])
  const { balance, low } = watch.state()
  if (balance === undefined) return { address, kind: 'unreadable', reason: `the balance of ${address} cannot be read` }
  const contract = codeProblem(address, hasCode(code))
  if (contract) return { address, balance, kind: 'wrong', reason: contract }
  return low ? { address, balance, kind: 'low', reason: low } : { address, balance, kind: 'funded', reason: '' }
}

/** Returns a problem if the account has code: a delegated account (EIP-7702) can be emptied by its code. */
export function codeProblem(address: Hex, isContract: boolean | undefined): string | undefined {
  return isContract
    ? `account ${address} has code; a relayer must be a plain account without an EIP-7702 delegation`
    : undefined
}

function lowReason(address: Hex, balance: bigint | undefined, floor: bigint): string {
  const balanceText = balance === undefined ? 'an unknown balance' : `${formatEther(balance)} ether`
  return `account ${address} holds ${balanceText} for gas, below the floor of ${formatEther(floor)} ether; top it up`
}

function max(...values: readonly bigint[]): bigint {
  return values.reduce((highest, value) => (value > highest ? value : highest), 0n)
}

/**
 * Prices gas by the node's current fee, in base units of a token with six decimals, rounded up. `coinPrice`: the price
 * of one coin of the chain, in whole tokens. Undefined if the node does not tell its fee.
 */
export function gasPricer(feeAt: Ports['feeAt'], coinPrice: number) {
  return async (gas: bigint, now: number): Promise<bigint | undefined> => {
    const fee = await feeAt(now)
    // `max` allows for twice the base fee.
    return 'kind' in fee ? undefined : priceOfGas(gas, { wei: (fee.max + fee.tip) / 2n, coinPrice })
  }
}

/** Price of so much gas, rounded up, in base units of a token with six decimals. `coinPrice` is in whole tokens. */
export function priceOfGas(gas: bigint, { wei, coinPrice }: { wei: bigint; coinPrice: number }): bigint {
  return (wei * gas * BigInt(Math.round(coinPrice * 1e6)) + WEI - 1n) / WEI
}

const WEI = 10n ** 18n
