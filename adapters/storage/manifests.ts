/** The kinds of storage. Another one is a folder with a manifest, and a line here. */
import type { StorageManifest } from './manifest.ts'
import { memoryManifest } from './memory/manifest.ts'
import { postgresManifest } from './postgres/manifest.ts'
import { sqliteManifest } from './sqlite/manifest.ts'

export const STORAGES: readonly StorageManifest[] = [memoryManifest, sqliteManifest, postgresManifest]

/** The URL of a storage, as a regular expression. */
export const STORAGE_URL_PATTERN = `^(${STORAGES.map(({ pattern }) => pattern).join('|')})$`

/** The URLs of all storages, in words. */
export const STORAGE_URLS = listed(STORAGES.map(({ usage }) => usage))

/** The manifest of the storage that a URL names. Throws, without the URL, where there is none. */
export function storageManifest(url: string): StorageManifest {
  const found = STORAGES.find(({ schemes }) => schemes.some((scheme) => url.startsWith(scheme)))
  if (found) return found
  throw new RangeError(`the URL must be ${STORAGE_URLS}; it begins ${protocolOf(url)}`)
}

function listed(items: readonly string[]): string {
  return `${items.slice(0, -1).join(', ')} or ${items.at(-1)}`
}

/** The protocol alone, because the rest may hold a password. */
export function protocolOf(url: string): string {
  return JSON.stringify(/^[a-z][a-z0-9+.-]{0,20}:/i.exec(url)?.[0] ?? url.slice(0, 12))
}
