/**
 * How much runs: the quick tests of `bun run test`, or everything, with `bun run test:full` or `FAREBOX_TESTS=full`
 * (test/README.md).
 */
export const FULL = 'full'

export const isFull: boolean =
  process.env.FAREBOX_TESTS === FULL ||
  (process.argv[1]?.endsWith('test/run.ts') === true && process.argv.includes(FULL))

/** The smaller of two amounts of the same work in the quick tests, the larger one in full. */
export function scaled<T>(quick: T, full: T): T {
  return isFull ? full : quick
}
