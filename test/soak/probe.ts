/**
 * Preloaded into a gateway that is soaked: writes a line about its own process to SOAK_PROBE_DIR every SOAK_PROBE_MS.
 * What the loop is held by this file itself is not counted.
 */
import { heapStats } from 'bun:jsc'
import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'

/** Figures of a gateway about itself. Sizes in bytes, delays in milliseconds since the line before. */
export type Probe = {
  readonly pid: number
  readonly heap: number
  readonly objects: number
  /** Timers that have been made and not yet collected. */
  readonly timers: number
  readonly delayP99: number
  readonly delayMost: number
}

const TICK_MS = 20
const { SOAK_PROBE_DIR: dir, SOAK_PROBE_MS: period, PORT: port } = process.env

if (Bun.isMainThread && dir && period && port) {
  mkdirSync(dir, { recursive: true })
  watch(join(dir, `${port}.jsonl`), Number(period))
}

function watch(file: string, periodMs: number): void {
  let delays: number[] = []
  let last = performance.now()
  let nextAt = last + periodMs
  setInterval(() => {
    const now = performance.now()
    delays.push(Math.max(0, now - last - TICK_MS))
    last = now
    if (now < nextAt) return
    nextAt = now + periodMs
    const sorted = delays.toSorted((a, b) => a - b)
    delays = []
    // Memory that is free to collect does not count as a leak.
    Bun.gc(true)
    const { heapSize, objectCount, objectTypeCounts } = heapStats()
    const probe: Probe = {
      pid: process.pid,
      heap: heapSize,
      objects: objectCount,
      timers: objectTypeCounts.Timeout ?? 0,
      delayP99: sorted[Math.floor(sorted.length * 0.99)] ?? 0,
      delayMost: sorted.at(-1) ?? 0,
    }
    appendFileSync(file, `${JSON.stringify(probe)}\n`)
    last = performance.now()
  }, TICK_MS).unref()
}
