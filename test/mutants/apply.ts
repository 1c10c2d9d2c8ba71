import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Mutant } from './mutants.ts'

type Applied = { readonly path: string; readonly text: string }

/**
 * The one file that a mutant changes, with its new text; a reason where the mutant applies nowhere or more than once.
 */
export function apply({ find, put, within }: Mutant, root: string): Applied | string {
  const pattern = new RegExp(find.trim().split(/\s+/).map(loose).join('\\s+'), 'g')
  const found: Applied[] = []
  let count = 0
  for (const path of within.flatMap((folder) => filesIn(root, folder))) {
    const text = readFileSync(join(root, path), 'utf8')
    const matches = text.match(pattern)?.length ?? 0
    count += matches
    if (matches > 0) found.push({ path, text: text.replace(pattern, put) })
  }
  return count === 1 && found[0] ? found[0] : `applies ${count} times`
}

/** A folder, or one file. */
function filesIn(root: string, scope: string): readonly string[] {
  if (scope.endsWith('.ts')) return [scope]
  return readdirSync(join(root, scope), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => `${scope}/${path}`)
}

/** A formatter may put white space between any two tokens. `$1` stands for any name, which `put` may repeat. */
function loose(word: string): string {
  const tokens = word.match(/\$\d|\w+|'[^']*'|[^\w\s]/g) ?? []
  return tokens
    .map((token) => (/^\$\d$/.test(token) ? '(\\w+)' : token.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')))
    .join('\\s*')
}
