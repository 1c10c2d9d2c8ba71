/**
 * Whether a call costs the same however long the ledger is: `bun test/bench/flat.ts [rows...]`, by default 10,000 and
 * 1,000,000. Times the questions that each kind of request asks of a SQLite ledger with so many settled calls of 10,000
 * wallets, the sizes taking turns, and lists statements that would scan.
 */
import { Database } from 'bun:sqlite'
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sqliteStorage } from '../../adapters/storage/sqlite/mod.ts'
import type { Authorization, NewCall, Storage } from '../../core/mod.ts'
import { usdc } from '../../core/x402/money.ts'
import { ASSET, fillLedger, OFFER, walletOf } from './fill.ts'
import { count, fixed, median, table } from './print.ts'

const ROUNDS = 7
/** Of each question in a round, so many at a time: one alone would wait for the disk and measure nothing else. */
const REPEATS = 512
const IN_FLIGHT = 64
const GOAL = 1.5
const DAY_MS = 86_400_000

type Ledger = { readonly rows: number; readonly storage: Storage; readonly now: number }

const sizes = process.argv.slice(2).map(Number)
/** With FLAT_DIR, ledgers are kept there and used again: to fill one of 10,000,000 calls takes a quarter of an hour. */
const folder = process.env.FLAT_DIR
const dir = folder ?? mkdtempSync(join(tmpdir(), 'farebox-flat-'))

const randomKey = (): string =>
  `eip155:84532/0x036c/${Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString('hex')}`
const randomId = (): string => `job_${Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString('hex')}`
const randomWallet = (): string => walletOf(Math.floor(Math.random() * 10_000))
/** One of those that `fillLedger` made. */
function filled({ rows }: Ledger, prefix: string): string {
  const index = Math.floor(Math.random() * rows)
  const spread = Math.floor((index * 2 ** 32) / rows)
  return `${prefix}${spread.toString(16).padStart(8, '0')}${index.toString(16).padStart(24, '0')}`
}

/** Opens a call as a paid request does, with everything that its payer's exposure is judged by. */
async function opened({ storage, now }: Ledger) {
  const [id, key, payer] = [randomId(), randomKey(), randomWallet()]
  const call: NewCall = {
    id,
    gateway: 'default',
    endpoint: 'images.generations',
    model: 'vendor-a/image-1',
    payer,
    asset: ASSET,
    quote: usdc(22_000n),
    offer: OFFER,
    fingerprint: 'f'.repeat(64),
    request: { n: 1 },
    createdAt: now,
    workerId: 'flat',
    expiresAt: now + DAY_MS,
  }
  const authorization: Authorization = {
    key,
    payer,
    payment: { x402Version: 2, accepted: OFFER, payload: {} },
    offer: OFFER,
    expiresAt: now + 600_000,
  }
  const cap = {
    asOf: now,
    observed: usdc(1_000_000_000n),
    newWallet: { endpoints: [], calls: 1_000, worth: usdc(1_000_000_000n) },
  }
  const answer = await storage.openCall(call, authorization, { now, until: now + 60_000, cap })
  if (answer.kind !== 'opened') throw new Error(`not opened: ${answer.kind}`)
  return { id }
}

async function paidCall(ledger: Ledger): Promise<void> {
  const { storage, now } = ledger
  const { id } = await opened(ledger)
  const at = { now, until: now + 60_000, result: { result: { made: 1 }, expiresAt: now + DAY_MS } }
  const claim = await storage.claimSettlement(id, undefined, at)
  if (!('token' in claim)) throw new Error(`not claimed: ${claim.kind}`)
  const receipt = { transaction: `0x${'ab'.repeat(32)}`, network: OFFER.network, payer: walletOf(1), amount: '22000' }
  await storage.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now, expiresAt: now + DAY_MS })
}

const QUESTIONS: Readonly<Record<string, (ledger: Ledger) => Promise<unknown>>> = {
  'paid call: open, claim, settle': paidCall,
  'is the authorization known (no)': ({ storage, now }) => storage.callOf(randomKey(), now),
  'is the authorization known (yes)': (ledger) =>
    ledger.storage.callOf(filled(ledger, 'eip155:84532/0x036c/'), ledger.now),
  'poll: the call': (ledger) => ledger.storage.getCall(filled(ledger, 'job_')),
  'record of a wallet': ({ storage, now }) => storage.getRecord('unpaid_call', randomKey(), now),
  'rate window': ({ storage, now }) =>
    storage.hit({ key: `free:${randomWallet()}`, limit: 1_000, windowMs: 60_000 }, 1, now),
  'maintenance: lost calls': ({ storage, now }) => storage.lostCalls(now - DAY_MS, 100),
  'maintenance: unsettled': ({ storage, now }) => storage.unsettled(now, 100),
  'maintenance: prune, nothing over': ({ storage, now }) => storage.prune(now - DAY_MS),
  'maintenance: ledger rows, nothing over': ({ storage, now }) => storage.pruneLedger(now - 400 * DAY_MS, now),
  'spend of a wallet in a day': ({ storage, now }) => storage.spendByModel(randomWallet(), now - DAY_MS),
}

async function main(): Promise<void> {
  const ledgers: Ledger[] = []
  for (const rows of sizes.length > 0 ? sizes : [10_000, 1_000_000]) {
    const path = join(dir, `${rows}.db`)
    const [now, startedAt] = [Date.now(), performance.now()]
    if (!existsSync(path)) await fillLedger(path, { rows, kind: 'emptied', now })
    console.log(
      `${count(rows)} settled calls: ${fixed(statSync(path).size / 2 ** 20, 0)} MiB, filled in ${fixed((performance.now() - startedAt) / 1_000, 0)} s`,
    )
    listScans(path)
    ledgers.push({ rows, storage: sqliteStorage(path), now })
  }
  const seen = new Map<string, number[]>()
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, ask] of Object.entries(QUESTIONS)) {
      for (const ledger of round % 2 === 0 ? ledgers : ledgers.toReversed()) {
        const startedAt = performance.now()
        for (let turn = 0; turn < REPEATS; turn += IN_FLIGHT)
          await Promise.all(Array.from({ length: IN_FLIGHT }, () => ask(ledger)))
        const micros = ((performance.now() - startedAt) / REPEATS) * 1_000
        // The first round warms the statements and the page cache.
        if (round > 0) seen.set(`${name} ${ledger.rows}`, [...(seen.get(`${name} ${ledger.rows}`) ?? []), micros])
      }
    }
  }
  const [first] = ledgers
  const last = ledgers.at(-1)
  console.log('\nmicroseconds of one question, by the calls in the ledger; medians')
  table(
    ['', ...ledgers.map(({ rows }) => count(rows)), 'ratio', ''],
    Object.keys(QUESTIONS).map((name) => {
      const micros = ({ rows }: Ledger) => median(seen.get(`${name} ${rows}`) ?? [])
      const ratio = first && last ? micros(last) / micros(first) : NaN
      return [
        name,
        ...ledgers.map((ledger) => fixed(micros(ledger), 0)),
        fixed(ratio, 2),
        ratio <= GOAL ? 'met' : 'SHORT',
      ]
    }),
  )
  for (const { storage } of ledgers) await storage.close()
}

/** Statements that SQLite would read row by row. */
function listScans(path: string): void {
  const database = new Database(path, { readonly: true })
  const statements = [
    "SELECT * FROM calls WHERE work_status in ('queued', 'in_progress') AND payment_status = 'verified' AND lease_expires_at <= 1 ORDER BY lease_expires_at, id LIMIT 9",
    "SELECT * FROM calls WHERE payment_status = 'settling' AND claim_expires_at <= 1 ORDER BY claim_expires_at, id LIMIT 9",
    "SELECT id FROM calls WHERE emptied = 0 AND expires_at <= 1 AND (expires_at, id) > (0, '') ORDER BY expires_at, id LIMIT 9",
    "SELECT id FROM calls WHERE emptied = 1 AND payment_status = 'settled' AND settled_at <= 1 ORDER BY settled_at, id LIMIT 9",
    "SELECT quote FROM calls WHERE payer = 'x' AND asset = 'y' AND payment_status = 'settled' ORDER BY settled_at DESC LIMIT 9",
    "SELECT id FROM calls WHERE payer = 'x' AND asset = 'y' AND settled_at >= 1 AND payment_status = 'settled'",
    "SELECT key FROM authorizations JOIN calls ON call = calls.id WHERE authorizations.payer = 'x' AND authorizations.expires_at > 1 AND status in ('open', 'sent')",
    "SELECT key FROM authorizations WHERE call = 'x' ORDER BY position",
    "SELECT * FROM records WHERE owner = 'x' AND kind = 'y' AND expires_at > 1 LIMIT 9",
    'SELECT kind, id FROM records WHERE expires_at <= 1 LIMIT 9',
    'SELECT key FROM rate_windows WHERE reset_at <= 1 LIMIT 9',
  ]
  for (const sql of statements) {
    const plan = database.query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`).all()
    for (const { detail } of plan)
      if (/^SCAN|TEMP B-TREE/.test(detail)) console.log(`  ${detail}: ${sql.slice(0, 100)}`)
  }
  database.close()
}

if (import.meta.main) {
  try {
    await main()
  } finally {
    if (folder === undefined) rmSync(dir, { recursive: true, force: true })
  }
}
