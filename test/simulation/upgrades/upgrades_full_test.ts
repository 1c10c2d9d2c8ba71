/** Histories of upgrades on Postgres, where replicas of two versions run side by side. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { campaign, replay } from '../campaign.ts'
import type { LawName } from '../ledger.ts'
import { type Fleets, openFleets } from './fleet.ts'
import { onFleets, UPGRADES, upgradeFlags } from './rules.ts'

const SEED = 7
const RUNS = 60

let fleets: Fleets
beforeAll(async () => {
  fleets = await openFleets('postgres')
}, 300_000)
afterAll(() => fleets.close(), 60_000)

test(`${RUNS} random histories of replicas of several versions keep every law (seed ${SEED})`, async () => {
  const rule = onFleets(fleets, UPGRADES)
  const { found, runs, ms } = await campaign(rule, { seed: SEED, runs: RUNS })
  console.log(
    `seed ${SEED}: ${runs} runs on Postgres at ${Math.round((runs / ms) * 1000)}/s, ${JSON.stringify(fleets.counts)}`,
  )
  const [first] = found
  if (first)
    throw new Error(
      `bun test/simulation/run.ts --replay ${first.seed} --upgrades --storage postgres\n${(await replay(rule, first.seed)).lines.join('\n')}`,
    )
}, 600_000)

for (const flag of upgradeFlags.filter(({ isShared }) => isShared))
  test(`without the rule that ${flag.name}, a law is broken`, async () => {
    const { found } = await campaign(onFleets(fleets, flag), { seed: 3, runs: 40, isFirst: true })
    expect(flag.breaks).toContain(found[0]?.violation?.law as LawName)
  }, 600_000)
