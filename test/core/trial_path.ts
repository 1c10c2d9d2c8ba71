import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Endpoint } from '../../core/endpoint/mod.ts'
import type { Trial } from '../../core/endpoint/samples.ts'

/** The path of a trial with its parameters filled in. */
export function pathOf({ path }: Pick<Endpoint, 'path'>, trial: Pick<Trial, 'path' | 'query'>): string {
  const filled = path.replace(/\{(\w+)(\.{3})?\}/g, (_, name: string, rest: string | undefined) => {
    const value = trial.path[name] ?? name
    return rest ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value)
  })
  const query = new URLSearchParams(trial.query).toString()
  return query === '' ? filled : `${filled}?${query}`
}

/** Names the file that a test kit takes a product's vendors from, for an endpoint that answers 503. */
export function unservedHint({ path }: Pick<Endpoint, 'path'>): string {
  const folder = folders.find((name) =>
    readdirSync(join(PRODUCTS, name), { recursive: true, encoding: 'utf8' }).some(
      (file) => file.endsWith('.ts') && readFileSync(join(PRODUCTS, name, file), 'utf8').includes(`'${path}'`),
    ),
  )
  return `${path} is 503 in tests: add test/core/products/${folder ?? '<product>'}/stand_in.ts with \`export const vendors: Partial<Vendors>\``
}

const PRODUCTS = join(import.meta.dirname, '../../core/products')
const folders = readdirSync(PRODUCTS, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
)
