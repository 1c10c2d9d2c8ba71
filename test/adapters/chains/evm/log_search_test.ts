/** The one search of logs: windows, refusals, bounds and leaps, against a node that keeps its questions. */
import { describe, expect, test } from 'bun:test'
import {
  type BlockRange,
  halvedWindows,
  type LogSearch,
  logsIn,
  searchPast,
  type SearchPosition,
  searchWindows,
} from '../../../../adapters/chains/evm/node/log_search.ts'
import { type Hex, hexOf, word } from '../../../../adapters/chains/lib/hex.ts'
import type { Answer } from '../../../../adapters/chains/lib/json_rpc.ts'
import { boundedMap } from '../../../../core/lib/mod.ts'

const ADDRESS: Hex = `0x${'a'.repeat(40)}`
const FILTER = { address: ADDRESS, topics: [`0x${word(7n)}`] }
const BLOCK_SECONDS = 2
const HEAD = { number: 1_000_000, time: 1_000_000 * BLOCK_SECONDS }

/** A node with logs at some blocks, a block each two seconds, that refuses more than `widest` blocks at a time. */
function node({ at = [] as readonly number[], widest = Number.POSITIVE_INFINITY, broken = '' } = {}) {
  const windows: BlockRange[] = []
  const request = async (method: string, [given]: readonly unknown[]): Promise<Answer> => {
    if (method === broken) return { kind: 'failure', reason: `${method}: no answer` }
    if (method === 'eth_getBlockByNumber') {
      const number = Number(given as Hex)
      return { kind: 'result', value: { number: hexOf(BigInt(number)), timestamp: hexOf(BigInt(number * 2)) } }
    }
    const { fromBlock, toBlock } = given as { readonly fromBlock: Hex; readonly toBlock: Hex }
    const [from, to] = [Number(fromBlock), Number(toBlock)]
    windows.push({ from, to })
    if (to - from + 1 > widest) return { kind: 'error', code: -32_005, message: 'too many blocks' }
    const found = at.filter((block) => block >= from && block <= to).map((block) => logAt(block))
    return { kind: 'result', value: found }
  }
  return { windows, rpc: { request } }
}

const logAt = (block: number) => ({
  address: ADDRESS,
  topics: FILTER.topics,
  data: '0x',
  transactionHash: hexOf(BigInt(block)),
  blockNumber: hexOf(BigInt(block)),
  logIndex: '0x0',
})

/** Visits all windows of a search and returns the blocks of the logs, in the order in which they were found. */
async function visited(search: Partial<LogSearch>, made: ReturnType<typeof node>) {
  const blocks: (number | undefined)[] = []
  const bounds = { from: 0, to: 99, first: 'oldest', windows: [10], ...search } as const
  const end = await searchWindows(bounds, async (window) => {
    const read = await logsIn(made.rpc, FILTER, window)
    if (read.kind !== 'logs') return read
    blocks.push(...read.logs.map(({ block }) => block))
    return { kind: 'on' }
  })
  return { end, blocks }
}

describe('windows', () => {
  test('cover a range without gap or overlap, oldest first', async () => {
    const made = node({ at: [0, 9, 10, 24] })
    const bounds = { from: 0, to: 24, windows: [10] } as const
    expect(await visited(bounds, made)).toEqual({ end: { kind: 'end' }, blocks: [0, 9, 10, 24] })
    expect(made.windows).toEqual([
      { from: 0, to: 9 },
      { from: 10, to: 19 },
      { from: 20, to: 24 },
    ])
  })

  test('cover a range without gap or overlap, newest first', async () => {
    const made = node()
    await visited({ from: 5, to: 24, first: 'newest' }, made)
    expect(made.windows).toEqual([
      { from: 15, to: 24 },
      { from: 5, to: 14 },
    ])
  })

  test('halve from 2,000 to below eight blocks', () => {
    expect(halvedWindows()).toEqual([2_000, 1_000, 500, 250, 125, 62, 31, 15, 7])
    expect(halvedWindows(1)).toEqual([1])
  })

  test('are asked for again with fewer blocks, and stay as narrow', async () => {
    const made = node({ at: [3, 15], widest: 5 })
    expect(await visited({ to: 16, windows: [20, 10, 5] }, made)).toEqual({ end: { kind: 'end' }, blocks: [3, 15] })
    expect(made.windows.map(({ from, to }) => to - from + 1)).toEqual([17, 10, 5, 5, 5, 2])
  })

  test('end with the reason when the narrowest one is refused', async () => {
    const { end } = await visited({ windows: [10, 5] }, node({ widest: 4 }))
    expect(end).toEqual({ kind: 'refused', reason: 'eth_getLogs: too many blocks' })
  })

  test('end with the failure when the node does not answer, without another question', async () => {
    const { end, blocks } = await visited({ windows: [10, 5] }, node({ broken: 'eth_getLogs' }))
    expect([end, blocks]).toEqual([{ kind: 'failure', reason: 'eth_getLogs: no answer' }, []])
  })

  test('end where the questions are used up, and name the block to go on with; refused ones count', async () => {
    const made = node({ widest: 5 })
    const { end } = await visited({ first: 'newest', windows: [10, 5], maxWindows: 3 }, made)
    expect([end, made.windows.length]).toEqual([{ kind: 'more', next: 89 }, 3])
  })

  test('say that all was searched when the last question reaches the end', async () => {
    expect((await visited({ to: 29, maxWindows: 3 }, node())).end).toEqual({ kind: 'end' })
  })

  test('stop at what was found', async () => {
    let count = 0
    const end = await searchWindows({ from: 0, to: 99, first: 'oldest', windows: [10] }, async ({ from }) => {
      count++
      return from === 20 ? { kind: 'found', found: from } : { kind: 'on' }
    })
    expect([end, count]).toEqual([{ kind: 'found', found: 20 }, 3])
  })
})

test('an answer that is no list of logs is a failure, and no refusal', async () => {
  const request = async (): Promise<Answer> => ({ kind: 'result', value: [{ topics: 'none' }] })
  expect(await logsIn({ request }, FILTER, { from: 0, to: 1 })).toMatchObject({ kind: 'failure' })
})

describe('a search between two times', () => {
  const search = (made: ReturnType<typeof node>, change: Partial<Parameters<typeof searchPast>[1]> = {}) =>
    searchPast(
      made.rpc,
      {
        filter: FILTER,
        key: 'one',
        first: 0,
        last: HEAD.time,
        head: HEAD,
        positions: boundedMap<SearchPosition>(10),
        ...change,
      },
      (logs) => logs[0]?.block,
    )

  test('finds the newest window first', async () => {
    expect(await search(node({ at: [500, 999_500] }))).toEqual({ kind: 'found', found: 999_500 })
  })

  test('ends before blocks that are too old', async () => {
    const made = node({ at: [980_000] })
    expect(await search(made, { first: 990_002 * BLOCK_SECONDS })).toEqual({ kind: 'end' })
    expect(made.windows.length).toBe(5)
  })

  test('leaps over blocks that are too new, and never over the log', async () => {
    for (const block of [400_000, 399_000, 398_001, 310_001]) {
      const made = node({ at: [block] })
      expect(await search(made, { last: 400_000 * BLOCK_SECONDS })).toEqual({ kind: 'found', found: block })
    }
    const made = node({ at: [399_999] })
    await search(made, { last: 400_000 * BLOCK_SECONDS })
    expect(made.windows.length).toBeLessThan(40)
  })

  test('goes on where it has stopped, by the key of the search', async () => {
    const positions = boundedMap<SearchPosition>(10)
    const made = node({ at: [900_000] })
    expect(await search(made, { positions, window: 1_000 })).toMatchObject({ kind: 'more' })
    expect(await search(made, { positions, window: 1_000, key: 'other' })).toMatchObject({ kind: 'more' })
    expect(made.windows[64]).toEqual(made.windows[0] as BlockRange)
    expect(await search(made, { positions, window: 1_000 })).toEqual({ kind: 'found', found: 900_000 })
    expect(made.windows.length).toBe(64 + 64 + 37)
  })

  test('is no end when the time of a block is not known', async () => {
    const made = node({ broken: 'eth_getBlockByNumber' })
    expect(await search(made)).toEqual({ kind: 'failure', reason: 'eth_getBlockByNumber: no answer' })
  })
})
