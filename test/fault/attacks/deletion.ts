/** Starts in the wrong folder, or without a variable: whether a ledger outlives them. */
import { Database } from 'bun:sqlite'
import { existsSync, readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { signExact } from '../../conformance/schemes/signers.ts'
import type { Attack, Outcome } from './attack.ts'
import { offerFor, ORDERS, post, variant, walletWith } from './caller.ts'
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
]
