/** Sandbox prices (contract 16.2). */
import { type SandboxRate, SHORT_SECONDS } from './catalog.ts'
import { type Usdc, roundUp, plus, times, dollars } from '../../x402/money.ts'
import { flatPrice, type Markup, STANDARD_MARKUP } from '../../x402/pricing.ts'

/** A flat price up to five minutes, above that the exact time at the hourly rate; plus the fee once (contract 16.2). */
export function sandboxPrice({ flat, hourly }: SandboxRate, seconds: number, markup: Markup = STANDARD_MARKUP): Usdc {
  if (seconds <= SHORT_SECONDS) return flatPrice(flat, markup)
  return roundUp(plus(times(dollars(hourly), { num: BigInt(seconds), den: 3600n }), markup.fee))
}
