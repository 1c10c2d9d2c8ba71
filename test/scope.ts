/**
 * How much runs: the quick tests of `bun run test`, or everything, with `bun run test:full` or `FAREBOX_TESTS=full`
 * (test/README.md).
 */
import { join, resolve } from 'node:path'

export const FULL = 'full'

/**
 * The program that tests and attacks run as a process. `FAREBOX_TREE` names another checkout, with its packages
 * installed: attacks of today on the gateway of an older commit, to see what it lost.
 */
export const MAIN: string = resolve(process.env.FAREBOX_TREE ?? join(import.meta.dirname, '..'), 'server/main.ts')

export const isFull: boolean =
  process.env.FAREBOX_TESTS === FULL ||
  (process.argv[1]?.endsWith('test/run.ts') === true && process.argv.includes(FULL))

/** The smaller of two amounts of the same work in the quick tests, the larger one in full. */
export function scaled<T>(quick: T, full: T): T {
  return isFull ? full : quick
}
