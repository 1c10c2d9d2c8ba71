/**
 * Files of the operator's own, in TypeScript or JavaScript: products to sell, and protocols that vendors speak
 * (decision 120). They import `farebox` and get the running program, so they need no packages of their own. Loading one
 * runs it.
 */
import * as typebox from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Protocol } from '../../adapters/providers/manifest.ts'
import * as core from '../../core/mod.ts'
import { type Endpoint, endpoints, isSold, methodsOf } from '../../core/mod.ts'
import { isFields } from '../../core/lib/mod.ts'
import { isFile } from '../config/settings.ts'
import type { Config } from '../config/mod.ts'
import { StartError } from '../start_error.ts'

/** The exports of own files that vendors speak, by the path of the file. */
export type OwnProtocols = ReadonlyMap<string, Readonly<Record<string, unknown>>>

/** Setting that names the operator's own file for each kind of models, and the export of that file. */
const KINDS = { images: 'protocol', chat: 'chat', videos: 'video' } as const
type Kind = keyof typeof KINDS

/**
 * Loads the products that the setting `products` names. Throws a StartError that names the file and the field when a
 * product cannot be sold as it is written.
 */
export async function ownProducts({ products }: Pick<Config, 'products'>): Promise<readonly Endpoint[]> {
  const own: Endpoint[] = []
  for (const path of products) {
    const { products: exported } = await load(path, 'products')
    if (!Array.isArray(exported) || exported.length === 0)
      throw new StartError(
        `products: ${path} must export a list of products: export const products = [paid({ … })]${instead(exported)}`,
      )
    for (const [index, product] of exported.entries()) {
      const problem = problemOf(product, [...endpoints, ...own])
      if (problem) throw new StartError(`products: ${path}: products[${index}].${problem}`)
      own.push(product)
    }
  }
  return own
}

/** Loads the files that vendors or models name instead of a protocol. */
export async function ownProtocols(config: Pick<Config, 'images' | 'chat' | 'videos'>): Promise<OwnProtocols> {
  const loaded = new Map<string, Readonly<Record<string, unknown>>>()
  for (const kind of Object.keys(KINDS) as Kind[]) {
    for (const { protocol: path } of config[kind].servings.values()) {
      if (!isFile(path)) continue
      const exports = loaded.get(path) ?? (await load(path, KINDS[kind]))
      if (typeof exports[kind] !== 'function')
        throw new StartError(
          `${KINDS[kind]}: ${path} must export a function that makes the vendor: ` +
            `export const ${kind} = (config) => ({ … })${instead(exports[kind])}`,
        )
      loaded.set(path, exports)
    }
  }
  return loaded
}

/** The protocol that an own file makes up; undefined for the name of a protocol. */
export function ownProtocol<ModelKind extends Kind>(
  own: OwnProtocols,
  kind: ModelKind,
  name: string,
): Protocol<ModelKind> | undefined {
  const create = own.get(name)?.[kind]
  return create ? { baseUrl: '', create: create as Protocol<ModelKind>['create'] } : undefined
}

const instead = (value: unknown): string =>
  value === undefined ? '' : `, got ${value === null ? 'null' : typeof value}`

/** Describes the problem of a product: the field, its value and what is allowed. */
function problemOf(product: unknown, others: readonly Endpoint[]): string | undefined {
  if (!isFields(product) || !['sold', 'free', 'polled'].includes(String(product.kind)))
    return 'kind: must be made by paid(), streamed(), polled() or free()'
  const endpoint = product as unknown as Endpoint
  if (!/^[a-z][a-z0-9_.]{0,63}$/.test(endpoint.name))
    return `name: must be lower-case letters, digits, dots and underscores, got ${JSON.stringify(endpoint.name)}`
  if (others.some(({ name }) => name === endpoint.name)) return `name: ${endpoint.name} is taken by another product`
  for (const path of [endpoint.path, ...(endpoint.aliases ?? [])]) {
    if (!/^\/[\w./{}-]*$/.test(path)) return `path: must begin with a slash, got ${JSON.stringify(path)}`
    const taken = takenBy(endpoint, path, others)
    if (taken) return `path: ${path} is taken by ${taken.name}`
  }
  if (!isSold(endpoint)) return undefined
  if (endpoint.rows) return 'rows: models of a kind of your own need a program that embeds core'
  return saleProblem(endpoint)
}

/** Another endpoint that answers this path and one of the methods. Parameters of one path fit any text of another. */
function takenBy(endpoint: Endpoint, path: string, others: readonly Endpoint[]): Endpoint | undefined {
  const shape = (text: string) => text.replace(/\{[^}]*\}/g, '{}')
  const methods = methodsOf(endpoint)
  return others.find(
    (other) =>
      [other.path, ...(other.aliases ?? [])].some((each) => shape(each) === shape(path)) &&
      methodsOf(other).some((method) => methods.includes(method)),
  )
}

/** Quotes the example of a product, which must be a valid input. */
function saleProblem(endpoint: Extract<Endpoint, { kind: 'sold' }>): string | undefined {
  const { example, input, delivery } = endpoint as typeof endpoint & { readonly example?: unknown }
  const [wrong] = [...Value.Errors(input, example)]
  if (wrong) return `example${wrong.path.replaceAll('/', '.')}: ${wrong.message.toLowerCase()}`
  if (delivery === 'stream') return undefined
  let price: unknown
  try {
    price = endpoint.price(example, { catalog: core.catalog() })
  } catch (error) {
    return `price: the example cannot be priced: ${(error as Error).message}`
  }
  if (price === 'free') return undefined
  if (!isFields(price)) return `price: must return 'free' or { amount, maxTimeoutSeconds, publicPrice }`
  if (typeof price.amount !== 'bigint' || price.amount < 0n)
    return `price.amount: must be an amount such as flatPrice('0.01'), got ${JSON.stringify(price.amount) ?? typeof price.amount}`
  if (!Number.isInteger(price.maxTimeoutSeconds) || Number(price.maxTimeoutSeconds) < 1)
    return `price.maxTimeoutSeconds: must be a whole number of seconds, at least 1, got ${price.maxTimeoutSeconds}`
  if (!isFields(price.publicPrice)) return 'price.publicPrice: must be an object; {} adds nothing'
  return undefined
}

// ── loading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

async function load(path: string, setting: string): Promise<Readonly<Record<string, unknown>>> {
  provideFarebox()
  if (!(await Bun.file(path).exists())) throw new StartError(`${setting}: there is no file ${path}`)
  try {
    return await import(path)
  } catch (error) {
    throw new StartError(`${setting}: ${path} does not load: ${reasonOf(error)}`)
  }
}

/** Errors of the compiler tell the place apart from the message; several come together. */
function reasonOf(error: unknown): string {
  const [first = error] = error instanceof AggregateError ? error.errors : []
  const { message, position } = first as Error & { position?: { file: string; line: number; column: number } | null }
  return position ? `${position.file}:${position.line}:${position.column}: ${message}` : String(message)
}

let isProvided = false

/** Lets own files import the program that runs, also from the binary, which has no folder of packages. */
function provideFarebox(): void {
  if (isProvided) return
  isProvided = true
  Bun.plugin({
    name: 'farebox',
    setup(builder) {
      builder.module('farebox', () => ({ exports: { ...core }, loader: 'object' }))
      builder.module('farebox/adapters', async () => ({
        exports: { ...(await import('../../adapters/mod.ts')) },
        loader: 'object',
      }))
      // Whole: our own modules that are loaded later get it as well.
      builder.module('@sinclair/typebox', () => ({ exports: { ...typebox }, loader: 'object' }))
    },
  })
}
