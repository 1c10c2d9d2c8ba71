/**
 * The operator's controls, as the engine uses them. They are stored as one record and read every few seconds, so a
 * quote asks nothing of the storage.
 */
import { type Price, type Prices, type Product, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { withMargin } from '../../endpoint/prices.ts'
import { ApiError } from '../../http/errors.ts'
import type { Limits } from '../../http/rate_limit.ts'
import type { CallObserver } from '../../ports/call_events.ts'
import type { LedgerReads, RecordStorage } from '../../ports/mod.ts'
import { dollars, print, roundUp, type Usdc, usdc } from '../../x402/money.ts'
import type { Markup } from '../../x402/pricing.ts'
import { marginAt, MARGIN_DELAY_MS, marginsSince } from './margin.ts'
import { CONTROLS, type Limit, NO_RULES, type Rules } from './rules.ts'
import { type Period, periodOf, type Spending, type SpendingHold, spendings } from './spending.ts'

export type Controls = {
  rules(): Rules
  /** Reads the record, and what gateways have spent where that is limited. */
  refresh(): Promise<void>
  /** Changes the record, and nothing where `change` returns undefined. Resolves with what is stored now. */
  change(change: (rules: Rules) => Rules | undefined): Promise<Rules>
  /** Counts calls for limits on spending. Each gateway with these controls has it observe its calls. */
  readonly observer: CallObserver
  /** Throws a 503 while the maintenance switch is on. */
  requireOpen(): void
  /** The margin on a product in percent, as quotes have it now. */
  marginOf(product: Product): string
  /** All margins as quotes have them now, as text: it changes when one of them does. */
  margins(): string
  /** For how many seconds margins stay as they are: none that is set from now on is in force sooner. */
  steadySeconds(): number
  /** The price with its current margin. */
  marked(product: Product, price: Price): Price
  /** The price of the quote that this signed amount answers, current or earlier while it can still be paid. */
  honoured(product: Product, price: Price, signed: string): Price
  /**
   * Throws where the wallet, or the other address that `identify` names, is blocked, or where the wallet is not among
   * those that may buy. Nothing was charged.
   */
  requireListed(payer: string, otherAddress?: string): void
  /** Throws where this address is blocked, whatever may be bought by others. */
  requireUnblocked(address: string): void
  /**
   * Counts an order as under way. Throws where a limit of its wallet or gateway does not allow it; nothing was charged.
   * Undefined where no limit applies.
   */
  reserve(order: LimitedOrder & { readonly limits: Limits }): Promise<SpendingHold | undefined>
}

type LimitedOrder = { readonly payer: string; readonly gateway: string; readonly amount: Usdc }

const ID = 'controls'
const OWNER = 'operator'
/** The record outlives every process. */
const FOR_EVER_MS = 3_650 * 86_400_000
const MAX_TRIES = 20
const ALL = '*'
/** A replica reads a change within half of its delay. */
const STEADY_MS = MARGIN_DELAY_MS / 2
const PERIODS = ['day', 'month'] as const
const GATEWAY = 'The gateway'
/** How long after its lifetime a quote of another margin is still known: a lost reply is asked for again so long. */
const QUOTE_GRACE_MS = 600_000

/** The rules as they were read last, and where they and the spending are stored. */
type State = {
  readonly storage: RecordStorage & LedgerReads
  readonly clock: { now(): number }
  readonly spending: Spending
  rules: Rules
}

export function controls({ storage, clock }: Pick<State, 'storage' | 'clock'>): Controls {
  const state: State = { storage, clock, spending: spendings(storage), rules: NO_RULES }
  const marginOf = (product: Product) => currentMargin(state.rules, product, clock.now())
  return {
    rules: () => state.rules,
    observer: state.spending.observer,
    refresh: () => refresh(state),
    change: (change) => changeRules(state, change),
    requireOpen: () => requireOpen(state.rules),
    marginOf,
    margins: () => marginsText(state.rules, clock.now()),
    steadySeconds: () => steadySeconds(state.rules, clock.now()),
    marked: (product, price) => withMargin(price, marginOf(product)),
    honoured: (product, price, signed) => honoured(state.rules, product, { price, signed, now: clock.now() }),
    requireListed: (payer, otherAddress) => requireListed(state.rules, payer, otherAddress),
    requireUnblocked: (address) => requireUnblocked(state.rules, address),
    reserve: (order) => reserve(state, order),
  }
}

async function read(state: State) {
  const record = await CONTROLS.get(state.storage, ID, state.clock.now())
  state.rules = record?.data ?? NO_RULES
  return record
}

async function refresh(state: State): Promise<void> {
  await read(state)
  const limits = Object.values(state.rules.gateway_limits)
  const isLimited = limits.some((limit) => limit.usdc_per_day ?? limit.usdc_per_month)
  const now = state.clock.now()
  if (isLimited) await state.spending.follow(now)
  state.spending.forget(now, isLimited)
}

async function changeRules(state: State, change: Parameters<Controls['change']>[0]): Promise<Rules> {
  const { storage, clock } = state
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const record = await read(state)
    const changed = change(state.rules)
    if (!changed) return state.rules
    const now = clock.now()
    const expiresAt = now + FOR_EVER_MS
    const isWritten = record
      ? await CONTROLS.move(storage, record, { data: changed, expiresAt }, now)
      : await CONTROLS.put(storage, { id: ID, owner: OWNER, data: changed, expiresAt }, now)
    if (isWritten) return (state.rules = changed)
  }
  throw new Error('the controls are being changed by others; try again')
}

function requireOpen({ maintenance }: Rules): void {
  if (!maintenance) return
  const seconds = String(maintenance.retry_after_seconds ?? 300)
  throw new ApiError('MAINTENANCE', {
    message: `${maintenance.message ?? 'The gateway is under maintenance and takes no new orders.'} Nothing was charged. Results that were ordered before can be collected.`,
    headers: { 'retry-after': seconds },
  })
}

const marginsOf = ({ margins }: Rules, { name, tag }: Product) => margins[name] ?? margins[tag]

function currentMargin(rules: Rules, product: Product, now: number): string {
  const changes = marginsOf(rules, product)
  return changes ? marginAt(changes, now) : '0'
}

function marginsText({ margins }: Rules, now: number): string {
  return Object.entries(margins)
    .map(([name, changes]) => `${name}=${marginAt(changes, now)}`)
    .join()
}

function steadySeconds({ margins }: Rules, now: number): number {
  const next = Object.values(margins).flatMap((changes) => changes.map(({ from }) => from - now))
  const ahead = next.filter((ms) => ms > 0)
  return Math.floor(Math.min(STEADY_MS, ...ahead) / 1_000)
}

function honoured(
  rules: Rules,
  product: Product,
  { price, signed, now }: { readonly price: Price; readonly signed: string; readonly now: number },
): Price {
  const changes = marginsOf(rules, product)
  if (!changes) return price
  const since = now - price.maxTimeoutSeconds * 1_000 - QUOTE_GRACE_MS
  const prices = marginsSince(changes, since, now).map((percent) => withMargin(price, percent))
  const current = withMargin(price, marginAt(changes, now))
  return prices.find(({ amount }) => String(amount) === signed) ?? current
}

function requireUnblocked({ blocked }: Pick<Rules, 'blocked'>, wallet: string): void {
  const block = blocked[wallet.toLowerCase()]
  if (block) throw refused(`The operator has blocked the wallet ${wallet}${block.reason ? `: ${block.reason}` : ''}.`)
}

function requireListed({ blocked, allowed }: Rules, payer: string, otherAddress: string | undefined): void {
  for (const wallet of otherAddress ? [payer, otherAddress] : [payer]) requireUnblocked({ blocked }, wallet)
  if (Object.keys(allowed).length > 0 && !allowed[payer.toLowerCase()])
    throw refused(`This gateway sells to listed wallets only, and ${payer} is not among them.`)
}

async function reserve(
  { rules, clock, spending }: State,
  { limits, ...order }: Parameters<Controls['reserve']>[0],
): Promise<SpendingHold | undefined> {
  const { payer, gateway } = order
  const now = clock.now()
  const wallet = rules.wallet_limits[payer.toLowerCase()] ?? rules.wallet_limits[ALL]
  const own = rules.gateway_limits[gateway] ?? rules.gateway_limits[ALL]
  if (!wallet && !own) return undefined
  const hold = await holdWithin(spending, { own, wallet }, { ...order, now })
  try {
    if (own) await requirePermit(own, { limits, caller: `gateway ${gateway}`, now, whose: GATEWAY })
    if (wallet) await requirePermit(wallet, { limits, caller: `wallet ${payer}`, now, whose: `The wallet ${payer}` })
  } catch (error) {
    hold.release()
    throw error
  }
  return hold
}

/** From the last read on it is one turn, so that of orders at the same time each counts those before it. */
async function holdWithin(
  spending: Spending,
  { own, wallet }: { readonly own: Limit | undefined; readonly wallet: Limit | undefined },
  { payer, gateway, amount, now }: LimitedOrder & { readonly now: number },
): Promise<SpendingHold> {
  const limited = wallet ? PERIODS.filter((period) => wallet[`usdc_per_${period}`] !== undefined) : []
  const spent = limited.length > 0 ? await spending.wallet(payer, limited, now) : () => 0n
  if (own)
    requireBudget(own, { amount, now, whose: GATEWAY, spent: (period) => spending.gateway(gateway, period, now) })
  if (wallet) requireBudget(wallet, { amount, now, whose: `The wallet ${payer}`, spent })
  return spending.hold({ payer, gateway, amount }, now)
}

/** The markup of a gateway, and its operator's margins as they change. */
export function pricesOf({
  markup,
  controls: control,
}: {
  readonly markup?: Partial<Markup>
  readonly controls?: Controls
}): Prices {
  const { marginOf, margins: version, steadySeconds } = control ?? { ...STANDARD_PRICES, margins: () => '' }
  return { ...STANDARD_PRICES, ...markup, marginOf, version, steadySeconds }
}

const refused = (message: string) => new ApiError('NOT_ALLOWED', { message: `${message} Nothing was charged.` })

/** Throws where the amount would exceed what may be spent in a day or a month. */
function requireBudget(
  limit: Limit,
  {
    amount,
    now,
    whose,
    spent,
  }: {
    readonly amount: Usdc
    readonly now: number
    readonly whose: string
    readonly spent: (period: Period) => bigint
  },
): void {
  for (const period of PERIODS) {
    const usd = limit[`usdc_per_${period}`]
    if (usd === undefined) continue
    const most = roundUp(dollars(usd))
    const before = usdc(spent(period))
    if (before + amount <= most) continue
    const { until } = periodOf(period, now)
    throw limited(
      `${whose} may spend ${print(most)} USDC a ${period} here: ${print(before)} are spent or under way, and this request costs ${print(amount)}.`,
      until,
      now,
    )
  }
}

async function requirePermit(
  limit: Limit,
  { limits, caller, now, whose }: { limits: Limits; caller: string; now: number; whose: string },
): Promise<void> {
  for (const [period, requests, windowMs] of [
    ['minute', limit.requests_per_minute, 60_000],
    ['day', limit.requests_per_day, 86_400_000],
  ] as const) {
    if (requests === undefined) continue
    // The number is part of the name: a changed limit begins anew.
    const permit = await limits.take(`operator_${period}_${requests}`, caller, { requests, windowMs }, now)
    if (permit.granted) continue
    throw limited(`${whose} may send ${requests} paid requests a ${period} here.`, permit.resetAt, now)
  }
}

function limited(message: string, until: number, now: number): ApiError {
  const retryAfterSeconds = Math.max(1, Math.ceil((until - now) / 1_000))
  return new ApiError('SPENDING_LIMIT', {
    message: `${message} Retry after ${new Date(until).toISOString()}. Nothing was charged.`,
    fields: { retryAfterSeconds },
    headers: { 'retry-after': String(retryAfterSeconds) },
  })
}
