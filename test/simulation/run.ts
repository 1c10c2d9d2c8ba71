/**
 * `bun run model --seed 7` explores 400,000 histories, or `--runs` of them, theme by theme (`SHARES`), in `--workers`
 * processes of equal parts. The name of a theme plays that one alone:
 * - `--plain`: jobs and pictures by `exact`, crashes, two processes, a node that loses and delays;
 * - `--harsh`: bad weather: pauses, a storage that goes away, clocks that differ, a node that answers 429, wallets that
 *   take their money away, with chat and streams among what is sold;
 * - `--storm`: crashes in such weather, without streams;
 * - `--use`: buyers by `upto`, who pay what was used;
 * - `--limits`: limits on what wallets may spend, and new ones leave unpaid; an operator who blocks and closes;
 * - `--channels`: `batch-settlement`: channels with deposits, withdrawals, claims and backups; with `--thief` somebody
 *   who tries to read, take and drain; with `--load` hundreds of them;
 * - `--relayers`: replicas that share relayer keys, nonces and gas;
 * - `--archive`: months, with two processes that archive and prune;
 * - `--upgrades`: processes of the last release, this version and the next one, which start, migrate, die and are
 *   rolled back on one database: SQLite, or Postgres with `--storage postgres`;
 * - `--mcp`: buyers who call tools at `/mcp`, in every shape that clients send.
 * `--replay SEED` tells one run; `--without "rule"` does either with that rule switched off; `--rules` lists them;
 * `--storage sqlite` or `postgres` does either on that storage. Ends with 1 when a law was broken.
 */
import { parseArgs } from 'node:util'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { type ArchiveRule, LAWS as ARCHIVE_LAWS, play as playMonths } from './archive/play.ts'
import { seedOf } from './chance.ts'
import { LAWS } from './ledger.ts'
import { alone, type Campaign, campaign, campaignOf, type Plan, replay } from './campaign.ts'
import { LAWS as CHANNEL_LAWS } from './channels/ledger.ts'
import { channelCampaign, channelReplay } from './channels/campaign.ts'
import { CHANNELS, channelFlags, LOAD_OF_CHANNELS, THIEF_OF_CHANNELS } from './channels/rules.ts'
import type { Run } from './explore.ts'
import { openDoors } from './mcp/doors.ts'
import { behindDoors, mcpFlags, THROUGH_MCP } from './mcp/rules.ts'
import { featureFlags } from './rules.ts'
import { AS_BUILT, BY_USE, IN_BAD_WEATHER, IN_STORMS, type Rule, WITHIN_LIMITS } from './setup.ts'
import { play } from './relayers/play.ts'
import { LAWS as RELAYER_LAWS, type RelayerRule } from './relayers/relay.ts'
import { openStore, type Store, STORES, type StoreName } from './stores.ts'
import { openFleets } from './upgrades/fleet.ts'
import { onFleets, UPGRADES, upgradeFlags } from './upgrades/rules.ts'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '400000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    skip: { type: 'string', default: '0' },
    workers: { type: 'string', default: '2' },
    replay: { type: 'string' },
    without: { type: 'string' },
    rules: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
    plain: { type: 'boolean', default: false },
    harsh: { type: 'boolean', default: false },
    channels: { type: 'boolean', default: false },
    thief: { type: 'boolean', default: false },
    load: { type: 'boolean', default: false },
    storm: { type: 'boolean', default: false },
    use: { type: 'boolean', default: false },
    limits: { type: 'boolean', default: false },
    relayers: { type: 'boolean', default: false },
    archive: { type: 'boolean', default: false },
    upgrades: { type: 'boolean', default: false },
    mcp: { type: 'boolean', default: false },
    storage: { type: 'string', default: 'memory' },
  },
})

const THEME_FLAGS = [
  'plain',
  'harsh',
  'storm',
  'use',
  'limits',
  'channels',
  'thief',
  'load',
  'relayers',
  'archive',
  'upgrades',
  'mcp',
] as const

/** Share of all histories of a theme. Those of channels take several times as long. */
const SHARES: readonly (readonly [flags: readonly string[], share: number])[] = [
  [['--plain'], 0.415],
  [['--limits'], 0.06],
  [['--harsh'], 0.18],
  [['--storm'], 0.02],
  [['--use'], 0.15],
  [['--channels'], 0.1],
  [['--channels', '--thief'], 0.04875],
  [['--channels', '--load'], 0.00125],
  [['--relayers'], 0.02],
  [['--archive'], 0.0025],
  [['--upgrades'], 0.0015],
  [['--mcp'], 0.001],
]

function ruleNamed(name: string | undefined): Rule {
  if (name === undefined && values.use) return BY_USE
  if (name === undefined && values.limits) return WITHIN_LIMITS
  if (name === undefined && values.storm) return IN_STORMS
  if (name === undefined) return values.harsh ? IN_BAD_WEATHER : AS_BUILT
  const rule = featureFlags.find((each) => each.name === name)
  if (!rule) throw new RangeError(`no rule is called ${JSON.stringify(name)}; --rules lists them`)
  return rule
}

function storeNamed(name: string): StoreName {
  const found = STORES.find((each) => each === name)
  if (!found) throw new RangeError(`no storage is called ${JSON.stringify(name)}; there are ${STORES.join(', ')}`)
  return found
}

/** A rule that is switched off by a storage of its own cannot be judged on another. */
function on({ fresh }: Store, name: StoreName, rule: Rule): Rule {
  if (name === 'memory') return rule
  if (rule.storage) throw new RangeError(`the rule ${JSON.stringify(rule.name)} is switched off in memory only`)
  return { ...rule, storage: fresh }
}

type AnyRun = Pick<Run, 'seed' | 'steps'> & {
  readonly violation: { readonly law: string; readonly text: string } | undefined
}

function lawsOf(): Readonly<Record<string, string>> {
  if (values.relayers) return RELAYER_LAWS
  if (values.archive) return ARCHIVE_LAWS
  return values.channels ? CHANNEL_LAWS : LAWS
}

function describe({ seed, steps, violation }: AnyRun): string {
  const laws = lawsOf()
  return violation
    ? `seed ${seed}, ${steps} steps: ${laws[violation.law]}\n    ${violation.text}`
    : `seed ${seed}, ${steps} steps: every law holds`
}

function tell(run: AnyRun & Pick<Run, 'lines'>): boolean {
  console.log(run.lines.join('\n'))
  console.log(describe(run))
  return run.violation === undefined
}

async function explore(name: string, made: (plan: Plan) => Promise<Campaign<AnyRun>>): Promise<boolean> {
  const [seed, runs, skip] = [values.seed, values.runs, values.skip].map(Number) as [number, number, number]
  const storage = values.upgrades && values.storage === 'memory' ? 'sqlite' : values.storage
  console.log(`${runs} runs, seed ${seed}, ${values.without === undefined ? name : `without: ${name}`}, on ${storage}`)
  const { found, steps, ms } = await made({ seed, runs, skip })
  console.log(`${steps} steps, ${Math.round((runs / ms) * 1000)} runs/s, ${found.length} violations`)
  for (const run of found.slice(0, 10)) console.log(`  ${describe(run)}`)
  const [first] = found
  const without = values.without === undefined ? '' : ` --without ${JSON.stringify(values.without)}`
  const theme = THEME_FLAGS.flatMap((name) => (values[name] ? [` --${name}`] : [])).join('')
  if (first)
    console.log(`bun test/simulation/run.ts --replay ${first.seed} --storage ${values.storage}${theme}${without}`)
  return found.length === 0
}

type Shared = { readonly workers: number; readonly runs: number; readonly flags: readonly string[] }

/** The same runs in processes side by side, each of which prints its own. */
async function shared({ workers, runs, flags }: Shared): Promise<boolean> {
  const skip = Number(values.skip)
  const edges = Array.from({ length: workers + 1 }, (_, index) => Math.round((runs * index) / workers))
  const children = edges.slice(1).map((end, index) => {
    const start = edges[index] ?? 0
    const part = [`--seed=${values.seed}`, `--runs=${end - start}`, `--skip=${skip + start}`, '--workers=1']
    return Bun.spawn([process.execPath, import.meta.path, ...process.argv.slice(2), ...flags, ...part], {
      stdout: 'inherit',
      stderr: 'inherit',
    })
  })
  return (await Promise.all(children.map(({ exited }) => exited))).every((code) => code === 0)
}

async function allThemes(workers: number): Promise<boolean> {
  let isSound = true
  for (const [flags, share] of SHARES)
    isSound = (await shared({ workers, runs: Math.round(Number(values.runs) * share), flags })) && isSound
  return isSound
}

async function playChannels(): Promise<boolean> {
  const theme = values.load ? LOAD_OF_CHANNELS : CHANNELS
  const built = values.thief ? THIEF_OF_CHANNELS : theme
  const rule = values.without === undefined ? built : channelFlags.find((each) => each.name === values.without)
  if (!rule) throw new RangeError(`no rule is called ${JSON.stringify(values.without)}; --channels --rules lists them`)
  return values.replay === undefined
    ? await explore(rule.name, (plan) => channelCampaign(rule, plan))
    : tell(await channelReplay(rule, Number(values.replay)))
}

async function playRelayers(): Promise<boolean> {
  const rule: RelayerRule = { name: 'relayer keys, as built' }
  return values.replay === undefined
    ? await explore(rule.name, (plan) => campaignOf(() => (seed) => play(rule, seed), plan))
    : tell(await alone(() => play(rule, Number(values.replay), { isTraced: true })))
}

/** Its files are packed by the machine, so that it is played one run after another. */
async function playArchive(): Promise<boolean> {
  const rule: ArchiveRule = { name: 'archive, as built' }
  const once = (seed: number) => playMonths(rule, seed, memoryStorage)
  if (values.replay !== undefined) return tell({ ...(await once(Number(values.replay))), lines: [] })
  return await explore(rule.name, async ({ seed, runs, skip = 0 }) => {
    const started = performance.now()
    const all = []
    for (let run = 0; run < runs; run++) all.push(await once(seedOf(seed, skip + run)))
    const steps = all.reduce((sum, each) => sum + each.steps, 0)
    return { runs, steps, ms: performance.now() - started, found: all.filter(({ violation }) => violation) }
  })
}

async function playUpgrades(): Promise<boolean> {
  const flag = upgradeFlags.find(({ name }) => name === values.without)
  if (values.without !== undefined && !flag)
    throw new RangeError(`no rule is called ${JSON.stringify(values.without)}; --upgrades --rules lists them`)
  const fleets = await openFleets(values.storage === 'postgres' ? 'postgres' : 'sqlite')
  try {
    const rule = onFleets(fleets, flag ?? UPGRADES)
    return values.replay === undefined
      ? await explore(rule.name, (plan) => campaign(rule, plan))
      : tell(await replay(rule, Number(values.replay)))
  } finally {
    await fleets.close()
  }
}

async function playMcp(): Promise<boolean> {
  const flag = mcpFlags.find(({ name }) => name === values.without)
  if (values.without !== undefined && !flag)
    throw new RangeError(`no rule is called ${JSON.stringify(values.without)}; --mcp --rules lists them`)
  const rule = behindDoors(await openDoors(AS_BUILT), flag ?? THROUGH_MCP)
  return values.replay === undefined
    ? await explore(rule.name, (plan) => campaign(rule, plan))
    : tell(await replay(rule, Number(values.replay)))
}

function rulesOf(): readonly { readonly name: string }[] {
  if (values.upgrades) return upgradeFlags
  if (values.mcp) return mcpFlags
  return values.channels ? channelFlags : featureFlags
}

/** The comment that this file begins with. */
async function help(): Promise<boolean> {
  const [, text = ''] = /^\/\*\*\n([\s\S]*?)\n \*\//.exec(await Bun.file(import.meta.path).text()) ?? []
  console.log(text.replaceAll(/^ \* ?/gm, ''))
  return true
}

async function main(): Promise<boolean> {
  if (values.help) return await help()
  const workers = Number(values.workers)
  const isSingle = values.replay !== undefined || values.rules
  const isWhole =
    values.without === undefined && values.storage === 'memory' && !THEME_FLAGS.some((name) => values[name])
  if (!isSingle && isWhole) return await allThemes(workers)
  if (!isSingle && workers > 1) return await shared({ workers, runs: Number(values.runs), flags: [] })
  if (values.rules)
    console.log(
      rulesOf()
        .map((rule) => rule.name)
        .join('\n'),
    )
  if (values.rules) return true
  if (values.channels) return await playChannels()
  if (values.relayers) return await playRelayers()
  if (values.archive) return await playArchive()
  if (values.upgrades) return await playUpgrades()
  if (values.mcp) return await playMcp()
  const [built, name] = [ruleNamed(values.without), storeNamed(values.storage)]
  const store = await openStore(name)
  try {
    const rule = on(store, name, built)
    return values.replay === undefined
      ? await explore(rule.name, (plan) => campaign(rule, plan))
      : tell(await replay(rule, Number(values.replay)))
  } finally {
    await store.close()
  }
}

/** Processes that died in a history leave timers of their replies behind. */
process.exit((await main()) ? 0 : 1)
