import { describe, expect, test } from 'bun:test'
import type { Fields } from '../../../../../core/mod.ts'
import { usageOf } from '../../../../../core/products/chat/formats/usage.ts'
import { rowsOf } from '../../../../vectors/rows.ts'

describe('usageOf() reads', () => {
  const rows = rowsOf<readonly [string, Fields, Fields]>('chat/usage')

  test.each(rows)('%s', (_, usage, expected) => expect(usageOf(usage)).toEqual(expected))
  test.each(rows)('%s, twice, as once', (_, usage) => expect(usageOf(usageOf(usage))).toEqual(usageOf(usage)))
})
