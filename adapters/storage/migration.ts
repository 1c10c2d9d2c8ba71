/** One migration. `name` identifies it in the table of migrations; `sql` may be several statements. */
export type Migration = { readonly name: string; readonly sql: string }

/**
 * Throws when a database has taken steps that this binary does not know: an older binary must not write into a newer
 * schema. `database` is a name that the operator recognizes and that holds no secret.
 */
export function refuseUnknownSteps(
  database: string,
  taken: readonly { name: string }[],
  wanted: readonly Migration[],
): void {
  if (taken.length > wanted.length) {
    throw new Error(
      `${database} was written by a newer Farebox: it has ${taken.length} migrations, this version knows ${wanted.length}. ` +
        'Start the newer version, or restore a backup made before the upgrade.',
    )
  }
  for (const [at, { name }] of taken.entries()) {
    if (name === wanted[at]?.name) continue
    throw new Error(
      `${database} is not a database of this Farebox: its migration ${at + 1} is "${name}", expected "${wanted[at]?.name}". ` +
        'Set DATABASE_URL to an empty database or to one of this version.',
    )
  }
}
