/** Gateways started in the process of a test file: stopped, and their directory removed, when its tests end. */
import { afterAll } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseConfig } from '../../server/config/mod.ts'
import { type Running, start } from '../../server/main.ts'

type Log = Parameters<typeof start>[1]

/** A log that prints alerts alone, unless `more` keeps them. */
export const quietLog = (more: Partial<Log> = {}): Log => ({
  info: () => {},
  warn: () => {},
  alert: (message, fields) => console.error(message, fields),
  access: () => {},
  flush: () => {},
  ...more,
})

/** `scratch` is a directory of the file; `onDisk` is the configuration of a ledger and media in it. */
export function startedGateways(log: Log = quietLog()) {
  const scratch = mkdtempSync(join(tmpdir(), 'farebox-started-'))
  const started: Running[] = []
  afterAll(async () => {
    for (const running of started.toReversed()) await running.stop()
    rmSync(scratch, { recursive: true, force: true })
  })

  /** On a free port, with everything in memory unless `env` says otherwise. */
  async function startWith(env: Readonly<Record<string, string>> = {}, toml = ''): Promise<Running> {
    const read = parseConfig(toml, { PORT: '0', DATABASE_URL: 'memory:', OBJECT_STORE: 'memory:', ...env })
    if (!read.ok) throw new Error(read.mistakes.join('\n'))
    const running = await start(read.config, log)
    started.push(running)
    return running
  }
  const onDisk = {
    DATABASE_URL: `sqlite:${join(scratch, 'farebox.db')}`,
    OBJECT_STORE: `file:${join(scratch, 'media')}`,
  }
  return { scratch, onDisk, startWith }
}
