/**
 * The payment methods of a gateway: networks, recipients, and who settles. A gateway may accept a network's own
 * payments, batched ones, or both.
 */
import { families, networkFacts } from '../../adapters/chains/families.ts'
import { type FamilySettings, type Reading, secret } from '../../adapters/chains/lib/settings.ts'
import {
  familySettings,
  type PaymentMethod as AnyMethod,
  paymentMethodSettings,
  type PaymentRow,
  batchedSettings,
} from '../../adapters/chains/settings.ts'
import { type ChainFamily, familyOf } from '../../core/ports/mod.ts'
import { without } from './settings.ts'

/** A way to be paid, as a row of a gateway has it. */
export type PaymentMethod = AnyMethod

type Settler<Method> = Method extends { readonly settles: { readonly by: infer By extends string } } ? By : never
type Schemes<Method> = Method extends { readonly schemes?: readonly (infer Scheme extends string)[] } ? Scheme : never
/**
 * Every way to pay that can be configured: `evm/exact`, `solana/facilitators`, `batched`. Facilitators settle by
 * `exact` alone.
 */
export type WayToPay<Method extends PaymentMethod = PaymentMethod> = Method extends { readonly settles: unknown }
  ? | `${Method['kind']}/${[Schemes<Method>] extends [never] ? Exclude<Settler<Method>, 'facilitators'> : Schemes<Method>}`
    | `${Method['kind']}/${Settler<Method> & 'facilitators'}`
  : Method['kind']

/** The family of the network that it is paid on directly; undefined for deposits with a service. */
export const familyOfMethod = (method: PaymentMethod): ChainFamily | undefined =>
  method.kind === 'batched' ? undefined : familyOf(families, method.network)

/** The name of a network in replies, where it is known (contract 1.13). */
export const labelOf = (network: string | undefined): string | undefined => networkFacts(network)?.label

const isTestNetwork = (network: string): boolean => networkFacts(network)?.isTest === true

/** Whether it is paid with test money. */
export function isPlayMoney(paymentMethod: PaymentMethod): boolean {
  if (paymentMethod.kind !== 'batched') return isTestNetwork(paymentMethod.network)
  return (
    paymentMethod.networks.some(isTestNetwork) ||
    (paymentMethod.networks.length === 0 && new URL(paymentMethod.url).hostname.includes('testnet'))
  )
}

/**
 * In the order of the offers: plain clients cannot distinguish a batched offer from a plain one, and take the first
 * (decision 69).
 */
export function resolvePaymentMethods(row: PaymentRow, at: string, reading: Reading): readonly PaymentMethod[] {
  const { mistakes } = reading
  const plain = plainPaymentMethod(row, at, reading)
  const batched =
    row.batched && batchedSettings.read(row.batched, payToOf(row, at, { mistakes, own: batchedSettings.family }))
  if (!plain && !batched) mistakes.push(`${at}.network: missing; or set batched, for payments through Circle Gateway`)
  return [...(plain ? [plain] : []), ...(batched ? [batched] : [])]
}

function plainPaymentMethod(row: PaymentRow, at: string, reading: Reading): PaymentMethod | undefined {
  const { mistakes } = reading
  const { network } = row
  const stray = setIn(row, without(paymentMethodSettings, { network, pay_to: true, batched: true }))[0]
  if (!network && stray) mistakes.push(`${at}.${stray}: needs network, which is not set`)
  if (!network) return undefined
  const family = familyOf(families, network)
  const own = familySettings.find((each) => each.family === family) ?? familySettings[0]
  const known = networkFacts(network)?.usdc
  const rpcUrl = row.rpc_url ?? secret(row.rpc_url_env, `${at}.rpc_url_env`, reading)
  if (!row.rpc_url && !row.rpc_url_env)
    mistakes.push(`${at}.rpc_url: missing; or name an environment variable in rpc_url_env`)
  const asset = row.asset ?? known?.address
  if (!asset) mistakes.push(`${at}.asset: missing; the USDC address on ${network} is not built in`)
  const shared = { network, asset: asset ?? '', payTo: payToOf(row, at, { mistakes, own }), rpcUrl: rpcUrl ?? '' }
  mistakes.push(...misplaced(row, at, own))
  return own.read(row, at, { ...reading, shared })
}

type Family = FamilySettings<Extract<PaymentMethod, { readonly settles: unknown }>>

/** The names of these settings that a row sets. */
const setIn = (row: PaymentRow, settings: object): readonly string[] =>
  Object.keys(settings).filter((name) => row[name as keyof PaymentRow] !== undefined)

/** Mistakes of settings that are for another family, and of those that facilitators make useless. */
function misplaced(row: PaymentRow, at: string, own: Family): readonly string[] {
  const others = familySettings.filter(({ family }) => family !== own.family)
  const useless = row.facilitators ? setIn(row, own.withoutFacilitators) : []
  return [
    ...others.flatMap((other) =>
      setIn(row, other.settings).map((name) => {
        const twin = twinOf(other.roles[name as keyof typeof other.roles], own)
        return `${at}.${name}: is for ${other.words}${twin === undefined ? '' : `; on ${own.words} use ${twin}`}`
      }),
    ),
    ...useless.map((name) => `${at}.${name}: ${own.withoutFacilitators[name]}`),
  ]
}

/** The setting of a family that says the same. */
const twinOf = (role: string | undefined, { roles }: Family): string | undefined =>
  Object.keys(roles).find((name) => roles[name] === role)

function payToOf(
  { pay_to: payTo }: PaymentRow,
  at: string,
  { mistakes, own }: { readonly mistakes: string[]; readonly own: Family },
): string {
  if (payTo === undefined) mistakes.push(`${at}.pay_to: missing; set the address that receives payments`)
  else if (own.family.addressOf(payTo) === undefined)
    mistakes.push(`${at}.pay_to: must be ${own.family.addressForm}, got ${JSON.stringify(payTo)}`)
  else mistakes.push(...own.wrongPayee(`${at}.pay_to`, payTo))
  return payTo ?? ''
}
