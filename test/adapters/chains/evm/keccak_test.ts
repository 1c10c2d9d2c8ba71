import { expect, test } from 'bun:test'
import { bytesToHex } from '@noble/hashes/utils'
import { keccak, portableKeccak, wasmKeccak } from '../../../../adapters/chains/evm/node/keccak.ts'
import { chance } from '../../../simulation/chance.ts'

test('Keccak by WebAssembly gives what the portable one gives, for texts of every length and one after another', async () => {
  const wasm = await wasmKeccak()
  if (!wasm) throw new Error('the optional package does not load')
  const dice = chance(30)
  for (let length = 0; length < 700; length++) {
    const bytes = Uint8Array.from({ length }, () => dice.below(256))
    expect([length, bytesToHex(wasm(bytes))]).toEqual([length, bytesToHex(portableKeccak(bytes))])
  }
  const large = new Uint8Array(300_000).fill(7)
  expect(bytesToHex(wasm(large))).toBe(bytesToHex(portableKeccak(large)))
})

test('a hash is the same before the package is loaded and after, and is never overwritten by the next', async () => {
  const [one, other] = [new Uint8Array(66).fill(1), new Uint8Array(66).fill(2)]
  const before = keccak(one)
  await wasmKeccak()
  const after = keccak(one)
  keccak(other)
  expect([before, after].map(bytesToHex)).toEqual(Array.from({ length: 2 }, () => bytesToHex(portableKeccak(one))))
})
