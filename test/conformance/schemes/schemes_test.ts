/** The law of schemes on what runs in this process; schemes_full_test.ts has the schemes of EVM on a real node. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SolanaNode } from '../../../server/devnet/solana/node.ts'
import { solanaWorld } from '../../adapters/chains/solana/solana_kit.ts'
import { batchedScheme, solanaFacilitatorScheme, solanaScheme } from './harness_schemes.ts'
import { memoryScheme } from './memory_schemes.ts'
import { runRow } from './run_row.ts'
import { TABLE } from './table.ts'

let node: SolanaNode
beforeAll(async () => {
  node = await solanaWorld()
})
afterAll(() => node.stop())

runRow('evm/exact', memoryScheme('evm/exact'), 'in memory')
runRow('evm/charge', memoryScheme('evm/charge'), 'in memory')
runRow('evm/upto', memoryScheme('evm/upto'), 'in memory')
runRow('batched', batchedScheme)
for (const way of ['solana/fee_payer', 'solana/charge'] as const)
  runRow(
    way,
    solanaScheme(way, () => node),
  )
runRow(
  'solana/facilitators',
  solanaFacilitatorScheme(() => node),
)

describe('the table of schemes', () => {
  const cells = Object.entries(TABLE).flatMap(([way, row]) =>
    Object.entries(row).map(([promise, cell]) => ({ name: `${way}: ${promise}`, cell })),
  )

  test('names tests that exist', () => {
    const source = (file: string) => readFileSync(join(import.meta.dirname, '../..', file), 'utf8')
    const lacking = cells.filter(({ cell }) => cell.kind === 'tested' && !source(cell.file).includes(`'${cell.title}'`))
    expect(lacking.map(({ name }) => name)).toEqual([])
  })

  test('gives reasons in a sentence', () => {
    const short = cells.filter(({ cell }) => cell.kind === 'reason' && cell.why.split(' ').length < 6)
    expect(short.map(({ name }) => name)).toEqual([])
  })
})
