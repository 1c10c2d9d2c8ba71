/** Checks of a gateway process for its alerts: accounts, clock, ledger, vendors and disk. */
import { statfs } from 'node:fs/promises'
import type { CallStorage, Clock, Coordination, Gateway, LedgerReads, Objects } from '../../core/mod.ts'
import { storageProbe } from '../../core/ports/mod.ts'
import type { Condition, Finder } from './alerts.ts'

/** An account that cannot pay for settlements for long. */
export type LowAccount = { readonly gateway: string; readonly address: string; readonly reason: string }

export type Watched = {
  readonly gateways: readonly Pick<Gateway, 'name' | 'fetch'>[]
  readonly storage: Pick<CallStorage, 'getCall'> &
    Pick<Coordination, 'unsettled'> &
    Pick<LedgerReads, 'listOpen' | 'listAuthorizations'>
  readonly objects: Pick<Objects, 'put'>
  readonly clock: Clock
  lowAccounts(): readonly LowAccount[]
  /** Why the clock cannot be trusted. */
  clockTrouble(): string | undefined
  /** Directories whose disks must not fill up. */
  readonly directories: readonly string[]
  readonly freeShare?: (directory: string) => Promise<number>
}

/** A settlement whose outcome is unknown for longer was looked up many times, without an answer of the chain. */
const DOUBT_MS = 10 * 60_000
/** A payment settles within seconds; what a dead replica was settling is claimed again within 75 s. */
const UNSETTLED_MS = 90_000
const MAX_LISTED = 20
const MAX_UNSETTLED = 500
/** Below this share of free space. */
const LOW_DISK = 0.1
/** An address of its own, so that buyers do not use up the rate limit of the health routes. */
const IP = 'alerts'

/** A finder for each kind, so that one that fails hides no other. */
export function findersOf(watched: Watched): readonly Finder[] {
  const { gateways, storage, clock, lowAccounts, clockTrouble, directories } = watched
  const isStorageReachable = storageProbe(storage, clock)
  const areObjectsReachable = objectsProbe(watched.objects, clock)
  return [
    {
      name: 'storage',
      find: async () =>
        (await isStorageReachable())
          ? []
          : [processWide('storage_unreachable', 'The storage does not answer. Nothing is sold until it does.')],
    },
    {
      name: 'objects',
      find: async () =>
        (await areObjectsReachable())
          ? []
          : [processWide('objects_unreachable', 'The object store takes no files. What makes media fails, uncharged.')],
    },
    {
      name: 'gas',
      find: async () =>
        lowAccounts().map(({ gateway, address, reason }) => ({
          event: 'gas_low',
          subject: address,
          severity: 'warning',
          gateway,
          summary: `The account ${address}, which pays for settlements, runs low: ${reason}.`,
        })),
    },
    {
      name: 'clock',
      async find() {
        const trouble = clockTrouble()
        return trouble === undefined ? [] : [processWide('clock_skew', `Sales stopped: ${trouble}.`)]
      },
    },
    { name: 'payments', find: () => payments(watched) },
    { name: 'settlements', find: () => settlements(watched) },
    { name: 'sales', find: async () => (await Promise.all(gateways.map(sales))).flat() },
    { name: 'vendors', find: async () => (await Promise.all(gateways.slice(0, 1).map(vendors))).flat() },
    { name: 'disk', find: async () => (await Promise.all(directories.map((each) => disk(each, watched)))).flat() },
  ]
}

async function payments({ storage, clock }: Watched): Promise<readonly Condition[]> {
  const found = await storage.unsettled(clock.now() - DOUBT_MS, MAX_LISTED)
  const named = [...new Set(found.map(({ gateway }) => gateway))]
  const byGateway = named.map((name) => [name, found.filter(({ gateway }) => gateway === name)] as const)
  return byGateway.map(([gateway, calls]) => ({
    event: 'payments_unresolved',
    subject: '',
    severity: 'critical',
    gateway,
    summary:
      `${calls.length === MAX_LISTED ? `At least ${MAX_LISTED}` : calls.length} payments have had no known outcome ` +
      `for over ${DOUBT_MS / 60_000} minutes. Look them up on the chain.`,
    details: { calls: calls.map(({ id }) => id) },
  }))
}

/** Payments that nobody could send so far, while there is time to do something about it. */
async function settlements({ storage, clock }: Watched): Promise<readonly Condition[]> {
  const now = clock.now()
  const open = await storage.listOpen(MAX_UNSETTLED)
  const late = open.filter(
    ({ paymentStatus, settlingAt }) => paymentStatus === 'settling' && (settlingAt ?? now) <= now - UNSETTLED_MS,
  )
  const named = [...new Set(late.map(({ gateway }) => gateway))]
  return await Promise.all(
    named.map(async (gateway) => {
      const calls = late.filter((call) => call.gateway === gateway)
      const first = calls.slice(0, MAX_LISTED)
      const bound = (await Promise.all(first.map(({ id }) => storage.listAuthorizations(id)))).flat()
      const ends = bound.filter(({ status }) => status === 'open' || status === 'sent')
      const left = Math.round((Math.min(...ends.map(({ expiresAt }) => expiresAt)) - now) / 1000)
      const until = left > 0 && Number.isFinite(left) ? `; the first authorization ends in ${left} s` : ''
      return {
        event: 'payments_unsettled' as const,
        subject: '',
        severity: 'critical' as const,
        gateway,
        summary:
          `${calls.length} payments have not been settled for over ${UNSETTLED_MS / 1000} s${until}. ` +
          'Look at the relayer keys, their gas and the node.',
        details: { calls: first.map(({ id }) => id), reasons: [...new Set(first.map((call) => call.paymentError))] },
      }
    }),
  )
}

/** Why a gateway does not sell, in the words of its own health route. */
async function sales({ name, fetch }: Pick<Gateway, 'name' | 'fetch'>): Promise<readonly Condition[]> {
  const { status, reason } = await healthOf<{ status?: string; reason?: string | null }>(fetch, 'chain')
  // `clock` has an alert of its own.
  if (!reason || reason === 'clock') return []
  return [
    {
      event: 'sales_stopped',
      subject: reason,
      severity: 'critical',
      gateway: name,
      summary: `The gateway sells nothing: ${REASONS[reason] ?? reason}.`,
      details: { reason, status },
    },
  ]
}

/** Vendors are shared by the gateways of a process, so one gateway tells of all. */
async function vendors({ fetch, name }: Pick<Gateway, 'name' | 'fetch'>): Promise<readonly Condition[]> {
  type Models = {
    data?: readonly { id: string; status: string; failures_in_a_row: number; last_failure_at: string }[]
  }
  const { data = [] } = await healthOf<Models>(fetch, 'models')
  return data.flatMap(({ id, status, failures_in_a_row: failures, last_failure_at: lastAt }) =>
    status === 'degraded'
      ? [
          {
            event: 'vendor_outage' as const,
            subject: id,
            severity: 'warning' as const,
            gateway: name,
            summary: `${id} fails: its vendor did not serve the last ${failures} requests. Buyers were not charged.`,
            details: { failures_in_a_row: failures, last_failure_at: lastAt },
          },
        ]
      : [],
  )
}

async function disk(directory: string, { freeShare = freeShareOf }: Watched): Promise<readonly Condition[]> {
  const free = await freeShare(directory)
  if (free >= LOW_DISK) return []
  return [
    {
      ...processWide('disk_low', `Only ${Math.floor(free * 100)} % of the disk under ${directory} is free.`),
      subject: directory,
    },
  ]
}

const REASONS: Readonly<Record<string, string>> = {
  storage: 'the database file of this process is damaged or cannot be flushed; the log and /readyz say why',
  no_gas: 'no account can pay for settlements',
  no_key: 'no relayer key is free; another replica holds it, or all are out of gas',
  verification_unavailable: 'the chain has not answered for 15 seconds',
}

const processWide = (event: Condition['event'], summary: string): Condition => ({
  event,
  subject: '',
  severity: 'critical',
  gateway: '',
  summary,
})

async function healthOf<Body>(fetch: Gateway['fetch'], route: string): Promise<Body> {
  const response = await fetch(new Request(`http://localhost/api/v1/health/${route}`), { ip: IP })
  if (!response.ok) {
    await response.body?.cancel()
    // A gateway may hide its health routes.
    if (response.status === 404) return {} as Body
    throw new Error(`the health route answered ${response.status}`)
  }
  return (await response.json()) as Body
}

/** A store that takes longer to store one byte is treated as unreachable. */
const OBJECTS_TIMEOUT_MS = 10_000
/** A store that is well is asked once a minute: a request to S3 costs money. */
const OBJECTS_FRESH_MS = 60_000

/** Stores one byte. Resolves with false when that fails or takes too long. */
function objectsProbe(objects: Watched['objects'], clock: Clock): () => Promise<boolean> {
  let wellAt = Number.NEGATIVE_INFINITY
  return async () => {
    const now = clock.now()
    if (now - wellAt < OBJECTS_FRESH_MS && now >= wellAt) return true
    const answered = new AbortController()
    const late = clock.wait(OBJECTS_TIMEOUT_MS, answered.signal).then(() => false)
    const stored = objects.put('start/probe', new Uint8Array([0]), 'application/octet-stream').then(
      () => true,
      () => false,
    )
    const isWell = await Promise.race([stored, late]).finally(() => answered.abort())
    wellAt = isWell ? now : Number.NEGATIVE_INFINITY
    return isWell
  }
}

async function freeShareOf(directory: string): Promise<number> {
  const { bavail, blocks } = await statfs(directory)
  return blocks === 0 ? 1 : bavail / blocks
}
