/** `farebox restore`: puts a backup in the place of the database. */
import { existsSync } from 'node:fs'
import { restoreDatabase } from '../wiring/backup.ts'
import { commandArguments, type CommandIo, configOf, copyMedia, describe, failed, mediaOf, usage } from './backup.ts'

const name = 'restore'
const summary = 'Put a backup in the place of the database. The gateway must not be running.'
const help = `farebox restore FILE [--force]

${summary}

  --force   where a database exists, move it aside (it is kept) and put the backup in its place

The backup is checked first. Media in FILE.media/ are copied to the object store, files that exist stay as they are.
Then run \`farebox reconcile\` before you sell: the backup does not know what was paid after it was made.

  farebox restore /backups/farebox-2026-11-22.db
`

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = commandArguments(args, { force: { type: 'boolean' } }, io)
  if (!parsed) return usage(help, io)
  const { file, values } = parsed
  const config = configOf(io)
  if (!config) return 1
  const { database, objects } = config
  if (database.kind !== 'sqlite')
    return failed(
      `restore is for SQLite, and the database is ${database.kind}. Postgres: pg_restore, or recovery to a point in time.`,
      io,
    )
  try {
    const stamp = new Date(io.now()).toISOString().replace(/[:.]/g, '-')
    const restored = restoreDatabase(
      file,
      database.path,
      values.force ? `${database.path}.before-restore-${stamp}` : undefined,
    )
    io.out(`${database.path}: ${describe(restored)}`)
    if (restored.before !== undefined) io.out(`The database that was there is now ${restored.before}`)
    if (existsSync(mediaOf(file)) && objects.kind === 'file') {
      copyMedia(mediaOf(file), objects.dir)
      io.out(`${objects.dir}: media of ${mediaOf(file)}`)
    }
    io.out('Run `farebox reconcile` before you sell: this database does not know what was paid after the backup.')
    return 0
  } catch (error) {
    return failed((error as Error).message, io)
  }
}

export const restoreCommand = { name, summary, help, run }
