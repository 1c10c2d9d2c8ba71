/**
 * Gas that the gateway pays for channels, at the current price, and the budget of one wallet. The contract takes no
 * fee, so deposits have a least amount, and purchases come before refunds (decision 142).
 */
import { boundedMap } from '../../../../core/lib/mod.ts'
import { priceOfGas } from '../node/gas.ts'

type CostsConfig = {
  /** Price of one unit of gas, in wei, as the node last told it. */
  gasPrice(): bigint
  /** Price of one coin of the chain in whole tokens; 0 where gas is worth nothing. */
  readonly coinPrice: number
  /** The smallest deposit in base units, whatever the price of gas. */
  readonly minDeposit: bigint
  /** Gas that the gateway pays for the deposits and refunds of one wallet in an hour. */
  readonly gasPerWallet: bigint
}

/** A high price of ether: a deposit that is asked for too much is safer than gas that nobody pays. */
export const COIN_PRICE = 4_000

/** Gas that a deposit, and a refund together with its claim, is reckoned with: a first deposit takes 115,200. */
export const DEPOSIT_GAS = 120_000n
export const REFUND_GAS = 160_000n
/** The smallest deposit in lives of a channel: gas is at most a tenth of it. */
const LIVES = 10n
/** Deposits of a group that revert may take so many budgets of one wallet in an hour, of all wallets together. */
const BUDGETS_OF_ALL = 5n
const HOUR_MS = 3_600_000
const MAX_WALLETS = 10_000

/** Gas of a wallet's budget for one transaction, taken before it is sent. */
export type Reservation =
  | {
      readonly kind: 'reserved'
      /** Gives the gas back: nothing was sent. */
      release(): void
      /** The gas is gone, and no longer under way. */
      spend(): void
    }
  | {
      readonly kind: 'limited'
      /** When the wallet has gas again, in milliseconds. */
      readonly until: number
    }

/** `first`: into a channel without an earlier deposit, which any wallet can have. `later`: into any other. */
export type DepositGroup = 'first' | 'later'

/** `isBusy`: fewer have reverted, but too many are under way. `until` in milliseconds. */
export type GroupLimit = { readonly until: number; readonly isBusy: boolean }

type GroupReservation = Extract<Reservation, { kind: 'reserved' }> | ({ readonly kind: 'limited' } & GroupLimit)

type Spending = { readonly at: number; readonly gas: bigint; isUnderWay: boolean }

export function channelCosts({ gasPrice, coinPrice, minDeposit, gasPerWallet }: CostsConfig) {
  const spendings = boundedMap<readonly Spending[]>(MAX_WALLETS)
  const priceOf = (gas: bigint): bigint => priceOfGas(gas, { wei: gasPrice(), coinPrice })
  // Deposits name the wallet in lower case, refunds with its checksum.
  const spentBy = (wallet: string, now: number) =>
    (spendings.get(wallet.toLowerCase()) ?? []).filter(({ at }) => now - at < HOUR_MS)

  function limitedUntil(at: { wallet: string; gas: bigint; now: number }, limit: bigint): number | undefined {
    const spent = spentBy(at.wallet, at.now)
    const sum = spent.reduce((all, each) => all + each.gas, at.gas)
    return sum > limit ? (spent[0]?.at ?? at.now) + HOUR_MS : undefined
  }

  /** Synchronous, so that transactions in parallel cannot pass the limit together. */
  function reserve(at: { wallet: string; gas: bigint; now: number }, limit: bigint): Reservation {
    const until = limitedUntil(at, limit)
    if (until !== undefined) return { kind: 'limited', until }
    const name = at.wallet.toLowerCase()
    const spending: Spending = { at: at.now, gas: at.gas, isUnderWay: true }
    spendings.set(name, [...spentBy(name, at.now), spending])
    const release = () => {
      const spent = spendings.get(name)?.filter((each) => each !== spending)
      if (spent) spendings.set(name, spent)
    }
    return { kind: 'reserved', release, spend: () => void (spending.isUnderWay = false) }
  }

  /** Amounts in offers, kept while the price of gas is the same, because every quote reads them. */
  let amounts: { readonly price: bigint; readonly refundableFrom: bigint; readonly minDeposit: bigint } | undefined

  function currentAmounts() {
    const price = gasPrice()
    if (amounts?.price === price) return amounts
    const life = priceOf(DEPOSIT_GAS + REFUND_GAS)
    const least = rounded(LIVES * life)
    amounts = { price, refundableFrom: rounded(life), minDeposit: least > minDeposit ? least : minDeposit }
    return amounts
  }

  const inGroup = (group: DepositGroup, now: number) => ({ wallet: group, gas: DEPOSIT_GAS, now })
  const ofGroup = BUDGETS_OF_ALL * gasPerWallet

  /** Why a deposit of this group has to wait; undefined while it need not. Wallets are free, so all of them count. */
  function groupLimit(group: DepositGroup, now: number): GroupLimit | undefined {
    const until = limitedUntil(inGroup(group, now), ofGroup)
    return until === undefined ? undefined : { until, isBusy: isBusy(group, now) }
  }

  /** Whether one more could revert within the limit, were none under way. */
  function isBusy(group: DepositGroup, now: number): boolean {
    const reverted = spentBy(group, now).filter(({ isUnderWay }) => !isUnderWay).length
    return BigInt(reverted + 1) * DEPOSIT_GAS <= ofGroup
  }

  /** Gas of a deposit among those of its group: spent where the deposit reverts, else released. */
  function reserveInGroup(group: DepositGroup, now: number): GroupReservation {
    const reserved = reserve(inGroup(group, now), ofGroup)
    return reserved.kind === 'limited' ? { ...reserved, isBusy: isBusy(group, now) } : reserved
  }

  return {
    deposit: () => priceOf(DEPOSIT_GAS),
    refund: () => priceOf(REFUND_GAS),
    /** Gas of a deposit and its refund: purchases of this much make a refund possible. */
    refundableFrom: () => currentAmounts().refundableFrom,
    minDeposit: () => currentAmounts().minDeposit,
    /** The time until which no deposit of this wallet is paid for; undefined while one is. */
    depositsLimitedUntil: (wallet: string, now: number) =>
      limitedUntil({ wallet, gas: DEPOSIT_GAS, now }, gasPerWallet),
    /** The same of refunds, which leave half to deposits: whoever reads a voucher on chain can ask for one. */
    refundsLimitedUntil: (wallet: string, now: number) =>
      limitedUntil({ wallet, gas: REFUND_GAS, now }, gasPerWallet / 2n),
    groupLimit,
    reserveInGroup,
    reserveDeposit: (wallet: string, now: number) => reserve({ wallet, gas: DEPOSIT_GAS, now }, gasPerWallet),
    reserveRefund: (wallet: string, now: number) => reserve({ wallet, gas: REFUND_GAS, now }, gasPerWallet / 2n),
  }
}

export type ChannelCosts = ReturnType<typeof channelCosts>

/** Up to the next 1, 2 or 5 with zeros, so that an offer does not change with every block. */
function rounded(units: bigint): bigint {
  if (units === 0n) return 0n
  const digit = 10n ** BigInt(String(units).length - 1)
  return [1n, 2n, 5n, 10n].map((step) => step * digit).find((step) => step >= units) ?? units
}
