/** Mistakes in the settings of providers. Keys are looked up, never shown. */
import { Value } from '@sinclair/typebox/value'
import {
  isInFile,
  isSecret,
  type Manifest,
  requiredBy,
  type Service,
  usedBy,
  type Values,
} from '../../../adapters/providers/manifest.ts'
import {
  type Candidate,
  candidatesFor,
  type Choice,
  products,
  PRODUCTS,
  type Services,
  startedBy,
  type ReadContext,
} from './products.ts'
import { enumerated, nameIn, settingAndVariable, variableOf } from './settings.ts'

/** Checks base URLs. Their values are not shown, because they may contain a key. */
export function rootMistakes({ settings }: Manifest, values: Values): readonly string[] {
  return Object.entries(values).flatMap(([name, value]) =>
    settings[name]?.isRoot !== true || isRoot(String(value))
      ? []
      : [
          `${settingAndVariable(name)}: must be the base URL of an API, such as https://api.example/v1, without a user, a query or a fragment (its value is not shown)`,
        ],
  )
}

function isRoot(text: string): boolean {
  const url = /^https?:\/\/[^\s/?#\\]+[^\s?#\\]*$/.test(text) ? URL.parse(text) : null
  return url !== null && url.username === '' && url.password === ''
}

type Checking = ReadContext & Services & { readonly file: Values }

export function choiceMistakes(
  product: Service,
  { manifest, offer, by, settings }: Choice,
  { services, file, isShared }: Checking,
): readonly string[] {
  const name = PRODUCTS[product]?.setting
  const required = requiredBy(manifest, offer)
  const [missing, found] = [false, true].map((isThere) =>
    required.filter((each) => (settings[each] !== undefined) === isThere),
  ) as [string[], string[]]
  const keyless = candidatesFor(product).filter(
    (each) => !each.offer.isOnDevnet && requiredBy(each.manifest, each.offer).length === 0 && each.by !== by,
  )
  const others = keyless.map((one) => `; ${one.by} needs none`).join('')
  const given = found.map((one) => nameIn(manifest, one)).join(' and ')
  return [
    ...missing.map((each) => {
      const { description } = manifest.settings[each] ?? {}
      if (name !== undefined)
        return `${name}: ${by} needs the environment variable ${variableOf(manifest, each)}, which is not set (${description})${others}`
      return `${nameIn(manifest, each)}: not set; ${given} has no effect without it. ${description}`
    }),
    ...(offer.check?.(settings) ?? []),
    ...usedBy(manifest, offer).flatMap((each) => keyMistakes(manifest, each, settings[each])),
    ...Object.entries(offer.requires ?? {}).flatMap(([other, why]) =>
      services[other as Service]?.length
        ? []
        : [`${name}: ${why}, so it needs ${settingAndVariable(PRODUCTS[other as Service]?.setting ?? other)} as well`],
    ),
    // Each process would know only its own, and treat those of the others as ended.
    ...(offer.isOneProcess && isShared && name !== undefined && file[name] !== undefined
      ? [
          `${name}: ${by} belongs to one process, and several processes may share this database (DATABASE_URL). Set ${name} to ${enumerated(sharedOf(product), 'or')}, or keep the database in SQLite`,
        ]
      : []),
  ]
}

const sharedOf = (product: Service): readonly string[] =>
  candidatesFor(product).flatMap(({ offer, by }) => (offer.isOneProcess ? [] : [by]))

/** A blank or a line break in a key would make every call fail. */
function keyMistakes(manifest: Manifest, name: string, value: unknown): readonly string[] {
  const schema = manifest.settings[name]
  if (!schema || !isSecret(schema) || value === undefined || Value.Check(schema, value)) return []
  const form =
    schema.form ?? 'contains a blank, a line break or another character that no key has (its value is not shown)'
  return [`${variableOf(manifest, name)}: ${form}`]
}

/** A setting that has no effect means that the gateway is not what its operator expects. */
export function unread(manifest: Manifest, values: Values, { services }: Services): readonly string[] {
  const offers = products.flatMap((product) =>
    candidatesFor(product).flatMap((each) => (each.manifest === manifest ? [{ product, ...each }] : [])),
  )
  return Object.keys(values).flatMap((name) => {
    const readers = offers.filter(({ offer }) => usedBy(manifest, offer).includes(name))
    const isRead = readers.some(({ product, offer }) => services[product]?.some((choice) => choice.offer === offer))
    const isOptionalKey = readers.every(
      ({ product, offer }) => !PRODUCTS[product] && !requiredBy(manifest, offer).includes(name),
    )
    const schema = manifest.settings[name]
    // Settings that no offer reads belong to model accounts.
    if (isRead || readers.length === 0 || !schema || !(isInFile(schema) || (isSecret(schema) && isOptionalKey)))
      return []
    return [`${nameIn(manifest, name)}: has no effect ${conditionOf(manifest, readers)}`]
  })
}

/** The condition under which a provider reads its settings. */
function conditionOf(manifest: Manifest, readers: readonly (Candidate & { readonly product: Service })[]): string {
  const named = readers.filter(({ product }) => PRODUCTS[product])
  const keys = new Set(
    readers.flatMap((each) => {
      if (PRODUCTS[each.product]?.isNamedOnly) return []
      return each.offer.check ? startedBy(each) : requiredBy(manifest, each.offer)
    }),
  )
  const needed = [...keys].map((name) => nameIn(manifest, name)).join(' and ')
  if (named.length === 0) return `without ${needed}`
  const ways = named.map(({ product, by }) => {
    const each = PRODUCTS[product]
    return each && `${settingAndVariable(each.setting)} ${each.isList ? 'names' : 'is'} ${by}`
  })
  return `unless ${ways.join(' or ')}${needed && `, which needs ${needed}`}`
}
