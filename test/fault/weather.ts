/** Disruptions that last for a while and then end: each begins, waits, and mends what it did before it resolves. */
import { setTimeout as pause } from 'node:timers/promises'
import { encodeFunctionData, type Hex, parseAbi, toHex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { rpc } from '../../server/devnet/anvil.ts'
import { DEVNET_ASSET } from '../../server/devnet/mod.ts'
import type { Chance } from '../simulation/chance.ts'
import { betweenBlocks } from './between_blocks.ts'
import type { Replica } from './replicas.ts'
import { bury, type Fixture } from './fixture.ts'

/** `a` and `b` are the two replicas, in any order. `begun` is told when a wrong clock has begun to tick. */
export type Sky = Fixture & {
  readonly a: Replica
  readonly b: Replica
  readonly chance: Chance
  whenAnswerStarts(): void
}
export type Disruption = (sky: Sky) => Promise<void>

export const LEASE_SECONDS = 5
const PAUSE_MS = 8_000
const AWAY_MS = 10_000
const SKEW_MS = 35_000
const SKEWED_FOR_MS = 15_000

export const faults = {
  'a replica pauses for longer than its lease': async ({ a }) => await frozen(a, PAUSE_MS),

  'Postgres is away for 10 s': async ({ database }) => await away(database, AWAY_MS),

  'a replica pauses while Postgres is away': async ({ a, database }) => {
    await Promise.all([frozen(a, PAUSE_MS + 4_000), away(database, AWAY_MS)])
  },

  'a clock is 35 s ahead': async (sky) => await skewed(sky, SKEW_MS),
  'a clock is 35 s behind': async (sky) => await skewed(sky, -SKEW_MS),

  'the node answers 429': async ({ rpc }) => {
    rpc.setLimited(0.5)
    await pause(8_000)
    rpc.setLimited(1)
    await pause(4_000)
    rpc.setLimited(0)
  },

  'a replica is killed': async ({ b, pool }) => {
    const life = b.life()
    await b.kill()
    await bury(life, { pool }).catch(() => {})
    await b.start()
  },
} satisfies Readonly<Record<string, Disruption>>
export type DisruptionName = keyof typeof faults
/** Those that have to be there before the buyers come. */
export const EARLY: ReadonlySet<DisruptionName> = new Set(['a clock is 35 s ahead', 'a clock is 35 s behind'])

async function frozen(replica: Replica, ms: number): Promise<void> {
  replica.freeze()
  await pause(ms)
  replica.thaw()
}

/** The server is stopped as by a power cut, and comes back on the same port with the same data. */
async function away(database: Fixture['database'], ms: number): Promise<void> {
  if (!database)
    throw new Error(
      'Postgres can only be stopped where it is our own: DATABASE_URL and DATABASE_URL_TEST must not be set',
    )
  await database.kill()
  await pause(ms)
  await database.start()
}

/** A replica comes back with a clock that is wrong, works for a while, and is put right. */
async function skewed({ b, whenAnswerStarts }: Sky, aheadMs: number): Promise<void> {
  await b.stop()
  await b.start({ aheadMs })
  whenAnswerStarts()
  await pause(SKEWED_FOR_MS)
  await b.stop()
  await b.start()
}

const TOKEN = parseAbi([
  'function transfer(address to, uint256 value) returns (bool)',
  'function balanceOf(address account) view returns (uint256)',
])
const SINK: Hex = '0x000000000000000000000000000000000000dEaD'

/** A wallet moves everything elsewhere, past the gateway, by a transfer of its own. Resolves when it is empty. */
export async function drain({ address }: PrivateKeyAccount, { node: { url } }: Pick<Fixture, 'node'>): Promise<void> {
  const data = encodeFunctionData({ abi: TOKEN, functionName: 'balanceOf', args: [address] })
  const balance = async () =>
    BigInt(await betweenBlocks(() => rpc<Hex>(url, 'eth_call', [{ to: DEVNET_ASSET, data }, 'latest'])))
  await rpc(url, 'anvil_impersonateAccount', [address])
  await rpc(url, 'anvil_setBalance', [address, toHex(10n ** 18n)])
  await rpc(url, 'eth_sendTransaction', [
    { from: address, to: DEVNET_ASSET, data: transfer(await balance()), gas: toHex(200_000) },
  ])
  for (const until = performance.now() + 10_000; (await balance()) > 0n && performance.now() < until;) await pause(50)
}

const transfer = (units: bigint): Hex =>
  encodeFunctionData({ abi: TOKEN, functionName: 'transfer', args: [SINK, units] })
