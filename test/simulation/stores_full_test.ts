import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { LawName } from './ledger.ts'
import { campaign, replay } from './campaign.ts'
import { featureFlags } from './rules.ts'
import { AS_BUILT, type Rule } from './setup.ts'
import { openStore, type Store } from './stores.ts'

const SEED = 7
const SEEDS = Array.from({ length: 16 }, (_, index) => index + 1)
/** Questions to a storage of the reconciler, and of a process that takes over from one that crashed. */
const PATHS = [
  / tends #\d+: unsettled/,
  / tends #\d+: lostCalls/,
  / tends #\d+: claimSettlement/,
  / tends #\d+: finishSettlement/,
  / takes over: lostCalls/,
]

const transcript = async (rule: Rule, seed: number): Promise<string> => (await replay(rule, seed)).lines.join('\n')
const telling = (rule: Rule): Promise<string[]> => Array.fromAsync(SEEDS, (seed) => transcript(rule, seed))

describe.each([
  { name: 'sqlite', runs: 300 },
  { name: 'postgres', runs: 120 },
] as const)('on $name', ({ name, runs: wanted }) => {
  let store: Store
  let rule: Rule
  beforeAll(async () => {
    store = await openStore(name)
    rule = { ...AS_BUILT, storage: store.fresh }
  }, 300_000)
  afterAll(() => store.close())

  test(`${wanted} random histories of posts, polls, crashes and bad weather keep every law (seed ${SEED})`, async () => {
    const { found, runs, ms } = await campaign(rule, { seed: SEED, runs: wanted })
    console.log(`${name}, seed ${SEED}: ${runs} runs at ${Math.round((runs / ms) * 1000)}/s`)
    const [first] = found
    if (first)
      throw new Error(
        `bun test/simulation/run.ts --storage ${name} --replay ${first.seed}\n${await transcript(rule, first.seed)}`,
      )
  }, 300_000)

  test('a seed makes the same history again, reconciling and taking over included', async () => {
    const before = await telling(rule)
    expect(await telling(rule)).toEqual(before)
    expect(PATHS.filter((path) => !before.some((lines) => path.test(lines)))).toEqual([])
  }, 300_000)

  for (const off of featureFlags.filter(
    ({ name: each }) => each === 'unknown is not refused' || each.startsWith('dead means'),
  )) {
    test(`without the rule that ${off.name}, a law is broken`, async () => {
      const { found } = await campaign({ ...off, storage: store.fresh }, { seed: 3, runs: 200, isFirst: true })
      expect(off.breaks).toContain(found[0]?.violation?.law as LawName)
    }, 300_000)
  }
})

test('a seed makes the same history on SQLite as in memory', async () => {
  const store = await openStore('sqlite')
  try {
    expect(await telling({ ...AS_BUILT, storage: store.fresh })).toEqual(await telling(AS_BUILT))
  } finally {
    await store.close()
  }
})

test('what a real storage throws fails the question that it was asked', async () => {
  const store = await openStore('sqlite')
  try {
    await expect(store.fresh().openCall(undefined as never, undefined as never, undefined as never)).rejects.toThrow()
    expect(await store.fresh().getCall('nobody')).toBeUndefined()
  } finally {
    await store.close()
  }
})
