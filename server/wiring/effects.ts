/** From configuration to those who act upon the world: they call people, rent numbers, sell links and take deposits. Nothing embedded stands in for any of them. */
import { type CdpKey, cdpBearer } from '../../adapters/chains/facilitator/cdp_auth.ts'
import { randomBytes } from '../../adapters/local.ts'
import { bland } from '../../adapters/providers/bland/calls.ts'
import { coinbaseOnramp } from '../../adapters/providers/coinbase/onramp.ts'
import { polymarketBridge } from '../../adapters/providers/polymarket/bridge.ts'
import { twilio } from '../../adapters/providers/twilio/numbers.ts'
import type { Clock, Log, Vendors } from '../../core/mod.ts'
import { type EffectServices, effectsOff } from '../config/effects.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import { isPlayMoney } from '../config/payment_methods.ts'
import type { Timed } from '../metrics.ts'

type Ports = { readonly clock: Clock; readonly log: Log; readonly timed: Timed }

export function effectVendors(
  config: EffectServices,
  { timed, clock, log }: Ports,
): Pick<Vendors, 'voice' | 'phone' | 'onramp' | 'bridge'> {
  const { voice, phone, onramp, bridge } = config
  const missing = effectsOff(config)
  if (missing.length > 0)
    log.info('what acts upon the world is off until it is named; its paths answer 503', { missing })
  return {
    ...(voice && { voice: timed('bland', bland({ ...voice, clock, log })) }),
    ...(phone && { phone: timed('twilio', twilio({ ...phone, clock, log })) }),
    ...(onramp && {
      onramp: timed('coinbase', coinbaseOnramp({ bearer: bearerOf(onramp), baseUrl: onramp.baseUrl, clock, log })),
    }),
    ...(bridge && { bridge: timed('polymarket-bridge', polymarketBridge({ ...bridge, clock, log })) }),
  }
}

/** What a row may sell. For play money nobody is rung and no number is rented, but on devnet, where the operator alone can buy; and a deposit needs a transfer of its own. */
export function affordable(
  vendors: Vendors,
  { paymentMethods }: Pick<GatewayConfig, 'paymentMethods'>,
  { isDevnet }: { isDevnet: boolean },
): Vendors {
  const { voice, phone, bridge, ...rest } = vendors
  const isMoney = isDevnet || !paymentMethods.some(isPlayMoney)
  const transfers = paymentMethods.some(({ kind }) => kind === 'evm')
  return {
    ...rest,
    ...(isMoney && voice && { voice }),
    ...(isMoney && phone && { phone }),
    ...(transfers && bridge && { bridge }),
  }
}

const bearerOf = ({ keyId, keySecret }: CdpKey) => cdpBearer({ keyId, keySecret }, randomBytes)
