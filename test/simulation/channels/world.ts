/** The world of one run with channels: the contract, the buyers' clients, and processes with the real adapter. */
import { evmFamily } from '../../../adapters/chains/evm/family.ts'
import { drainMicrotasks } from 'bun:jsc'
import { peek } from 'bun'
import { channelClaims } from '../../../adapters/chains/evm/channels/claims.ts'
import { depositCall } from '../../../adapters/chains/evm/channels/contract.ts'
import { channelCosts, type ChannelCosts, DEPOSIT_GAS } from '../../../adapters/chains/evm/channels/costs.ts'
import { channelDeposits } from '../../../adapters/chains/evm/channels/deposits.ts'
import { publishedCeilings } from '../../../adapters/chains/evm/channels/published.ts'
import { keyCalls } from '../../../adapters/chains/evm/channels/keys/calls.ts'
import { channelRefunds } from '../../../adapters/chains/evm/channels/refunds/mod.ts'
import { evmChannels } from '../../../adapters/chains/evm/channels/vouchers.ts'
import { parseChanneled } from '../../../adapters/chains/evm/channels/payload.ts'
import type { CheckSignature } from '../../../adapters/chains/evm/exact/identity.ts'
import { channelStates } from '../../../adapters/chains/evm/channels/records.ts'
import { newState } from '../../../adapters/chains/evm/channels/state.ts'
import type { Reads, ViewResult } from '../../../adapters/chains/evm/node/reads.ts'
import type { SendResult } from '../../../adapters/chains/evm/node/relayer.ts'
import type { ContractCall } from '../../../adapters/chains/evm/node/multicall.ts'
import { type Hex, hexOf, word } from '../../../adapters/chains/lib/hex.ts'
import { type Answer, failure, type RpcFailure } from '../../../adapters/chains/lib/json_rpc.ts'
import { type Gateway, gateway, type Payment, type Ports, type Storage, timeouts } from '../../../core/mod.ts'
import type { Call, Chain } from '../../../core/ports/mod.ts'
import type { Endpoint } from '../../../core/endpoint/mod.ts'
import { usdc } from '../../../core/x402/money.ts'
import { scheduledStorage, scheduledVendors } from '../scheduled_ports.ts'
import { chance } from '../chance.ts'
import { POLL_SECRET, type Product } from '../products.ts'
import {
  type Actor as AnyActor,
  createScheduler,
  ownerOf,
  type Process as AnyProcess,
  type Scheduler,
} from '../scheduler.ts'
import { ALL_ENDPOINTS } from '../setup.ts'
import { type ChannelLedger, channelLedger } from './ledger.ts'
import { CHAIN_ID, type Contract, createContract, depositDigest, digests } from './contract.ts'
import { type Journal, journal } from './journal.ts'
import { type Client, clientsOf, loadOf } from './clients.ts'
import { AUTHORIZER, hasSigned } from './keys.ts'
import { type Backing, type ChannelRule, unlimited } from './rules.ts'
import { ASSET, DOMAIN, LAG_SECONDS, MIN_DEPOSIT, NETWORK, PAY_TO, WITHDRAW_DELAY } from './terms.ts'

const MAX_PROCESSES = 6

/** A voucher that a claim has published, or that a correction has told. */
export type Voucher = {
  readonly client: Client
  readonly ceiling: bigint
  readonly charged: bigint
  readonly signature: Hex
}

/** `body`: as a payload has it. `call`: the transaction, which anybody may send. */
type SignedDeposit = { readonly amount: bigint; readonly body: object; readonly call: ContractCall }

/** A payment: a voucher, with a deposit where there is one. */
export type Signed = {
  readonly name: string
  /** Of the channel and its base. */
  readonly key: string
  readonly client: Client
  readonly product: Product
  readonly payment: Payment
  readonly header: string
  readonly base: bigint
  readonly ceiling: bigint
  readonly deposit: SignedDeposit | undefined
  /** It buys nothing, and asks for what is left. */
  readonly isRefund: boolean
  /** Who presents it: the buyer, or a thief who has read it somewhere. */
  readonly holder: string
  isPresented: boolean
}

export type Actor = AnyActor<Signed>
export type Process = AnyProcess & { readonly claims: Claims; isClaiming: boolean }
type Claims = ReturnType<typeof channelClaims>

export type World = Omit<Scheduler<Signed>, 'crash' | 'processes'> & Parts

type Parts = {
  readonly processes: Process[]
  readonly rule: ChannelRule
  readonly products: readonly Product[]
  readonly contract: Contract
  readonly ledger: ChannelLedger
  /** A thief makes more of them. */
  readonly clients: Client[]
  /** Knowledge of a thief. */
  readonly loot: Voucher[]
  /** Transactions that were sent to the chain, mined or not. */
  readonly published: Set<Hex>
  readonly signed: Signed[]
  readonly isSingle: boolean
  /** The storage fails now and then. */
  isFlaky: boolean
  /** Processes crash, and storage may come back from a backup: what was being answered may be given away. */
  readonly isRough: boolean
  readonly claimAbove: bigint
  /** Limit of a process for the deposits and refunds of one wallet in an hour. */
  readonly gasPerWallet: bigint
  /** Broadcast, not mined, not forgotten. */
  readonly mempool: ContractCall[]
  journal: Journal
  backup: number
  isDown: boolean
  lagBlocks: number
  crash(process: Process): void
  boot(): Process
  canBoot(): boolean
  pass(ms: number): void
  restore(): void
  /** The key of a base of a channel, as the adapter names it. */
  keyOf(channelId: Hex, base: bigint): string
  /** `amount`: another price than that of the product. */
  sign(
    client: Client,
    product: Product,
    payment: {
      readonly base: bigint
      readonly deposit?: SignedDeposit | undefined
      readonly amount?: bigint
      readonly signature?: Hex
      readonly holder?: string
    },
  ): Signed
  /** `voucher`: another than one for what was charged. */
  signRefund(
    client: Client,
    refund?: {
      readonly amount?: bigint | undefined
      readonly voucher?: Pick<Voucher, 'ceiling' | 'signature'>
      readonly holder?: string
    },
  ): Signed
  /** An answer that is quoted at exactly so much, where there is one. */
  pricedAt(amount: bigint): Product | undefined
  signDeposit(client: Client, deposit: { readonly amount: bigint; readonly lifeSeconds: number }): SignedDeposit
  byHeader(header: string): Signed | undefined
  fails(): boolean
  charge(): bigint
}

/** As much of a world as a quote needs. */
export function quotingGateway(rule: ChannelRule): Gateway {
  const { chain } = chainOf({
    rpc: { request: async () => failure('no node') },
    reads: { view: async () => failure('no node') },
    relayer: { send: async () => ({ kind: 'rejected', reason: 'no node' }) },
    storage: journal().storage,
    costs: costsOf(PLENTY_OF_GAS),
  })
  return gatewayOf({ chain, storage: journal().storage, index: 0, rule }, () => undefined)
}

const terms = {
  network: NETWORK,
  chainId: CHAIN_ID,
  asset: ASSET,
  payTo: PAY_TO,
  domain: DOMAIN,
  authorizer: AUTHORIZER.address,
  withdrawDelay: WITHDRAW_DELAY,
  lagSeconds: LAG_SECONDS,
} as const

const costsOf = (gasPerWallet: bigint): ChannelCosts =>
  channelCosts({ gasPrice: () => 0n, coinPrice: 0, minDeposit: MIN_DEPOSIT, gasPerWallet })
const PLENTY_OF_GAS = 10n ** 12n
/** Enough for a few deposits of a wallet in an hour. */
const LITTLE_GAS = 3n * DEPOSIT_GAS
const authorizing = {
  address: AUTHORIZER.address,
  sign: async ({ hash }: { readonly hash: Hex }) => AUTHORIZER.sign(hash),
}

const checkSignature: CheckSignature = async ({ account, digest, signature }) =>
  hasSigned(account, digest, signature) ? { kind: 'signed' } : { kind: 'unsigned', problem: 'another key has signed' }

function chainOf({ rpc, reads, relayer, storage, costs }: Backing) {
  const states = channelStates(storage, { network: NETWORK, seller: AUTHORIZER.address, turn: async () => {} })
  const shared = { rpc, reads, relayer, states, digests, authorizer: authorizing, checkSignature, costs }
  const deposits = channelDeposits(shared, terms)
  const { reserved } = keyCalls({ ...shared, storage }, terms)
  const refunds = channelRefunds({ ...shared, reserved }, { network: NETWORK, lagSeconds: LAG_SECONDS })
  const published = publishedCeilings({ rpc, digests })
  const channels = evmChannels({ ...shared, deposits, refunds, published }, terms)
  const chain: Chain = {
    families: [evmFamily],
    terms: () => [channels.terms()],
    identify: channels.identify,
    verify: channels.verify,
    secure: channels.secure,
    settle: channels.settle,
    drawDown: channels.drawDown,
    fate: channels.fate,
    refund: channels.refund,
  }
  return { chain, ofClaims: { ...shared, refunds } }
}

/** Parts of its world that the gateway needs; absent while it only quotes. */
function gatewayOf(
  { chain, storage, index, rule }: { chain: Chain; storage: Storage; index: number; rule: ChannelRule },
  world: () => World | undefined,
): Gateway {
  const here = (): World => {
    const found = world()
    if (!found) throw new Error('there is no world')
    return found
  }
  const process = (): Process => here().processes[index] as Process
  const ports: Ports = {
    storage,
    chain,
    objects: { put: async () => {}, get: async () => undefined, delete: async () => {} },
    vendors: scheduledVendors({
      ask: (label, run) => here().ask(process(), { label, isStorage: false, run }),
      fails: () => here().fails(),
      newWork: () => here().ledger.newWork(),
    }),
    clock: {
      now: () => (world()?.now ?? 0) + (world()?.processes[index]?.skewMs ?? 0),
      wait: (ms, signal) => world()?.wait(ms, signal) ?? new Promise(() => {}),
    },
    log: { info() {}, warn() {}, alert: (message, fields) => world()?.ledger.alerted(message, fields) },
    random: (bytes) => world()?.ledger.random(bytes) ?? new Uint8Array(bytes),
    countTokens: async (text) => text.length,
    background(work) {
      const { ledger } = here()
      work.catch((error: Error) => ledger.alerted('background work failed', { error: error.message }))
    },
  }
  const endpoints = ALL_ENDPOINTS.map((endpoint) =>
    'cost' in endpoint ? { ...endpoint, cost: async () => usdc(here().charge()) } : endpoint,
  ) as readonly Endpoint[]
  return gateway({
    ports,
    endpoints,
    label: 'model',
    pollKeys: [POLL_SECRET],
    workerId: ownerOf(index),
    timeouts: { ...timeouts, ...rule.timeouts },
  })
}

type WorldOptions = {
  readonly products: readonly Product[]
  readonly isTraced: boolean
  readonly pricedAt: (amount: bigint) => Product | undefined
}

export function createWorld(rule: ChannelRule, seed: number, { products, isTraced, pricedAt }: WorldOptions): World {
  const dice = chance(seed)
  const contract = createContract()
  const scheduler = createScheduler<Signed>(dice, {
    isTraced,
    writes: /^(openCall|recordPaid|moveCall|claim|finish|putRecord|moveRecord|send)/,
    replied: (actor, reply) => world.ledger.replied(actor, reply),
    failed: (actor, error) => world.ledger.failed(actor, error),
  })
  const often = (...shares: readonly number[]) => dice.pick(shares)
  const climate = {
    vendorFailures: often(0, 0, 0.1, 0.4),
    rejected: often(0, 0.1),
    landed: often(0, 0, 0.2),
    late: often(0, 0, 0.2),
    dropped: often(0, 0, 0.2),
    twins: often(0, 0, 0.1),
  }
  const byHeader = new Map<string, Signed>()
  const prefixes = new Map<Hex, string>()
  let salts = 0

  /** A node that a process reads: behind at times, and never again behind what it has shown by much. */
  function nodeOf(process: () => Process): Pick<Backing, 'reads' | 'rpc'> {
    let newest = 0
    let highest = 0
    const scheduled = <T>(label: string, run: () => T) =>
      world.ask(process(), { label, isStorage: false, run: async () => run() })
    return {
      reads: {
        view: (calls, at) => scheduled(`view ${calls.length === 1 ? 'one' : calls.length}`, () => viewed(calls, at)),
      },
      rpc: { request: (method, params) => scheduled(method, () => answered(method, params)) },
    }

    function answered(method: string, [filter]: readonly unknown[]): Answer {
      if (world.isDown) return failure('the node does not answer')
      const { number } = contract.at(world.lagBlocks)
      if (method === 'eth_blockNumber') return { kind: 'result', value: hexOf(BigInt(number)) }
      if (method === 'eth_getTransactionByHash')
        return { kind: 'result', value: { input: contract.inputOf(filter as Hex) } }
      const { topics, fromBlock } = filter as { readonly topics: readonly [Hex, Hex]; readonly fromBlock: string }
      const from = fromBlock === 'latest' ? number : Number(fromBlock)
      const found = contract.events(topics, { from, to: number })
      return { kind: 'result', value: found }
    }

    function viewed(calls: Parameters<Reads['view']>[0], at: Parameters<Reads['view']>[1]): ViewResult | RpcFailure {
      if (world.isDown || world.lagBlocks > 0) world.ledger.spoil()
      if (world.isDown || at.signal?.aborted) return failure('the node does not answer')
      const block = contract.at(world.lagBlocks)
      const time = Math.floor(block.time / 1000)
      if (time + at.lagSeconds < newest) return failure('the node is behind a block it has already shown')
      newest = Math.max(newest, time)
      if (block.number < highest) world.ledger.wentBack(block)
      highest = Math.max(highest, block.number)
      return { kind: 'seen', time, block: block.number, results: calls.map((call) => contract.call(call, block)) }
    }
  }

  function mined(call: ContractCall, hasOtherNonces: boolean): SendResult {
    const { hash, isSuccess, block, logs } = world.ledger.mined('gateway', call)
    const receipt = { transactionHash: hash, block, success: isSuccess, logs }
    return { kind: 'mined', receipt, hasOtherNonces }
  }

  function send(call: ContractCall): SendResult {
    const drawn = world.isCalm ? 1 : dice.next()
    const { rejected, landed, late, dropped, twins } = climate
    if (world.isDown || drawn < rejected + landed + late + dropped) world.ledger.spoil()
    if (world.isDown) return { kind: 'rejected', reason: 'the node does not answer' }
    if (drawn < rejected) return { kind: 'rejected', reason: 'the node refuses' }
    world.ledger.sending(world.active, call)
    if (drawn < rejected + landed) {
      mined(call, false)
      return { kind: 'lost', reason: 'another transaction took its nonce' }
    }
    if (drawn < rejected + landed + late + dropped) {
      if (drawn < rejected + landed + late) world.mempool.push(call)
      return { kind: 'lost', reason: 'another transaction took its nonce' }
    }
    const isTwin = drawn < rejected + landed + late + dropped + twins
    if (isTwin) world.mempool.push(call)
    return mined(call, isTwin)
  }

  function open(index: number): Pick<Process, 'gateway' | 'claims'> {
    const process = () => world.processes[index] as Process
    const storage = scheduledStorage(
      (label, run) => {
        const before = world.journal
        // Answers of a storage that was replaced by its backup reach nobody.
        const work = () => (before === world.journal ? run(before.storage) : new Promise<never>(() => {}))
        return world.ask(process(), { label, isStorage: true, run: work })
      },
      world.ledger.hooks,
      { isShared: !world.isSingle },
    )
    const relayer: Backing['relayer'] = {
      send: (call) => world.ask(process(), { label: 'send', isStorage: false, run: async () => send(call) }),
    }
    const backing: Backing = { ...nodeOf(process), relayer, storage, costs: unlessCalm(costsOf(world.gasPerWallet)) }
    const behind = rule.backing?.(backing) ?? backing
    const { chain, ofClaims } = chainOf(behind)
    const takeLease = async (name: string, at: { now: number; until: number }) => {
      const isOurs = await storage.lease(name, ownerOf(index), at)
      if (isOurs) world.ledger.roundBegins(process(), at)
      return isOurs
    }
    const claims = channelClaims(ofClaims, {
      network: NETWORK,
      lagSeconds: LAG_SECONDS,
      withdrawDelay: WITHDRAW_DELAY,
      claimAbove: world.claimAbove,
      takeLease,
      alert: (message, fields) => world.ledger.alerted(message, fields),
    })
    const judged = rule.chain ? rule.chain(chain) : chain
    return { gateway: gatewayOf({ chain: judged, storage: behind.storage, index, rule }, () => world), claims }
  }

  /** When all is well again, whoever waited for the end of the hour has waited. */
  function unlessCalm(costs: ChannelCosts): ChannelCosts {
    const calm = unlimited(costs)
    const now = () => (world.isCalm ? calm : costs)
    return {
      ...costs,
      groupLimit: (...of) => now().groupLimit(...of),
      reserveInGroup: (...of) => now().reserveInGroup(...of),
      depositsLimitedUntil: (...of) => now().depositsLimitedUntil(...of),
      refundsLimitedUntil: (...of) => now().refundsLimitedUntil(...of),
      reserveDeposit: (...of) => now().reserveDeposit(...of),
      reserveRefund: (...of) => now().reserveRefund(...of),
    }
  }

  function store(made: Omit<Signed, 'isPresented'>): Signed {
    const signed = { ...made, isPresented: false }
    world.signed.push(signed)
    byHeader.set(signed.header, signed)
    return signed
  }

  const crash = scheduler.crash
  const parts: Parts = {
    processes: scheduler.processes as Process[],
    rule,
    products,
    contract,
    ledger: undefined as unknown as ChannelLedger,
    clients: clientsOf(dice.isLucky(0.5)),
    loot: [],
    published: new Set(),
    pricedAt,
    signed: [],
    isSingle: dice.isLucky(0.3),
    isFlaky: scheduler.lost > 0,
    isRough: dice.isLucky(0.5),
    // Not drawn, so that histories are those of before.
    gasPerWallet: rule.gasPerWallet ?? (seed % 4 === 0 ? LITTLE_GAS : PLENTY_OF_GAS),
    claimAbove: dice.pick([1n, 10_000n, 1_000_000n]),
    mempool: [],
    journal: journal(),
    backup: 0,
    isDown: false,
    lagBlocks: 0,

    fails: () => !world.isCalm && dice.isLucky(climate.vendorFailures),
    charge: () => dice.pick([0n, 0n, 1n, 700n, 2_000n, 8_700n, 1_000_000n]),
    crash: (process) => crash(process, { isSingle: world.isSingle }),
    canBoot: () => world.processes.length < MAX_PROCESSES,

    boot() {
      const index = world.processes.length
      const flags = {
        isAlive: true,
        isMaintaining: false,
        isClaiming: false,
        isFrozen: false,
        skewMs: skewOf(seed, index),
      }
      const process: Process = { index, ...open(index), ...flags }
      world.processes.push(process)
      world.say(() => `${ownerOf(index)} starts`)
      if (!world.isSingle || index === 0) return process
      const wasCalm = world.isCalm
      world.isCalm = true
      world.start(
        { name: `${ownerOf(index)} takes over`, kind: 'start', process },
        async () => void (await process.gateway.takeOver()),
      )
      world.isCalm = wasCalm
      return process
    },

    pass(ms) {
      world.now += ms
      contract.advance(world.now)
      world.say(() => `${ms / 1000} s pass`)
      if (world.isStorageAway) return
      const { storage } = world.journal
      for (const { index, isAlive, isFrozen, skewMs } of world.processes) {
        if (!isAlive || isFrozen || dice.isLucky(0.25)) continue
        const lost = peek(storage.lostCalls(Number.MAX_SAFE_INTEGER, 1_000)) as readonly Call[]
        const own = lost.filter(({ workerId }) => workerId === ownerOf(index)).map(({ id }) => id)
        if (own.length > 0) peek(storage.renew(ownerOf(index), own, world.now + skewMs + timeouts.workLeaseMs))
      }
    },

    /** Every process dies, and those that start next have the storage of the backup. */
    restore() {
      world.say(() => `the storage is restored from its backup of ${world.backup} writes`)
      for (const process of world.processes) if (process.isAlive) crash(process, { isSingle: true })
      world.journal = world.journal.restored(world.backup)
      world.ledger.restored()
    },

    keyOf: (channelId, base) => `${prefixes.get(channelId)}${base}`,

    sign(client, product, { base, deposit, amount = BigInt(product.offer.amount), signature: read, holder }) {
      const offer = { ...product.offer, amount: String(amount) }
      const ceiling = base + BigInt(offer.amount)
      const signature = read ?? client.voucher.sign(digests.voucher(client.id, ceiling))
      const voucher = { channelId: client.id, maxClaimableAmount: String(ceiling), signature }
      const common = { channelConfig: client.config, voucher }
      const payload = deposit ? { type: 'deposit', ...common, deposit: deposit.body } : { type: 'voucher', ...common }
      const payment: Payment = { x402Version: 2, accepted: offer, payload }
      const parsed = parseChanneled(payment, offer, digests)
      if (parsed.kind === 'refused') throw new Error(parsed.reason)
      prefixes.set(client.id, parsed.key.slice(0, parsed.key.lastIndexOf('/') + 1))
      const header = btoa(JSON.stringify(payment))
      const name = `${client.name}${world.signed.length}@${base}${deposit ? `+${deposit.amount}` : ''}`
      const { key } = parsed
      const by = holder ?? client.buyer
      return store({ name, key, client, product, payment, header, base, ceiling, deposit, isRefund: false, holder: by })
    },

    signRefund(client, { amount, voucher: read, holder = client.buyer } = {}) {
      const product = dice.pick(products)
      const ceiling = read?.ceiling ?? client.charged
      const signature = read?.signature ?? client.voucher.sign(digests.voucher(client.id, ceiling))
      const voucher = { channelId: client.id, maxClaimableAmount: String(ceiling), signature }
      const part = amount === undefined ? {} : { amount: String(amount) }
      const payload = { type: 'refund', channelConfig: client.config, voucher, ...part }
      const payment: Payment = { x402Version: 2, accepted: product.offer, payload }
      const header = btoa(JSON.stringify(payment))
      const name = `${client.name}${world.signed.length}@${ceiling}-${amount ?? 'all'}`
      const key = `refund ${name}`
      return store({
        name,
        key,
        client,
        product,
        payment,
        header,
        base: ceiling,
        ceiling,
        deposit: undefined,
        isRefund: true,
        holder,
      })
    },

    signDeposit({ config, id, wallet }, { amount, lifeSeconds }) {
      const salt: Hex = `0x${word(BigInt(salts++))}`
      const nonce = digests.depositNonce(id, salt)
      const validBefore = BigInt(Math.floor(world.now / 1000) + lifeSeconds)
      const signature = wallet.sign(depositDigest({ payer: config.payer, amount, validBefore, nonce }))
      const erc3009Authorization = { validAfter: '0', validBefore: String(validBefore), salt, signature }
      return {
        amount,
        body: { amount: String(amount), authorization: { erc3009Authorization } },
        call: depositCall(config, { validAfter: 0n, validBefore, salt, signature, amount, nonce }),
      }
    },

    byHeader: (header) => byHeader.get(header),
  }
  const world: World = Object.assign(scheduler, parts)
  Object.assign(world, { ledger: channelLedger(world) })
  if (rule.load) seedLoad(world, loadOf(rule.load))
  return world
}

/** In a fifth of all runs the clocks of processes differ; not drawn, as the gas is not. */
function skewOf(seed: number, index: number): number {
  if (seed % 5 !== 0) return 0
  return index % 2 === 0 ? SKEW_MS : -SKEW_MS
}
/** Two processes are twice as far apart. */
const SKEW_MS = 7_000

const DEPOSITED = 30_000n

/** Channels that were funded and charged before the run begins, by processes that are no more. */
function seedLoad(world: World, load: readonly Client[]): void {
  const states = channelStates(world.journal.storage, {
    network: NETWORK,
    seller: AUTHORIZER.address,
    turn: async () => {},
  })
  for (const [index, client] of load.entries()) {
    const { id, config, voucher } = client
    world.contract.gift(id, DEPOSITED)
    const charged = 700n + BigInt(index)
    const ceiling = 8_700n
    const signature = voucher.sign(digests.voucher(id, ceiling))
    const mirror = { balance: DEPOSITED, claimed: 0n, withdrawing: 0n, withdrawRequestedAt: 0, refundNonce: 0n }
    const state = { ...newState({ channelId: id, config }, mirror, world.now), charged, ceiling, signature }
    peek(states.replace(undefined, state, world.now))
    world.ledger.seeded(client, { charged, ceiling, claimed: 0n, signature })
    world.clients.push(Object.assign(client, { charged, balance: DEPOSITED }))
  }
  drainMicrotasks()
  world.backup = world.journal.length()
}
