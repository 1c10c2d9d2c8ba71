import { describe, expect, test } from 'bun:test'
import { encodeFunctionData, encodeFunctionResult, type Hex, parseAbi } from 'viem'
import { aggregateCall, aggregateResults } from '../../../../adapters/chains/evm/node/multicall.ts'

/** The contract's own interface, encoded by viem: the oracle. */
const abi = parseAbi([
  'struct Call { address target; bool allowFailure; bytes callData; }',
  'function aggregate3(Call[] calls) payable returns ((bool success, bytes returnData)[])',
])
const bytesOf = (length: number, seed: number): Hex =>
  `0x${Array.from({ length }, (_, at) => ((seed * 31 + at * 7) & 0xff).toString(16).padStart(2, '0')).join('')}`
const LENGTHS = [0, 1, 4, 31, 32, 33, 36, 64, 65, 200, 1_000]
/** Lists of 0 to 11 lengths, each list another part of all. */
const LISTS = Array.from({ length: LENGTHS.length + 1 }, (_, count) =>
  Array.from({ length: count }, (__, at) => LENGTHS[(at * 5 + count) % LENGTHS.length] as number),
)

describe('calls through Multicall3', () => {
  test('are encoded as viem encodes them, of any number and length', () => {
    for (const lengths of LISTS) {
      const calls = lengths.map((length, at) => ({ to: bytesOf(20, at + 1), data: bytesOf(length, at) }))
      const args = calls.map(({ to, data }) => ({ target: to, allowFailure: true, callData: data }))
      expect(aggregateCall(calls)).toBe(encodeFunctionData({ abi, functionName: 'aggregate3', args: [args] }))
    }
  })

  test('are decoded from what viem encodes, in capitals too', () => {
    for (const lengths of LISTS) {
      const results = lengths.map((length, at) => ({ ok: at % 3 !== 1, data: bytesOf(length, at) }))
      const encoded = encodeFunctionResult({
        abi,
        functionName: 'aggregate3',
        result: results.map(({ ok, data }) => ({ success: ok, returnData: data })),
      })
      expect(aggregateResults(encoded, results.length)).toEqual(results)
      expect(aggregateResults(`0x${encoded.slice(2).toUpperCase()}`, results.length)).toEqual(results)
    }
  })

  test('are not decoded from anything else: another number, a part, a wild offset or length, no hex', () => {
    const whole = encodeFunctionResult({
      abi,
      functionName: 'aggregate3',
      result: [
        { success: true, returnData: bytesOf(33, 1) },
        { success: false, returnData: '0x' },
      ],
    })
    expect(aggregateResults(whole, 1)).toBeUndefined()
    expect(aggregateResults(whole, 3)).toBeUndefined()
    for (const answer of [undefined, null, 1, '', '0x', '0xzz', `${whole}0`, [], {}])
      expect(aggregateResults(answer, 2)).toBeUndefined()
    // Bytes of the last result follow no other: whatever is cut before the padding of the first is missed.
    for (let length = 2; length < whole.length - 64; length += 2)
      expect(aggregateResults(whole.slice(0, length), 2)).toBeUndefined()
    const words = whole.slice(2).match(/.{64}/g) as string[]
    const wild = ['f'.repeat(64), `${'0'.repeat(48)}${'f'.repeat(16)}`, 'z'.repeat(64)]
    for (const index of [0, 1, 2, 3, 4, 5, 6])
      for (const word of wild) expect(aggregateResults(`0x${words.with(index, word).join('')}`, 2)).toBeUndefined()
  })
})
