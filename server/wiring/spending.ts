/** What a local wallet has spent by day: a small database, so that a cap per day holds over restarts and processes. */
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { openDriver } from '../../adapters/storage/sqlite/driver.ts'
import { type Usdc, usdc } from '../../core/mod.ts'

/** An amount that is noted as spent, on the day on which it was noted. */
export type Reservation = { readonly day: string; readonly amount: Usdc }

export type Spending = {
  /** Notes an amount if its day's total stays within the cap; otherwise tells what is left of the day. */
  reserve(amount: Usdc, cap: Usdc | undefined): Reservation | { readonly left: Usdc }
  /** Takes back what was noted for a call that was not charged. */
  release(reservation: Reservation): void
  close(): void
}

/** How long one process waits for another that writes, in milliseconds. */
const BUSY_MS = 2_000

/**
 * Opens the file, readable by its owner only. Days begin at midnight UTC. Throws where the file is no such record:
 * nobody would know what was spent.
 */
export function spendingIn(path: string, now: () => number): Spending {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  closeSync(openSync(path, 'a', 0o600))
  const database = openDriver(path)
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    database.exec('CREATE TABLE IF NOT EXISTS spending (day TEXT PRIMARY KEY NOT NULL, micros INTEGER NOT NULL)')
  } catch (error) {
    database.close()
    throw new Error(`${path} is no record of what was spent (${(error as Error).message}); remove it to begin at 0`)
  }
  const read = database.prepare('SELECT micros FROM spending WHERE day = ?')
  const add = database.prepare(
    'INSERT INTO spending (day, micros) VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET micros = micros + excluded.micros',
  )
  const spentOn = (day: string): bigint => BigInt((read.values(day)[0]?.[0] as number | undefined) ?? 0)

  return {
    reserve(amount, cap) {
      const day = new Date(now()).toISOString().slice(0, 10)
      return database.transaction(() => {
        const spent = spentOn(day)
        if (cap !== undefined && spent + amount > cap) return { left: usdc(cap > spent ? cap - spent : 0n) }
        add.run(day, Number(amount))
        return { day, amount }
      })
    },
    release({ day, amount }) {
      database.transaction(() => add.run(day, -Number(amount)))
    },
    close: () => database.close(),
  }
}
