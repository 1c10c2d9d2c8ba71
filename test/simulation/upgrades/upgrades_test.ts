/** Histories of upgrades on SQLite, and the rules without which they break a law. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { scaled } from '../../scope.ts'
import { campaign, replay } from '../campaign.ts'
import type { LawName } from '../ledger.ts'
import { type Fleets, openFleets } from './fleet.ts'
import { onFleets, UPGRADES, upgradeFlags } from './rules.ts'

const SEED = 7
const RUNS = scaled(60, 1_000)
/** Within so many runs a rule that is off must be missed. */
const ENOUGH = 400

let fleets: Fleets
beforeAll(async () => {
  fleets = await openFleets('sqlite')
})
afterAll(() => fleets.close())

test(`${RUNS} random histories of upgrades, refused starts, torn migrations and returns keep every law (seed ${SEED})`, async () => {
  const rule = onFleets(fleets, UPGRADES)
  const { found, runs, ms } = await campaign(rule, { seed: SEED, runs: RUNS })
  console.log(
    `seed ${SEED}: ${runs} runs of upgrades at ${Math.round((runs / ms) * 1000)}/s, ${JSON.stringify(fleets.counts)}`,
  )
  const [first] = found
  if (first)
    throw new Error(
      `bun test/simulation/run.ts --replay ${first.seed} --upgrades\n${(await replay(rule, first.seed)).lines.join('\n')}`,
    )
  expect(fleets.counts.started).toBeGreaterThan(runs)
  for (const count of Object.values(fleets.counts)) expect(count).toBeGreaterThan(runs / 100)
}, 300_000)

for (const flag of upgradeFlags.filter(({ isShared }) => !isShared))
  test(`without the rule that ${flag.name}, a law is broken`, async () => {
    const rule = onFleets(fleets, flag)
    const { found, runs } = await campaign(rule, { seed: flag.seed ?? 3, runs: ENOUGH, isFirst: true })
    console.log(found[0] ? `after ${runs} runs: ${found[0].violation?.text}` : `nothing in ${runs} runs`)
    expect(flag.breaks).toContain(found[0]?.violation?.law as LawName)
  }, 300_000)
