/** Chooses the providers of each product from the settings, and names what is wrong with them. */
import { isInFile, type Manifest, type Service, type Values } from '../../../adapters/providers/manifest.ts'
import { providers } from '../providers.ts'
import { choiceMistakes, rootMistakes, unread } from './mistakes.ts'
import {
  type Candidate,
  candidatesFor,
  isByRow,
  products,
  PRODUCTS,
  type Services,
  startedBy,
  type ReadContext,
} from './products.ts'
import { enumerated, nameIn, settingAndVariable } from './settings.ts'

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
