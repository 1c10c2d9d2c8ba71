/** `farebox restore`: puts a backup in the place of the database. */
import { existsSync } from 'node:fs'
import { databasePath } from '../config/mod.ts'
import { backupsOf } from '../wiring/ledger.ts'
import { configOf, copyMedia, describe, fileOf, mediaOf, orFail } from './backup.ts'
import { type Command, overridden, readOptions } from './command.ts'

export const command: Command = {
  name: 'restore',
  summary: 'put a backup in the place of the database, while the gateway does not run',
  help: `Puts a backup in the place of a SQLite database. The gateway must not be running. The backup is checked
first. Media in FILE.media/ are copied to the object store; files that exist stay as they are. Then run
farebox reconcile before you sell: the backup does not know what was paid after it was made.

Usage: farebox restore FILE [options]

Options:
  --force        where a database exists, move it aside (it is kept) and put the backup in its place
  --config FILE  the configuration file (FAREBOX_CONFIG; default: farebox.toml)

Examples:
  farebox restore /backups/farebox-2026-11-22.db
  farebox restore /backups/farebox-2026-11-22.db --force`,
  async run(args, io) {
    const { values, positionals } = readOptions(args, { force: { type: 'boolean' }, config: { type: 'string' } }, 1)
    const file = fileOf(positionals)
    const { database, objects } = configOf(overridden(io.env, { FAREBOX_CONFIG: values.config }))
    const { restore } = backupsOf({ database })
    const path = databasePath(database) ?? 'the database'
    const stamp = new Date().toISOString().replace(/[:.]/g, '-')
    const aside = values.force ? `${path}.before-restore-${stamp}` : undefined
    const restored = await orFail(() => restore(file, database, aside))
    io.out(`${path}: ${describe(restored)}`)
    if (restored.before !== undefined) io.out(`The database that was there is now ${restored.before}`)
    if (existsSync(mediaOf(file)) && objects.kind === 'file') {
      await orFail(() => copyMedia(mediaOf(file), objects.dir))
      io.out(`${objects.dir}: media of ${mediaOf(file)}`)
    }
    io.out('Run farebox reconcile before you sell: this database does not know what was paid after the backup.')
    return 0
  },
}
