/** Builds the engine of a gateway: fills in what its setup leaves open, and observes the ports that it gives. */
import { noDeliveries } from '../call/delivery/deliveries.ts'
import { mirrors } from '../call/work/media_mirror.ts'
import { quoteCache } from '../endpoint/quote_cache.ts'
import type { Catalog } from '../endpoint/offering.ts'
import type { Sold } from '../endpoint/mod.ts'
import type { Engine, EngineLimits, GatewayIdentity, Products, Settings } from '../engine.ts'
import { FREE_TIER, limits } from '../http/rate_limit.ts'
import { budget, MAX_BODY, MAX_UPLOAD } from '../http/body_bytes.ts'
import { inputParser } from '../http/request_body.ts'
import { signedReplies } from '../http/signed_replies.ts'
import { UNPAID_CHARACTERS, unpaidWork } from '../http/unpaid_work.ts'
import { charges } from '../identity/charges.ts'
import { pollUrls } from '../identity/poll_urls.ts'
import { signIns } from '../identity/sign_in.ts'
import { newId } from '../lib/ids.ts'
import { callsOf } from '../payment/calls/calls.ts'
import { pricesOf } from '../payment/control/controls.ts'
import { offersOf } from '../payment/offers.ts'
import { noRetries } from '../payment/settlement/retries.ts'
import { noteStoredMedia, type Retention } from '../payment/retention.ts'
import { timeouts as usual } from '../payment/timeouts.ts'
import { knownWallets, NEW_WALLET_LIMIT, newWalletsLimit } from '../payment/unpaid/new_wallets.ts'
import type { Ports } from '../ports/mod.ts'
import { meterObserver } from '../ports/meter.ts'
import type { Setup } from './setup.ts'
import type { Shared } from './shared_by_gateways.ts'

type Building = {
  /** Endpoints that this gateway sells, by name. */
  readonly sold: ReadonlyMap<string, Sold>
  /** Names of all that it serves. */
  readonly names: ReadonlySet<string>
  /** The ports of the setup, with their metrics. */
  readonly ports: Ports
  readonly retention: Retention
  readonly shared: Shared
}

const UPLOADS_AT_ONCE = 8
/** Several bodies of one address take this part of the memory at most; one alone may need more. */
const SHARES = 4
const MAX_MEDIA = 64 << 20

const NONE = { all: [], get: () => undefined }
const NO_ROWS: Catalog = { images: NONE, chat: NONE, video: NONE, audio: NONE, declared: new Map() }

export function buildEngine(setup: Setup, building: Building): Engine {
  const gateway = identityOf(setup, building)
  const settings = settingsOf(setup, building.sold)
  const { calls, ports } = observed(setup, { building, gateway, settings })
  const { storage, chain, clock, log, random, meter } = ports
  const { timeouts, maxUpload } = settings
  const hashes = pollUrls(ports, setup.pollKeys)
  const methods = chain.families.flatMap(({ charge }) => charge ?? [])
  return {
    gateway,
    gateways: building.shared.engines,
    ports,
    settings,
    products: productsOf(setup, { building, gateway, ports }),
    offers: offersOf({ ports, timeouts }),
    money: { storage, chain, clock, log, meter, timeouts, prepaid: calls.prepaid, retries: noRetries() },
    calls,
    limits: limitsOf(setup, { ports, maxUpload, shared: building.shared }),
    identity: { pollUrls: hashes, signIns: signIns({ storage, chain, clock, random, hashes, timeouts }) },
    deliveries: noDeliveries({ clock, maxUpload }),
    mirror: mirrors({
      ports,
      maxBytes: setup.maxMedia ?? MAX_MEDIA,
      async onStored(call, keys) {
        const now = clock.now()
        const due = now + timeouts.maxJobMs + building.retention.unclaimedMs
        await noteStoredMedia(storage, { call, keys, due }, now)
      },
    }),
    signing: setup.signer && signedReplies(setup.signer, { clock, log }),
    charges: setup.mpp === false ? undefined : charges(hashes, { ...ports, gateway: gateway.name, methods }),
  }
}

function identityOf({ name = 'default', label = name, ...setup }: Setup, { ports, names }: Building): GatewayIdentity {
  const { basePath = '', networks = [], workerId = newId(ports.random, ports.clock.now()) } = setup
  const documents = { docs: names.has('docs'), llms: names.has('discovery.llms_full') }
  return { name, label, basePath, documents, networks, workerId }
}

function settingsOf(setup: Setup, sold: Building['sold']): Settings {
  const streamed = [...sold.values()].filter(({ delivery }) => delivery === 'stream')
  return {
    timeouts: { ...usual, ...setup.timeouts },
    maxBody: setup.maxBody ?? MAX_BODY,
    maxUpload: setup.maxUpload ?? MAX_UPLOAD,
    inlineMs: setup.inlineMs,
    unverifiable: setup.unverifiable ?? 503,
    freeTier: setup.freeTier ?? FREE_TIER,
    freeToOrigin: setup.freeToOrigin,
    allowlists: Object.fromEntries(
      Object.entries(setup.allowlists ?? {}).map(([list, wallets]) => [
        list,
        wallets.map((wallet) => wallet.toLowerCase()),
      ]),
    ),
    newWallet: { ...NEW_WALLET_LIMIT, ...setup.newWallet, endpoints: streamed.map(({ name }) => name) },
    newWallets: { ...newWalletsLimit(), ...setup.newWallets },
  }
}

/** Observes the calls, and gives the engine its storage. */
function observed(
  setup: Setup,
  { building, gateway, settings }: { building: Building; gateway: GatewayIdentity; settings: Settings },
): Pick<Engine, 'calls' | 'ports'> {
  const { ports } = building
  const { chain, clock, log, meter } = ports
  const { calls, storage } = callsOf({
    storage: ports.storage,
    observers: [...(meter ? [meterObserver(meter)] : []), ...(setup.controls ? [setup.controls.observer] : [])],
    apiKeys: chain.apiKeys,
    workerId: gateway.workerId,
    clock,
    log,
    leaseMs: settings.timeouts.workLeaseMs,
    shared: building.shared.calls,
  })
  return { calls, ports: { ...ports, storage } }
}

function productsOf(
  setup: Setup,
  { building: { sold }, gateway, ports }: { building: Building; gateway: GatewayIdentity; ports: Ports },
): Products {
  const { vendors, countTokens, chain } = ports
  const { catalog = NO_ROWS, featureFlags = {} } = setup
  const parsers = [...sold.values()].map(
    (endpoint) => [endpoint, inputParser(endpoint.input, endpoint.unknownFields)] as const,
  )
  return {
    sold,
    catalog,
    parsers: new Map(parsers),
    quotes: quoteCache(),
    context: {
      catalog,
      prices: pricesOf(setup),
      vendors,
      countTokens,
      featureFlags,
      networks: gateway.networks,
      families: chain.families,
    },
  }
}

/** The gateways of one process share these limits, with the figures of the first one. */
function limitsOf(
  setup: Setup,
  {
    ports: { storage, countTokens, clock },
    maxUpload,
    shared,
  }: Pick<Building, 'ports' | 'shared'> & { maxUpload: number },
): EngineLimits {
  const maxBodies = setup.maxBodies ?? Math.max(UPLOADS_AT_ONCE * maxUpload, 4 << 20)
  const perMinute = setup.unpaidCharacters ?? UNPAID_CHARACTERS
  shared.limits ??= {
    windows: limits(storage),
    unpaidWork: unpaidWork({ countTokens, clock, perMinute }),
    bodies: budget(maxBodies, clock, { share: maxBodies / SHARES, onFreed: setup.onBodiesFreed }),
  }
  return { ...shared.limits, newWallets: knownWallets(), controls: setup.controls }
}
