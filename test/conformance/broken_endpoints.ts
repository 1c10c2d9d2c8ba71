import type { Paid } from '../../core/endpoint/mod.ts'
import { type Call, type Gateway, type Ports, type Storage, usdc } from '../../core/mod.ts'
import type { Broken } from './law.ts'
import { addressBlind } from './public_payment.ts'
import { type Defect, type EndpointFixture, endpointFixture } from './endpoint_fixture.ts'

/** A gateway whose answers are changed on the way out. */
function saying(change: (response: Response, request: Request) => Response | Promise<Response>): Defect {
  return {
    dress: (gateway) => ({
      ...gateway,
      fetch: async (request, caller) => await change(await gateway.fetch(request.clone(), caller), request),
    }),
  }
}

type Body = Record<string, any>

/** Changes the JSON body of those answers that `concerns` picks. */
function rewriting(concerns: (response: Response, body: Body) => boolean, change: (body: Body) => unknown): Defect {
  return saying(async (response) => {
    const text = await response.clone().text()
    const body = text === '' ? {} : JSON.parse(text)
    return concerns(response, body) ? new Response(JSON.stringify(change(body)), response) : response
  })
}

function withHeader(concerns: (response: Response) => boolean, name: string, value: string | null): Defect {
  return saying((response) => {
    if (!concerns(response)) return response
    if (value === null) response.headers.delete(name)
    if (value !== null) response.headers.set(name, value)
    return response
  })
}

const below = (change: (ports: Ports) => Partial<Ports>): Defect => ({
  wrap: (ports) => ({ ...ports, ...change(ports) }),
})
const onChain = (change: (chain: Ports['chain'], ports: Ports) => Partial<Ports['chain']>): Defect =>
  below((ports) => ({ chain: { ...ports.chain, ...change(ports.chain, ports) } }))
const onStorage = (change: (good: Storage) => Partial<Storage>): Defect =>
  below(({ storage }) => ({ storage: { ...storage, ...change(storage) } }))
const acting = (change: (good: Gateway) => Partial<Gateway>): Defect => ({
  dress: (gateway) => ({ ...gateway, ...change(gateway) }),
})

/** An endpoint sold by gateways that are each wrong in one way. */
export function brokenEndpoints(sold: Paid): readonly Broken<EndpointFixture>[] {
  const broken = (law: string, but: string, defect: Defect): Broken<EndpointFixture> => ({
    law,
    but,
    make: () => endpointFixture(sold, defect),
  })
  return [
    broken(
      'the quote is one: in three equal headers, in the body, and in its price (contract 1.3, 1.6, 1.12)',
      'shows another price than it asks',
      rewriting(
        ({ status }) => status === 402,
        (body) => ({ ...body, price: { ...body.price, amount: '0.020000' } }),
      ),
    ),
    broken(
      'a challenge is ASCII, under 6 KB and never cached (contract 1.10)',
      'lets caches keep a challenge',
      withHeader(({ status }) => status === 402, 'cache-control', 'public, max-age=60'),
    ),
    broken('a quote lies between the least and the most that discovery says', 'advertises what it does not sell', {
      endpoint: (good) => ({ ...good, priceRange: () => ({ min: usdc(1n), max: usdc(2n) }) }),
    }),
    broken(
      'a probe without a body is answered with the quote of the example',
      'has no answer to HEAD',
      saying((response, { method }) => (method === 'HEAD' ? new Response(null, { status: 404 }) : response)),
    ),
    broken(
      'bad input is 400 before the quote, with a payment as without, and takes none (contract 1.52)',
      'quotes whatever it is sent',
      acting((gateway) => ({
        async fetch(request, caller) {
          const response = await gateway.fetch(request, caller)
          return response.status === 400 ? await gateway.fetch(new Request(request.url), caller) : response
        },
      })),
    ),
    broken(
      'a body over the cap is 413, with a body (contract 3.5)',
      'says nothing to a large body',
      saying((response) => (response.status === 413 ? new Response(null, { status: 413 }) : response)),
    ),
    broken(
      'an unknown field changes nothing (contract 4.2)',
      'refuses unknown fields',
      saying(async (response, request) =>
        (await request.text()).includes('some_unknown_field')
          ? Response.json({ error: 'Invalid request body' }, { status: 400, headers: response.headers })
          : response,
      ),
    ),
    broken(
      'what the operator has not configured is 503 in place of the 402 (contract 1.57)',
      'quotes what nobody can make',
      {
        endpoint: (good) => ({ ...good, isAvailable: () => true }),
      },
    ),
    broken(
      'nothing is asked of a vendor before the payment is verified (contract 1.29)',
      'starts to work for anybody who signs anything',
      onChain(({ identify }, { vendors }) => ({
        async identify(...args) {
          void vendors
            .images({} as never)
            ?.generate({ model: '', prompt: '', width: 1, height: 1, n: 1 }, { signal: args[2].signal })
            .catch(() => {})
          return await identify(...args)
        },
      })),
    ),
    broken(
      'a chain that cannot be asked is told as the row says, 503 with Retry-After or 402 with a challenge, and the same payment buys later',
      'blames the payment for a silent node',
      onChain(({ verify }) => ({
        async verify(...args) {
          const verdict = await verify(...args)
          return verdict.kind === 'unavailable'
            ? { kind: 'refused', code: 'PAYMENT_INVALID', reason: verdict.reason }
            : verdict
        },
      })),
    ),
    broken(
      'nothing is settled before the result is stored (contract 1.30)',
      'stores the result when the settlement has ended',
      onStorage((good) => {
        const results = new Map<string, Call['result']>()
        return {
          async claimSettlement(id, authorization, at) {
            if (at.result) results.set(id, at.result.result)
            return await good.claimSettlement(id, authorization, {
              ...at,
              ...(at.result && { result: { ...at.result, result: null } }),
            })
          },
          async finishSettlement(id, ...rest) {
            const result = results.get(id)
            if (result !== undefined) await good.moveCall(id, { workStatus: ['completed'] }, { result })
            return await good.finishSettlement(id, ...rest)
          },
        }
      }),
    ),
    broken(
      'exactly the quote moves, and the receipt says so in body and headers (contract 1.1, 1.32)',
      'gives no receipt header',
      withHeader(({ status }) => status === 200, 'x-payment-receipt', null),
    ),
    broken('the reply has the shape that the menu promises', 'tells times as text', {
      endpoint: (good) => ({ ...good, show: (...args) => ({ ...good.show(...args), created: 'today' }) }),
    }),
    broken(
      'a used authorization is refused under both header names, and names its job',
      'does not say that a replay is recoverable',
      rewriting(
        (_, { code }) => code === 'PAYMENT_REPLAY',
        ({ recoverable: _, ...body }) => body,
      ),
    ),
    broken(
      'what a settlement publishes reads nothing; the poll URL of our own reply reads, and so does a fresh signature, which is not spent (contract 1.40, 1.41, 1.42, 2.4, 2.5)',
      'tells whoever repeats an order what came of it',
      acting(addressBlind),
    ),
    broken(
      'the same request many times at once makes one job and one transfer',
      'opens a call for each of two racers',
      onStorage((good) => {
        const opened = new Map<string, number>()
        return {
          openCall(call, authorization, at) {
            const count = opened.get(authorization.key) ?? 0
            opened.set(authorization.key, count + 1)
            return good.openCall(
              call,
              count === 0 ? authorization : { ...authorization, key: `${authorization.key}#${count}` },
              at,
            )
          },
        }
      }),
    ),
    broken(
      'a failure of the vendor charges nothing, and the same signed request buys afterwards (contract 1.28, 2.25)',
      'holds the authorization of a failed call',
      onStorage((good) => {
        const ids = new Map<string, string>()
        return {
          async openCall(call, authorization, at) {
            ids.set(authorization.key, call.id)
            return await good.openCall(call, authorization, at)
          },
          async callOf(key, now) {
            const stored = await good.getCall(ids.get(key) ?? '')
            return stored?.error?.startsWith(sold.failure) ? stored : await good.callOf(key, now)
          },
        }
      }),
    ),
    broken(
      'media that cannot be mirrored is served as the vendor made it, and not called backed up',
      'takes a full disk for a good one',
      below(({ objects }) => ({ objects: { ...objects, put: (...args) => objects.put(...args).catch(() => {}) } })),
    ),
    broken(
      'polls at the same moment settle once: one reads settled, the others already_settled (contract 1.31, 2.10)',
      'calls every collection a settlement',
      rewriting(
        (_, { payment }) => payment?.status === 'already_settled',
        (body) => ({ ...body, payment: { ...body.payment, status: 'settled' } }),
      ),
    ),
    broken(
      'another wallet is refused with 403, and neither is charged (contract 2.7)',
      'takes everybody for one wallet',
      onChain(({ identify }) => ({
        async identify(...args) {
          const identity = await identify(...args)
          return identity.kind === 'known' ? { ...identity, payer: 'everybody' } : identity
        },
      })),
    ),
    broken(
      'one fresh authorization pays for one of two calls',
      'binds a later authorization to as many calls as it is offered for',
      onStorage((good) => ({
        async claimSettlement(id, offered, at) {
          const call = await good.getCall(id)
          const isFresh = offered && offered.key !== call?.authorization
          return await good.claimSettlement(id, isFresh ? { ...offered, key: `${offered.key}#${id}` } : offered, at)
        },
      })),
    ),
    broken(
      'a paid result stays readable when its authorization has expired and its wallet is empty',
      'does not know a wallet by an expired signature',
      onChain(({ identify }, { clock }) => ({
        async identify(...args) {
          const identity = await identify(...args)
          return identity.kind === 'known' && identity.expiresAt <= clock.now()
            ? { kind: 'refused', code: 'PAYMENT_UNFUNDED', reason: 'it has expired' }
            : identity
        },
      })),
    ),
    broken(
      'a result that nobody collects is never charged',
      'sweeps up what has not been paid',
      onStorage((good) => {
        const ids: string[] = []
        return {
          openCall(call, ...rest) {
            ids.push(call.id)
            return good.openCall(call, ...rest)
          },
          async unsettled(...args) {
            const calls = await Promise.all(ids.map((id) => good.getCall(id)))
            const unpaid = calls.filter(
              (call): call is Call => call?.workStatus === 'completed' && call.paymentStatus === 'verified',
            )
            return [...(await good.unsettled(...args)), ...unpaid]
          },
        }
      }),
    ),
    broken(
      'a buyer who hangs up is not charged, and collects by polling',
      'does not notice that its buyer has gone',
      acting((gateway) => ({
        fetch: (request, caller) => gateway.fetch(request, { ...caller, gone: new AbortController().signal }),
      })),
    ),
    broken(
      'a refused settlement withholds the result, and a later poll collects it (contract 1.30, 1.33)',
      'does not say that nothing was settled',
      withHeader(({ status }) => status === 402, 'payment-response', null),
    ),
    broken(
      'a settlement of unknown outcome is 202, and ends in one transfer',
      'takes a lost answer for a refusal',
      onChain(({ settle }) => ({
        async settle(...args) {
          const settlement = await settle(...args)
          return settlement.kind === 'unknown' ? { ...settlement, kind: 'refused' } : settlement
        },
      })),
    ),
    broken(
      'work that dies with its process is failed, not charged, and its authorization is free',
      'leaves the work of the dead to the dead',
      acting(() => ({ takeOver: async () => 0 })),
    ),
    broken(
      'an error reads in the dialect of the endpoint, as JSON that is not cached (contract 3.1)',
      'speaks another dialect when it fails',
      rewriting(
        ({ status }) => status === 500,
        (body) => ({ ...body, error: { message: body.error } }),
      ),
    ),
  ]
}
