import { afterAll } from 'bun:test'
import { runLaws } from '../conformance/law.ts'
import { chainLaws } from '../conformance/chains.ts'
import { evmSubject, world } from './evm_kit.ts'
const w = await world()
afterAll(() => w.close())
runLaws('evm', chainLaws, () => evmSubject(w))
