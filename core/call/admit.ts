/** Step 7: may this wallet order now? */
import type { Engine } from '../engine.ts'
import { type Allowlist, servesBeforeSettlement } from '../endpoint/mod.ts'
import { ApiError } from '../http/errors.ts'
import type { Reply } from '../http/reply.ts'
import { abandonedText } from '../payment/unpaid/abandoned_calls.ts'
import { blockOf, uncollectedJobOf } from '../payment/unpaid/unpaid_calls.ts'
import { recovery } from './poll_payment_required.ts'
import type { Verified } from './order.ts'
import { later, type Refused, refuse, unfunded } from './refuse.ts'

/** The order itself where the wallet may. Throws when the wallet is not on the operator's allowlist. */
export async function admit(engine: Engine, verified: Verified): Promise<Verified | Reply> {
  const refused = await refusalOf(engine, verified)
  return refused ? await refuse(engine, verified, refused) : verified
}

async function refusalOf(engine: Engine, verified: Verified): Promise<Refused | undefined> {
  const { ports, products, limits } = engine
  const { endpoint, input, price, payer, otherAddress } = verified
  limits.controls?.requireOpen()
  if (endpoint.delivery === 'stream') {
    const short = shortLife(engine, verified)
    if (short) return short
    if (!isAllowed(engine, payer, endpoint.allowlists?.(input))) throw notAdmitted(payer)
  } else endpoint.admit?.(input, { catalog: products.catalog, vendors: ports.vendors })
  limits.controls?.requireListed(payer, otherAddress)
  // A call that moves no money adds no exposure, and it may be the on-ramp link that funds the wallet.
  if (price.amount === 0n) return undefined
  return servesBeforeSettlement(endpoint) ? await blockedFor(engine, verified) : await waitingFor(engine, verified)
}

/**
 * Refuses an authorization that could expire before its answer is ready. The offer of a chain or an operator may allow
 * less time than usual.
 */
function shortLife({ ports: { clock }, settings }: Engine, { expiresAt, offer }: Verified): Refused | undefined {
  const left = expiresAt - clock.now()
  const minLifeMs = Math.min(settings.timeouts.minLifeMs, offer.maxTimeoutSeconds * 500)
  if (left >= minLifeMs) return undefined
  return unfunded(
    `the authorization ends in ${Math.max(0, Math.floor(left / 1000))} seconds; a call of this kind needs at least ${minLifeMs / 1000} seconds. Sign now + maxTimeoutSeconds`,
  )
}

function isAllowed({ settings }: Engine, payer: string, list: Allowlist | undefined): boolean {
  if (!list) return true
  const listed = settings.allowlists[list.name]
  return listed ? listed.includes(payer.toLowerCase()) : list.unset === 'everybody'
}

/** Refuses a wallet that has an unpaid or an uncollected result. */
async function blockedFor(engine: Engine, { payer, offer }: Verified): Promise<Refused | undefined> {
  const { storage, clock } = engine.ports
  const { timeouts, newWallet } = engine.settings
  const now = clock.now()
  const since = now - timeouts.unpaidBlockMs
  const block = await blockOf(storage, { payer, offer }, { now, since, newWorth: newWallet.worth })
  if (block?.kind === 'abandoned')
    return later(abandonedText(block, clock.now()), Math.ceil((block.until - clock.now()) / 1000))
  return (
    block &&
    unfunded(
      'this wallet has an unpaid or uncollected result; collect that call first (poll_url)',
      await recovery(engine, block.call, true),
    )
  )
}

/** Refuses a wallet with more uncollected jobs than it can pay for. */
async function waitingFor(engine: Engine, { payer, offer, price, verdict }: Verified): Promise<Refused | undefined> {
  const { storage, clock } = engine.ports
  const at = { now: clock.now(), next: price.amount, holds: verdict.balance ?? 0n }
  const waiting = await uncollectedJobOf(storage, { payer, offer }, at)
  return (
    waiting &&
    unfunded(
      'this wallet has more uncollected results than it can pay for; collect one first (poll_url)',
      await recovery(engine, waiting, true),
    )
  )
}

function notAdmitted(payer: string): ApiError {
  return new ApiError('NOT_ALLOWED', {
    message: `The operator has not listed the wallet ${payer} for this route. Nothing was charged.`,
  })
}
