/**
 * The journal of what local wallets have signed, by day: a small database, so that a cap per day holds over restarts
 * and for every process that pays from this machine.
 */
import { closeSync, existsSync, mkdirSync, openSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { openDriver } from '../../adapters/storage/sqlite/driver.ts'
import { type Usdc, usdc } from '../../core/x402/mod.ts'

/** An amount that is noted as spent, on the day on which it was noted. */
export type Reservation = { readonly id: number; readonly day: string; readonly amount: Usdc }

/** A signature that was sent, by which a chain tells whether it was spent. `validBefore` in seconds since 1970. */
export type Signature = {
  readonly network: string
  readonly asset: string
  readonly payer: string
  readonly nonce: string
  readonly validBefore: number
  /** Permit2 signed it, and knows the nonce; without it the token does. */
  readonly isPermit?: true
}

/** A ceiling on everything that a seller may claim from a channel, as a voucher signs it. */
type Ceiling = { readonly channel: string; readonly amount: Usdc }

export type Journal = {
  /**
   * Notes an amount if the total of its day stays within the cap; otherwise tells what is left of the day. Signatures
   * of earlier days that are still valid count too. `validSeconds`: how long this one can be spent.
   */
  reserve(
    amount: Usdc,
    options: { readonly cap: Usdc | undefined; readonly validSeconds: number },
  ): Reservation | { readonly left: Usdc }
  /**
   * Notes how far a voucher raises the highest ceiling that was signed for its channel: that is what the seller can
   * claim on top.
   */
  reserveVoucher(ceiling: Ceiling, cap: Usdc | undefined): Reservation | { readonly left: Usdc }
  /** Takes back a voucher that was never sent. `amount` is what it had raised the ceiling by. */
  releaseVoucher(ceiling: Ceiling, reservation: Reservation): void
  /** Notes what was signed, just before it is sent. */
  signed(reservation: Reservation, signature: Signature): void
  /** Notes that a signature was spent for this amount, at most the reserved one, and for no more. */
  spent(reservation: Reservation, amount: Usdc): void
  /** Today's reservations for signatures that have expired by this machine's clock. */
  ended(): readonly { readonly reservation: Reservation; readonly signature: Signature }[]
  /** Takes back what was noted for a signature that was never sent, or that can no longer be spent and was not. */
  release(reservation: Reservation): void
  /** The total that counts against the cap of today. */
  today(): Usdc
  close(): void
}

/** How long one process waits for another that writes, in milliseconds. */
const BUSY_MS = 2_000
/** Clocks of chains and of this machine differ by less, in seconds. */
export const MARGIN_S = 120

/** The journal of test money: it does not use up the cap of real money. */
export const testJournalPath = (home: string): string => join(home, '.farebox', 'test_spending.db')

/** The journal of a person, which every command that pays shares. Takes over the one that `farebox mcp` had alone. */
export function journalPath(home: string): string {
  const [path, former] = ['spending.db', 'mcp_spending.db'].map((name) => join(home, '.farebox', name)) as [
    string,
    string,
  ]
  if (!existsSync(path) && existsSync(former)) renameSync(former, path)
  return path
}

const TABLES = [
  'CREATE TABLE IF NOT EXISTS spending (day TEXT PRIMARY KEY NOT NULL, micros INTEGER NOT NULL)',
  'CREATE TABLE IF NOT EXISTS signatures (id INTEGER PRIMARY KEY, day TEXT NOT NULL, micros INTEGER NOT NULL, ' +
    'ends_at INTEGER NOT NULL, signature TEXT)',
  'CREATE TABLE IF NOT EXISTS channels (id TEXT PRIMARY KEY NOT NULL, ceiling TEXT NOT NULL)',
]

/**
 * Opens the file, readable by its owner only. Days begin at midnight UTC. Throws if the file is not a spending journal:
 * an unreadable journal must not count as zero.
 */
export function openJournal(path: string, now: () => number): Journal {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  closeSync(openSync(path, 'a', 0o600))
  const database = openDriver(path)
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    for (const table of TABLES) database.exec(table)
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
  const ceilingOf = database.prepare('SELECT ceiling FROM channels WHERE id = ?')
  const raise = database.prepare(
    'INSERT INTO channels (id, ceiling) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET ceiling = excluded.ceiling',
  )
  const today = () => new Date(now()).toISOString().slice(0, 10)
  const first = (row: readonly unknown[] | undefined): number => (row?.[0] as number | undefined) ?? 0
  const spentOn = (day: string): bigint =>
    BigInt(first(read.values(day)[0])) + BigInt(first(carried.values(day, now())[0]))
  const highest = (channel: string): bigint => BigInt(String(ceilingOf.values(channel)[0]?.[0] ?? 0))
  /** Undefined within the cap. */
  const beyond = (amount: bigint, { cap, day }: { cap: Usdc | undefined; day: string }) => {
    const spent = spentOn(day)
    return cap !== undefined && spent + amount > cap ? { left: usdc(cap > spent ? cap - spent : 0n) } : undefined
  }
  const takeBack = (id: number, day: string) => {
    // Two processes may have learned the same.
    const micros = first(drop.values(id)[0])
    if (micros > 0) add.run(day, -micros)
    return micros > 0
  }

  return {
    reserve(amount, { cap, validSeconds }) {
      const day = today()
      return database.transaction(() => {
        const refused = beyond(amount, { cap, day })
        if (refused) return refused
        add.run(day, Number(amount))
        forget.run(day, now())
        const id = first(open.values(day, Number(amount), now() + (validSeconds + MARGIN_S) * 1000)[0])
        return { id, day, amount }
      })
    },
    reserveVoucher({ channel, amount: ceiling }, cap) {
      const day = today()
      return database.transaction(() => {
        const before = highest(channel)
        const amount = usdc(ceiling > before ? ceiling - before : 0n)
        const refused = beyond(amount, { cap, day })
        if (refused) return refused
        add.run(day, Number(amount))
        if (amount > 0n) raise.run(channel, String(ceiling))
        return { id: 0, day, amount }
      })
    },
    releaseVoucher({ channel, amount: ceiling }, { day, amount }) {
      database.transaction(() => {
        if (amount === 0n || highest(channel) !== ceiling) return
        raise.run(channel, String(ceiling - amount))
        add.run(day, -Number(amount))
      })
    },
    signed({ id }, signature) {
      note.run(JSON.stringify(signature), id)
    },
    spent({ id, day, amount: reserved }, amount) {
      database.transaction(() => {
        if (takeBack(id, day)) add.run(day, Number(amount < reserved ? amount : reserved))
      })
    },
    ended() {
      const day = today()
      return listed.values(day, now()).map(([id, micros, signature]) => ({
        reservation: { id: id as number, day, amount: usdc(BigInt(micros as number)) },
        signature: JSON.parse(signature as string) as Signature,
      }))
    },
    release({ id, day }) {
      database.transaction(() => void takeBack(id, day))
    },
    today: () => usdc(spentOn(today())),
    close: () => database.close(),
  }
}
