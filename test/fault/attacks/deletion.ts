/** Starts in the wrong folder, or without a variable: whether a ledger outlives them. */
import { Database } from 'bun:sqlite'
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Offer } from '../../../core/x402/protocol.ts'
import { signExact } from '../../conformance/schemes/signers.ts'
import type { Attack, Outcome } from './attack.ts'
import { isWhole, offerFor, ORDERS, post, variant, walletWith } from './caller.ts'
import { farebox } from './process.ts'
import type { Target } from './target.ts'

const CALLS = 5
/** A start that was not refused by then counts as started. */
const START_MS = 20_000

/** Calls in all SQLite files of a folder that have a ledger; a file that was moved aside still counts. */
function callsIn(dir: string): number {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((each) => each.isFile())
  return Math.max(0, ...files.map(({ parentPath, name }) => countIn(join(parentPath, name))))
}

function countIn(path: string): number {
  if (path.endsWith('-wal') || path.endsWith('-shm') || !existsSync(path)) return 0
  try {
    const database = new Database(path)
    const { count } = database.query('SELECT count(*) AS count FROM calls').get() as { count: number }
    database.close()
    return count
  } catch {
    return 0 // not a database, or one of something else
  }
}

type Slip = {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  hasConfiguration: boolean
}

/** A shop with sales is stopped, and something else is started where it was. */
async function slipped(target: Target, { args, env, hasConfiguration }: Slip): Promise<Outcome> {
  const buyer = await walletWith(target, 10_000_000n)
  for (let i = 0; i < CALLS; i++) {
    const offer = await offerFor(target, ORDERS.chat, 'exact')
    await post(target, variant(ORDERS.chat, i), await signExact(buyer, { offer, now: Date.now() }))
  }
  target.process.kill('SIGTERM')
  await target.process.exited
  const before = callsIn(target.dir)
  if (before < CALLS) throw new Error(`the shop sold ${before} calls of ${CALLS}`)
  if (!hasConfiguration) renameSync(join(target.dir, 'farebox.toml'), join(target.dir, 'another.toml'))
  const second = farebox(args, { dir: target.dir, env: { PORT: '0', ...env } })
  const timer = setTimeout(() => second.kill('SIGKILL'), START_MS)
  const started = await second.origin.then(
    () => 'started',
    () => 'was refused',
  )
  clearTimeout(timer)
  second.kill('SIGKILL')
  await second.exited
  const after = callsIn(target.dir)
  return {
    tried: before,
    refused: Math.min(before, after),
    note: `the second process ${started}; ${after} of ${before} calls are left`,
  }
}

/** Overwrites the first page of a table. */
export function damage(path: string, table: string): void {
  const database = new Database(path)
  database.run('PRAGMA wal_checkpoint(TRUNCATE)')
  const { rootpage } = database.query('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(table) as {
    rootpage: number
  }
  database.close()
  const file = openSync(path, 'r+')
  writeSync(file, Buffer.alloc(4_096, 0xa5), 0, 4_096, (rootpage - 1) * 4_096)
  closeSync(file)
}

/** The disk has damaged a table of the ledger: the gateway must not start, or sell nothing and say so. */
async function sellsOn(target: Target, table: string): Promise<Outcome> {
  const buyer = await walletWith(target, 10_000_000n)
  const buy = async (number: number) => {
    const order = variant(ORDERS.chat, number)
    const { status, body } = await post(target, order)
    if (status !== 402) return false
    const offer = (body.accepts as readonly Offer[]).find(({ scheme }) => scheme === 'exact') as Offer
    return isWhole(await post(target, order, await signExact(buyer, { offer, now: Date.now() })))
  }
  for (let i = 0; i < CALLS; i++) if (!(await buy(i))) throw new Error('nothing is sold before the damage')
  target.process.kill('SIGTERM')
  await target.process.exited
  damage(join(target.dir, 'target.db'), table)
  const calls = 20
  const hasStarted = await target.restart().then(
    () => true,
    () => false,
  )
  let sold = 0
  if (hasStarted) for (let i = 0; i < calls; i++) if (await buy(100 + i)) sold++
  const isReady = hasStarted && (await fetch(`${target.origin}/readyz`)).ok
  const state = hasStarted ? `ready: ${isReady}` : 'did not start'
  return {
    tried: calls + 1,
    refused: calls - sold + (isReady ? 0 : 1),
    note: `${sold} of ${calls} calls sold; ${state}`,
  }
}

/** Headers that a proxy adds to a request that it forwards to the host name of its configuration. */
const FORWARDED = [{ 'x-forwarded-for': '203.0.113.66' }, { forwarded: 'for=203.0.113.66' }, { via: '1.1 proxy' }]

/** A start in the wrong folder, with one key of a vendor and nothing else, to which a proxy sends the buyers. */
async function keyedDevnet(target: Target): Promise<Outcome> {
  const dir = join(target.dir, 'elsewhere')
  mkdirSync(dir)
  const astray = farebox(['start'], { dir, env: { PORT: '0', OPENAI_API_KEY: 'a-key-of-the-vendor' } })
  try {
    const origin = await astray.origin
    const { body, path } = ORDERS.chat
    let [keys, quotes] = [0, 0]
    for (const forwarded of FORWARDED) {
      const headers = { host: 'localhost', 'content-type': 'application/json', ...forwarded }
      if ((await (await fetch(`${origin}/devnet`, { headers })).text()).includes('private_key')) keys++
      const order = JSON.stringify({ ...body, model: 'vendor-a/chat-5.4-mini' })
      if ((await fetch(origin + path, { method: 'POST', headers, body: order })).status === 402) quotes++
    }
    const tried = 2 * FORWARDED.length
    const note = `${keys} times the buyer's key, ${quotes} quotes of the vendor's model in test money`
    return { tried, refused: tried - keys - quotes, note }
  } finally {
    await astray.stop()
  }
}

const at = (name: string, slip: (path: string) => Slip): Attack => ({
  family: 'deletion',
  name,
  run: (target) => slipped(target, slip(`sqlite:${join(target.dir, 'target.db')}`)),
})

export const attacks: readonly Attack[] = [
  at('start without its configuration, with DATABASE_URL', (path) => ({
    args: ['start'],
    env: { DATABASE_URL: path },
    hasConfiguration: false,
  })),
  at('devnet in the folder of the shop, with its DATABASE_URL', (path) => ({
    args: ['devnet'],
    env: { DATABASE_URL: path },
    hasConfiguration: true,
  })),
  {
    family: 'deletion',
    name: 'devnet in the folder of a shop that keeps its ledger where the devnet would',
    at: { database: '.farebox/farebox.db' },
    run: (target) => slipped(target, { args: ['devnet'], env: {}, hasConfiguration: true }),
  },
  {
    family: 'deletion',
    name: 'start without its configuration, where the ledger is at its usual place',
    at: { database: '.farebox/farebox.db' },
    run: (target) => slipped(target, { args: ['start'], env: {}, hasConfiguration: false }),
  },
  {
    family: 'take',
    name: "a vendor's answers for test money, by a proxy before a start without its configuration",
    run: keyedDevnet,
  },
  {
    family: 'deletion',
    name: 'selling on with a damaged ledger',
    run: (target) => sellsOn(target, 'records'),
  },
  {
    family: 'deletion',
    name: 'selling on with a damaged ledger that is too large to be checked at start',
    at: { env: { DATABASE_CHECK_MB: '0' } },
    run: (target) => sellsOn(target, 'authorizations'),
  },
]
