/**
 * Work that goes on at the vendor's place: submitted in the order, looked at by whoever polls and by the sweep, collected by one. No process
 * owns such a call, so none takes it along when it dies.
 */
import { type Completion, fail, within } from './calls.ts'
import type { Looked, Paid, Stored } from './endpoint.ts'
import { Fault } from './faults.ts'
import type { House, Working } from './house.ts'
import { HELD } from './ledger.ts'
import { mirror } from './mirror.ts'
import type { Call, Json } from './ports.ts'
import { newSecret } from './tickets.ts'

export type Held = {
  /** Hands the job to the vendor. Throws a Fault, the call then failed, where it is not taken in time. */
  submit(working: Working<Paid>): Promise<Call>
  /** What the vendor says of a running call by now; it is completed or failed by this where the vendor is done. Throws a Fault only for a caller. */
  look(endpoint: Paid, call: Call): Promise<Seen>
  /** What a failed call adds to its reply. */
  failure(call: Call, now: number): Promise<Readonly<Record<string, Json>>>
}

export type Seen = { readonly call: Call; readonly progress?: number; readonly elapsedSeconds: number }

type Handle = { readonly handle: string; readonly failure?: Readonly<Record<string, Json>> }

const KIND = 'held'
/** The vendor is asked at most so often for one call, however many poll. */
const LOOK_EVERY_MS = 2_000
const LOOK_MS = 10_000
/** A replica that dies while it collects keeps the others from it for so long. */
const COLLECT_LEASE_MS = 120_000

export function held({ ports, catalog, patience, owner, maxMedia }: House): Held {
  const { storage, clock, log, vendors } = ports
  const mirroring = { ports, maxBytes: maxMedia }

  return { submit, look, failure }

  async function submit({ endpoint, input, call }: Working<Paid>): Promise<Call> {
    const now = clock.now()
    try {
      const order = { id: call.id, input, payer: call.payer, catalog, vendors, clock, now }
      const { handle } = await within(clock, patience.submitMs, (signal) => (endpoint.submit as NonNullable<Paid['submit']>)({ ...order, signal }))
      const data: Handle = { handle }
      await storage.putOwned({ kind: KIND, id: call.id, owner: call.payer, data, expiresAt: now + patience.stallMs + endpoint.keep.unclaimedMs }, now)
      const begun = { work: 'in_progress', owner: HELD, startedAt: now, until: clock.now() + patience.stallMs } as const
      const isOurs = await storage.moveCall(call.id, { work: ['queued'], owner }, begun)
      if (!isOurs) throw new Error('the call ended before its vendor took it')
      return { ...call, ...begun }
    } catch (error) {
      const fault = faultOf(endpoint, error)
      if (!(error instanceof Fault)) log.warn('a job was not taken', { call: call.id, endpoint: endpoint.name, error: (error as Error).message })
      await fail(storage, call, fault.message, clock.now())
      throw fault
    }
  }

  function faultOf({ failure: said }: Paid, error: unknown): Fault {
    if (error instanceof Fault) return error
    if ((error as Error).name === 'TimeoutError') {
      return new Fault('UPSTREAM_TIMEOUT', { message: `The model did not take the job within ${patience.submitMs / 1000} seconds. Nothing was charged; submit it again.` })
    }
    return new Fault('WORK_FAILED', { error: said, details: 'The model did not take the job. Nothing was charged.' })
  }

  async function look(endpoint: Paid, call: Call): Promise<Seen> {
    const seen = (now: number, progress?: number): Seen => ({ call, elapsedSeconds: Math.floor((now - (call.startedAt ?? call.createdAt)) / 1000), ...(progress !== undefined && { progress }) })
    const now = clock.now()
    if (call.owner !== HELD || call.work !== 'in_progress') return seen(now)
    const [lease, by] = [`${KIND}:${call.id}`, newSecret(ports.random)]
    if (!(await storage.lease(lease, by, { now, until: now + COLLECT_LEASE_MS }))) return seen(now)
    try {
      const record = await storage.getOwned(KIND, call.id, now)
      if (!record) return seen(now)
      const { handle } = record.data as Handle
      const asking = { request: call.request, catalog, vendors }
      const state = await within(clock, LOOK_MS, (signal) => (endpoint.look as NonNullable<Paid['look']>)(handle, { ...asking, signal }))
      if (state.kind === 'running') return seen(clock.now(), state.progress)
      if (state.kind === 'failed') {
        await storage.moveOwned({ ...record, data: { handle, failure: state.fields ?? {} } }, record.data, clock.now())
        await fail(storage, call, state.error, clock.now())
      }
      if (state.kind === 'done') await collect(endpoint, call, state)
      return { ...seen(clock.now()), call: (await storage.getCall(call.id)) ?? call }
    } finally {
      await storage.lease(lease, by, { now: clock.now(), until: clock.now() + LOOK_EVERY_MS })
    }
  }

  /** Mirrors what was made, then completes the call: a result is stored before its money moves. */
  async function collect(endpoint: Paid, call: Call, { made }: Extract<Looked, { kind: 'done' }>): Promise<void> {
    const media = await mirror(mirroring, call.id, made.media)
    const now = clock.now()
    const stored: Stored = { made: made.result, media, created: Math.floor(now / 1000) }
    const { result, expiresAt }: Completion = { result: stored as unknown as Json, expiresAt: now + endpoint.keep.unclaimedMs }
    await storage.moveCall(call.id, { work: ['in_progress'], owner: HELD, money: 'verified' }, { work: 'completed', result, expiresAt, endedAt: now })
  }

  async function failure({ id }: Call, now: number): Promise<Readonly<Record<string, Json>>> {
    const record = await storage.getOwned(KIND, id, now)
    return (record?.data as Handle | undefined)?.failure ?? {}
  }
}
