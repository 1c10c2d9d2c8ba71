/**
 * Runs of a ledger over months: calls settle, results end, and two processes archive and prune at the same time, with
 * crashes, lost answers and leases that end while a process is slow. The seed decides whose question is answered next.
 */
import { memoryObjects } from '../../../adapters/objects/memory.ts'
import { pruneExpired } from '../../../core/mod.ts'
import {
  archivedFiles,
  archiveLedger,
  type ArchiveStore,
  readArchive,
} from '../../../core/payment/reports/ledger_archive.ts'
import type { Objects, Storage } from '../../../core/ports/mod.ts'
import { usdc } from '../../../core/x402/money.ts'
import { newCall, signed } from '../../conformance/storage_questions.ts'
import { type Chance, chance } from '../chance.ts'

export const LAWS = {
  once: 'a settled call stands in the ledger or in the archive, and once',
  sums: 'what a wallet has spent is the sum of its settled calls, archived ones included',
  listed: 'each file that is listed is in the store, with the hash and the calls that are listed',
  readable: 'what may still be paid, and a paid result within its time, is neither archived nor deleted',
} as const
export type LawName = keyof typeof LAWS

export type ArchiveRule = {
  readonly name: string
  readonly storage?: (storage: Storage) => Storage
  readonly store?: (objects: Objects) => Objects
}

type ArchiveRun = {
  readonly seed: number
  /** Questions to storage and store. */
  readonly steps: number
  readonly violation: { readonly law: LawName; readonly text: string } | undefined
  readonly counts: Counts
}
type Counts = { settled: number; archived: number; crashes: number }

type Sold = {
  readonly id: string
  readonly payer: string
  readonly amount: bigint
  readonly readableUntil: number
  readonly isSettled: boolean
}

const DAY_MS = 86_400_000
const LEASE_MS = 60_000
const START = Date.UTC(2026, 0, 20)
const RETENTION = {
  unclaimedMs: 7 * DAY_MS,
  settledMs: 30 * DAY_MS,
  backgroundMs: DAY_MS,
  archiveMs: 31 * DAY_MS,
  ledgerMs: 60 * DAY_MS,
}
const PAYERS = ['0xa', '0xb']

type History = {
  readonly dice: Chance
  readonly storage: Storage
  readonly objects: Objects
  readonly sold: Sold[]
  readonly counts: Counts
  now: number
  steps: number
}

/** A question that waits for its answer, and how many processes have something to do that is not a question. */
type Gate = { readonly waiting: (() => void)[]; working: number; idle: (() => void) | undefined }

/** The same seed makes the same run. */
export async function play(
  { storage: over = (same) => same, store = (same) => same }: ArchiveRule,
  seed: number,
  open: () => Storage,
): Promise<ArchiveRun> {
  const storage = over(open())
  const history: History = {
    dice: chance(seed),
    storage,
    objects: store(memoryObjects()),
    sold: [],
    counts: { settled: 0, archived: 0, crashes: 0 },
    now: START,
    steps: 0,
  }
  try {
    const violation = await played(history)
    return { seed, steps: history.steps, violation, counts: history.counts }
  } finally {
    await storage.close()
  }
}

async function played(history: History): Promise<ArchiveRun['violation']> {
  const { dice } = history
  for (let round = 4 + dice.below(5); round > 0; round--) {
    for (let calls = dice.below(4); calls > 0; calls--) await sell(history)
    history.now += dice.pick([1, 5, 20, 45]) * DAY_MS
    await maintain(history, { processes: dice.pick([1, 1, 2]), isCalm: false })
    const violation = await judgeResults(history)
    if (violation) return violation
  }
  history.now += LEASE_MS
  await maintain(history, { processes: 1, isCalm: true })
  return (
    (await judgeResults(history)) ??
    (await judgeOnce(history)) ??
    (await judgeSums(history)) ??
    (await judgeFiles(history))
  )
}

/** Sells a call, which is settled unless its payment is in doubt. */
async function sell({ dice, storage, sold, counts, now }: History): Promise<void> {
  const [id, payer, isSettled] = [`call ${sold.length}`, dice.pick(PAYERS), dice.isLucky(0.85)]
  const amount = usdc(BigInt(1 + dice.below(90)))
  const readableUntil = now + dice.pick([1, 7, 60]) * DAY_MS
  const authorization = { ...signed(id, now + 60_000), payer }
  const at = { now, until: now + 60_000 }
  await storage.openCall(
    newCall(id, { payer, quote: amount, createdAt: now, expiresAt: readableUntil }),
    authorization,
    at,
  )
  const claim = await storage.claimSettlement(id, undefined, {
    ...at,
    result: { result: { made: id }, expiresAt: readableUntil },
  })
  if (!('token' in claim)) throw new Error(`${id} cannot be claimed`)
  const receipt = { transaction: `0x${sold.length}`, network: 'eip155:8453', payer, amount: String(amount) }
  await storage.finishSettlement(id, claim.token, isSettled ? { kind: 'paid', receipt } : { kind: 'unknown' }, { now })
  if (isSettled) counts.settled++
  sold.push({ id, payer, amount, readableUntil, isSettled })
}

// ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────────────────

async function maintain(
  history: History,
  { processes, isCalm }: { processes: number; isCalm: boolean },
): Promise<void> {
  const gate: Gate = { waiting: [], working: processes, idle: undefined }
  const all = Array.from({ length: processes }, (_, index) =>
    prune(history, gate, { name: `p${index}`, isCalm })
      .catch(() => history.counts.crashes++)
      .finally(() => rest(gate)),
  )
  for (;;) {
    await allRest(gate)
    if (gate.waiting.length === 0) break
    const [next] = gate.waiting.splice(history.dice.below(gate.waiting.length), 1)
    // A slow answer: leases end, and another process takes over.
    if (!isCalm && history.dice.isLucky(0.03)) history.now += LEASE_MS
    history.steps++
    gate.working++
    next?.()
  }
  await Promise.all(all)
}

async function prune(history: History, gate: Gate, { name, isCalm }: { name: string; isCalm: boolean }): Promise<void> {
  const { dice, storage, objects } = history
  let left = isCalm || dice.isLucky(0.4) ? Number.POSITIVE_INFINITY : dice.below(40)
  const ask = async <T>(run: () => Promise<T>): Promise<T> => {
    await turn(gate)
    if (left-- <= 0) throw new Error(`${name} has died`)
    const answer = await run()
    if (left-- <= 0) throw new Error(`${name} has died, and did not learn that it was done`)
    return answer
  }
  const gated = <Port extends object>(port: Port): Port =>
    new Proxy(port, {
      get(target, key) {
        const verb = Reflect.get(target, key) as unknown
        if (typeof verb !== 'function') return verb
        return (...args: unknown[]) => ask(() => verb.apply(target, args) as Promise<unknown>)
      },
    })
  const [mine, store] = [gated(storage), gated(objects)]
  const clock = { now: () => history.now, wait: () => new Promise<void>(() => {}) }
  const mayGoOn = () => mine.lease('prune', name, { now: history.now, until: history.now + LEASE_MS })
  const log = { info() {}, warn() {}, alert() {} }
  if (!(await mayGoOn())) return
  await pruneExpired({ storage: mine, objects: store, clock, log }, RETENTION, { isArchived: true })
  await archiveLedger({ storage: mine, clock, store }, { archiveMs: RETENTION.archiveMs, mayGoOn })
}

/** Waits until this question is the one that is answered. */
function turn(gate: Gate): Promise<void> {
  return new Promise((resolve) => {
    gate.waiting.push(resolve)
    rest(gate)
  })
}

function rest(gate: Gate): void {
  gate.working--
  if (gate.working === 0) gate.idle?.()
}

const allRest = (gate: Gate): Promise<void> =>
  new Promise((resolve) => {
    if (gate.working === 0) resolve()
    else gate.idle = resolve
  })

// ── laws ────────────────────────────────────────────────────────────────────────────────────────────────────────────

async function judgeResults({ sold, storage, now }: History): Promise<ArchiveRun['violation']> {
  for (const { id, readableUntil, isSettled } of sold.filter((each) => each.readableUntil > now)) {
    const call = await storage.getCall(id)
    if (!call?.result)
      return { law: 'readable', text: `${id} can be read until ${readableUntil}, and is gone at ${now}` }
    if (!isSettled && call.paymentStatus === 'settled') return { law: 'readable', text: `${id} was never paid` }
  }
  return undefined
}

async function archivedIds({ objects }: History): Promise<readonly string[]> {
  const store: ArchiveStore = objects
  const ids: string[] = []
  for (const month of MONTHS) for await (const { id } of readArchive(store, month)) ids.push(id)
  return ids
}

const MONTHS = Array.from({ length: 24 }, (_, index) => new Date(Date.UTC(2026, index, 1)).toISOString().slice(0, 7))

async function judgeOnce(history: History): Promise<ArchiveRun['violation']> {
  const archived = await archivedIds(history)
  history.counts.archived = archived.length
  for (const { id } of history.sold.filter(({ isSettled }) => isSettled)) {
    const isInLedger = (await history.storage.getCall(id)) !== undefined
    const times = archived.filter((each) => each === id).length + (isInLedger ? 1 : 0)
    if (times !== 1) return { law: 'once', text: `${id} stands in ${times} places` }
  }
  const unpaid = history.sold.find(({ id, isSettled }) => !isSettled && archived.includes(id))
  return unpaid && { law: 'once', text: `${unpaid.id} is archived, and was never paid` }
}

async function judgeSums({ sold, storage }: History): Promise<ArchiveRun['violation']> {
  for (const payer of PAYERS) {
    const truth = sold.reduce((sum, each) => sum + (each.isSettled && each.payer === payer ? each.amount : 0n), 0n)
    const spent = (await storage.spendByModel(payer, 0)).reduce((sum, each) => sum + each.spent, 0n)
    if (spent !== truth) return { law: 'sums', text: `${payer} has spent ${truth}, and the ledger says ${spent}` }
  }
  return undefined
}

async function judgeFiles({ objects, storage, now }: History): Promise<ArchiveRun['violation']> {
  for (const month of MONTHS)
    for (const { key, sha256 } of await archivedFiles(storage, month, now)) {
      const found = await objects.get(key)
      const hash = found && new Bun.CryptoHasher('sha256').update(found.body as Uint8Array).digest('hex')
      if (hash !== sha256) return { law: 'listed', text: `${key} is not what was listed` }
    }
  return undefined
}
