/**
 * The short form of `bun run fault`: real processes, a bad wire, kills; what dead processes held ends at once instead
 * of after half a minute.
 */
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { audit, type Ledger } from './audit.ts'
import { fault } from './fault.ts'

const SEED = 7

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Findings of the audit for books that a mistake was put into; they are mended afterwards. */
async function spoiled({ pool, ...ledgerRows }: Ledger): Promise<Readonly<Record<string, readonly string[]>>> {
  const one = `id = (SELECT min(id) FROM calls WHERE payment_status = 'settled')`
  const textOf = async (changed: Partial<Ledger> = {}) => (await audit({ pool, ...ledgerRows, ...changed })).violations
  const during = async (spoil: string, mend: string) => {
    await pool.query(`UPDATE calls SET ${spoil} WHERE ${one}`)
    const violations = await textOf()
    await pool.query(`UPDATE calls SET ${mend} WHERE ${one}`)
    return violations
  }
  const [first, second] = ledgerRows.purchases
  const duplicates = ledgerRows.purchases.map((purchase) =>
    purchase === second ? { ...purchase, delivered: first!.delivered } : purchase,
  )
  return {
    unit: await during('quote = quote + 1', 'quote = quote - 1'),
    transaction: await during(`receipt = replace(receipt, '0x', '0y')`, `receipt = replace(receipt, '0y', '0x')`),
    charged: await textOf({ purchases: ledgerRows.purchases.slice(1) }),
    undelivered: await textOf({
      purchases: ledgerRows.purchases.map((purchase) =>
        purchase === first ? { ...purchase, delivered: undefined } : purchase,
      ),
    }),
    duplicates: await textOf({ purchases: duplicates }),
    whole: await textOf(),
  }
}

test(`kill -9 and a bad wire leave every picture paid once, nobody charged for nothing and no job stuck (seed ${SEED})`, async () => {
  let input: Awaited<ReturnType<typeof spoiled>> = {}
  const report = await fault({
    seed: SEED,
    buyers: 12,
    kills: 2,
    hasten: true,
    afterwards: async (ledgerRows) => void (input = await spoiled(ledgerRows)),
  })
  const { counts, kills, violations, ledgerSum, chainSum } = report
  expect(violations).toEqual([])
  expect(kills).toHaveLength(2)
  expect(kills.filter(({ hit }) => hit.length > 0).length).toBeGreaterThan(0) // they died at work
  expect(counts.delivered).toBe(counts.purchases)
  expect(counts.transfers).toBe(counts.delivered)
  expect(counts.settled).toBe(counts.delivered)
  expect(ledgerSum).toBe(chainSum)
  expect(report.pids).toHaveLength(2 + kills.length)
  expect(report.pids.filter(isAlive)).toEqual([])
  expect(existsSync(report.dir)).toBe(false)

  // An audit that finds nothing wrong with anything would find nothing here either.
  expect(input.whole).toEqual([])
  expect(input.unit).toContainEqual(expect.stringContaining('in the ledger, not on the chain'))
  expect(input.transaction).toContainEqual(expect.stringContaining('on the chain, not in the ledger'))
  expect(input.charged).toContainEqual(expect.stringContaining('was charged, and nobody has its result'))
  expect(input.undelivered).toContainEqual(expect.stringContaining('left without a picture'))
  expect(input.duplicates).toContainEqual(expect.stringContaining('delivered for two purchases'))
}, 300_000)
