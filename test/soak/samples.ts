/** The figures of each minute of a soak. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Replica } from '../fault/replicas.ts'
import type { Probe } from './probe.ts'
import type { Town } from './sellers.ts'

const MIB = 2 ** 20
const TICKS_PER_SECOND = 100

/** Of one process. Sizes in MiB, delays of its event loop in milliseconds. */
type ProcessSample = {
  readonly pid: number
  readonly rss: number
  readonly heap: number
  readonly objects: number
  readonly handles: number
  readonly threads: number
  readonly timers: number
  readonly delayP99: number
  readonly delayMost: number
  /** Seconds of all cores since it was started. */
  readonly cpu: number
}

export type Sample = {
  readonly minutes: number
  /** The fault that there was since the sample before. */
  readonly fault?: string
  readonly whole: number
  readonly part: number
  readonly left: number
  readonly quoteMs: number
  readonly processes: Readonly<Record<string, ProcessSample>>
  /** Sizes in MiB by name, and settled calls. */
  readonly databases: Readonly<Record<string, number>>
}

/** Undefined where the process has not written since it was started, or is gone. */
export function processSample(probes: string, replica: Replica): ProcessSample | undefined {
  const pid = replica.pid()
  const file = join(probes, `${new URL(replica.origin).port}.jsonl`)
  if (!existsSync(file)) return undefined
  const last = readFileSync(file, 'utf8').trimEnd().split('\n').at(-1)
  const probe = last ? (JSON.parse(last) as Probe) : undefined
  if (probe?.pid !== pid) return undefined
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const { heap, ...rest } = probe
    return {
      ...rest,
      heap: heap / MIB,
      rss: Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024,
      threads: Number(/^Threads:\s+(\d+)/m.exec(status)?.[1]),
      cpu: cpuOf(pid),
      handles: readdirSync(`/proc/${pid}/fd`).length,
    }
  } catch {
    return undefined
  }
}

/** User and system time stand 11 and 12 words behind the name, which may hold anything but is in brackets. */
function cpuOf(pid: number): number {
  const words = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
  return (Number(words[11]) + Number(words[12])) / TICKS_PER_SECOND
}

/** Postgres may be away: then it is not in there. */
export async function databaseSizes({ postgres, file }: Town): Promise<Readonly<Record<string, number>>> {
  const sizeOf = (path: string) => (existsSync(path) ? statSync(path).size / MIB : 0)
  const sizes = { 'SQLite file': sizeOf(file), 'SQLite log': sizeOf(`${file}-wal`) }
  try {
    const { rows } = await postgres.pool.query<{ bytes: string }>(
      'SELECT pg_database_size(current_database())::text AS bytes',
    )
    return { ...sizes, Postgres: Number(rows[0]?.bytes) / MIB }
  } catch {
    return sizes
  }
}
