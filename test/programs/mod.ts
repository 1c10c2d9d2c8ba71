/**
 * Postgres, public clients and the auditor of the ecosystem, which only full tests run. They are resolved from
 * this folder: `bun install --cwd test/programs`.
 */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PROGRAMS = import.meta.url
export const PROGRAMS_DIR = dirname(fileURLToPath(PROGRAMS))
/** Variables by which a program of Node reaches no other machine. */
export const LOOPBACK = { NODE_OPTIONS: `--require=${join(PROGRAMS_DIR, 'loopback.cjs')}` }

/**
 * A package of this room, which the compiler does not see. Throws with the command that installs the room: a checkout
 * has it only after `bun run test:full`.
 */
export async function program(name: string): Promise<any> {
  let path
  try {
    path = Bun.resolveSync(name, PROGRAMS_DIR)
  } catch {
    throw new Error(`${name} is not installed: run bun install --frozen-lockfile --cwd test/programs`)
  }
  return await import(path)
}
