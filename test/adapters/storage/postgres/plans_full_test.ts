/** How many rows a statement reads of a ledger in which one wallet has most of the calls, counted by the server. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Client } from 'pg'
import { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { ask } from '../../../../adapters/storage/postgres/statements.ts'
import type { Statement } from '../../../../adapters/storage/sql/statement.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

const [CALLS, OPEN, FAILED, PAGE] = [20_000, 200, 2_000, 50]
/** Days of the sums by wallet. */
const DAYS = 21
const WHALE = '0xwhale'
/** Settled in the last minute, of all wallets. */
const LATEST = 300

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop(), 60_000)

/** A call a second, the last of them open, and then many that fail. Nine of ten are the whale's. */
const FILL = `
  INSERT INTO calls (id, gateway, endpoint, payer, asset, quote, "authorization", fingerprint, created_at, work_status,
    payment_status, worker_id, lease_expires_at, settled_at, expires_at, claim_token, claim_fresh, emptied, offer, receipt)
  SELECT 'call ' || n, 'devnet', 'images', CASE WHEN n % 10 > 0 THEN '${WHALE}' ELSE '0x' || n % 500 END, 'asset', 5,
    'key ' || n, 'f', n * 1000, CASE WHEN n > ${CALLS} THEN 'queued' ELSE 'completed' END,
    CASE WHEN n > ${CALLS} THEN 'verified' ELSE 'settled' END, 'me', n, CASE WHEN n > ${CALLS} THEN NULL ELSE n * 1000 END,
    n * 1000, 1, false, n <= ${CALLS / 2}, '{}',
    CASE WHEN n > ${CALLS} THEN NULL ELSE '{"transaction":"0x' || md5(n::text) || '","block":' || n || '}' END
  FROM generate_series(1, ${CALLS + OPEN + FAILED}) n;
  INSERT INTO settled_calls SELECT payer, settled_at, id, right(md5(right(id, -5)), 16), right(id, -5)::bigint FROM calls
    WHERE payment_status = 'settled';
  INSERT INTO authorizations SELECT "authorization", id, payer, 0,
    CASE payment_status WHEN 'settled' THEN 'paid' ELSE 'open' END, created_at + 300000 FROM calls;
  INSERT INTO records SELECT 'channel', 'r' || n, 'shop', 10 ^ 15 FROM generate_series(1, ${CALLS}) n;
  INSERT INTO spend_totals SELECT payer, settled_at / 1000000, 'devnet', 'images', '', 'asset', 1, 1, 0, 5, 0, 0, 1
    FROM calls WHERE payment_status = 'settled' ON CONFLICT DO NOTHING;
  UPDATE calls SET work_status = 'failed' WHERE created_at > ${(CALLS + OPEN) * 1_000};
  UPDATE calls SET due_at = expires_at`

type Node = {
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly Plans?: readonly Node[]
}

/** Rows that scans have read, those that they left out as well. What a bitmap finds is read by the node above it. */
function rowsOf(node: Node): number {
  const isScan = node['Relation Name'] !== undefined
  const left = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)
  const own = isScan ? (node['Actual Rows'] + left) * node['Actual Loops'] : 0
  return (node.Plans ?? []).reduce((sum, each) => sum + rowsOf(each), own)
}

const NOW = (CALLS + OPEN) * 1_000
const newest = { at: NOW, id: '', since: 0, limit: PAGE }
const wallet = { payer: WHALE, asset: 'asset', now: NOW, since: (CALLS - LATEST) * 1_000 }
/** Most rows of each statement, with those of the tables that it joins. */
const QUESTIONS: readonly (readonly [statement: Statement<unknown>, values: Record<string, unknown>, most: number])[] =
  [
    [ask.call, { id: 'call 9' }, 1],
    [ask.callOf, { key: 'key 9' }, 2],
    [ask.pair, { id: 'call 9', key: 'key 8' }, 3],
    [ask.bindingsOrKey, { id: 'call 9', key: 'key 8' }, 2],
    [ask.listed, newest, PAGE],
    [ask.listed, { ...newest, at: NOW / 2 }, PAGE],
    // Nine of ten are the whale's, so it may be found among all; another wallet by its index.
    [ask.listedOfPayer, { ...newest, payer: WHALE }, 2 * PAGE],
    [ask.listedOfPayer, { ...newest, payer: WHALE, at: NOW / 2 }, 2 * PAGE],
    [ask.listedOfPayer, { ...newest, payer: '0x10' }, PAGE],
    [ask.listedSettled, { at: 0, id: '', limit: PAGE }, 2 * PAGE],
    [ask.listedSettled, { at: NOW / 2, id: '', limit: PAGE }, 2 * PAGE],
    [ask.entriesByNonce, { tail: 'key 9' }, 2],
    [ask.entriesByTransaction, { tail: 'cf7e2f3a1e1a8b6a' }, 2],
    [ask.hasPaid, wallet, 2],
    [ask.paid, wallet, 200],
    // The balance has the block of each but the last ten; those that may be spent are three tables.
    [ask.exposedCalls, { ...wallet, block: CALLS - 10 }, 3 * OPEN + LATEST + 10],
    [ask.expiring, { now: NOW, dueAt: 0, id: '', limit: PAGE }, PAGE],
    [ask.overLedgerRows, { before: NOW, now: NOW, limit: PAGE }, 3 * PAGE],
    [ask.lost, { now: NOW, limit: PAGE }, 2 * OPEN],
    [ask.unfinished, { workerId: 'me', gateway: 'devnet', after: '', limit: PAGE }, 2 * OPEN],
    [ask.unsettled, { before: NOW, gateway: null, limit: PAGE }, 2 * OPEN],
    [ask.listedUnfinished, { limit: PAGE }, 2 * OPEN],
    [ask.listedInDoubt, { limit: PAGE }, 2 * OPEN],
    [ask.recordsOfOwner, { owner: 'shop', kind: 'channel', after: 'r5', now: 1, limit: PAGE }, PAGE],
    [ask.buyersByDay, { since: 0, until: DAYS, gateway: null, endpoint: null, model: null }, DAYS + 2],
  ]

for (const mode of ['force_generic_plan', 'force_custom_plan'])
  test(`postgres storage: no statement reads more rows of a long ledger than a page, with ${mode}`, async () => {
    const url = await server.fresh()
    const storage = postgresStorage(url)
    await storage.ready()
    const client = new Client({ connectionString: url })
    await client.connect()
    await client.query(FILL)
    await client.query('VACUUM ANALYZE')
    expect((await storage.buyersByDay({ since: 0, until: DAYS * 86_400_000 })).length).toBe(DAYS)
    await client.query(`SET plan_cache_mode = ${mode}; SET enable_seqscan = off; SET jit = off`)
    const literal = (value: unknown) => (typeof value === 'string' ? client.escapeLiteral(value) : String(value))
    const over: string[] = []
    for (const [at, [{ name, text, encode }, values, most]] of QUESTIONS.entries()) {
      const given = encode(values).map((value) => literal(value ?? null))
      const call = given.length > 0 ? `(${given.join(', ')})` : ''
      await client.query(`PREPARE q_${at} AS ${text}`)
      const { rows } = await client.query<{ 'QUERY PLAN': readonly { readonly Plan: Node }[] }>(
        `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE q_${at}${call}`,
      )
      const [{ Plan: plan } = { Plan: undefined }] = rows[0]?.['QUERY PLAN'] ?? []
      const read = plan ? rowsOf(plan) : Infinity
      if (read > most) over.push(`${name}: ${read} rows, at most ${most}`)
    }
    expect(over).toEqual([])
    await client.end()
    await storage.close()
  }, 120_000)
