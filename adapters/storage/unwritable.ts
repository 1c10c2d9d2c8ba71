import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/** Why a file, or the nearest folder that exists above it, cannot be written. */
export async function unwritable(path: string): Promise<string | undefined> {
  for (let at = resolve(path); ; at = dirname(at)) {
    const code = await access(at, constants.W_OK).then(
      () => undefined,
      (error: { code?: string }) => error.code ?? 'unknown error',
    )
    if (code === undefined) return undefined
    if (code !== 'ENOENT' || dirname(at) === at) return `${at} cannot be written (${code})`
  }
}
