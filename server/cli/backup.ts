/** `farebox backup`: a consistent copy of the database, beside the running gateway. */
import { cpSync, existsSync } from 'node:fs'
import { type BackupContents, backupsOf } from '../wiring/ledger.ts'
import { type Command, CommandError, overridden, readOptions, UsageError } from './command.ts'
import { type Config, readConfig } from '../config/mod.ts'
import type { Environment } from '../config/settings.ts'

/** Media of a backup stand beside it, in a folder of this name. */
export const mediaOf = (file: string): string => `${file}.media`

export const command: Command = {
  name: 'backup',
  summary: 'write a consistent copy of the database to a file, while the gateway runs',
  help: `Writes a consistent copy of a SQLite database to a file, while the gateway runs. The copy is put on
disk and checked before it gets its name. A file that exists is never overwritten. For Postgres it says what to use.

Usage: farebox backup FILE [options]

Options:
  --media        also copy the media of an object store on disk, to FILE.media/
  --config FILE  the configuration file (FAREBOX_CONFIG; default: farebox.toml)

Examples:
  farebox backup /backups/farebox-2026-11-22.db
  farebox backup /backups/farebox-2026-11-22.db --media`,
  async run(args, io) {
    const { values, positionals } = readOptions(args, { media: { type: 'boolean' }, config: { type: 'string' } }, 1)
    const file = fileOf(positionals)
    const { database, objects } = configOf(overridden(io.env, { FAREBOX_CONFIG: values.config }))
    const { backup, hasBackups } = backupsOf({ database })
    if (!hasBackups) await orFail(() => backup(database, file))
    if (values.media && objects.kind !== 'file')
      throw new CommandError(
        `--media copies an object store on disk, and object_store is ${objects.kind}. ${MEDIA_ELSEWHERE}`,
      )
    if (values.media && existsSync(mediaOf(file)))
      throw new CommandError(`${mediaOf(file)} exists. A backup is never overwritten: choose another name.`)
    io.out(`${file}: ${describe(await orFail(() => backup(database, file)))}`)
    // After the database: no row of the backup names a file that is missing from it.
    if (values.media && objects.kind === 'file' && existsSync(objects.dir)) {
      await orFail(() => copyMedia(objects.dir, mediaOf(file)))
      io.out(`${mediaOf(file)}: media of ${objects.dir}`)
    }
    return 0
  },
}

const MEDIA_ELSEWHERE = 'Use versioning of the bucket instead.'

/** Everything but unfinished uploads. Files are never changed, so one that is being stored is whole or absent. */
export function copyMedia(from: string, to: string): void {
  cpSync(from, to, {
    recursive: true,
    preserveTimestamps: true,
    force: false,
    filter: (path) => !path.endsWith('/.incoming'),
  })
}

export function describe({ calls, settled, unsettled, newestAt, migrations }: BackupContents): string {
  const newest = newestAt ? `, the newest of ${new Date(newestAt).toISOString()}` : ''
  const doubtful = unsettled > 0 ? `, ${unsettled} with a payment in doubt` : ''
  return `${calls} calls (${settled} paid${doubtful})${newest}; schema ${migrations}; checked`
}

// ── shared with restore ─────────────────────────────────────────────────────────────────────────────────────────────

export function fileOf(positionals: readonly string[]): string {
  const [file] = positionals
  if (!file) throw new UsageError('a FILE is expected')
  return file
}

export function configOf(env: Environment): Config {
  const read = readConfig(env)
  if (read.ok) return read.config
  throw new CommandError(
    ['The configuration has these errors:', ...read.mistakes.map((mistake) => `  - ${mistake}`)].join('\n'),
  )
}

/** Runs a step of a backup and turns its errors into messages for the operator. */
export async function orFail<T>(step: () => T | Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    throw new CommandError((error as Error).message)
  }
}
