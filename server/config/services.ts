/**
 * Which provider serves which product. Settings, variables and defaults come from the providers' manifests; this file
 * adds the settings that choose among them.
 */
import { type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import {
  isInFile,
  isSecret,
  type Manifest,
  type Offer,
  oneOf,
  requiredBy,
  type Service,
  setting,
  usedBy,
  type Values,
} from '../../adapters/providers/manifest.ts'
import { rowKinds } from '../../core/mod.ts'
import { providers } from './providers.ts'
import type { Environment } from './settings.ts'

// ── what is offered ─────────────────────────────────────────────────────────────────────────────────────────────────

/** A provider that can serve a product. */
type Candidate = { readonly manifest: Manifest; readonly offer: Offer<Values, object>; readonly by: string }

/** A provider that serves a product, with the values of its settings. */
export type Choice = Candidate & { readonly settings: Values }

/**
 * The providers of a product. An empty list switches it off; undefined means not configured, which only devnet fills
 * in.
 */
export type Services = {
  readonly services: Readonly<Partial<Record<Service, readonly Choice[]>>>
}

type ProductSetting = {
  readonly setting: string
  /** The effect of the setting, without the names. */
  readonly summary: string
  readonly also?: string
  /** Several providers are tried one after another. */
  readonly isList?: boolean
  /** It acts on the outside world, so a key alone does not turn it on. */
  readonly isNamedOnly?: boolean
}

/** Whether catalog rows name their provider, instead of one setting for all. */
export const isByRow = (product: string): boolean =>
  product === 'audio' || rowKinds.some(({ kind }) => kind === product)

/**
 * Products in the order of the report, each with the setting that chooses its provider. Without a setting, any
 * configured provider serves it.
 */
const NAMED: Readonly<Partial<Record<Service, ProductSetting | undefined>>> = {
  search: {
    setting: 'search',
    summary: 'The providers of `/api/v1/search`, in the order in which they are tried',
    also: 'An empty list turns search off.',
    isList: true,
  },
  websearch: { setting: 'websearch', summary: 'The provider of `/api/v1/websearch`' },
  market: { setting: 'market', summary: 'The provider of market data' },
  prediction: { setting: 'prediction', summary: 'The provider of `/api/v1/pm`' },
  defi: { setting: 'defidata', summary: 'The provider of `/api/v1/defidata`' },
  voice: {
    setting: 'voice',
    summary: 'The provider that places phone calls',
    also: 'Needs `phone` as well.',
    isNamedOnly: true,
  },
  phone: { setting: 'phone', summary: 'The provider that looks up and rents phone numbers', isNamedOnly: true },
  onramp: { setting: 'onramp', summary: 'The provider that sells USDC to wallets', isNamedOnly: true },
  bridge: {
    setting: 'polymarket_funding',
    summary: 'The provider that accepts Polymarket deposits',
    also: 'Works on gateways that are paid directly on an EVM network.',
    isNamedOnly: true,
  },
  sandbox: { setting: 'sandbox', summary: 'Where sandboxes run' },
  swap: undefined,
  characters: undefined,
  audio: undefined,
  rpc: undefined,
}

/** A product that is named only in manifests is chosen by a setting of its name, or by its rows. */
const PRODUCTS: Readonly<Partial<Record<Service, ProductSetting | undefined>>> = {
  ...NAMED,
  ...Object.fromEntries(
    providers
      .flatMap(({ serves }) => Object.keys(serves))
      .filter((product) => !(product in NAMED))
      .map((product) => [
        product,
        isByRow(product) ? undefined : { setting: product, summary: `The provider of \`${product}\`` },
      ]),
  ),
}
export const products = Object.keys(PRODUCTS) as readonly Service[]

export function candidatesFor(product: Service): readonly Candidate[] {
  return providers
    .flatMap((manifest): readonly Candidate[] => {
      const offer = manifest.serves[product] as Offer<Values, object> | undefined
      return offer ? [{ manifest, offer, by: offer.as ?? manifest.name }] : []
    })
    .toSorted((one, other) => (other.offer.rank ?? 0) - (one.offer.rank ?? 0) || last(one) - last(other))
}

/** Demos come last. */
const last = ({ offer }: Candidate): number => (offer.isOnDevnet ? 1 : 0)

const startedBy = ({ manifest, offer }: Candidate): readonly string[] => offer.startedBy ?? requiredBy(manifest, offer)

// ── settings and variables ──────────────────────────────────────────────────────────────────────────────────────────

/** Settings of the file that choose providers, and the providers' own. */
export const serviceSettings: Readonly<Record<string, TSchema>> = {
  ...Object.fromEntries(
    products.flatMap((product) => {
      const each = PRODUCTS[product]
      return each ? [[each.setting, productSetting(product, each)] as const] : []
    }),
  ),
  ...Object.fromEntries(
    providers.flatMap(({ settings }) =>
      Object.entries(settings).flatMap(([name, schema]) =>
        isInFile(schema) ? [[name, Type.Optional(schema)] as const] : [],
      ),
    ),
  ),
}

/** File settings of a product: the one that chooses its provider, then those of its providers. */
export function settingsFor(product: Service): readonly string[] {
  const own = candidatesFor(product).flatMap(({ manifest, offer }) =>
    usedBy(manifest, offer).filter((name) => name in serviceSettings),
  )
  return [...new Set([PRODUCTS[product]?.setting ?? [], own].flat())]
}

/** Environment variables of these settings. Lists of providers are in the file only. */
export const serviceVariables: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    products.flatMap((product) => {
      const each = PRODUCTS[product]
      return each && !each.isList ? [[each.setting.toUpperCase(), each.setting] as const] : []
    }),
  ),
  ...Object.fromEntries(
    providers.flatMap(({ environment, settings }) =>
      Object.entries(environment).filter(([, name]) => settings[name] && isInFile(settings[name])),
    ),
  ),
}

function productSetting(
  product: Service,
  { summary, also, isList = false, isNamedOnly = false }: ProductSetting,
): TSchema {
  const all = candidatesFor(product)
  const named = all.map(({ by, offer: { note } }) => (note ? `\`${by}\` (${note})` : `\`${by}\``))
  const description = [`${summary}: ${enumerated(isList ? named : [...named, '`off`'], 'or')}.`, also]
    .filter(Boolean)
    .join(' ')
  const words = oneOf(...all.map(({ by }) => by), ...(isList ? [] : ['off']))
  const usual = isNamedOnly ? '`off`' : usualOf(all, isList)
  const most = all.filter(({ offer }) => !offer.isSample).length
  return setting(description, isList ? Type.Array(words, { maxItems: most }) : words, { usual })
}

function usualOf(all: readonly Candidate[], isList: boolean): string {
  const keyed = all.filter((each) => startedBy(each).some((name) => isSecret(each.manifest.settings[name])))
  const isPlural = isList && keyed.length > 1
  return [
    ...(keyed.length > 0
      ? [
          `${enumerated(
            keyed.map(({ by }) => `\`${by}\``),
            isPlural ? 'and' : 'or',
          )} with ${isPlural ? 'their keys' : 'its key'}`,
        ]
      : []),
    ...all.filter(({ offer }) => offer.isOnDevnet).map(({ by }) => `\`${by}\` on devnet`),
    ...(isList ? [] : ['else `off`']),
  ].join('; ')
}

/** `a, b or c`. */
export function enumerated(words: readonly string[], word: 'and' | 'or'): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} ${word} ${words.at(-1)}`
}

/** The setting and its variable, because the value may come from either. */
function settingAndVariable(name: string): string {
  const variable = Object.keys(serviceVariables).find((each) => serviceVariables[each] === name)
  return variable ? `${name} (${variable})` : name
}

function variableOf({ environment }: Manifest, name: string): string | undefined {
  return Object.keys(environment).find((variable) => environment[variable] === name)
}

/** The name of a provider's setting in error messages; environment-only settings have the name of their variable. */
function nameIn(manifest: Manifest, name: string): string {
  const schema = manifest.settings[name]
  return schema && isInFile(schema) ? settingAndVariable(name) : (variableOf(manifest, name) ?? name)
}

// ── choosing providers ──────────────────────────────────────────────────────────────────────────────────────────────

type ReadContext = {
  readonly env: Environment
  readonly mistakes: string[]
  readonly isDevnet: boolean
  /** Whether replicas may share the database. */
  readonly isShared: boolean
}

/** Adds mistakes by name; keys are looked up, never shown. */
export function resolveServices(file: Values, reading: ReadContext): Services {
  const { mistakes } = reading
  const values = new Map(providers.map((manifest) => [manifest, valuesOf(manifest, file, reading)]))
  const valueOf = ({ manifest }: Candidate): Values => values.get(manifest) ?? {}
  const chosen = products.flatMap((product) => {
    const choices = choose(product, { file, valueOf, ...reading })
    return choices ? [[product, choices.map((each) => ({ ...each, settings: valueOf(each) }))] as const] : []
  })
  const services: Services['services'] = Object.fromEntries(chosen)
  const found: string[] = []
  for (const manifest of providers) found.push(...rootMistakes(manifest, values.get(manifest) ?? {}))
  for (const [product, choices] of chosen)
    for (const choice of choices) found.push(...choiceMistakes(product, choice, { services, file, ...reading }))
  for (const manifest of providers) found.push(...unread(manifest, values.get(manifest) ?? {}, { services }))
  // One key may serve several products.
  mistakes.push(...new Set(found))
  return { services }
}

/** An empty environment value counts as not set. */
function valuesOf({ settings, environment }: Manifest, file: Values, { env }: ReadContext): Values {
  const values: Record<string, unknown> = {}
  for (const [name, schema] of Object.entries(settings))
    if (isInFile(schema) && file[name] !== undefined) values[name] = file[name]
  for (const [variable, name] of Object.entries(environment)) {
    const schema = settings[name]
    if (schema && !isInFile(schema) && env[variable] && values[name] === undefined) values[name] = env[variable]
  }
  return values
}

type Choosing = ReadContext & { readonly file: Values; valueOf(candidate: Candidate): Values }

function choose(product: Service, { file, mistakes, isDevnet, valueOf }: Choosing): readonly Candidate[] | undefined {
  const by = PRODUCTS[product]
  const all = candidatesFor(product)
  const configured = by && (file[by.setting] as string | readonly string[] | undefined)
  if (by && configured !== undefined) return chosenBy(all, by.setting, { configured, mistakes })
  const started = all.filter((each) => startedBy(each).some((name) => valueOf(each)[name] !== undefined))
  const found = by?.isNamedOnly ? [] : started
  // The demo serves rows that name it on real gateways too.
  if (isByRow(product)) return [...found, ...all.filter(({ offer }) => offer.isOnDevnet)]
  if (found.length === 0) {
    const standing = isDevnet && !by?.isNamedOnly ? all.filter(({ offer }) => offer.isOnDevnet) : []
    return standing.length > 0 ? standing : undefined
  }
  if (by && !by.isList && found.length > 1) {
    const keys = found.flatMap((each) =>
      startedBy(each)
        .slice(0, 1)
        .map((name) => nameIn(each.manifest, name)),
    )
    mistakes.push(
      `${by.setting}: not set; ${enumerated(keys, 'and')} are both set, so ${settingAndVariable(by.setting)} must choose one of ${enumerated(
        found.map((each) => each.by),
        'and',
      )}`,
    )
  }
  return by && !by.isList ? found.slice(0, 1) : found
}

function chosenBy(
  all: readonly Candidate[],
  name: string,
  { configured, mistakes }: { configured: string | readonly string[]; mistakes: string[] },
): readonly Candidate[] {
  const words = typeof configured === 'string' ? [configured] : configured
  if (new Set(words).size < words.length) mistakes.push(`${name}: names a provider twice`)
  const found = words.flatMap((word) => all.filter(({ by }) => by === word))
  const sample = found.find(({ offer }) => offer.isSample)
  if (sample && found.length > 1)
    mistakes.push(`${name}: ${sample.by} is a sample (${sample.offer.note}) and cannot be combined with others`)
  return found
}

// ── mistakes ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Checks base URLs. Their values are not shown, because they may contain a key. */
function rootMistakes({ settings }: Manifest, values: Values): readonly string[] {
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

function choiceMistakes(
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
function unread(manifest: Manifest, values: Values, { services }: Services): readonly string[] {
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

// ── reports ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Providers that the operator pays for or is responsible for, by account name, with the variable of their key. */
export function keyedServices({ services }: Services): ReadonlyMap<string, string> {
  const keyed = products.flatMap((product) =>
    (services[product] ?? []).flatMap(({ manifest, offer, by, settings }) => {
      const secret = usedBy(manifest, offer).find((name) => isSecret(manifest.settings[name]) && settings[name])
      const variable = secret && variableOf(manifest, secret)
      return variable ? [[offer.account ?? by, variable] as const] : []
    }),
  )
  return new Map(keyed)
}

/** The variables of the secrets that providers of a product need. */
export function secretsOf(product: Service): readonly string[] {
  return candidatesFor(product).flatMap(({ manifest, offer }) =>
    usedBy(manifest, offer).flatMap((name) =>
      isSecret(manifest.settings[name]) ? (variableOf(manifest, name) ?? []) : [],
    ),
  )
}

/**
 * Products that are off because nothing is configured, each with the settings that would turn it on: for the operator's
 * log.
 */
export function offByDefault({ services }: Services): readonly string[] {
  return products.flatMap((product) => {
    const ways = services[product] ? [] : candidatesFor(product).flatMap((each) => wayOf(product, each))
    return ways.length > 0 ? [`${product}: needs ${ways.join(' or ')}`] : []
  })
}

/** The requirements of a product's provider, by the name that rows use. */
export function neededFor(product: Service, name: string): string | undefined {
  return candidatesFor(product).flatMap((each) => (each.by === name ? wayOf(product, each) : []))[0]
}

/** The settings that make this provider serve a product. */
function wayOf(product: Service, each: Candidate): readonly string[] {
  const { manifest, offer, by } = each
  const name = PRODUCTS[product]?.setting
  const keys = enumerated(
    [...requiredBy(manifest, offer)].map((key) => variableOf(manifest, key) ?? key),
    'and',
  )
  const others = Object.keys(offer.requires ?? {})
  if (offer.isSample || (!name && !keys)) return []
  const isStarted = startedBy(each).length > 0 && !PRODUCTS[product]?.isNamedOnly
  const all = isStarted
    ? [
        keys ||
          startedBy(each)
            .map((key) => variableOf(manifest, key))
            .join(' and '),
      ]
    : []
  const configured = `${name} = "${by}" (${name?.toUpperCase()})`
  return [[...(isStarted ? all : [configured, keys]), ...others].filter(Boolean).join(', ')]
}
