/** All attacks as a law: each on a gateway of its own, and nothing of it may be lost. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { attempt, ATTACKS, lostIn } from './run.ts'

const FAMILIES = ['read', 'take', 'drain', 'hang', 'impersonate', 'burn', 'claims', 'stall', 'deletion', 'keys', 'mpp']
/** Gateways at a time: each is a process with a chain. */
const TOGETHER = 3
const MAX_MS = 480_000

type Row = Awaited<ReturnType<typeof attempt>>
const rows = ATTACKS.map(() => Promise.withResolvers<Row>())

beforeAll(() => {
  const waiting = [...ATTACKS.entries()]
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
  for (const [index, { family, name }] of ATTACKS.entries())
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
    expect(new Set(ATTACKS.map(({ family }) => family))).toEqual(new Set(FAMILIES))
  })
})
