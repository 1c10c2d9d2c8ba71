import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { apply } from './apply.ts'
import { mutants } from './mutants.ts'

const ROOT = join(import.meta.dirname, '../..')

test('each mutant of the money rules applies to the sources, once', () => {
  const stale = mutants.flatMap((mutant) => {
    const applied = apply(mutant, ROOT)
    return typeof applied === 'string' ? [`${mutant.name}: ${applied}`] : []
  })
  expect(mutants.length).toBeGreaterThanOrEqual(120)
  expect(stale).toEqual([])
})
