/**
 * Where in a paid call a replica is, seen from outside while it is frozen: the database, the files, the wire and the
 * buyers say it.
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Board } from './buyers.ts'
import type { Replica } from './replicas.ts'
import type { RpcProxy } from './rpc_proxy.ts'

/** Named by the last step that was done; each but the last lies before the next one's step. */
export const points = ['asked', 'opened', 'worked', 'put', 'stored', 'broadcast', 'receipt', 'recorded'] as const
export type Point = (typeof points)[number]

/** How the report says it. */
export const sayings: Readonly<Record<Point, string>> = {
  asked: 'before open: the payment is being verified',
  opened: 'after open, before the work is done',
  worked: 'after work, before put has ended',
  put: 'after put, before store',
  stored: 'after store, before broadcast',
  broadcast: 'after broadcast, before the receipt arrives',
  receipt: 'after the receipt, before it is recorded',
  recorded: 'after it is recorded, before the reply',
}

/** Notes which life of which replica owns what. It changes nothing that the gateway sees. */
export const NOTES = `
CREATE TABLE fault_workers (worker_id text PRIMARY KEY, life text NOT NULL);
CREATE TABLE fault_claims (call text PRIMARY KEY, claim_token bigint NOT NULL, life text NOT NULL);
CREATE FUNCTION fault_note_worker() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO fault_workers VALUES (NEW.worker_id, coalesce(current_setting('fault.life', true), '')) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE FUNCTION fault_note_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO fault_claims VALUES (NEW.id, NEW.claim_token, coalesce(current_setting('fault.life', true), ''))
  ON CONFLICT (call) DO UPDATE SET claim_token = excluded.claim_token, life = excluded.life;
  RETURN NULL;
END $$;
CREATE TRIGGER fault_leases AFTER INSERT OR UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION fault_note_worker();
CREATE TRIGGER fault_calls AFTER INSERT ON calls FOR EACH ROW EXECUTE FUNCTION fault_note_worker();
CREATE TRIGGER fault_claimed AFTER UPDATE ON calls FOR EACH ROW WHEN (NEW.claim_token > OLD.claim_token) EXECUTE FUNCTION fault_note_claim();
`

export type Scene = { readonly pool: Pool; readonly proxy: RpcProxy; readonly media: string; readonly board: Board }

type Row = { key: string; workStatus: string; paymentStatus: string; isOwn: boolean; isClaimed: boolean }

/** Every point at which a call of this frozen replica stands now. */
export async function pointsOf(
  { name, pid, life }: Pick<Replica, 'name' | 'pid' | 'life'>,
  { pool, proxy, media, board }: Scene,
): Promise<ReadonlySet<Point>> {
  const { rows } = await pool.query<Row>(
    `SELECT a.key, c.work_status AS "workStatus", c.payment_status AS "paymentStatus", coalesce(o.life = $1, false) AS "isOwn", coalesce(k.life = $1 AND k.claim_token = c.claim_token, false) AS "isClaimed"
     FROM authorizations a JOIN calls c ON c.id = a.call LEFT JOIN fault_workers o ON o.worker_id = c.worker_id LEFT JOIN fault_claims k ON k.call = c.id`,
    [life()],
  )
  const hit = new Set<Point>()
  const nonceOf = (key: string) => key.slice(key.lastIndexOf('0x') + 2).toLowerCase()
  const byNonce = new Map(rows.map((row) => [nonceOf(row.key), row]))
  for (const { nonce, replica, isPost } of board) {
    if (replica !== name) continue
    const row = byNonce.get(nonce)
    if (isPost && !row && proxy.hasRequested(name, nonce)) hit.add('asked')
    if (row?.paymentStatus === 'settled' && row.isClaimed) hit.add('recorded')
  }
  for (const { key, workStatus, paymentStatus, isOwn, isClaimed } of rows) {
    if (isOwn && (workStatus === 'queued' || workStatus === 'in_progress')) hit.add('opened')
    if (isClaimed && paymentStatus === 'settling') hit.add(settlingAt(nonceOf(key), name, proxy))
  }
  const own = namesIn(join(media, '.incoming')).filter((file) => file.startsWith(`${pid()}-`))
  for (const file of own) hit.add(linksOf(join(media, '.incoming', file)) > 1 ? 'put' : 'worked')
  if ((await orphans()).length > 0 && own.length === 0) hit.add('put')
  return hit

  /**
   * Files that no result names. Those of the dead were counted before; the living store theirs in less than the pause.
   */
  async function orphans(): Promise<readonly string[]> {
    if ((await unnamed()).length === 0) return []
    await pause(STORE_MS)
    const left = await unnamed()
    for (const file of left) seenOrphans.add(file)
    return left
  }

  async function unnamed(): Promise<readonly string[]> {
    const files = namesIn(join(media, 'images')).flatMap((day) =>
      namesIn(join(media, 'images', day)).map((file) => `images/${day}/${file.slice(0, -1)}`),
    )
    const { rows: named } = await pool.query<{ key: string }>(
      `SELECT m->>'key' AS key FROM calls, json_array_elements(result::json->'media') m WHERE result IS NOT NULL`,
    )
    const known = new Set(named.map(({ key }) => key))
    return files.filter((file) => !known.has(file) && !seenOrphans.has(file))
  }
}

/** From a put to its row, in a replica that runs. */
const STORE_MS = 100
const seenOrphans = new Set<string>()

function settlingAt(nonce: string, name: string, { broadcasts }: RpcProxy): Point {
  const carried = [...broadcasts.values()].filter(({ replica, raw }) => replica === name && raw.includes(nonce))
  if (carried.some(({ isReceiptSent }) => isReceiptSent)) return 'receipt'
  return carried.some(({ isWithNode }) => isWithNode) ? 'broadcast' : 'stored'
}

function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir)
  } catch {
    return []
  }
}

function linksOf(path: string): number {
  try {
    return statSync(path).nlink
  } catch {
    return 0
  }
}
