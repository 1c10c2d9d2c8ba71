import { expect, test } from 'bun:test'
import { scaled } from '../../scope.ts'
import { LAWS, type LawName } from './ledger.ts'
import { channelCampaign, channelReplay } from './campaign.ts'
import { CHANNELS, channelFlags } from './rules.ts'

const SEED = 7
const RUNS = scaled(50, 2_000)
/** Within so many runs a rule that is off must be missed. */
const ENOUGH = 5_000

test(`${RUNS} random histories of channels, deposits, withdrawals, claims and crashes keep every law (seed ${SEED})`, async () => {
  const { found, runs, steps, ms } = await channelCampaign(CHANNELS, { seed: SEED, runs: RUNS })
  console.log(`seed ${SEED}: ${runs} runs of ${steps} steps at ${Math.round((runs / ms) * 1000)}/s`)
  const [first] = found
  if (!first) return
  const { lines } = await channelReplay(CHANNELS, first.seed)
  throw new Error(`bun test/simulation/run.ts --channels --replay ${first.seed}\n${lines.join('\n')}`)
}, 600_000)

test('a seed makes the same history of channels again, and two seeds two of them', async () => {
  const transcript = (seed: number) => channelReplay(CHANNELS, seed).then(({ lines }) => lines.join('\n'))
  expect(await transcript(1)).toBe(await transcript(1))
  expect(await transcript(1)).not.toBe(await transcript(2))
})

for (const rule of channelFlags) {
  test(`without the rule that ${rule.name}, a law of channels is broken`, async () => {
    const { found, runs } = await channelCampaign(rule, { seed: rule.seed ?? 3, runs: ENOUGH, isFirst: true })
    const [first] = found
    console.log(first ? `after ${runs} runs, seed ${first.seed}: ${first.violation?.text}` : `nothing in ${runs} runs`)
    expect(rule.breaks).toContain(first?.violation?.law as LawName)
  }, 300_000)
}

test('every law of channels is broken by some rule that is off', () => {
  const broken = new Set<LawName>(channelFlags.flatMap(({ breaks = [] }) => breaks))
  expect(Object.keys(LAWS).filter((law) => !broken.has(law as LawName))).toEqual([])
})
