/**
 * The recent health of a gateway's chain and models. Holds outcomes and times but no messages, so health replies cannot
 * leak any.
 */
import { ApiError, rowOf } from '../http/errors.ts'
import { outages } from '../lib/outages.ts'
import { portOf } from '../lib/verbs.ts'
import type { Chain, Ports, Verdict } from '../ports/mod.ts'
import type { Clock } from '../lib/clock.ts'
import type { ChatVendor } from '../ports/vendors/chat.ts'
import type { Vendors } from '../ports/vendors/mod.ts'
import type { ImageVendor } from '../ports/vendors/images.ts'
import type { ProviderStatus, HealthStatus } from './gateway_info.ts'

const NOTHING_SEEN: ProviderStatus = { lastOkAt: null, lastFailureAt: null, failuresInARow: 0 }
const CHAIN = ''
/** Verification counts as unavailable after failing this long without a success. */
const UNAVAILABLE_AFTER_MS = 15_000
/**
 * The state is dropped after this long without an attempt: a replica that gets no requests because of it could not find
 * out that the chain is back.
 */
const STALE_MS = 60_000

/**
 * Wraps ports so that their outcomes are recorded. Sends no requests of its own: an idle gateway has no health data.
 */
export function withHealthStatus<Some extends Ports>(
  ports: Some,
  name: string,
): { ports: Some; healthStatus: HealthStatus } {
  const seen = new Map<string, ProviderStatus>()
  const sight = (name: string): ProviderStatus => seen.get(name) ?? NOTHING_SEEN
  const note = noted(ports.clock, seen)
  const verification = verificationState(ports, name)
  return {
    healthStatus: {
      chain: () => sight(CHAIN),
      model: sight,
      isVerificationUnavailable: verification.isUnavailable,
    },
    ports: {
      ...ports,
      chain: watchedChain(ports.chain, { note, verification }),
      vendors: watchedVendors(ports.vendors, note),
    },
  }
}

/** Tracks verifications of payments: alerts once they have failed for a while, and logs when one succeeds again. */
function verificationState({ clock, log }: Ports, gateway: string) {
  const down = outages({ log, clock, over: 'payments can be verified again' })
  let failingSince: number | undefined
  let failedAt = 0

  return {
    isUnavailable: () =>
      failingSince !== undefined &&
      failedAt - failingSince >= UNAVAILABLE_AFTER_MS &&
      clock.now() - failedAt < STALE_MS,
    failed,
    worked,
  }

  function failed(why: string): void {
    failedAt = clock.now()
    failingSince ??= failedAt
    const seconds = Math.round((failedAt - failingSince) / 1000)
    if (failedAt - failingSince < UNAVAILABLE_AFTER_MS) return
    down.failed(gateway, {
      reason: 'unavailable',
      message: 'payments cannot be verified: the chain does not answer; paid requests get 503',
      fields: { gateway, seconds, why },
    })
  }

  function worked(): void {
    failingSince = undefined
    down.worked(gateway)
  }
}

/** Awaits a promise and records its outcome. */
type Note = <T>(
  name: string,
  answer: Promise<T>,
  judge: { isAway?(value: T): boolean; isFailure?(error: unknown): boolean },
) => Promise<T>

function noted(clock: Clock, seen: Map<string, ProviderStatus>): Note {
  function saw(name: string, isOk: boolean): void {
    const before = seen.get(name) ?? NOTHING_SEEN
    const now = clock.now()
    seen.set(
      name,
      isOk
        ? { ...before, lastOkAt: now, failuresInARow: 0 }
        : { ...before, lastFailureAt: now, failuresInARow: before.failuresInARow + 1 },
    )
  }
  return async (name, answer, { isAway = () => false, isFailure = () => true }) => {
    try {
      const value = await answer
      saw(name, !isAway(value))
      return value
    } catch (error) {
      saw(name, !isFailure(error))
      throw error
    }
  }
}

type Watching = { readonly note: Note; readonly verification: ReturnType<typeof verificationState> }

function watchedChain(chain: Chain, { note, verification }: Watching): Chain {
  return portOf<Chain>({
    families: chain.families,
    balance: chain.balance,
    terms: chain.terms,
    closed: chain.closed,
    check: chain.check,
    refresh: chain.refresh,
    proves: chain.proves,
    hasSigned: chain.hasSigned,
    identify: chain.identify,
    async verify(...args) {
      try {
        const isAway = ({ kind }: Verdict) => kind === 'unavailable'
        const verdict = await note(CHAIN, chain.verify(...args), { isAway })
        if (verdict.kind === 'unavailable') verification.failed(verdict.reason)
        else verification.worked()
        return verdict
      } catch (error) {
        verification.failed((error as Error).message)
        throw error
      }
    },
    secure: chain.secure,
    settle: (...args) =>
      note(CHAIN, chain.settle(...args), { isAway: ({ kind }) => kind === 'unknown' || kind === 'unavailable' }),
    drawDown: chain.drawDown,
    fate: chain.fate,
    refund: chain.refund,
    apiKeys: chain.apiKeys,
  })
}

/** Vendors of other products pass through, among them those that only an embedding program declares. */
function watchedVendors(vendors: Vendors, note: Note): Vendors {
  const images = onceEach(watchedImages)
  const chat = onceEach(watchedChat)
  return {
    ...vendors,
    images: (row) => images(row.id, vendors.images(row), note),
    chat: (row) => chat(row.id, vendors.chat(row), note),
  }
}

/** Caches the wrapper of each model's vendor, because every quote asks for it. */
function onceEach<Vendor>(dress: (id: string, vendor: Vendor, note: Note) => Vendor) {
  const dressed = new Map<string, { readonly vendor: Vendor; readonly watched: Vendor }>()
  return (id: string, vendor: Vendor | undefined, note: Note): Vendor | undefined => {
    if (vendor === undefined) return undefined
    const known = dressed.get(id)
    if (known?.vendor === vendor) return known.watched
    const fresh = dress(id, vendor, note)
    dressed.set(id, { vendor, watched: fresh })
    return fresh
  }
}

function watchedImages(id: string, vendor: ImageVendor, note: Note): ImageVendor {
  const { edit } = vendor
  return portOf<ImageVendor>({
    generate: (...job) => note(id, vendor.generate(...job), { isFailure }),
    edit: edit && ((...job) => note(id, edit(...job), { isFailure })),
    isFull: vendor.isFull,
  })
}

function watchedChat(id: string, vendor: ChatVendor, note: Note): ChatVendor {
  return portOf<ChatVendor>({
    ask: (...order) => note(id, vendor.ask(...order), { isFailure }),
    format: vendor.format,
    translatesChat: vendor.translatesChat,
    isFull: vendor.isFull,
  })
}

/** A request that the model refuses is not a failure of the model. */
function isFailure(error: unknown): boolean {
  return !(error instanceof ApiError) || error.code === 'RATE_LIMITED' || rowOf(error.code).status >= 500
}
