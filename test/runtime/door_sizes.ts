/**
 * Size of each door of the package in a program that bundles it: minified, gzipped, without the packages that it
 * imports, which are named. `bun test/runtime/door_sizes.ts DIST` prints the table of the embedding guide.
 */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }

type DoorSize = {
  readonly door: string
  /** Bytes of the door's own code that is loaded at once. */
  readonly gzip: number
  /** Bytes with the packages that are loaded with it. */
  readonly whole: number
  /** Packages that are loaded with it, in part: those that it loads later, when they are needed, are not among them. */
  readonly packages: readonly string[]
}

/** The smallest gateway of one's own products, and every door with all that it exports. */
const smallest = {
  door: 'farebox { customGateway, paid }',
  code: `export { customGateway, paid } from './core/mod.js'`,
}

export async function doorSizes(home: string): Promise<readonly DoorSize[]> {
  const doors = Object.entries(manifest.exports).map(([door, path]) => ({
    door: `farebox${door.slice(1)}`,
    code: `export * from '${path.replace(/\.ts$/, '.js')}'`,
  }))
  const sizes: DoorSize[] = []
  for (const { door, code } of [smallest, ...doors]) {
    const [own, whole] = [await bundle(home, code, true), await bundle(home, code, false)]
    sizes.push({ door, gzip: own.gzip, whole: whole.gzip, packages: own.packages })
  }
  return sizes
}

async function bundle(home: string, code: string, isAlone: boolean): Promise<Pick<DoorSize, 'gzip' | 'packages'>> {
  const entry = join(home, 'measured_door.js')
  await writeFile(entry, code)
  const built = await Bun.build({
    entrypoints: [entry],
    target: 'node',
    minify: true,
    splitting: true,
    ...(isAlone && { packages: 'external' as const }),
    external: ['bun:sqlite', 'better-sqlite3'],
    throw: false,
  }).finally(() => rm(entry))
  if (!built.success) throw new Error(built.logs.map(String).join('\n'))
  // Static imports of the entry are loaded with it; other chunks wait for a dynamic import.
  const texts = new Map<string, string>()
  for (const output of built.outputs) texts.set(output.path.split('/').at(-1) ?? '', await output.text())
  const first = built.outputs.find(({ kind }) => kind === 'entry-point')
  const loaded = new Set([first?.path.split('/').at(-1) ?? ''])
  const packages = new Set<string>()
  for (const name of loaded)
    for (const [, path = ''] of (texts.get(name) ?? '').matchAll(/(?:\bfrom|\bimport) ?"([^"]+)"/g)) {
      const chunk = path.split('/').at(-1) ?? ''
      if (path.startsWith('.') && texts.has(chunk)) loaded.add(chunk)
      else if (/^[@a-z]/.test(path) && !/^(?:node|bun):/.test(path) && !BUILT_IN.has(path))
        packages.add(path.split('/', path.startsWith('@') ? 2 : 1).join('/'))
    }
  const text = [...loaded].map((name) => texts.get(name) ?? '').join('')
  return { gzip: Bun.gzipSync(text).length, packages: [...packages].sort() }
}

const BUILT_IN = new Set([
  'buffer',
  'child_process',
  'crypto',
  'events',
  'fs',
  'http',
  'https',
  'net',
  'os',
  'path',
  'stream',
  'tls',
  'url',
  'util',
  'zlib',
])

if (import.meta.main) {
  const [home] = process.argv.slice(2)
  if (home === undefined) throw new Error('usage: bun test/runtime/door_sizes.ts DIST')
  const kilobytes = (bytes: number) => (bytes / 1024).toFixed(1)
  for (const { door, gzip, whole, packages } of await doorSizes(home))
    console.log(`| \`${door}\` | ${kilobytes(gzip)} | ${kilobytes(whole)} | ${packages.join(', ')} |`)
}
