/** `farebox backup`: a consistent copy of the database, beside the running gateway. */
import { cpSync, existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { backupDatabase, type BackupContents } from '../wiring/backup.ts'
import type { Environment } from '../config/settings.ts'
import { type Config, readConfig } from '../config/mod.ts'

/** What a command gets from its surroundings: data go to `out`, talk to `err`. */
export type CommandIo = {
  readonly env: Environment
  readonly now: () => number
  out(line: string): void
  err(line: string): void
}

/** Media of a backup stand beside it, in a folder of this name. */
export const mediaOf = (file: string): string => `${file}.media`

const name = 'backup'
const summary = 'Write a consistent copy of the database to a file, while the gateway runs.'
const help = `farebox backup FILE [--media]

${summary}

  --media   also copy the media of an object store on disk, to FILE.media/

The copy is put on disk and checked before it gets its name. A file that exists is never overwritten.
Database and media are copied in this order, so that no row names a file that is missing.

  farebox backup /backups/farebox-2026-11-22.db --media
`

/** Returns the exit status: 0 done, 1 failed, 2 wrong arguments. */
async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = commandArguments(args, { media: { type: 'boolean' } }, io)
  if (!parsed) return usage(help, io)
  const { file, values } = parsed
  const config = configOf(io)
  if (!config) return 1
  const { database, objects } = config
  if (database.kind === 'memory') return failed('The database is memory: there is nothing to back up.', io)
  if (database.kind === 'postgres') return failed(postgresBackup(file).join('\n'), io)
  if (values.media && objects.kind !== 'file')
    return failed(`--media copies an object store on disk, and object_store is ${objects.kind}. ${MEDIA_ELSEWHERE}`, io)
  try {
    if (values.media && existsSync(mediaOf(file)))
      throw new Error(`${mediaOf(file)} exists. A backup is never overwritten: choose another name.`)
    const contents = backupDatabase(database.path, file)
    io.out(`${file}: ${describe(contents)}`)
    if (!values.media || objects.kind !== 'file') return 0
    if (existsSync(objects.dir)) copyMedia(objects.dir, mediaOf(file))
    io.out(`${mediaOf(file)}: media of ${objects.dir}`)
    return 0
  } catch (error) {
    return failed((error as Error).message, io)
  }
}

export const backupCommand = { name, summary, help, run }

const MEDIA_ELSEWHERE = 'Use versioning of the bucket instead.'

/** Postgres has tools of its own. Nothing here names the URL, which holds a password. */
function postgresBackup(file: string): readonly string[] {
  return [
    'The database is Postgres, which has backup tools of its own. Continuous archiving loses the least:',
    '  postgresql.conf: archive_mode = on, archive_timeout = 60, archive_command = (your archive; 0 only when stored)',
    '  pg_basebackup --pgdata=/backups/base --checkpoint=fast --dbname="$DATABASE_URL"',
    'A dump of one moment, for a move or a test:',
    `  pg_dump --format=custom --file=${JSON.stringify(file)} --dbname="$DATABASE_URL"`,
    `  pg_restore --clean --if-exists --dbname="$DATABASE_URL" ${JSON.stringify(file)}`,
    'After any restore, run `farebox reconcile` before selling.',
  ]
}

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

type Options = Readonly<Record<string, { readonly type: 'boolean' }>>

/** One file and flags; undefined, and said why, for anything else. */
export function commandArguments(
  args: readonly string[],
  options: Options,
  io: CommandIo,
): { file: string; values: Readonly<Record<string, unknown>> } | undefined {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const [file, ...more] = positionals
    if (file !== undefined && file !== '' && more.length === 0) return { file, values }
    io.err(file ? `One file is expected, got ${positionals.length}: ${positionals.join(' ')}` : 'A file is expected.')
  } catch (error) {
    io.err((error as Error).message)
  }
  return undefined
}

export function configOf(io: CommandIo): Config | undefined {
  const read = readConfig(io.env)
  if (read.ok) return read.config
  io.err(['The configuration has these errors:', ...read.mistakes.map((mistake) => `  - ${mistake}`)].join('\n'))
  return undefined
}

export function usage(text: string, io: CommandIo): number {
  io.err(`\n${text}`)
  return 2
}

export function failed(message: string, io: CommandIo): number {
  io.err(message)
  return 1
}
