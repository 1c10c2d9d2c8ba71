/** Where a soak is played: two replicas on one Postgres and one gateway on SQLite, before one chain and one vendor. */
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, parseEther, toHex } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAddress } from 'viem/accounts'
import { EVM_SCHEMES } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { rpc } from '../../server/devnet/anvil.ts'
import { chance, seedOf } from '../simulation/chance.ts'
import { type Fixture, fixture, onEvm } from '../fault/fixture.ts'
import { approvePermit2, officialPayers, type Payers } from '../fault/payers.ts'
import { guard, type Replica, replica, writeConfig } from '../fault/replicas.ts'
import { studio } from '../fault/studio.ts'
import { talker } from '../fault/talker.ts'
import { LEASE_SECONDS } from '../fault/weather.ts'

const PROBE = join(import.meta.dirname, 'probe.ts')
const FILMING_MS = 500

/** A ledger with the gateways that sell from it, and buyers who seller nowhere else. */
export type Seller = {
  readonly name: string
  readonly replicas: readonly Replica[]
  readonly buyers: PrivateKeyAccount[]
  readonly payers: Payers
}

export type Town = {
  readonly postgres: Fixture
  readonly sqlite: Replica
  /** The database file of `sqlite`. */
  readonly file: string
  readonly sellers: readonly [Seller, Seller]
  /** Where gateways write about themselves, a file for each port. */
  readonly probes: string
}

type TownOptions = { readonly seed: number; readonly buyers: number; readonly probeMs: number }

/** Everything that it starts is in `undo`, to be ended from the last to the first. */
export async function town(undo: (() => unknown)[], { seed, buyers, probeMs }: TownOptions): Promise<Town> {
  const films = studio()
  undo.push(() => films.stop())
  const filming = setInterval(() => films.finish(), FILMING_MS)
  undo.push(() => clearInterval(filming))
  const talks = talker()
  undo.push(() => talks.stop())
  const dir = mkdtempSync(join(tmpdir(), 'farebox-soak-'))
  const guarding = guard(dir)
  undo.push(() => guarding.end())
  const probes = join(dir, 'probes')
  const env = { SOAK_PROBE_DIR: probes, SOAK_PROBE_MS: String(probeMs) }
  const postgres = await fixture(undo, {
    buyers: 2 * buyers,
    proxy: { chance: chance(seedOf(seed, 0)), slowMs: 300, silentShare: 0 },
    films: films.origin,
    talks: talks.origin,
    leaseSeconds: LEASE_SECONDS,
    schemes: EVM_SCHEMES,
    hasKeys: true,
    preload: PROBE,
    env,
  })
  const { node, people } = postgres
  await approvePermit2(node.url, people)

  const own = join(dir, 'sqlite')
  const [relayer, other] = [generatePrivateKey(), generatePrivateKey()]
  for (const key of [relayer, other])
    await rpc<Hex>(node.url, 'anvil_setBalance', [privateKeyToAddress(key), toHex(parseEther('1000'))])
  mkdirSync(own)
  writeConfig(own, {
    gateways: onEvm(privateKeyToAddress(generatePrivateKey()), EVM_SCHEMES, true),
    media: join(own, 'media'),
    films: films.origin,
    talks: talks.origin,
    leaseSeconds: LEASE_SECONDS,
  })
  const file = join(own, 'farebox.db')
  const sqlite = await replica({
    name: 'sqlite',
    dir: own,
    databaseUrl: `sqlite:${file}`,
    env: {
      POLL_KEYS: '5e'.repeat(32),
      RELAYER_A: relayer,
      RELAYER_B: other,
      CHANNEL_KEY: generatePrivateKey(),
      XAI_API_KEY: 'key',
      XAI_BASE_URL: films.origin,
      RPC_URL: postgres.rpc.urlOf('sqlite'),
      ...env,
    },
    guard: guarding,
    preload: PROBE,
  })
  undo.push(() => sqlite.stop())
  await sqlite.start()

  const payers = officialPayers(node.url)
  const sellers = [
    { name: 'Postgres', replicas: postgres.replicas, buyers: people.slice(0, buyers), payers },
    { name: 'SQLite', replicas: [sqlite], buyers: people.slice(buyers), payers },
  ] as const
  return { postgres, sqlite, file, sellers, probes }
}
