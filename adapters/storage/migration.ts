/** One migration (decision 146). `name` identifies it in the table of migrations; `sql` may be several statements. */
export type Migration = {
  readonly name: string
  readonly sql: string
  /**
   * Whether a Farebox that does not know this step may go on using the database: the step only adds what older ones
   * ignore. Otherwise they refuse it, also while they run (decision 121).
   */
  readonly suitsOlder?: true
  /**
   * The index that the step builds while others write. `sql` is then one CREATE INDEX CONCURRENTLY, which runs outside
   * a transaction.
   */
  readonly index?: string
}

/** A step that a database has taken. `minReader` is how many steps a Farebox must know to use the database after it. */
export type TakenStep = { readonly name: string; readonly minReader: number }

/** Returns the least number of steps to record with the step that follows `taken`. */
export function minReaderOf(step: Migration, taken: readonly TakenStep[]): number {
  return step.suitsOlder ? (taken.at(-1)?.minReader ?? 1) : taken.length + 1
}

/** The first step: the schema of the first release. */
export const BASELINE = 'first release'

/**
 * The steps of a database as this version counts them. `earlier` are the names of those that the last development
 * version before the first release had in place of the baseline; whoever migrates the database replaces them by it.
 */
export function countedSteps(
  database: string,
  taken: readonly TakenStep[],
  earlier: readonly string[],
): { readonly steps: readonly TakenStep[]; readonly isEarlier: boolean } {
  if (taken[0]?.name !== earlier[0]) return { steps: taken, isEarlier: false }
  if (taken.length === earlier.length && taken.every(({ name }, at) => name === earlier[at]))
    return { steps: [{ name: BASELINE, minReader: 1 }], isEarlier: true }
  throw new Error(
    `${database} was written by a development version of Farebox from before the first release: it has ${taken.length} of its ` +
      `${earlier.length} migrations, which this version no longer has. Nothing was changed. Start the version of ` +
      'commit 8256b58f on it once, then this one; or set DATABASE_URL to another database.',
  )
}

/**
 * Throws when a database has taken a step that this binary neither knows nor suits: an older binary must not write into
 * a schema that it cannot read. `database` is a name that the operator recognizes and that holds no secret.
 */
export function checkSteps(database: string, taken: readonly TakenStep[], wanted: readonly Migration[]): void {
  for (const [at, { name }] of taken.slice(0, wanted.length).entries()) {
    if (name === wanted[at]?.name) continue
    throw new Error(
      `${database} is not a database of this Farebox: its migration ${at + 1} is "${name}", expected "${wanted[at]?.name}". ` +
        'Set DATABASE_URL to an empty database or to one of this version.',
    )
  }
  const isReadable = taken.every(({ minReader }) => minReader <= wanted.length)
  if (isReadable) return
  throw new Error(
    `${database} was written by a newer Farebox: it has ${taken.length} migrations, this version knows ${wanted.length}. ` +
      'Start the newer version, or restore a backup made before the upgrade.',
  )
}
