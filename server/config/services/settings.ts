/** Settings and variables of providers, and of the choice among them: derived from the manifests. */
import { type TSchema, Type } from '@sinclair/typebox'
import { isInFile, isSecret, type Manifest, type Service, usedBy } from '../../../adapters/providers/manifest.ts'
import { oneOf, setting } from '../../../adapters/settings.ts'
import { providers } from '../providers.ts'
import { type Candidate, candidatesFor, products, PRODUCTS, type ProductSetting, startedBy } from './products.ts'

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
export function settingAndVariable(name: string): string {
  const variable = Object.keys(serviceVariables).find((each) => serviceVariables[each] === name)
  return variable ? `${name} (${variable})` : name
}

export function variableOf({ environment }: Manifest, name: string): string | undefined {
  return Object.keys(environment).find((variable) => environment[variable] === name)
}

/** The name of a provider's setting in error messages; environment-only settings have the name of their variable. */
export function nameIn(manifest: Manifest, name: string): string {
  const schema = manifest.settings[name]
  return schema && isInFile(schema) ? settingAndVariable(name) : (variableOf(manifest, name) ?? name)
}
