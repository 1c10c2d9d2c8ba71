/** Which packages are in a bundle, with their versions and checksums of the lock file, and their licences. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')

type Component = {
  readonly name: string
  readonly version: string
  /** The folder from the root, such as `node_modules/pino`. */
  readonly folder: string
  readonly license: string
}

/** Metadata of a bundle from the bundler. */
type Metafile = Bun.BuildOutput['metafile']

/** The folders of the packages whose files went into a bundle, sorted. */
export function packagesIn(metafile: Metafile | undefined): readonly string[] {
  const folders = Object.keys(metafile?.inputs ?? {}).flatMap((path) => {
    const [, folder] = /(?:^|\/)((?:node_modules\/(?:@[^/]+\/)?[^/]+\/)+)/.exec(path) ?? []
    return folder ? [folder.slice(0, -1)] : []
  })
  return [...new Set(folders)].sort()
}

export async function componentOf(folder: string): Promise<Component> {
  const text = await readFile(join(ROOT, folder, 'package.json'), 'utf8')
  const { name, version, license } = JSON.parse(text) as { name: string; version: string; license?: string }
  return { name, version, folder, license: license ?? 'NOASSERTION' }
}

/** The licences of these packages, one after the other, as they require of who hands them on. */
export async function licensesOf(folders: readonly string[]): Promise<string> {
  const texts = await Promise.all(
    folders.map(async (folder) => {
      const { name, version, license } = await componentOf(folder)
      const files = (await readdir(join(ROOT, folder))).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
      const bodies = await Promise.all(files.sort().map((file) => readFile(join(ROOT, folder, file), 'utf8')))
      return [`${name} ${version} (${license})`, ...bodies.map((body) => body.trim())].join('\n\n')
    }),
  )
  return `${texts.join(`\n\n${'─'.repeat(80)}\n\n`)}\n`
}
