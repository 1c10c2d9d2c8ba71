/** The simulation of API keys, and the rules without which it finds a broken law. */
import { beforeAll, expect, test } from 'bun:test'
import type { StoredRecord } from '../../../core/ports/mod.ts'
import type { Json } from '../../../core/lib/json.ts'
import { scaled } from '../../scope.ts'
import { warmUp } from '../channels/keys.ts'
import { seedOf } from '../chance.ts'
import { type KeyRule, LAWS, type LawName, play } from './play.ts'

const SEED = 11
const RUNS = scaled(60, 1_500)
/** Within so many runs a rule that is off must be missed. */
const ENOUGH = 400

const BUILT: KeyRule = { name: 'keys, as built' }
/** The record with a voucher for nothing. */
function unsigned(record: StoredRecord): StoredRecord {
  const { data, ...rest } = record.data as { readonly data: object }
  return { ...record, data: { ...rest, data: { ...data, ceiling: '0', signature: '0x' } } as unknown as Json }
}

const off: readonly (KeyRule & { readonly breaks: readonly LawName[] })[] = [
  {
    name: 'a record changes only from what was read',
    breaks: ['sum', 'noWorkForNothing'],
    storage: (storage) => ({
      ...storage,
      async moveRecord(record, from, now) {
        const stored = await storage.getRecord(record.kind, record.id, now)
        return await storage.moveRecord(record, stored?.data ?? from, now)
      },
    }),
  },
  {
    name: 'the voucher of a charge is kept with it',
    breaks: ['covered', 'claimed'],
    storage: (storage) => ({
      ...storage,
      moveRecord: (record, from, now) => storage.moveRecord(unsigned(record), from, now),
    }),
  },
  { name: 'a refund leaves what open calls may cost', breaks: ['noWorkForNothing', 'claimed'], ignoresReserved: true },
  { name: 'children end with the refund of their key', breaks: ['children'], endsChildrenFirst: true },
]

beforeAll(warmUp)

test(`${RUNS} random histories of a key keep every law (seed ${SEED})`, async () => {
  const sum = { charged: 0, refused: 0, refunds: 0, claims: 0, crashes: 0, lent: 0, closed: 0 }
  for (let run = 0; run < RUNS; run++) {
    const { violation, counts } = await play(BUILT, seedOf(SEED, run))
    if (violation) throw new Error(`${LAWS[violation.law]}: ${violation.text}`)
    for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += counts[name]
  }
  for (const count of Object.values(sum)) expect(count).toBeGreaterThan(RUNS / 10)
}, 600_000)

for (const rule of off)
  test(`without the rule that ${rule.name}, a law of keys is broken`, async () => {
    let found: LawName | undefined
    for (let run = 0; run < ENOUGH && !found; run++) found = (await play(rule, seedOf(SEED, run))).violation?.law
    expect(rule.breaks).toContain(found as LawName)
  }, 300_000)
