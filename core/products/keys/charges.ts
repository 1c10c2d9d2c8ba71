/** Sums of the charges of a key by day and by model (contract 23.19). */
import { Type } from '@sinclair/typebox'
import { free } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { json } from '../../http/reply.ts'
import { checksummed } from '../../lib/checksum.ts'
import { print, usdc } from '../../x402/money.ts'
import { callsOf, reportOfCalls } from './paid_calls.ts'
import { channelOf, PRIVATE } from './presented.ts'

const DAY_MS = 86_400_000
const DAYS = { usual: 30, most: 366 } as const

const Sum = {
  calls: Type.Integer(),
  charged: Type.String({ description: 'In USDC, six decimals.' }),
}

const charges = free({
  ...reportOfCalls,
  name: 'keys.charges',
  path: '/api/v1/keys/charges',
  summary: 'What an API key was charged by day and by model',
  description:
    'Of the last days, 30 unless ?days= says otherwise, by UTC. A child key sees its own calls; its parent sees all. At most ten thousand calls of its wallet are read; is_complete is false where there are more.',
  output: Type.Object({
    object: Type.Literal('key.charges'),
    key: Type.String({ description: 'The address of the key.' }),
    since: Type.String({ description: 'The first day, in UTC.' }),
    ...Sum,
    by_day: Type.Array(Type.Object({ day: Type.String(), ...Sum })),
    by_model: Type.Array(Type.Object({ model: Type.String({ description: 'Or the endpoint.' }), ...Sum })),
    is_complete: Type.Boolean(),
  }),
  async answer(request, context) {
    const days = daysOf(request.query.get('days'))
    const { address, payer, channelId, isChild } = await channelOf(request, context)
    const since = (Math.floor(context.clock.now() / DAY_MS) - days + 1) * DAY_MS
    const sums = { all: newSum(), byDay: new Map<string, Summed>(), byModel: new Map<string, Summed>() }
    let isComplete = true
    // Before its payer was proven, the key itself was the wallet of its calls.
    for (const wallet of [payer, checksummed(address)]) {
      const paid = { payer: wallet, channelId, since, ...(isChild && { child: address }) }
      for await (const page of callsOf(context, paid)) {
        isComplete &&= page !== 'more'
        for (const { createdAt, model, endpoint, charge, quote } of page === 'more' ? [] : page) {
          const day = new Date(createdAt).toISOString().slice(0, 10)
          for (const sum of [sums.all, sumIn(sums.byDay, day), sumIn(sums.byModel, model ?? endpoint)])
            add(sum, charge ?? quote)
        }
      }
    }
    const body = {
      object: 'key.charges',
      key: checksummed(address),
      since: new Date(since).toISOString().slice(0, 10),
      ...printed(sums.all),
      by_day: [...sums.byDay]
        .toSorted()
        .reverse()
        .map(([day, sum]) => ({ day, ...printed(sum) })),
      by_model: [...sums.byModel]
        .toSorted(([, one], [, other]) => Number(other.charged - one.charged))
        .map(([model, sum]) => ({ model, ...printed(sum) })),
      is_complete: isComplete,
    }
    return json(200, body, PRIVATE)
  },
})

type Summed = { calls: number; charged: bigint }

const newSum = (): Summed => ({ calls: 0, charged: 0n })

function sumIn(sums: Map<string, Summed>, name: string): Summed {
  const sum = sums.get(name) ?? newSum()
  sums.set(name, sum)
  return sum
}

function add(sum: Summed, charge: bigint): void {
  sum.calls++
  sum.charged += charge
}

const printed = ({ calls, charged }: Summed) => ({ calls, charged: print(usdc(charged)) })

function daysOf(given: string | null): number {
  if (given === null) return DAYS.usual
  const days = /^\d{1,3}$/.test(given) ? Number(given) : 0
  if (days >= 1 && days <= DAYS.most) return days
  throw new ApiError('INVALID_PARAMETER', {
    message: `days must be a whole number from 1 to ${DAYS.most}; got ${JSON.stringify(given.slice(0, 40))}`,
    param: 'days',
  })
}

export const keyCharges = [charges]
