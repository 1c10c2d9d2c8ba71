export type Step = { readonly name: string; readonly sql: string }

/**
 * Throws when a database has had steps that this binary does not know: an older binary must not write into a newer shape. `place`
 * is how the operator knows the database, without its secrets.
 */
export function refuseStrangers(place: string, had: readonly { name: string }[], wanted: readonly Step[]): void {
  if (had.length > wanted.length) {
    throw new Error(
      `${place} was written by a newer Farebox: it has had ${had.length} migrations, this one knows ${wanted.length}. ` +
        'Start the newer version, or restore a backup that was made before the upgrade.',
    )
  }
  for (const [at, { name }] of had.entries()) {
    if (name === wanted[at]?.name) continue
    throw new Error(
      `${place} is not a database of this Farebox: its migration ${at + 1} is "${name}", not "${wanted[at]?.name}".`,
    )
  }
}
