/**
 * The import graph as data, and the rules of layout as pure functions over it: which tier may import which, no circles,
 * no crowded folders (decision 110). `bun test/graph.ts` prints the folders of core and their arrows, and the circles
 * of every room, pages included.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * Files by their path from the root, each with what it imports: other files by path, packages by specifier. Type
 * imports count.
 */
export type Graph = ReadonlyMap<string, readonly string[]>

/**
 * Core's tiers, each after all that it may import; products and discovery stop before payment. Products ask identity
 * whose a request is.
 */
const UP_TO_ENDPOINT = ['lib', 'x402', 'mpp', 'ports', 'http', 'endpoint'] as const
const UP_TO_CALL = [...UP_TO_ENDPOINT, 'payment', 'identity', 'engine', 'call'] as const
export const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  notes: [],
  lib: [],
  x402: ['lib'],
  mpp: ['lib', 'x402'],
  ports: ['lib', 'x402', 'mpp'],
  http: ['lib', 'x402', 'mpp', 'ports'],
  endpoint: ['lib', 'x402', 'mpp', 'ports', 'http'],
  payment: UP_TO_ENDPOINT,
  identity: [...UP_TO_ENDPOINT, 'payment'],
  engine: [...UP_TO_ENDPOINT, 'payment', 'identity'],
  call: [...UP_TO_ENDPOINT, 'payment', 'identity', 'engine'],
  lifecycle: UP_TO_CALL,
  serving: [...UP_TO_CALL, 'discovery'],
  products: [...UP_TO_ENDPOINT, 'identity'],
  discovery: UP_TO_ENDPOINT,
}

/** A tier of one file: what every step of a call is given. */
const ENGINE = 'core/engine.ts'
/** Files of core/ itself. */
const CORE_FILES = ['CONTRACT.md', 'DECISIONS.md', 'engine.ts', 'README.md', 'gateway.ts', 'mod.ts', 'tsconfig.json']
const MAX_FOLDER = 20
/** Folders that list providers, one folder each, may be longer. */
const INDEXES = ['adapters/providers']

export function specifiers(text: string): string[] {
  const statements = text.matchAll(
    /^(?:import|export)\b[^'`;]*?\bfrom '([^']+)'|^import '([^']+)'|\bimport\(\s*'([^']+)'\s*\)/gm,
  )
  return [...statements].map(([, from, bare, dynamic]) => from ?? bare ?? dynamic ?? '')
}

export function resolve(from: string, specifier: string): string {
  return specifier.startsWith('.') ? join(dirname(from), specifier) : specifier
}

/** The tier of a file of core; undefined for the other files of core itself and for all other rooms. */
function tierOf(path: string): string | undefined {
  if (path === ENGINE) return 'engine'
  const [room, tier, ...rest] = path.split('/')
  return room === 'core' && rest.length > 0 ? tier : undefined
}

/** Products that describe all others: what the gateway says of itself. */
const DESCRIBES_PRODUCTS = ['site']
/** Folder that products share; it imports none of them. */
const SHARED = 'lib'

/** Imports against the order. Nothing imports core's own files, and no product imports another. */
export function wrongArrows(graph: Graph): string[] {
  return [...graph].flatMap(([path, targets]) => {
    const tier = tierOf(path)
    const isAllowed = (target: string): boolean => {
      if (tier === undefined || !target.startsWith('core/')) return true
      const other = tierOf(target)
      if (other !== tier) return other !== undefined && (ALLOWED[tier] ?? []).includes(other)
      return (
        tier !== 'products' ||
        isProductAllowed(folderBelow(path, 'core/products'), folderBelow(target, 'core/products'))
      )
    }
    return targets.filter((target) => !isAllowed(target)).map((target) => `${path} imports ${target}`)
  })
}

/** The folder of a file below another one; undefined for what stands there itself. */
export function folderBelow(path: string, folder: string): string | undefined {
  const [name, ...rest] = path.slice(folder.length + 1).split('/')
  return rest.length > 0 ? name : undefined
}

/** The list of products imports them all; a product imports what products share. */
function isProductAllowed(product: string | undefined, other: string | undefined): boolean {
  if (product === undefined || product === other) return true
  return other === SHARED || (DESCRIBES_PRODUCTS.includes(product) && other !== undefined)
}

/** Files of core that stand in no tier: a folder that is none, or more in core/ itself than its own files. */
export function strangers(paths: readonly string[]): string[] {
  return paths.filter((path) => {
    if (!path.startsWith('core/')) return false
    const tier = tierOf(path)
    return tier === undefined ? !CORE_FILES.includes(path.slice('core/'.length)) : !Object.hasOwn(ALLOWED, tier)
  })
}

/** Folders with more files than fit on a screen. */
export function loaded(paths: readonly string[]): string[] {
  const counts = new Map<string, number>()
  for (const path of paths) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1)
  return [...counts]
    .filter(([folder, count]) => count > MAX_FOLDER && !INDEXES.includes(folder))
    .map(([folder, count]) => `${folder} holds ${count} files`)
}

/**
 * The same graph between folders. A tier of one file is its own folder; with `folderOrFile`, so is a file that stands
 * beside folders: a list or a door above them, or what they share.
 */
export function folders(graph: Graph, folderOf = tierFolder): Graph {
  const found = new Map<string, Set<string>>()
  for (const [path, targets] of graph) {
    const known = found.get(folderOf(path)) ?? new Set()
    found.set(folderOf(path), known)
    for (const target of targets)
      if (graph.has(target) && folderOf(target) !== folderOf(path)) known.add(folderOf(target))
  }
  return new Map([...found].map(([folder, targets]) => [folder, [...targets].sort()]))
}

const tierFolder = (path: string): string => (path === ENGINE ? path : dirname(path))

/** The folder of a file, or the file itself where it stands beside folders. */
export function folderOrFile(graph: Graph): (path: string) => string {
  const parents = new Set<string>()
  for (const path of graph.keys())
    for (let folder = dirname(dirname(path)); folder !== '.'; folder = dirname(folder)) parents.add(folder)
  return (path) => (parents.has(dirname(path)) ? path : dirname(path))
}

/** Circles, each as the list of its members: the strongly connected components of more than one (Tarjan). */
export function circles(graph: Graph): string[][] {
  const order = new Map<string, number>()
  const lowest = new Map<string, number>()
  const open: string[] = []
  const found: string[][] = []
  for (const node of graph.keys()) if (!order.has(node)) walk(node)
  return found

  function walk(node: string): void {
    order.set(node, order.size)
    lowest.set(node, order.get(node) ?? 0)
    open.push(node)
    for (const target of graph.get(node) ?? []) {
      if (!graph.has(target)) continue
      if (!order.has(target)) walk(target)
      if (open.includes(target)) lowest.set(node, Math.min(lowest.get(node) ?? 0, lowest.get(target) ?? 0))
    }
    if (lowest.get(node) !== order.get(node)) return
    const members = open.splice(open.indexOf(node))
    if (members.length > 1) found.push(members.sort())
  }
}

// ── the repository ──────────────────────────────────────────────────────────────────────────────────────────────────

const ROOT = join(import.meta.dirname, '..')

export function pathsIn(rooms: readonly string[]): string[] {
  return rooms
    .flatMap((room) => readdirSync(join(ROOT, room), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1))
    .sort()
}

export function graphOf(paths: readonly string[]): Graph {
  const sources = paths.filter((path) => /\.tsx?$/.test(path) && !path.endsWith('.d.ts'))
  return new Map(
    sources.map((path) => [
      path,
      specifiers(readFileSync(join(ROOT, path), 'utf8')).map((specifier) => resolve(path, specifier)),
    ]),
  )
}

function printed(paths: readonly string[]): string {
  const graph = graphOf(paths)
  const rows = [...folders(graph)].map(([folder, targets]) => {
    const count = paths.filter((path) => dirname(path) === folder).length
    return `${folder} (${count}) -> ${targets.join(' ') || 'nothing'}`
  })
  return [
    ...rows,
    `${rows.length} folders, ${circles(folders(graph)).length} circles of folders, ${circles(graph).length} circles of files, ${wrongArrows(graph).length} arrows against the order`,
  ].join('\n')
}

function printedCircles(): string {
  const graph = graphOf(pathsIn(['core', 'adapters', 'server']))
  const found = circles(graph)
  return [
    ...found.map((members) => `circle: ${members.join(' ')}`),
    `core, adapters and server: ${graph.size} files, ${found.length} circles of files`,
  ].join('\n')
}

if (import.meta.main) process.stdout.write(`${printed(pathsIn(['core']))}\n${printedCircles()}\n`)
