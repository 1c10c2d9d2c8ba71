/**
 * The attacks as a law: each on a gateway of its own, and nothing of it may be lost. Left out, for their time: raids
 * and new wallets (`take`), whose laws are tests of the engine, and slips of the operator (`deletion`), which have
 * their own. `bun run attacks` has all.
 */
import { beforeAll, describe, expect, test } from 'bun:test'
import { attempt, ATTACKS, lostIn } from './run.ts'

const FAMILIES = ['read', 'drain', 'hang', 'impersonate', 'burn', 'claims', 'stall']
const CHOSEN = ATTACKS.filter(
  ({ family, name }) => FAMILIES.includes(family) || name.startsWith('twenty images at once'),
)
/** Gateways at a time: each is a process with a chain. */
const TOGETHER = 3
const MAX_MS = 280_000

type Row = Awaited<ReturnType<typeof attempt>>
const rows = CHOSEN.map(() => Promise.withResolvers<Row>())

beforeAll(() => {
  const waiting = [...CHOSEN.entries()]
  for (const { promise } of rows) promise.catch(() => {})
  for (let i = 0; i < TOGETHER; i++) void work()

  async function work(): Promise<void> {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [index, attack] = next
      await attempt(attack).then(rows[index]?.resolve, rows[index]?.reject)
    }
  }
})

describe('an attack over HTTP by a stranger with an empty wallet', () => {
  for (const [index, { family, name }] of CHOSEN.entries())
    test(
      `is held: ${family}: ${name}`,
      async () => {
        const row = await rows[index]?.promise
        expect(row && { tried: row.tried > 0, lost: lostIn(row), note: row.note }).toEqual({
          tried: true,
          lost: 0,
          note: expect.any(String),
        })
      },
      MAX_MS,
    )

  test('of every family is there', () => {
    expect(new Set(CHOSEN.map(({ family }) => family))).toEqual(new Set([...FAMILIES, 'take']))
  })
})
