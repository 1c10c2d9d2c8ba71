/** Multicall3 (multicall3.com): many calls to contracts as one. Each purchase makes two, so they are spelled here. */
import { type Hex, isHex, lower, word } from '../../lib/hex.ts'

/** One call to a contract. */
export type ContractCall = { readonly to: Hex; readonly data: Hex }

/** The result of one of them; `ok` is false where it reverted. */
export type CallResult = { readonly ok: boolean; readonly data: Hex }

/** The address of Multicall3, the same on almost every chain. */
export const MULTICALL: Hex = '0xca11bde05977b3631167028862be2a173976ca11'

const WORD = 32

/** aggregate3((address target, bool allowFailure, bytes callData)[]): each call may fail on its own. */
export function aggregateCall(calls: readonly ContractCall[]): Hex {
  const tuples = calls.map(({ to, data }) => {
    const bytes = (data.length - 2) / 2
    const padded = data.slice(2).padEnd(Math.ceil(bytes / WORD) * WORD * 2, '0')
    return `${word(to)}${number(1)}${number(3 * WORD)}${number(bytes)}${padded}`
  })
  let at = calls.length * WORD
  const offsets = tuples.map((tuple) => {
    const offset = number(at)
    at += tuple.length / 2
    return offset
  })
  return `0x82ad56cb${number(WORD)}${number(calls.length)}${offsets.join('')}${tuples.join('')}`
}

const number = (value: number): string => value.toString(16).padStart(2 * WORD, '0')

/** Decodes (bool success, bytes returnData)[] of so many calls; undefined for anything else. */
export function aggregateResults(answer: unknown, count: number): readonly CallResult[] | undefined {
  if (!isHex(answer) || answer.length % 2 === 1) return undefined
  const digits = lower(answer).slice(2)
  /** The word at this byte; NaN beyond the end. */
  const at = (byte: number) => {
    const found = digits.slice(2 * byte, 2 * (byte + WORD))
    return found.length === 2 * WORD ? Number(`0x${found}`) : Number.NaN
  }
  const list = at(0) + WORD
  if (at(list - WORD) !== count) return undefined
  const results: CallResult[] = []
  for (let index = 0; index < count; index++) {
    const tuple = list + at(list + index * WORD)
    const ok = at(tuple)
    const bytes = tuple + at(tuple + WORD) + WORD
    const end = bytes + at(bytes - WORD)
    if (!(ok <= 1) || !(2 * end <= digits.length)) return undefined
    results.push({ ok: ok === 1, data: `0x${digits.slice(2 * bytes, 2 * end)}` })
  }
  return results
}
