/** JSON lines on standard output, written in batches: a line per request would cost a quarter of the throughput. */
import { pino } from 'pino'
import type { Log } from '../core/mod.ts'

export type ServerLog = Log & {
  /** One line of the access log. Carries no header, no query and no body, and no name in the path that reads by itself. */
  access(line: { id: string; method: string; path: string; status: number; ms: number; ip: string }): void
  /** Writes out what is held back; to be called before the process ends. */
  flush(): void
}

/** A busy server writes some hundred lines at a time; what a SIGKILL can take along is half a second of them. */
const HELD_BYTES = 65_536
const FLUSH_MS = 500

export function serverLog(level: string): ServerLog {
  const destination = pino.destination({ dest: 1, minLength: HELD_BYTES, maxWrite: 2 * HELD_BYTES, sync: true })
  const logger = pino({ level, base: null, redact: ['key', 'token', 'secret', 'authorization'] }, destination)
  const isHeard = logger.isLevelEnabled('info')
  let held = ''
  const timer = setInterval(() => {
    release()
    destination.flush() // not flushSync: that waits for the disk, and every request with it
  }, FLUSH_MS)
  timer.unref()

  /** Access lines go out before whatever was logged after them. */
  function release(): void {
    if (held === '') return
    const lines = held
    held = ''
    destination.write(lines)
  }

  return {
    info: (message, fields = {}) => (release(), logger.info(fields, message)),
    warn: (message, fields = {}) => (release(), logger.warn(fields, message)),
    alert: (message, fields = {}) => (release(), logger.error({ alert: true, ...fields }, message)),
    access({ id, method, path, status, ms, ip }) {
      if (!isHeard) return
      // By hand, for pino takes four times as long; `id` and `method` are tokens, which need no escaping.
      held += `{"level":30,"time":${Date.now()},"id":"${id}","method":"${method}","path":${JSON.stringify(masked(path))},"status":${status},"ms":${ms},"ip":${JSON.stringify(ip)},"msg":"request"}\n`
      if (held.length >= HELD_BYTES) release()
    },
    flush() {
      release()
      destination.flushSync()
    },
  }
}

/** Ids that read something by themselves, up to where they become secret: a background response has its poll key behind its call, a phone call is all secret. */
const BEARERS = [
  { under: '/v1/responses/', shown: 'resp_'.length + 32 },
  { under: '/v1/voice/call/', shown: 'call_'.length },
] as const

/** A path without what reads by itself. Encoded letters only make an id longer, so no more of it is shown. */
export function masked(path: string): string {
  for (const { under, shown } of BEARERS) {
    const start = path.indexOf(under)
    if (start < 0) continue
    const first = start + under.length
    const end = path.indexOf('/', first)
    const last = end < 0 ? path.length : end
    if (last - first > shown) return `${path.slice(0, first + shown)}...${path.slice(last)}`
  }
  return path
}
