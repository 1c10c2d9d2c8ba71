/** Registers the tests of a row of the table. */
import { test } from 'bun:test'
import { lawGateway } from './law_gateway.ts'
import { promises, type RunName } from './promises.ts'
import { PROMISES, type PromiseName, type SchemeFactory, type WayToPay } from './scheme.ts'
import { TABLE } from './table.ts'

/** Promises that need a node of the chain, its contracts and its gas. */
const ON_A_NODE: readonly PromiseName[] = ['gas']

const isRun = (name: string): name is RunName => Object.hasOwn(promises, name)

/**
 * One test for each promise that the row runs, each on a gateway and a world of its own.
 */
export function runRow(way: WayToPay, factory: SchemeFactory, at: 'in memory' | 'on a node' = 'on a node'): void {
  for (const [name, cell] of Object.entries(TABLE[way])) {
    if (cell.kind !== 'run') continue
    if (!isRun(name)) throw new RangeError(`${way}: ${name} has no test that could be run`)
    if (at === 'in memory' && ON_A_NODE.includes(name)) continue
    test(`${way} ${at}: ${PROMISES[name]}`, async () => {
      const law = await lawGateway(factory)
      try {
        await promises[name](law)
      } finally {
        await law.close()
      }
    }, 120_000)
  }
}
