/** JSON lines on standard output, written in batches: a line per request would cost a quarter of the throughput. */
import { pino } from 'pino'
import type { Log } from '../core/mod.ts'

export type ServerLog = Log & {
  /** One line of the access log. Carries no header, no query and no body. */
  access(line: { id: string; method: string; path: string; status: number; ms: number; ip: string }): void
  /** Writes out what is held back; to be called before the process ends. */
  flush(): void
}

const HELD_BYTES = 8_192
const FLUSH_MS = 500

export function serverLog(level: string): ServerLog {
  const destination = pino.destination({ dest: 1, minLength: HELD_BYTES, sync: true })
  const logger = pino({ level, base: null, redact: ['key', 'token', 'secret', 'authorization'] }, destination)
  const timer = setInterval(flush, FLUSH_MS)
  timer.unref()

  function flush(): void {
    destination.flushSync()
  }

  return {
    info: (message, fields = {}) => logger.info(fields, message),
    warn: (message, fields = {}) => logger.warn(fields, message),
    alert: (message, fields = {}) => logger.error({ alert: true, ...fields }, message),
    access: (line) => logger.info(line, 'request'),
    flush,
  }
}
