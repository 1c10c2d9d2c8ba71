/** Histories of buyers at `/mcp`, and the rules without which they break a law. */
import { beforeAll, expect, test } from 'bun:test'
import { scaled } from '../../scope.ts'
import { campaign, replay } from '../campaign.ts'
import type { LawName } from '../ledger.ts'
import { AS_BUILT } from '../setup.ts'
import { type Doors, openDoors } from './doors.ts'
import { behindDoors, mcpFlags, THROUGH_MCP } from './rules.ts'

const SEED = 7
const RUNS = scaled(60, 1_000)
/** Within so many runs a rule that is off must be missed. */
const ENOUGH = 1_000

let doors: Doors
beforeAll(async () => {
  doors = await openDoors(AS_BUILT)
}, 60_000)

test(`${RUNS} random histories of tools, batches, cancellations and resends keep every law (seed ${SEED})`, async () => {
  const rule = behindDoors(doors, THROUGH_MCP)
  const { found, runs, ms } = await campaign(rule, { seed: SEED, runs: RUNS })
  console.log(`seed ${SEED}: ${runs} runs through MCP at ${Math.round((runs / ms) * 1000)}/s`)
  const [first] = found
  if (first)
    throw new Error(
      `bun test/simulation/run.ts --replay ${first.seed} --mcp\n${(await replay(rule, first.seed)).lines.join('\n')}`,
    )
}, 300_000)

test('histories hold calls in every shape, and calls whose client cancels or has gone', async () => {
  const rule = behindDoors(doors, THROUGH_MCP)
  const lines = (await Array.fromAsync({ length: 12 }, async (_, seed) => (await replay(rule, seed)).lines)).flat()
  for (const shape of ['plain', 'beside', 'progress', 'newer', 'batch', 'a batch that cancels it'])
    expect(lines.filter((line) => line.endsWith(`   as ${shape}`)).length).toBeGreaterThan(0)
}, 300_000)

for (const flag of mcpFlags)
  test(`without the rule that ${flag.name}, a law is broken`, async () => {
    const { found, runs } = await campaign(behindDoors(doors, flag), {
      seed: flag.seed ?? 3,
      runs: ENOUGH,
      isFirst: true,
    })
    console.log(found[0] ? `after ${runs} runs: ${found[0].violation?.text}` : `nothing in ${runs} runs`)
    expect(flag.breaks).toContain(found[0]?.violation?.law as LawName)
  }, 300_000)
