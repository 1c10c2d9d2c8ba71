/**
 * Prices, side by side: Farebox with a warm cache before made-up prices, and a bare Bun.serve that answers with the
 * same bytes, at 1 and at 32 in flight, taking turns. Prints, never asserts.
 */
import type { Contestant, Entered, Generator } from './run.ts'
import type { Pace } from './pace.ts'
import { count, fixed, goal, median, table, total } from './print.ts'
import type { Measured } from './load.ts'

type MarketBench = { readonly load: Generator; readonly enter: Entered } & Pick<Pace, 'isQuick' | 'isOver'>

type Plan = { readonly rounds: number; readonly roundMs: number; readonly warmMs: number }

const FULL: Plan = { rounds: 5, roundMs: 800, warmMs: 1_500 }
const QUICK: Plan = { rounds: 3, roundMs: 300, warmMs: 500 }
const IN_FLIGHT = [1, 32] as const
const PRICE = '/api/v1/crypto/price/BTC-USD'
const REQUEST = `GET ${PRICE} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`
const LABELS = { prices: 'Farebox, free feed', bare: 'bare Bun.serve, same bytes' }

export async function market({ load, enter, isQuick, isOver }: MarketBench): Promise<void> {
  const plan = isQuick ? QUICK : FULL
  const farebox = await enter('prices')
  const response = await fetch(`http://127.0.0.1:${farebox.port}${PRICE}`)
  const body = await response.text()
  if (response.status !== 200) throw new Error(`no price: ${response.status} ${body}`)
  const headers = [...response.headers].filter(([name]) => !['date', 'content-length', 'connection'].includes(name))
  const field: readonly Contestant[] = [farebox, await enter('bare', { repeat: { status: 200, headers, body } })]
  const seen = new Map<string, Measured[]>()
  const command = { wanted: 200, length: Buffer.byteLength(body) }

  for (const { port } of field) await load.run({ ...command, port, connections: 32, ms: plan.warmMs }, [REQUEST])
  let played = 0
  for (let round = 0; round < plan.rounds && !(round > 0 && isOver()); round++, played++) {
    for (const inFlight of IN_FLIGHT) {
      for (const { name, port } of round % 2 === 0 ? field : field.toReversed()) {
        const key = `${name} ${inFlight}`
        seen.set(key, [
          ...(seen.get(key) ?? []),
          await load.run({ ...command, port, connections: inFlight, ms: plan.roundMs }, [REQUEST]),
        ])
      }
    }
  }
  await Promise.all(field.map((each) => each.stop()))

  const runsOf = (name: string, inFlight: number) => seen.get(`${name} ${inFlight}`) ?? []
  console.log(
    `\nprices from a warm cache, ${command.length} bytes each, ${played} rounds of ${plan.roundMs} ms each, taking turns; medians`,
  )
  table(
    ['', 'in flight', 'answers', 'failed', 'per second', 'p50 ms', 'p99 ms', 'load busy'],
    IN_FLIGHT.flatMap((inFlight) =>
      Object.entries(LABELS).map(([name, label]) => {
        const runs = runsOf(name, inFlight)
        const middle = (of: (run: Measured) => number, decimals: number) => fixed(median(runs.map(of)), decimals)
        const answers = runs.reduce((sum, { good }) => sum + good, 0)
        const failed = runs.reduce((sum, { bad }) => sum + total(bad), 0)
        return [
          label,
          String(inFlight),
          count(answers),
          count(failed),
          count(median(runs.map(rateOf))),
          middle(({ p50 }) => p50, 3),
          middle(({ p99 }) => p99, 2),
          middle(({ busy }) => busy, 2),
        ]
      }),
    ),
  )
  for (const inFlight of IN_FLIGHT) {
    const bare = runsOf('bare', inFlight).map(rateOf)
    goal(
      `of bare Bun.serve at ${inFlight} in flight`,
      runsOf('prices', inFlight).map((run, round) => rateOf(run) / (bare[round] ?? NaN)),
      0.65,
    )
  }
  for (const [key, runs] of seen)
    for (const { complaint } of runs)
      if (complaint) console.log(`  first failure of ${key}: ${complaint.slice(0, 400)}`)
}

const rateOf = ({ good, seconds }: Measured): number => good / seconds
