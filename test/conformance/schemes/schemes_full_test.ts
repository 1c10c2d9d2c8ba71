/** The law of schemes on a real node: the schemes of EVM, and a facilitator of theirs. */
import { afterAll, beforeAll } from 'bun:test'
import { world, type World } from '../../adapters/chains/evm/evm_kit.ts'
import { EVM_SCHEMES } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import { evmFacilitatorScheme, evmScheme } from './evm_schemes.ts'
import { evmKeyScheme } from './key_scheme.ts'
import { runRow } from './run_row.ts'

let node: World
beforeAll(async () => {
  node = await world()
}, 60_000)
afterAll(() => node.close())

for (const scheme of EVM_SCHEMES)
  runRow(
    `evm/${scheme}`,
    evmScheme(scheme, () => node),
  )
runRow(
  'evm/charge',
  evmScheme('charge', () => node),
)
runRow(
  'evm/keys',
  evmKeyScheme(() => node),
)
runRow(
  'evm/facilitators',
  evmFacilitatorScheme(() => node),
)
