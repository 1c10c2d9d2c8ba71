/** The calls that a key has paid for, summed from the ledger, and the state of its channel (contract 23.18). */
import { Type } from '@sinclair/typebox'
import { free, type FreeContext } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { checksummed } from '../../lib/checksum.ts'
import { print, usdc } from '../../x402/money.ts'
import { callsOf, reportOfCalls } from './paid_calls.ts'
import { channelOf, PRIVATE } from './presented.ts'

const Amount = Type.String({ description: 'In USDC, six decimals.' })

const statement = free({
  ...reportOfCalls,
  name: 'keys.statement',
  path: '/api/v1/keys/statement',
  summary: 'What an API key was charged, call by call summed, beside the state of its channel',
  description:
    'For farebox verify, which compares it with the chain. Calls are those in the ledger, at most ten thousand; is_complete is false where there are more.',
  output: Type.Object({
    object: Type.Literal('key.statement'),
    key: Type.String({ description: 'The address of the key.' }),
    network: Type.String(),
    channel_id: Type.String(),
    payer: Type.String(),
    balance: Type.String({ description: 'Deposits without what was paid back, in USDC.' }),
    charged: Amount,
    claimed: Amount,
    reserved: Amount,
    calls: Type.Integer(),
    calls_charged: Type.String({ description: 'The sum of the charges of these calls, in USDC.' }),
    is_complete: Type.Boolean(),
  }),
  async answer(request, context) {
    const { address, network, channelId, payer, deposited, charged, claimed, reserved } = await channelOf(
      request,
      context,
    )
    const key = checksummed(address)
    // Before its payer was proven, the key itself was the wallet of its calls.
    const sums = [await sumOf(context, { payer, channelId }), await sumOf(context, { payer: key, channelId })]
    const channel = { network, channel_id: channelId, payer, balance: print(deposited), charged: print(charged) }
    const body = {
      object: 'key.statement',
      key,
      ...channel,
      claimed: print(claimed),
      reserved: print(reserved),
      calls: sums.reduce((all, { calls }) => all + calls, 0),
      calls_charged: print(usdc(sums.reduce((all, { spent }) => all + spent, 0n))),
      is_complete: sums.every(({ isComplete }) => isComplete),
    }
    return json(200, body, PRIVATE)
  },
})

async function sumOf(context: Pick<FreeContext, 'ledger' | 'clock'>, of: { payer: string; channelId: string }) {
  const sum = { calls: 0, spent: 0n, isComplete: true }
  for await (const page of callsOf(context, { ...of, since: 0 })) {
    if (page === 'more') return { ...sum, isComplete: false }
    sum.calls += page.length
    for (const { charge, quote } of page) sum.spent += charge ?? quote
  }
  return sum
}

export const keyStatements = [statement]
