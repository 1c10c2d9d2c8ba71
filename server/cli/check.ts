/** `farebox check`: reads the configuration, and asks everything that it names. */
import { type Config, readConfig } from '../config/mod.ts'
import { StartError } from '../start_error.ts'
import type { Finding } from '../wiring/check.ts'
import { type Command, type Io, overridden, readOptions } from './command.ts'

const options = {
  config: { type: 'string' },
  offline: { type: 'boolean' },
  json: { type: 'boolean' },
} as const

const MARKS: Readonly<Record<Finding['level'], string>> = {
  ok: 'ok     ',
  note: 'note   ',
  warning: 'warning',
  wrong: 'WRONG  ',
}

export const command: Command = {
  name: 'check',
  summary: 'check the configuration, and ask chains, storage and vendors',
  help: `Reads farebox.toml and the environment as a start does, and names every mistake with its line. Then asks what
the configuration names: chain id, token and pay_to, the gas of every key, the clock, the database, the object
store (one object is written, read and deleted), and whether model vendors accept their keys.

Usage: farebox check [options]

Options:
  --config FILE  the configuration file (FAREBOX_CONFIG; default: farebox.toml)
  --offline      read the configuration, and the files with products of your own, only
  --json         print one JSON object: ok, errors (file, line, column, message) and findings (level, subject, message)

Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage.

Examples:
  farebox check
  farebox check --offline --json
  farebox check --config /etc/farebox/farebox.toml && systemctl restart farebox`,
  async run(args, io) {
    const { config: path, offline = false, json = false } = readOptions(args, options, 0).values
    const read = readConfig(overridden(io.env, { FAREBOX_CONFIG: path }))
    const errors = read.ok ? [] : read.errors
    const findings = read.ok ? [...(await ownFileFindings(read.config)), ...(await onlineFindings(read.config))] : []
    const isOk = read.ok && findings.every(({ level }) => level !== 'wrong')
    if (json) io.out(JSON.stringify({ ok: isOk, errors, findings }, null, 2))
    else report(io, { mistakes: read.ok ? [] : read.mistakes, findings, isOk })
    return isOk ? 0 : 1

    async function onlineFindings(config: Config): Promise<readonly Finding[]> {
      return offline ? [] : await (await import('../wiring/check.ts')).checkOnline(config)
    }
  },
}

/** Loads the files of the operator's own as a start does. */
async function ownFileFindings(config: Config): Promise<readonly Finding[]> {
  const { ownProducts, ownProtocols } = await import('../wiring/own_files.ts')
  const findings: Finding[] = []
  for (const load of [ownProducts, ownProtocols]) {
    try {
      await load(config)
    } catch (error) {
      if (!(error instanceof StartError)) throw error
      const [, subject = '', message = ''] = /^(\w+): ([^]*)$/.exec(error.message) ?? []
      findings.push({ level: 'wrong', subject, message })
    }
  }
  return findings
}

function report(
  io: Io,
  { mistakes, findings, isOk }: { mistakes: readonly string[]; findings: readonly Finding[]; isOk: boolean },
): void {
  for (const mistake of mistakes) io.out(mistake)
  for (const { level, subject, message } of findings) io.out(`${MARKS[level]}  ${subject}: ${message}`)
  const wrong = mistakes.length + findings.filter(({ level }) => level === 'wrong').length
  io.err(isOk ? 'Nothing is wrong.' : `${wrong} ${wrong === 1 ? 'mistake' : 'mistakes'}. Nothing was changed.`)
}
