/** The replicas: real leases and real nonce queues, over what a run answers. */
import { drainMicrotasks } from 'bun:jsc'
import type { EvmChain } from '../../../adapters/chains/evm/mod.ts'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { gasMonitor, readKeyStatus } from '../../../adapters/chains/evm/node/gas.ts'
import { evmRelayer, type SendResult } from '../../../adapters/chains/evm/node/relayer.ts'
import { type LeasedChain, leasedChain } from '../../../adapters/chains/evm/relayer_lease.ts'
import type { Hex } from '../../../adapters/chains/lib/hex.ts'
import type { Answer, Rpc } from '../../../adapters/chains/lib/json_rpc.ts'
import type { Payment } from '../../../core/mod.ts'
import type { Settlement } from '../../../core/ports/mod.ts'
import { accountOf, parsed } from './node.ts'
import {
  ask,
  CAP,
  GAS,
  KEYS,
  LEASE_MS,
  type Relay,
  type Replica,
  rpcOf,
  say,
  type TakeLease,
  violate,
  wait,
} from './relay.ts'

export function start(relay: Relay): void {
  const index = relay.replicas.length
  const replica = { name: `p${index}`, isAlive: true, isFrozen: false } as Replica & { chain: LeasedChain }
  const take: TakeLease = (name, at) =>
    ask(relay, replica, `lease ${name}`, () =>
      relay.isStorageAway ? Promise.reject(new Error('the storage is away')) : leased(relay, replica, name, at),
    )
  replica.chain = leasedChain({
    keys: KEYS.map((key) => ({ name: key, key })),
    build: (key) => senderOf(relay, replica, key as Hex),
    takeLease: relay.rule.takeLease?.(take) ?? take,
    leaseMs: LEASE_MS,
  })
  relay.replicas.push(replica)
  say(relay, () => `${replica.name} starts`)
  void renewing(relay, replica)
  drainMicrotasks()
}

async function leased(
  relay: Relay,
  { name: owner }: Replica,
  name: string,
  at: Parameters<TakeLease>[1],
): Promise<boolean> {
  const isTaken = await relay.storage.lease(name, owner, at)
  if (isTaken) relay.leases.set(name, { owner, until: at.until })
  say(relay, () => `${owner}: ${isTaken ? 'has' : 'does not get'} the lease of ${name}`)
  return isTaken
}

async function renewing(relay: Relay, replica: Replica): Promise<void> {
  while (replica.isAlive) {
    await replica.chain.renew(relay.now).catch(() => {})
    await replica.chain.refresh({ now: relay.now }).catch(() => {})
    await wait(relay, replica, LEASE_MS / 6)
  }
}

/** The chain of one key. It sends as those of the schemes do: it looks first, and reads the outcome where it must. */
function senderOf(relay: Relay, replica: Replica, key: Hex): EvmChain {
  const rpc = rpcOf(relay, replica)
  const sending = new Map<Hex, Set<Hex>>()
  const gas = gasMonitor({ rpc, feeAt: (now) => relayer.feeAt(now) }, { address: key, transferGas: GAS })
  const broadcasting: Rpc = {
    ...rpc,
    request(method, params, signal) {
      if (method === 'eth_sendRawTransaction') noteBroadcast(relay, sending, params[0] as Hex)
      return rpc.request(method, params, signal)
    },
  }
  const relayer = evmRelayer(broadcasting, accountOf(key), {
    chainId: 8453,
    gasMonitor: gas,
    maxFeePerGas: relay.rule.cap ?? CAP,
    wait: (ms, signal) => wait(relay, replica, ms, signal),
  })
  const jobs = new Map<Hex, Promise<Settlement>>()
  const settle = (id: Hex): Promise<Settlement> => {
    const job = jobs.get(id) ?? settleOnce(relay, { replica, key, id, sending, send: relayer.send })
    jobs.set(id, job)
    return job.finally(() => jobs.delete(id))
  }
  return {
    ...memoryChain(),
    check: async () => {
      await gas.refresh(relay.now)
      return { kind: 'ready', warnings: [] }
    },
    settle: (payment) => settle(idOf(payment)),
    refresh: ({ now }) => gas.refresh(now),
    gas: gas.state,
    keyStatus: (other, now) =>
      readKeyStatus(
        {
          rpc: {
            ...rpc,
            request: (method, params) => (method === 'eth_getCode' ? NO_CODE : rpc.request(method, params)),
          },
          feeAt: relayer.feeAt,
        },
        { address: other as Hex, transferGas: GAS },
        now,
      ),
    isIdle: () => jobs.size === 0,
    close: relayer.close,
  } as EvmChain
}

const NO_CODE: Promise<Answer> = Promise.resolve({ kind: 'result', value: '0x' })

type Sender = {
  readonly replica: Replica
  readonly key: Hex
  readonly id: Hex
  /** Transactions that its sends under way have broadcast, by payment. */
  readonly sending: Map<Hex, Set<Hex>>
  readonly send: ReturnType<typeof evmRelayer>['send']
}

async function settleOnce(relay: Relay, { replica, key, id, send, sending }: Sender): Promise<Settlement> {
  judgeHolder(relay, replica, { key, id })
  const before = await fateOf(relay, replica, id)
  if (before) return before
  const hashes = new Set<Hex>()
  sending.set(id, hashes)
  const sent = await send({ to: key, data: id, gas: GAS }, relay.now)
  sending.delete(id)
  if (sent.kind === 'rejected') relay.givenUp.push({ id, hashes })
  say(relay, () => `${replica.name}: ${id} is ${sent.kind}`)
  return await outcomeOf(relay, replica, { id, sent })
}

async function outcomeOf(
  relay: Relay,
  replica: Replica,
  { id, sent }: { id: Hex; sent: SendResult },
): Promise<Settlement> {
  if (sent.kind === 'rejected') return { kind: sent.isUnderfunded ? 'unavailable' : 'unknown', reason: sent.reason }
  if (sent.kind === 'mined' && sent.receipt.success) return settled(sent.receipt.transactionHash)
  return (await fateOf(relay, replica, id)) ?? { kind: 'unknown', reason: 'it may still be mined' }
}

const settled = (transaction: string): Settlement => ({
  kind: 'settled',
  receipt: { transaction, network: 'eip155:8453', payer: '0x', amount: '1' },
})

/** Undefined while the payment is open. A node that is behind does not see it yet. */
function fateOf(relay: Relay, replica: Replica, id: Hex): Promise<Settlement | undefined> {
  if (relay.rule.ignoresFate) return Promise.resolve(undefined)
  return ask(relay, replica, `fate of ${id}`, async () => {
    const hash = relay.node.executed.get(id)
    return hash ? settled(hash) : undefined
  })
}

function noteBroadcast(relay: Relay, sending: Sender['sending'], raw: Hex): void {
  const { data, max, hash } = parsed(raw)
  sending.get(data)?.add(hash)
  for (const { hashes } of relay.givenUp) hashes.delete(hash)
  if (max > CAP) violate(relay, 'capped', `${max} wei are offered for one unit of gas`)
}

/**
 * A payment that names its account may have waited for the lease of that key, and begin when the lease is over: the
 * nonce then decides, and the sender is closed with the next renewal.
 */
function judgeHolder(relay: Relay, replica: Replica, { key, id }: Pick<Sender, 'key' | 'id'>): void {
  if (relay.disturbances > 0 || relay.sales.some((sale) => sale.id === id && sale.account)) return
  const lease = relay.leases.get(key)
  if (lease?.owner !== replica.name || lease.until <= relay.now)
    violate(relay, 'holder', `${replica.name} sends with ${key}, which ${lease?.owner ?? 'nobody'} has leased`)
}

/** The number of a payment stands for its signature. */
const idOf = ({ payload }: Payment): Hex => payload.signature as Hex
