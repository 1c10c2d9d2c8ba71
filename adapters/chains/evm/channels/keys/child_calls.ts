/**
 * Calls of child keys (decision 154). A child is a signed reservation of its cap in the channel of its parent, named
 * `child/ADDRESS`; its calls, `child/ADDRESS/CALL`, take their prices from it and give back what they were not charged.
 */
import { type ChannelState, openReservations, takenFrom, withoutReservation, withReservation } from '../state.ts'

const PREFIX = 'child/'
/** Each is in the record of its channel. */
export const MAX_CHILDREN = 16

export const childName = (address: string): string => `${PREFIX}${address}`

/** Address of a child, by its name. */
export const addressOf = (child: string): string => child.slice(PREFIX.length)

/** Name of the child that pays for a call; undefined for every other call. */
export const childOf = takenFrom

/** The children of a channel that have not ended, by name. */
export const childrenIn = ({ reserved = {} }: Pick<ChannelState, 'reserved'>, now: number): readonly string[] =>
  Object.keys(reserved).filter((name) => isChild(name) && (reserved[name]?.until ?? 0) > now)

/** Largest charge of a next call of this child; undefined once it has ended. */
export function childLeft(state: Pick<ChannelState, 'reserved'>, child: string, now: number): bigint | undefined {
  const own = openReservations(state, now)[child]
  return own && BigInt(own.amount)
}

/** Sum of the quotes of this child's open calls. */
export function childOpen({ reserved = {} }: Pick<ChannelState, 'reserved'>, child: string, now: number): bigint {
  return Object.entries(reserved).reduce(
    (sum, [name, { amount, until }]) => (childOf(name) === child && until > now ? sum + BigInt(amount) : sum),
    0n,
  )
}

/** The channel with an open call of a child, whose cap is lower by its price. The caller has seen that it covers it. */
export function withChildCall(
  state: ChannelState,
  { name, price, until, now }: { readonly name: string; readonly price: bigint; readonly until: number; now: number },
): ChannelState {
  const reservation = { amount: String(price), until, isSigned: true as const }
  return added(withReservation(state, { name, reservation, now }), childOf(name) ?? '', -price)
}

/** The channel without the reservation of a call; what a child's call was not charged is in its cap again. */
export function withoutCall(state: ChannelState, name: string, due = 0n): ChannelState {
  const rest = withoutReservation(state, name)
  const child = childOf(name)
  return child === undefined ? rest : added(rest, child, BigInt(state.reserved?.[name]?.amount ?? 0) - due)
}

/** The channel without any children. Their open calls go on. */
export const withoutChildren = (state: ChannelState): ChannelState =>
  Object.keys(state.reserved ?? {})
    .filter(isChild)
    .reduce(withoutReservation, state)

/** Whether this is the reservation of a child's cap. */
export const isChild = (name: string): boolean => name.startsWith(PREFIX) && childOf(name) === undefined

/** The calls of a key and its children whose vouchers are signed, by name: they are charged without the key. */
export const signedCalls = ({ reserved = {} }: Pick<ChannelState, 'reserved'>, now: number): readonly string[] =>
  Object.keys(reserved).filter((name) => {
    const { until = 0, isSigned } = reserved[name] ?? {}
    return isSigned && until > now && (name.startsWith('key/') || childOf(name) !== undefined)
  })

function added(state: ChannelState, child: string, amount: bigint): ChannelState {
  const own = state.reserved?.[child]
  if (!own) return state
  return { ...state, reserved: { ...state.reserved, [child]: { ...own, amount: String(BigInt(own.amount) + amount) } } }
}
