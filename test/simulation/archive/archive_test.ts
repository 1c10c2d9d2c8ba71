/** The simulation of archive and retention, and the rules without which it finds a broken law. */
import { expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import type { Objects, Storage } from '../../../core/ports/mod.ts'
import { scaled } from '../../scope.ts'
import { seedOf } from '../chance.ts'
import { type ArchiveRule, LAWS, type LawName, play } from './play.ts'

const SEED = 7
/** Within so many runs a rule that is off must be missed. */
const ENOUGH = 300

const BUILT: ArchiveRule = { name: 'archive, as built' }

/** A store that packs a file anew after it was read for the first time. */
function repacking(objects: Objects): Objects {
  const read = new Set<string>()
  return {
    ...objects,
    async get(key) {
      const found = await objects.get(key)
      if (!found || !read.has(key)) {
        if (found) read.add(key)
        return found
      }
      const plain = Bun.gunzipSync(found.body as Uint8Array<ArrayBuffer>)
      return { ...found, body: Bun.gzipSync(plain, { level: 1 }) }
    },
  }
}

const off: readonly (ArchiveRule & { readonly breaks: readonly LawName[] })[] = [
  { name: 'an object is never changed', breaks: ['listed'], store: repacking },
  {
    name: 'what is not archived yet stays in the ledger',
    breaks: ['once'],
    storage: (storage) => ({ ...storage, ledgerRows: async () => [] }),
  },
  {
    name: 'what was archived is still summed',
    breaks: ['sums'],
    storage: (storage) => ({ ...storage, archiveCalls: (ids, day) => storage.archiveCalls(ids, day - 100_000) }),
  },
  {
    name: 'a result is kept for its time',
    breaks: ['readable'],
    storage: (storage) => ({ ...storage, prune: (now) => storage.prune(now + 50 * 86_400_000) }),
  },
]

for (const [name, open, runs] of [
  ['memory', memoryStorage, scaled(60, 1_500)],
  ['SQLite', () => sqliteStorage(':memory:'), scaled(10, 150)],
] satisfies readonly (readonly [string, () => Storage, number])[])
  test(`${name}: ${runs} random histories of an archive, with crashes and two processes, keep every law (seed ${SEED})`, async () => {
    const sum = { settled: 0, archived: 0, crashes: 0 }
    for (let run = 0; run < runs; run++) {
      const { violation, counts, seed } = await play(BUILT, seedOf(SEED, run), open)
      if (violation) throw new Error(`seed ${seed}: ${LAWS[violation.law]}: ${violation.text}`)
      for (const each of Object.keys(sum) as (keyof typeof sum)[]) sum[each] += counts[each]
    }
    for (const count of Object.values(sum)) expect(count).toBeGreaterThan(runs)
  }, 300_000)

for (const rule of off)
  test(`without the rule that ${rule.name}, a law of the archive is broken`, async () => {
    let found: LawName | undefined
    for (let run = 0; run < ENOUGH && !found; run++)
      found = (await play(rule, seedOf(SEED, run), memoryStorage)).violation?.law
    expect(rule.breaks).toContain(found as LawName)
  }, 300_000)

test('every law of the archive is broken by some rule that is off', () => {
  const broken = new Set<LawName>(off.flatMap(({ breaks }) => breaks))
  expect(Object.keys(LAWS).filter((law) => !broken.has(law as LawName))).toEqual([])
})
