/** The inner loop checks at least everything that may have broken. */
import { expect, test } from 'bun:test'
import { changedSince, EVERYTHING, stampsNow, withImporters } from './changed.ts'

const GRAPH = new Map([
  ['core/a.ts', []],
  ['core/b.ts', ['core/a.ts', 'viem']],
  ['core/c.ts', ['core/b.ts']],
  ['test/a_test.ts', ['core/a.ts']],
])

test('a changed file is checked with the files that import it', () => {
  expect(withImporters(['core/a.ts'], GRAPH)).toEqual(['core/a.ts', 'core/b.ts', 'test/a_test.ts'])
  expect(withImporters(['core/c.ts'], GRAPH)).toEqual(['core/c.ts'])
})

test('everything is checked when nothing is known, or when a setting of the tools has changed', () => {
  const now = { 'core/mod.ts': '2 10', 'tsconfig.json': '1 5' }
  expect(changedSince(undefined, now)).toEqual(EVERYTHING)
  expect(changedSince({ ...now, 'tsconfig.json': '0 5' }, now).everything).toBe(true)
  expect(changedSince({ ...now, 'test/old.d.ts': '0 5' }, now).everything).toBe(true)
})

test('nothing is checked when nothing has changed', () => {
  const now = stampsNow()
  expect(changedSince(now, now)).toEqual({ everything: false, files: [], importers: [] })
})

test('the importers of a file that is gone are checked, and it is not', () => {
  const now = stampsNow()
  const before = { ...now, 'test/gone.ts': '0 5' }
  expect(changedSince(before, now).files).toEqual([])
  const { 'test/changed.ts': _, ...older } = now
  expect(changedSince(older, now).importers.toSorted()).toEqual([
    'test/changed.ts',
    'test/changed_test.ts',
    'test/run.ts',
  ])
})
