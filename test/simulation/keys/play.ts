/**
 * Runs of one API key: calls, refunds, claims, deposits, withdrawals and crashes at the same time, over the real parts
 * of channels and a model of the contract. Storage answers late, each time by another count of turns.
 */
import { channelClaims } from '../../../adapters/chains/evm/channels/claims.ts'
import { channelCosts } from '../../../adapters/chains/evm/channels/costs.ts'
import type { ChannelConfig } from '../../../adapters/chains/evm/channels/digests.ts'
import { keyCalls } from '../../../adapters/chains/evm/channels/keys/calls.ts'
import { childName, withoutChildren } from '../../../adapters/chains/evm/channels/keys/child_calls.ts'
import type { ReservedCall } from '../../../adapters/chains/evm/channels/keys/open_calls.ts'
import { channelRefunds } from '../../../adapters/chains/evm/channels/refunds/mod.ts'
import { channelStates } from '../../../adapters/chains/evm/channels/records.ts'
import type { ContractCall } from '../../../adapters/chains/evm/node/multicall.ts'
import { lower } from '../../../adapters/chains/lib/hex.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { Storage } from '../../../core/mod.ts'
import { keySalt } from '../../../core/x402/api_key.ts'
import { encodeFunctionData } from 'viem'
import { BATCH_SETTLEMENT, batchSettlementAbi as abi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import { type Contract, createContract, digests } from '../channels/contract.ts'
import { AUTHORIZER, signerOf } from '../channels/keys.ts'
import { ASSET, LAG_SECONDS, NETWORK, PAY_TO, WITHDRAW_DELAY } from '../channels/terms.ts'
import { type Chance, chance } from '../chance.ts'

/** Laws that a run must keep. */
export const LAWS = {
  sum: 'the charges add up to what the channel has charged',
  noWorkForNothing: 'a call that was admitted is charged when it ends',
  covered: 'a voucher of the key covers what is charged, and no more than was deposited',
  claimed: 'everything that was charged is claimed, and nothing else',
  children: 'children end with a refund that was sent, and with no other one',
  closed: 'what open calls of a closed key leave is sent back',
} as const
export type LawName = keyof typeof LAWS

export type KeyRule = {
  readonly name: string
  readonly storage?: (storage: Storage) => Storage
  /** Open calls reserve nothing when a refund asks. */
  readonly ignoresReserved?: boolean
  /** Children end when their key is to be closed, whatever comes of it. */
  readonly endsChildrenFirst?: boolean
}

type KeyRun = {
  readonly violation: { readonly law: LawName; readonly text: string } | undefined
  counts: Counts
}
type Counts = Record<'charged' | 'refused' | 'refunds' | 'claims' | 'crashes' | 'lent' | 'closed', number>

const START = 1_795_132_800_000
const END = START + 86_400_000
const PRICE = 2_000n
const KEY = signerOf('an API key')
const PAYER = signerOf('who has paid into the key')
const CONFIG: ChannelConfig = {
  payer: PAYER.address,
  payerAuthorizer: KEY.address,
  receiver: lower(PAY_TO),
  receiverAuthorizer: AUTHORIZER.address,
  token: lower(ASSET),
  withdrawDelay: WITHDRAW_DELAY,
  salt: keySalt(KEY.address),
}
const ID = digests.channelId(CONFIG)

const turns = async (count: number): Promise<void> => {
  for (let left = count; left > 0; left--) await new Promise((resolve) => setImmediate(resolve))
}

/** Records are read and written now, and the answers arrive in any order. */
function late(storage: Storage, { below }: Chance): Storage {
  const verbs = Object.entries(storage).map(([name, verb]) => [
    name,
    typeof verb === 'function' && /^(get|move|put|list)Record/.test(name)
      ? async (...given: unknown[]) => {
          await turns(below(3))
          const answer = await (verb as (...all: unknown[]) => unknown)(...given)
          await turns(below(3))
          return answer
        }
      : verb,
  ])
  return { ...storage, ...Object.fromEntries(verbs) }
}

type World = { readonly contract: Contract; now: number; readonly rule: KeyRule; readonly dice: Chance }

/** A process of the gateway, until it is killed. */
function processOn(memory: Storage, world: World) {
  const { contract, rule, dice } = world
  const storage = late(rule.storage?.(memory) ?? { ...memory }, dice)
  const view = async (calls: readonly ContractCall[]) => {
    const head = contract.head()
    return {
      kind: 'seen' as const,
      time: Math.floor(world.now / 1000),
      results: calls.map((each) => contract.call(each, head)),
    }
  }
  const reads = { view }
  const relayer = {
    async send(call: ContractCall) {
      await turns(dice.below(3))
      const { hash, isSuccess, block, logs } = contract.send(call)
      const receipt = { transactionHash: hash, block, success: isSuccess, logs }
      return { kind: 'mined' as const, receipt, hasOtherNonces: false }
    },
  }
  const rpc = {
    request: async () => ({ kind: 'result' as const, value: `0x${contract.head().number.toString(16)}` }),
  }
  const costs = channelCosts({ gasPrice: () => 0n, coinPrice: 0, minDeposit: 1n, gasPerWallet: 10n ** 12n })
  const states = channelStates(storage, { network: NETWORK, seller: AUTHORIZER.address, turn: async () => {} })
  const authorizer = {
    address: AUTHORIZER.address,
    sign: async ({ hash }: { hash: `0x${string}` }) => AUTHORIZER.sign(hash),
  }
  const times = { network: NETWORK, withdrawDelay: WITHDRAW_DELAY, lagSeconds: LAG_SECONDS }
  const calls = keyCalls({ storage, states, digests, reads }, times)
  const reserved: typeof calls.reserved = (state, now) => (rule.ignoresReserved ? 0n : calls.reserved(state, now))
  const shared = { rpc, reads, relayer, states, digests, authorizer, costs }
  const refunds = channelRefunds({ ...shared, reserved } as never, times)
  const claims = channelClaims(
    { ...shared, refunds } as never,
    {
      ...times,
      claimAbove: 1n,
      takeLease: async () => true,
      alert: () => {},
    } as never,
  )
  return { states, calls, refunds, claims, isAlive: true }
}
type Process = ReturnType<typeof processOn>

/** One run. `seed` decides everything in it. */
export async function play(rule: KeyRule, seed: number): Promise<KeyRun> {
  const dice = chance(seed)
  const isShared = dice.isLucky(0.5)
  const memory: Storage = { ...memoryStorage(), ...(isShared && { isShared: true as const }) }
  const world: World = { contract: createContract(), now: START, rule, dice }
  world.contract.advance(world.now)
  world.contract.gift(ID, PRICE * BigInt(2 + dice.below(6)))
  const processes = Array.from({ length: isShared ? 2 : 1 }, () => processOn(memory, world))
  const counts: Counts = { charged: 0, refused: 0, refunds: 0, claims: 0, crashes: 0, lent: 0, closed: 0 }
  let [sum, made] = [0n, 0]
  let violation: KeyRun['violation']
  const violate = (law: LawName, text: string) => (violation ??= { law, text: `seed ${seed}: ${text}` })
  const at = () => ({ now: world.now, signal: AbortSignal.timeout(60_000) })
  await processes[0]?.calls.recorded({ channelId: ID, config: CONFIG }, at())

  const signer = { address: KEY.address, sign: async (digest: `0x${string}`) => KEY.sign(digest), close: () => {} }
  const children: string[] = []
  let mayBeClosed = false

  /** Lends a part to a child, until long after this run. */
  async function lend(process: Process): Promise<void> {
    const name = childName(`0x${String(made++).padStart(40, '0')}`)
    const cap = { channelId: ID, config: CONFIG, name, price: PRICE, until: END, isLate: false, signer }
    if ((await process.calls.secure(cap, at())).kind !== 'secured') return void counts.refused++
    children.push(name)
    counts.lent++
  }

  async function buy(process: Process): Promise<void> {
    const child = children.length > 0 && dice.isLucky(0.4) ? dice.pick(children) : undefined
    const isLate = child === undefined && dice.isLucky(0.7)
    const name = `${child ?? 'key'}/${made++}`
    const call: ReservedCall = {
      channelId: ID,
      config: CONFIG,
      name,
      price: PRICE,
      until: world.now + 600_000,
      isLate,
      ...(child === undefined && { signer }),
    }
    const secured = await process.calls.secure(call, at())
    if (secured.kind !== 'secured') return void counts.refused++
    await turns(dice.below(8))
    if (!process.isAlive) return
    if (dice.isLucky(0.2)) return await process.calls.release(ID, name, world.now)
    const due = 1n + BigInt(dice.below(Number(PRICE)))
    const settled = await process.calls.settle(call, { ...at(), due })
    // A process that was killed may have stored its charge.
    if (settled.kind === 'settled') {
      sum += due
      counts.charged++
    } else if (process.isAlive) violate('noWorkForNothing', `${name}: ${JSON.stringify(settled)}`)
  }

  /** As whoever has the key, or its wallet, closes it. */
  async function closeKey(process: Process): Promise<void> {
    if (rule.endsChildrenFirst) await process.states.change(ID, world.now, withoutChildren)
    const closing = { kind: 'closing', channelId: ID, config: CONFIG, closed: withoutChildren } as const
    const outcome = await process.refunds.close(closing, { now: world.now })
    mayBeClosed ||= outcome.kind === 'refunded' || outcome.kind === 'unknown'
    if (outcome.kind === 'refunded') counts.closed++
  }

  /** As a client of the scheme asks for what is left. */
  async function refund(process: Process): Promise<void> {
    const state = await process.states.get(ID, world.now)
    const request = { kind: 'refund', config: CONFIG, channelId: ID, ceiling: state?.charged ?? 0n, signature: '0x' }
    const proven = { ...at(), isFree: async () => true, isFrom: async () => true }
    const ours = { ...request, key: '', fundedBy: '', amount: undefined }
    const outcome = await process.refunds.refund(ours as never, proven)
    if (outcome.kind === 'refunded') counts.refunds++
  }

  async function claim(process: Process): Promise<void> {
    await process.claims.claimDue(world.now, 1n)
    counts.claims++
  }

  async function somebody(): Promise<void> {
    await turns(dice.below(10))
    const process = dice.pick(processes)
    if (dice.isLucky(0.55)) return await buy(process)
    if (dice.isLucky(0.25)) return await lend(process)
    if (dice.isLucky(0.25)) return await refund(process)
    if (dice.isLucky(0.35)) return await closeKey(process)
    if (dice.isLucky(0.5)) return await claim(process)
    if (dice.isLucky(0.5)) return world.contract.gift(ID, PRICE)
    withdraw()
  }

  /** The payer's own transaction: never final, because the gateway looks within the delay. */
  function withdraw(): void {
    const args = [CONFIG, world.contract.escrow(ID).balance] as const
    const data = encodeFunctionData({ abi, functionName: 'initiateWithdraw', args })
    world.contract.send({ to: BATCH_SETTLEMENT, data }, PAYER.address)
  }

  for (let round = 0; round < 4 && !violation; round++) {
    await Promise.all(Array.from({ length: 3 + dice.below(6) }, somebody))
    world.now += dice.pick([1_000, 31_000, 400_000, 700_000])
    world.contract.advance(world.now)
    if (!dice.isLucky(0.3)) continue
    const dying = dice.below(processes.length)
    ;(processes[dying] as Process).isAlive = false
    processes[dying] = processOn(memory, world)
    counts.crashes++
  }
  // All is well again: reservations end, and everything is claimed.
  world.now += 700_000
  world.contract.advance(world.now)
  const [last] = processes as [Process]
  const state = await last.states.get(ID, world.now)
  if (state?.charged !== sum) violate('sum', `${sum} was charged, and the channel says ${state?.charged}`)
  if (state && state.ceiling < state.charged) violate('covered', `${state.charged} charged, ${state.ceiling} signed`)
  if (state && state.ceiling > 0n && state.signature !== KEY.sign(digests.voucher(ID, state.ceiling)))
    violate('covered', 'the voucher is not of the key')
  await claim(last)
  await claim(last)
  const { claimed } = world.contract.escrow(ID)
  const ended = await last.states.get(ID, world.now)
  if (ended?.closing === 'rest') violate('closed', 'a closed key waits for calls that have ended')
  const lost = children.filter((name) => state?.reserved?.[name] === undefined)
  if (lost.length > 0 && !mayBeClosed) violate('children', `${lost[0]} has ended`)
  if (claimed !== sum) violate('claimed', `${sum} was charged, and ${claimed} is claimed`)
  return { violation, counts }
}
