/** Files about the API keys of a person: where each was made, and its channel. None holds a key. */
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KeyChannelConfig } from './key_deposit.ts'

export type KeyFile = {
  readonly address: string
  /** The gateway that it was made for. */
  readonly origin: string
  readonly network: string
  readonly channelId: string
  readonly config: KeyChannelConfig
  /** ISO 8601. */
  readonly createdAt: string
}

/** Writes the file of a key, in place of an older one. */
export function writeKeyFile(directory: string, file: KeyFile): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const path = join(directory, `${file.address.toLowerCase()}.json`)
  writeFileSync(`${path}.new`, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

/** All keys of this person, oldest first. A file that cannot be read is left out. */
export function keyFiles(directory: string): readonly KeyFile[] {
  let names: readonly string[]
  try {
    names = readdirSync(directory)
  } catch {
    return []
  }
  const files = names.filter((name) => /^0x[0-9a-f]{40}\.json$/.test(name)).flatMap((name) => read(directory, name))
  return files.sort((a, b) => a.createdAt.localeCompare(b.createdAt))
}

function read(directory: string, name: string): readonly KeyFile[] {
  try {
    const file = JSON.parse(readFileSync(join(directory, name), 'utf8')) as KeyFile
    return typeof file.address === 'string' && typeof file.config === 'object' ? [file] : []
  } catch {
    return []
  }
}
