/** The simulation of relayer keys, and the rules without which it finds a broken law. */
import { expect, test } from 'bun:test'
import type { Answer } from '../../../adapters/chains/lib/json_rpc.ts'
import { scaled } from '../../scope.ts'
import { alone, campaignOf } from '../campaign.ts'
import { play } from './play.ts'
import { LAWS, type LawName, type RelayerRule } from './relay.ts'

const SEED = 7
const RUNS = scaled(150, 6_000)
/** Within so many runs a rule that is off must be missed. */
const ENOUGH = 2_000

const BUILT: RelayerRule = { name: 'relayers, as built' }

const campaign = (rule: RelayerRule, runs: number) =>
  campaignOf(() => (seed) => play(rule, seed), { seed: SEED, runs, isFirst: true })

const off: readonly (RelayerRule & { readonly breaks: readonly LawName[] })[] = [
  {
    name: 'a send whose answer was lost counts as sent',
    breaks: ['rejected'],
    answers: (method, answer) =>
      method === 'eth_sendRawTransaction' && answer.kind === 'failure'
        ? { kind: 'error', code: -32_000, message: 'invalid sender' }
        : answer,
  },
  {
    name: 'a receipt is of the transaction that was asked for',
    breaks: ['truth'],
    answers: (method, answer) => (method === 'eth_sendRawTransaction' ? minedAtOnce(answer) : answer),
  },
  { name: 'one replica at a time holds a key', breaks: ['holder'], takeLease: () => async () => true },
  {
    name: 'a key that a payment names is leased for it',
    breaks: ['ended'],
    takeLease: (take) => async (name, at) => name.startsWith('0x1') && (await take(name, at)),
  },
  { name: 'a payment is looked up before it is sent', breaks: ['wasted'], ignoresFate: true },
  { name: 'the price of gas is capped', breaks: ['capped'], cap: 500_000_000_000n },
]

/** A node that has a receipt before there is a block. */
function minedAtOnce(answer: Answer): Answer {
  if (answer.kind !== 'result') return answer
  const value = { transactionHash: answer.value, status: '0x1', blockNumber: '0x1', logs: [] }
  return { kind: 'result', value }
}

test(`${RUNS} random histories of relayer keys, leases, nonces and gas keep every law (seed ${SEED})`, async () => {
  const { found, runs, steps, ms } = await campaign(BUILT, RUNS)
  console.log(`seed ${SEED}: ${runs} runs of ${steps} steps at ${Math.round((runs / ms) * 1000)}/s`)
  const [first] = found
  if (!first) return
  const { lines } = await alone(() => play(BUILT, first.seed, { isTraced: true }))
  throw new Error(`bun test/simulation/run.ts --relayers --replay ${first.seed}\n${lines.join('\n')}`)
}, 300_000)

for (const rule of off)
  test(`without the rule that ${rule.name}, a law of relayers is broken`, async () => {
    const { found, runs } = await campaign(rule, ENOUGH)
    const [first] = found
    console.log(first ? `after ${runs} runs, seed ${first.seed}: ${first.violation?.text}` : `nothing in ${runs} runs`)
    expect(rule.breaks).toContain(first?.violation?.law as LawName)
  }, 300_000)

test('every law of relayers is broken by some rule that is off', () => {
  const broken = new Set<LawName>(off.flatMap(({ breaks }) => breaks))
  expect(Object.keys(LAWS).filter((law) => !broken.has(law as LawName))).toEqual([])
})
