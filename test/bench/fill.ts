/** Fills a SQLite ledger with calls by SQL, in seconds where the storage's own verbs would take hours. */
import { Database } from 'bun:sqlite'
import type { Offer } from '../../core/x402/protocol.ts'
import { sqliteStorage } from '../../adapters/storage/sqlite/mod.ts'

/**
 * `settled` are paid, with their results. `emptied` are paid so long ago that only the ledger row is left, spread
 * evenly from `since` to `until` days ago. `unpaid` waited for a poll that never came. All but `emptied` have expired
 * at `now`.
 */
type Filling = {
  readonly rows: number
  readonly kind: 'settled' | 'emptied' | 'unpaid'
  readonly now: number
  readonly since?: number
  readonly until?: number
}

/** Wallets that the calls belong to, in equal shares. */
const WALLETS = 10_000
const PORTION = 100_000
const DAY_MS = 86_400_000

export const ASSET = 'eip155:84532/0x036cbd53842c5426634e7929541ec2318f3dcf7e'
export const OFFER: Offer = {
  scheme: 'exact',
  network: 'eip155:84532',
  amount: '22000',
  asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  payTo: '0x1111111111111111111111111111111111111111',
  maxTimeoutSeconds: 300,
  extra: { name: 'USDC', version: '2' },
}
const WRITTEN_OFFER = JSON.stringify(OFFER)
const SIGNED = JSON.stringify({
  x402Version: 2,
  accepted: OFFER,
  payload: { signature: `0x${'ab'.repeat(65)}`, authorization: { nonce: `0x${'cd'.repeat(32)}` } },
})
const REQUEST = JSON.stringify({ model: 'vendor-a/image-1', size: '1024x1024', n: 1, _from: 'e'.repeat(43) })
const RESULT = JSON.stringify({ made: { data: [{ url: 'x'.repeat(120) }] }, media: [{ key: 'y'.repeat(60) }] })

export const walletOf = (index: number): string => `0x${index.toString(16).padStart(40, '0')}`

/**
 * Adds the calls to the ledger at `path`, which is made where there is none. Their ids and keys are spread evenly over
 * all there may be, so that the next random one falls anywhere among them.
 */
export async function fillLedger(path: string, { rows, kind, now, since = 365, until = 35 }: Filling): Promise<void> {
  await sqliteStorage(path).close()
  const database = new Database(path)
  database.run('PRAGMA synchronous = OFF')
  database.run('PRAGMA foreign_keys = OFF')
  database.run('PRAGMA cache_size = -400000')
  database.run('PRAGMA wal_autocheckpoint = 100000')
  const indexes = database
    .query<{ name: string; sql: string }, []>(
      "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ('calls', 'authorizations')",
    )
    .all()
  // Built at the end in one sort each: kept up row by row, millions of them take hours.
  if (rows > PORTION) for (const { name } of indexes) database.run(`DROP INDEX ${name}`)
  const [isPaid, isEmptied] = [kind !== 'unpaid', kind === 'emptied']
  const spread = `printf('%08x%024x', i * 4294967296 / ${rows}, i)`
  const wallet = `printf('0x%040x', (i * 7919) % ${WALLETS})`
  for (let from = 0; from < rows; from += PORTION) {
    const end = Math.min(rows, from + PORTION)
    const numbers = `WITH RECURSIVE numbers(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM numbers WHERE i < ${end - 1})`
    // A call with a result is as old as results are kept.
    const at = isEmptied
      ? `${now - since * DAY_MS} + i * ${((since - until) * DAY_MS) / rows}`
      : `${now - 31 * DAY_MS} + i % 1000`
    const time = `cast(${at} as integer)`
    database.transaction(() => {
      database.run(
        `${numbers} INSERT INTO calls (id, gateway, endpoint, model, payer, asset, quote, authorization, fingerprint,
          created_at, work_status, payment_status, worker_id, lease_expires_at, started_at, ended_at, settled_at,
          expires_at, claim_token, claim_expires_at, claim_key, claim_fresh, emptied, usage, paid, offer, error, receipt,
          request, result)
        SELECT 'job_' || ${spread}, 'default', 'images.generations', 'vendor-a/image-1', ${wallet}, ?1, '22000',
          'eip155:84532/0x036c/' || ${spread}, printf('%064x', i), ${time}, 'completed',
          ${isPaid ? "'settled'" : "'verified'"}, 'bench', ${time} + 60000, ${time}, ${time} + 900,
          ${isPaid ? `${time} + 1000` : 'NULL'}, ${time} + 1000, ${isPaid ? 1 : 0}, NULL, NULL, 0, ${isEmptied ? 1 : 0},
          NULL, ${isPaid ? "'22000'" : 'NULL'}, ?2, NULL,
          ${isPaid ? `'{"success":true,"transaction":"0x' || printf('%064x', i) || '","network":"eip155:84532","block":' || i || '}'` : 'NULL'},
          ?3, ?4
        FROM numbers`,
        [ASSET, WRITTEN_OFFER, isEmptied ? null : REQUEST, isEmptied ? null : RESULT],
      )
      database.run(
        `${numbers} INSERT INTO authorizations (key, call, payer, position, status, expires_at, signed)
        SELECT 'eip155:84532/0x036c/' || ${spread}, 'job_' || ${spread}, ${wallet}, 0, ${isPaid ? "'paid'" : "'open'"},
          ${time} + 300000, ?1 FROM numbers`,
        [isEmptied ? null : SIGNED],
      )
    })()
  }
  if (rows > PORTION) for (const { sql } of indexes) database.run(sql)
  // Rows that are inserted as settled are seen by no trigger.
  if (isPaid) {
    database.run(`INSERT INTO spend_totals
      SELECT payer, settled_at / ${DAY_MS}, gateway, endpoint, ':' || model, asset, 1, count(*), 0,
        sum(cast(paid AS INTEGER)), 0, 0, max(settled_at)
      FROM calls WHERE true GROUP BY 1, 2, 3, 4, 5, 6 ON CONFLICT DO NOTHING`)
    for (const unit of [3_600_000, DAY_MS]) {
      const sum = (at: string, rest: string) => `INSERT INTO call_totals
        SELECT ${unit}, ${at} - ${at} % ${unit}, gateway, endpoint, ':' || model, ${rest}
        FROM calls WHERE true GROUP BY 1, 2, 3, 4, 5, 6, 7 ON CONFLICT DO NOTHING`
      database.run(sum('settled_at', `'settled', 0, 0, count(*), 0, sum(cast(paid AS INTEGER))`))
      database.run(sum('ended_at', `'completed', 1000, 0, count(*), 0, 0`))
    }
  }
  database.run('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close(true)
}
