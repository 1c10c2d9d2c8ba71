/** The token of the proxy: made once, kept in a file that only its owner can read. */
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const tokenPath = (home: string): string => join(home, '.farebox', 'proxy_token')

const TOKEN = /^sk-proxy-[\w-]{43}$/

/** Reads the token, or makes one. Throws if other users can read the file. */
export function proxyToken(path: string, { isNew = false }: { readonly isNew?: boolean } = {}): string {
  const known = isNew ? undefined : readToken(path)
  if (known !== undefined) return known
  const token = `sk-proxy-${randomBytes(32).toString('base64url')}`
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(`${path}.new`, `${token}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
  return token
}

function readToken(path: string): string | undefined {
  let token: string
  try {
    token = readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
  if ((statSync(path).mode & 0o077) !== 0)
    throw new Error(`Other users could read ${path}. Run farebox proxy --new-token, and farebox proxy env again.`)
  return TOKEN.test(token) ? token : undefined
}
