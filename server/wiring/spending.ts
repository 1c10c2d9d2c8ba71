/** Spending of a local wallet by day: a small database, so that a cap per day holds over restarts and processes. */
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { openDriver } from '../../adapters/storage/sqlite/driver.ts'
import { type Usdc, usdc } from '../../core/mod.ts'

/** An amount that is noted as spent, on the day on which it was noted. */
export type Reservation = { readonly id: number; readonly day: string; readonly amount: Usdc }

/** A signature that was sent, by which a chain tells whether it was spent. `validBefore` in seconds since 1970. */
export type Signature = {
  readonly network: string
  readonly asset: string
  readonly payer: string
  readonly nonce: string
  readonly validBefore: number
}

export type Spending = {
  /**
   * Notes an amount if the total of its day stays within the cap; otherwise tells what is left of the day. Signatures
   * of earlier days that are still valid count too. `validSeconds`: how long this one can be spent.
   */
  reserve(
    amount: Usdc,
    options: { readonly cap: Usdc | undefined; readonly validSeconds: number },
  ): Reservation | { readonly left: Usdc }
  /** Notes what was signed, just before it is sent. */
  signed(reservation: Reservation, signature: Signature): void
  /** Today's reservations for signatures that have expired by this machine's clock. */
  ended(): readonly { readonly reservation: Reservation; readonly signature: Signature }[]
  /** Takes back what was noted for a signature that was never sent, or that can no longer be spent and was not. */
  release(reservation: Reservation): void
  close(): void
}

/** How long one process waits for another that writes, in milliseconds. */
const BUSY_MS = 2_000
/** Clocks of chains and of this machine differ by less, in seconds. */
export const MARGIN_S = 120

/**
 * Opens the file, readable by its owner only. Days begin at midnight UTC. Throws if the file is not a spending journal:
 * an unreadable journal must not count as zero.
 */
export function spendingIn(path: string, now: () => number): Spending {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  closeSync(openSync(path, 'a', 0o600))
  const database = openDriver(path)
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    database.exec('CREATE TABLE IF NOT EXISTS spending (day TEXT PRIMARY KEY NOT NULL, micros INTEGER NOT NULL)')
    database.exec(
      'CREATE TABLE IF NOT EXISTS signatures (id INTEGER PRIMARY KEY, day TEXT NOT NULL, micros INTEGER NOT NULL, ' +
        'ends_at INTEGER NOT NULL, signature TEXT)',
    )
  } catch (error) {
    database.close()
    throw new Error(`${path} is no record of what was spent (${(error as Error).message}); remove it to begin at 0`)
  }
  const read = database.prepare('SELECT micros FROM spending WHERE day = ?')
  const add = database.prepare(
    'INSERT INTO spending (day, micros) VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET micros = micros + excluded.micros',
  )
  const open = database.prepare('INSERT INTO signatures (day, micros, ends_at) VALUES (?, ?, ?) RETURNING id')
  const note = database.prepare('UPDATE signatures SET signature = ? WHERE id = ?')
  const drop = database.prepare('DELETE FROM signatures WHERE id = ? RETURNING micros')
  const forget = database.prepare('DELETE FROM signatures WHERE day <> ? AND ends_at <= ?')
  const carried = database.prepare('SELECT COALESCE(SUM(micros), 0) FROM signatures WHERE day <> ? AND ends_at > ?')
  const listed = database.prepare(
    'SELECT id, micros, signature FROM signatures WHERE day = ? AND ends_at <= ? AND signature IS NOT NULL ORDER BY id',
  )
  const today = () => new Date(now()).toISOString().slice(0, 10)
  const first = (row: readonly unknown[] | undefined): number => (row?.[0] as number | undefined) ?? 0
  const spentOn = (day: string): bigint =>
    BigInt(first(read.values(day)[0])) + BigInt(first(carried.values(day, now())[0]))

  return {
    reserve(amount, { cap, validSeconds }) {
      const day = today()
      return database.transaction(() => {
        const spent = spentOn(day)
        if (cap !== undefined && spent + amount > cap) return { left: usdc(cap > spent ? cap - spent : 0n) }
        add.run(day, Number(amount))
        forget.run(day, now())
        const id = first(open.values(day, Number(amount), now() + (validSeconds + MARGIN_S) * 1000)[0])
        return { id, day, amount }
      })
    },
    signed({ id }, signature) {
      note.run(JSON.stringify(signature), id)
    },
    ended() {
      const day = today()
      return listed.values(day, now()).map(([id, micros, signature]) => ({
        reservation: { id: id as number, day, amount: usdc(BigInt(micros as number)) },
        signature: JSON.parse(signature as string) as Signature,
      }))
    },
    release({ id, day }) {
      database.transaction(() => {
        // Two processes may have learned the same.
        const micros = first(drop.values(id)[0])
        if (micros > 0) add.run(day, -micros)
      })
    },
    close: () => database.close(),
  }
}
