/** The rules of money, for storages that run them and for the server that configures and reports them. */
export { type Controls, controls } from './control/controls.ts'
export { changedMargin } from './control/margin.ts'
export { Limit, ListedWallet, MaintenanceSwitch, Margin, type Rules } from './control/rules.ts'
export {
  BALANCE_LAG_MS,
  type BindingStatus,
  type ExposedCall,
  needsSettled,
  SETTLED_CALLS,
  SETTLED_LOOKBACK_MS,
} from './ledger/exposure.ts'
export * from './ledger/mod.ts'
export {
  byTime,
  type Counted,
  type CountedRow,
  countedOf,
  DAY_MS,
  DURATION_BOUNDS_MS,
  HOUR_MS,
  HOURS_RETENTION_MS,
  isOf,
  type StoredTotal,
  totalled,
} from './reports/call_totals.ts'
export { spendOf, summed, wholeDays } from './reports/spend_report.ts'
export { NEW_WALLET_LIMIT, NEW_WALLET_USDC, NEW_WALLETS_USDC, newWalletsLimit } from './unpaid/new_wallets.ts'
