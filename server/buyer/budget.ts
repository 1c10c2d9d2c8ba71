/** The caps of a local wallet: what may be signed for one call and in one day, whichever program pays. */
import { dollars, print, roundUp, type Usdc } from '../../core/x402/mod.ts'
import type { Journal, Reservation, Signature } from './journal.ts'

export type Caps = {
  /** The highest price of one call; undefined for none. */
  readonly perCall: Usdc | undefined
  readonly perDay: Usdc | undefined
}

type Budget = {
  readonly caps: Caps
  readonly journal: Journal
  /** Asks a person whether to pay all the same. */
  isApproved?(reason: string): Promise<boolean>
}

/** The longest time, in seconds, for which a signature may be valid: a seller can spend it until then. */
export const MAX_VALIDITY_S = 3_600

/** Whether a chain says that a signature was not spent and cannot be any longer. False where nobody can tell. */
export type IsUnspent = (signature: Signature) => Promise<boolean>

type Price = { readonly price: Usdc; readonly validSeconds: number; readonly isUnspent: IsUnspent | undefined }

/** Notes the price as spent. Resolves with the reason when it is above a cap and nobody has approved it. */
export async function reserve(
  budget: Budget,
  { price, validSeconds, isUnspent }: Price,
): Promise<Reservation | string> {
  const { caps, journal, isApproved = async () => false } = budget
  const late = tooLong(validSeconds)
  if (late !== undefined) return late
  const above = aboveCap(caps, price)
  if (above !== undefined && !(await isApproved(above))) return `${above} Raise it with --max-per-call.`
  const within = () => journal.reserve(price, { cap: caps.perDay, validSeconds })
  const reserved = within()
  if ('day' in reserved) return reserved
  await reclaim(journal, isUnspent)
  const again = within()
  if ('day' in again) return again
  const reason = beyondDay(price, again.left)
  if (!(await isApproved(reason))) return `${reason} Raise it with --max-per-day.`
  return journal.reserve(price, { cap: undefined, validSeconds }) as Reservation
}

/** Why a signature would be valid for too long; undefined if it is not. */
export const tooLong = (validSeconds: number): string | undefined =>
  validSeconds <= MAX_VALIDITY_S
    ? undefined
    : `The seller asks for a signature that is valid for more than ${MAX_VALIDITY_S} seconds.`

/** Why a price is above the cap of one call; undefined within it. */
export function aboveCap({ perCall }: Caps, price: Usdc): string | undefined {
  if (perCall === undefined || price <= perCall) return undefined
  return `The price is ${inUsdc(price)} USDC, above the cap of ${inUsdc(perCall)} USDC per call.`
}

export const beyondDay = (price: Usdc, left: Usdc): string =>
  `The price is ${inUsdc(price)} USDC, and ${inUsdc(left)} USDC are left of today's cap.`

/** Takes back what the chain says was never spent, and cannot be any longer. */
async function reclaim(journal: Journal, isUnspent: IsUnspent | undefined): Promise<void> {
  for (const { reservation, signature } of journal.ended())
    if (await isUnspent?.(signature).catch(() => false)) journal.release(reservation)
}

/** USDC without zeros at the end. */
export const inUsdc = (amount: Usdc): string => print(amount).replace(/\.?0+$/, '')

/** US dollars as text, such as `0.10`, exactly. Throws for anything else. */
export const capOf = (text: string): Usdc => roundUp(dollars(text))
