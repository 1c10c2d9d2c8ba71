/** The terms of the scheme `batch-settlement`. */
import type { Terms } from '../../../../core/x402/mod.ts'
import type { VoucherScheme } from './scheme.ts'

/** The same object while the price of gas makes no difference. */
export function terms(vouchers: VoucherScheme): Terms {
  const least = vouchers.costs.refundableFrom()
  const prices = {
    minDeposit: String(vouchers.costs.minDeposit()),
    ...(least > 0n && { refundableFrom: String(least) }),
  }
  const before = vouchers.priced?.extra
  if (!vouchers.priced || before?.minDeposit !== prices.minDeposit || before?.refundableFrom !== prices.refundableFrom)
    vouchers.priced = { ...vouchers.unpriced, extra: { ...vouchers.unpriced.extra, ...prices } }
  return vouchers.priced
}
