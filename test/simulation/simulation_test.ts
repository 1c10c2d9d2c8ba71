import { expect, test } from 'bun:test'
import { scaled } from '../scope.ts'
import { LAWS, type LawName } from './ledger.ts'
import { campaign, replay } from './campaign.ts'
import type { Run } from './explore.ts'
import { ruledStorage } from './ruled_storage.ts'
import { featureFlags } from './rules.ts'
import { AS_BUILT, BY_USE, IN_BAD_WEATHER, IN_STORMS, type Rule, WITHIN_LIMITS } from './setup.ts'
import { upgradeFlags } from './upgrades/rules.ts'

const SEED = 7
/** With those of the ruled storage 1,500; `bun run test:full` adds 60,000 (test/run.ts). */
const RUNS = 1_000
const HARSH_RUNS = scaled(300, 10_000)
const STORM_RUNS = scaled(150, 5_000)
const BY_USE_RUNS = scaled(200, 10_000)
const LIMITED_RUNS = scaled(200, 10_000)
/** Within so many runs a rule that is off must be missed. */
const ENOUGH = 20_000

async function expectNone(rule: Rule, found: readonly Run[]): Promise<void> {
  const [first] = found
  if (!first) return
  const { lines } = await replay(rule, first.seed)
  throw new Error(
    `bun test/simulation/run.ts --replay ${first.seed}${rule.isHarsh ? ' --harsh' : ''}${rule.isStormy ? ' --storm' : ''}${rule.isByUse ? ' --use' : ''}${rule.limits ? ' --limits' : ''}\n${lines.join('\n')}`,
  )
}

test(`${RUNS} random histories of posts, polls, crashes and bad weather keep every law (seed ${SEED})`, async () => {
  const { found, runs, ms } = await campaign(AS_BUILT, { seed: SEED, runs: RUNS })
  console.log(`seed ${SEED}: ${runs} runs at ${Math.round((runs / ms) * 1000)}/s`)
  await expectNone(AS_BUILT, found)
}, 300_000)

test(`${HARSH_RUNS} histories in bad weather, with chat and streams, keep every law (seed ${SEED})`, async () => {
  const { found, runs, ms } = await campaign(IN_BAD_WEATHER, { seed: SEED, runs: HARSH_RUNS })
  console.log(`seed ${SEED}: ${runs} runs in bad weather at ${Math.round((runs / ms) * 1000)}/s`)
  await expectNone(IN_BAD_WEATHER, found)
}, 300_000)

test(`${STORM_RUNS} histories with crashes in bad weather keep every law (seed ${SEED})`, async () => {
  const { found, runs, ms } = await campaign(IN_STORMS, { seed: SEED, runs: STORM_RUNS })
  console.log(`seed ${SEED}: ${runs} runs in storms at ${Math.round((runs / ms) * 1000)}/s`)
  await expectNone(IN_STORMS, found)
}, 300_000)

test(`${BY_USE_RUNS} histories in bad weather, charged by use, keep every law (seed ${SEED})`, async () => {
  const { found, runs, ms } = await campaign(BY_USE, { seed: SEED, runs: BY_USE_RUNS })
  console.log(`seed ${SEED}: ${runs} runs charged by use at ${Math.round((runs / ms) * 1000)}/s`)
  await expectNone(BY_USE, found)
}, 300_000)

test(`${LIMITED_RUNS} histories with limits on wallets keep every law (seed ${SEED})`, async () => {
  const { found, runs, ms } = await campaign(WITHIN_LIMITS, { seed: SEED, runs: LIMITED_RUNS })
  console.log(`seed ${SEED}: ${runs} runs within limits at ${Math.round((runs / ms) * 1000)}/s`)
  await expectNone(WITHIN_LIMITS, found)
}, 300_000)

test('a seed makes the same history again, and two seeds two of them', async () => {
  const transcript = (seed: number) => replay(AS_BUILT, seed).then(({ lines }) => lines.join('\n'))
  expect(await transcript(1)).toBe(await transcript(1))
  expect(await transcript(1)).not.toBe(await transcript(2))
})

test('the storage whose rules can be switched off keeps every law while they are on', async () => {
  const rule: Rule = { name: 'ruled', storage: () => ruledStorage() }
  const { found } = await campaign(rule, { seed: SEED, runs: scaled(200, 1_000) })
  await expectNone(rule, found)
}, 300_000)

for (const rule of featureFlags) {
  test(`without the rule that ${rule.name}, a law is broken`, async () => {
    const { found, runs } = await campaign(rule, { seed: rule.seed ?? 3, runs: ENOUGH, isFirst: true })
    const [first] = found
    console.log(first ? `after ${runs} runs, seed ${first.seed}: ${first.violation?.text}` : `nothing in ${runs} runs`)
    expect(rule.breaks).toContain(first?.violation?.law as LawName)
    const again = await replay(rule, first?.seed ?? 0)
    expect(again.violation).toEqual(first?.violation)
  }, 300_000)
}

test('a storage that throws is found: by its alert, or by the calls that it leaves stuck', async () => {
  const rule: Rule = {
    name: 'throws',
    storage: () => ({ ...ruledStorage(), callOf: () => Promise.reject(new Error('no such table')) }),
  }
  const { found } = await campaign(rule, { seed: SEED, runs: 100, isFirst: true })
  expect(['noSurprise', 'nothingStuck']).toContain(found[0]?.violation?.law ?? 'none')
})

test('every law is broken by some rule that is off', () => {
  const flags = [...featureFlags, ...upgradeFlags]
  const broken = new Set<LawName>(['noSurprise', ...flags.flatMap(({ breaks }) => breaks)])
  expect(Object.keys(LAWS).filter((law) => !broken.has(law as LawName))).toEqual([])
})
