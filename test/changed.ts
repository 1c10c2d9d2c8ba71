/**
 * Files that changed since all were last found in order, and their importers: types, lint and format of nothing
 * else are checked by `bun run test WORD`.
 */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Graph, graphOf, pathsIn } from './graph.ts'

/** Time and size of files, by their path from the root. */
type Stamps = Readonly<Record<string, string>>

/** Files to check. `everything`: nothing is known yet, or a file that all others depend on has changed. */
export type Changed = {
  readonly everything: boolean
  readonly files: readonly string[]
  readonly importers: readonly string[]
}

const ROOT = join(import.meta.dirname, '..')
const ROOMS = ['core', 'adapters', 'server', 'test']
/** Settings of the tools and of the packages. */
const SETTINGS = ['package.json', 'bun.lock', 'tsconfig.json', '.oxlintrc.json', '.oxfmtrc.json']

/** As if nothing were known. */
export const EVERYTHING: Changed = { everything: true, files: [], importers: [] }

const isSetting = (path: string): boolean => SETTINGS.includes(path) || /(\.d\.ts|tsconfig\.json)$/.test(path)

/** Every file of the repository that a check reads. */
export function stampsNow(): Stamps {
  const paths = [...pathsIn(ROOMS), ...SETTINGS]
  return Object.fromEntries(
    paths.map((path) => {
      const { mtimeMs, size } = statSync(join(ROOT, path))
      return [path, `${mtimeMs} ${size}`]
    }),
  )
}

export function changedSince(before: Stamps | undefined, now: Stamps): Changed {
  if (!before) return EVERYTHING
  const paths = new Set([...Object.keys(before), ...Object.keys(now)])
  const files = [...paths].filter((path) => before[path] !== now[path])
  if (files.some(isSetting)) return { everything: true, files, importers: [] }
  if (files.length === 0) return { everything: false, files, importers: [] }
  const present = (path: string): boolean => now[path] !== undefined
  const importers = withImporters(files, graphOf(Object.keys(now).filter((path) => /\.tsx?$/.test(path))))
  return { everything: false, files: files.filter(present), importers: importers.filter(present) }
}

/** The files and those that import them. What imports these in turn is checked by the runs without a word. */
export function withImporters(files: readonly string[], graph: Graph): string[] {
  const changed = new Set(files)
  const importers = [...graph].filter(([, targets]) => targets.some((target) => changed.has(target)))
  return [...new Set([...files, ...importers.map(([path]) => path)])]
}

/** Hashes of the files that were last found in order; undefined where that is not known. */
export function readStamps(path: string): Stamps | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Stamps
  } catch {
    return undefined
  }
}

export function writeStamps(path: string, stamps: Stamps): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, JSON.stringify(stamps))
}
