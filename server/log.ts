/**
 * JSON lines on standard output, or readable ones at a terminal. JSON is written in batches: a write per request would
 * cost a quarter of the throughput.
 */
import { pino } from 'pino'
import { boundedMap } from '../core/lib/mod.ts'
import type { Log } from '../core/mod.ts'
import { withoutKeys } from '../core/x402/mod.ts'
import { prettyLines } from './pretty_log.ts'

/** `tool` is one of the gateway's tools, for what a tool of MCP has asked of the HTTP API. */
export type AccessLine = {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly status: number
  readonly ms: number
  readonly ip: string
  readonly tool?: string
}

export type ServerLog = Log & {
  /** Writes a line of the access log: no headers, query or body, and secrets in the path are masked. */
  access(line: AccessLine): void
  /** Writes buffered lines. Call it before the process exits. */
  flush(): void
}

/** A busy server writes hundreds of lines at a time. A SIGKILL loses at most half a second of them. */
const BUFFER_BYTES = 65_536
const FLUSH_MS = 500

export function serverLog(level: string): ServerLog {
  const destination = process.stdout.isTTY
    ? terminal()
    : pino.destination({ dest: 1, minLength: BUFFER_BYTES, maxWrite: 2 * BUFFER_BYTES, sync: true })
  const logger = pino(
    {
      level,
      base: null,
      redact: ['key', 'token', 'secret', 'authorization'],
      // A vendor or a library may repeat a key in any field.
      hooks: { streamWrite: withoutKeys },
    },
    destination,
  )
  const isInfoEnabled = logger.isLevelEnabled('info')
  const pathText = remembered((path) => JSON.stringify(masked(path)))
  const ipText = remembered((ip) => JSON.stringify(ip))
  let buffer = ''
  const timer = setInterval(() => {
    writeBuffer()
    destination.flush() // not flushSync, which would block every request on the disk
  }, FLUSH_MS)
  timer.unref()

  /** Keeps lines in order: access lines are written before later log lines. */
  function writeBuffer(): void {
    if (buffer === '') return
    const lines = buffer
    buffer = ''
    destination.write(lines)
  }

  return {
    info: (message, fields = {}) => (writeBuffer(), logger.info(fields, message)),
    warn: (message, fields = {}) => (writeBuffer(), logger.warn(fields, message)),
    alert: (message, fields = {}) => (writeBuffer(), logger.error({ alert: true, ...fields }, message)),
    access({ id, method, path, status, ms, ip, tool }) {
      if (!isInfoEnabled) return
      const named = tool === undefined ? '' : `,"tool":${JSON.stringify(tool)}`
      // Built by hand, because pino takes four times as long. `id` and `method` are tokens and need no escaping.
      buffer +=
        `{"level":30,"time":${Date.now()},"id":"${id}","method":"${method}","path":${pathText(path)},` +
        `"status":${status},"ms":${ms},"ip":${ipText(ip)}${named},"msg":"request"}\n`
      if (buffer.length >= BUFFER_BYTES) writeBuffer()
    },
    flush() {
      writeBuffer()
      destination.flushSync()
    },
  }
}

/** The same function, remembering its results for short texts, since most requests are for few paths. */
function remembered(make: (text: string) => string): (text: string) => string {
  const known = boundedMap<string>(MAX_TEXTS)
  return (text) => {
    if (text.length > LONGEST) return make(text)
    const before = known.get(text)
    if (before !== undefined) return before
    const made = make(text)
    known.set(text, made)
    return made
  }
}
const MAX_TEXTS = 500
const LONGEST = 200

/** Readable lines at once, where a person watches. */
function terminal() {
  const isColored = !process.env.NO_COLOR
  return {
    write: (text: string) => void process.stdout.write(prettyLines(text, { isColored })),
    flush() {},
    flushSync() {},
  }
}

/**
 * Path ids that grant access by themselves, and how many characters of each are logged: a background response has its
 * poll key after its call id, and a phone call's id is secret as a whole. Of a stored object, the folder and the day
 * are logged.
 */
const SECRET_IDS = [
  { prefix: '/v1/responses/', visible: 'resp_'.length + 32 },
  { prefix: '/v1/voice/call/', visible: 'call_'.length },
] as const

const MEDIA = '/api/media/'
/** The folder and the day of an object; only its name grants access. */
const MEDIA_FOLDER = /^[a-z]{1,20}\/\d{4}-\d{2}-\d{2}\//

/** The path with secret ids and API keys masked. Percent-encoding makes an id longer, so it shows no more of it. */
export function masked(path: string): string {
  return withoutKeys(withoutIds(path))
}

function withoutIds(path: string): string {
  if (path.startsWith(MEDIA)) return `${MEDIA}${MEDIA_FOLDER.exec(path.slice(MEDIA.length))?.[0] ?? ''}...`
  for (const { prefix, visible } of SECRET_IDS) {
    const start = path.indexOf(prefix)
    if (start < 0) continue
    const first = start + prefix.length
    const end = path.indexOf('/', first)
    const last = end < 0 ? path.length : end
    if (last - first > visible) return `${path.slice(0, first + visible)}...${path.slice(last)}`
  }
  return path
}
