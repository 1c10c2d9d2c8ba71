/** `farebox publish`: checks what indexers of paid APIs check, and says what to do for each of them. */
import manifest from '../../package.json' with { type: 'json' }
import { defaultBuyerCommand } from '../config/buyer_command.ts'
import { LOCAL_URL } from '../config/settings.ts'
import { type Command, CommandError, readOptions, UsageError } from './command.ts'
import { type Answer, audit, type Finding } from './publish/audit.ts'
import { listings } from './publish/lists.ts'

const options = { url: { type: 'string' }, json: { type: 'boolean' } } as const

const MARKS: Readonly<Record<Finding['level'], string>> = { ok: 'ok     ', note: 'note   ', wrong: 'WRONG  ' }

const TIMEOUT_MS = 30_000
/** In characters. */
const MAX_BODY = 20_000_000

export const command: Command = {
  name: 'publish',
  summary: 'check what indexers check, and say what to do for each of them',
  help: `Reads the documents of a running gateway and asks each paid operation for its 402, as indexers do. Then says, for
each list of paid APIs, what is in the way and what to do. Sends nothing to any list, and pays nothing.

Usage: farebox publish [--url URL] [--json]

Options:
  --url   the public URL of the gateway (default: FAREBOX_URL, or ${LOCAL_URL})
  --json  print one JSON object: paid, networks, findings (level, subject, message), lists (name, blocked, steps)

Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage.

Examples:
  farebox publish --url https://ai.example.com`,
  async run(args, io) {
    const { values } = readOptions(args, options, 0)
    const given = values.url ?? io.env.FAREBOX_URL ?? LOCAL_URL
    if (!/^https?:\/\//.test(given) || !URL.canParse(given))
      throw new UsageError(`--url must be an http or https URL, got ${JSON.stringify(given)}`)
    const { origin } = new URL(given)
    const found = await audit(origin, ask)
    const lists = listings(found, { origin, version: manifest.version, command: defaultBuyerCommand(false) })
    const isOk = found.findings.every(({ level }) => level !== 'wrong')
    if (values.json) {
      const { findings, paid, networks } = found
      io.out(JSON.stringify({ paid, networks, findings, lists }, null, 2))
      return isOk ? 0 : 1
    }
    for (const { level, subject, message } of found.findings) io.out(`${MARKS[level]}  ${subject}: ${message}`)
    for (const { name, blocked, steps } of lists) {
      io.out(`\n${name}${blocked.length > 0 ? ': not yet' : ''}`)
      for (const why of blocked) io.out(`  in the way: ${why}`)
      for (const step of steps) io.out(step.replace(/^/gm, '  '))
    }
    return isOk ? 0 : 1
  },
}

async function ask(url: string, method = 'GET'): Promise<Answer> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const response = await fetch(url, { method, redirect: 'manual', signal })
    const body = await response.text()
    if (body.length > MAX_BODY) throw new CommandError(`${url} answers more than ${MAX_BODY} characters`)
    return { status: response.status, headers: response.headers, body }
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new CommandError(`Cannot read ${url}: ${(error as Error).message}. Is a gateway running there?`)
  }
}
