import { type Call, type Gateway, type Ports, type Storage, usdc } from '../../core/mod.ts'
import type { Defect } from './endpoint_fixture.ts'
import { addressBlind } from './public_payment.ts'

/** A gateway whose answers are changed on the way out. */
export function saying(change: (response: Response, request: Request) => Response | Promise<Response>): GatewayDefect {
  return {
    dress: (gateway) => ({
      ...gateway,
      fetch: async (request, caller) => await change(await gateway.fetch(request.clone(), caller), request),
    }),
  }
}

/** A defect of any gateway, whatever it sells. */
type GatewayDefect = Omit<Defect, 'endpoint'>

type Body = Record<string, any>

/** Changes the JSON body of those answers that `concerns` picks. */
export function rewriting(
  concerns: (response: Response, body: Body) => boolean,
  change: (body: Body) => unknown,
): GatewayDefect {
  return saying(async (response) => {
    const text = await response.clone().text()
    const body = text === '' ? {} : JSON.parse(text)
    return concerns(response, body) ? new Response(JSON.stringify(change(body)), response) : response
  })
}

export function withHeader(
  concerns: (response: Response, request: Request) => boolean,
  name: string,
  value: string | null,
): GatewayDefect {
  return saying((response, request) => {
    if (!concerns(response, request)) return response
    if (value === null) response.headers.delete(name)
    if (value !== null) response.headers.set(name, value)
    return response
  })
}

export const below = (change: (ports: Ports) => Partial<Ports>): GatewayDefect => ({
  wrap: (ports) => ({ ...ports, ...change(ports) }),
})
export const onChain = (change: (chain: Ports['chain'], ports: Ports) => Partial<Ports['chain']>): GatewayDefect =>
  below((ports) => ({ chain: { ...ports.chain, ...change(ports.chain, ports) } }))
export const onStorage = (change: (good: Storage) => Partial<Storage>): GatewayDefect =>
  below(({ storage }) => ({ storage: { ...storage, ...change(storage) } }))
/** A storage that keeps the authorization of calls that failed. */
export const keepingFailed = (isFailed: (call: Call) => boolean): GatewayDefect =>
  onStorage((good) => {
    const ids = new Map<string, string>()
    return {
      async openCall(call, authorization, at) {
        ids.set(authorization.key, call.id)
        return await good.openCall(call, authorization, at)
      },
      async callOf(key, now) {
        const stored = await good.getCall(ids.get(key) ?? '')
        return stored && isFailed(stored) ? stored : await good.callOf(key, now)
      },
    }
  })
export const acting = (change: (good: Gateway) => Partial<Gateway>): GatewayDefect => ({
  dress: (gateway) => ({ ...gateway, ...change(gateway) }),
})

/** Defects of gateways of every kind: the name of each, and the defect. */
export const DEFECTS = {
  sweepsUnpaid: [
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
            (call): call is Call => call?.workStatus === 'completed' && call.paymentStatus !== 'settled',
          )
          return [...(await good.unsettled(...args)), ...unpaid]
        },
      }
    }),
  ],
  wrongRange: [
    'advertises what it does not sell',
    {
      endpoint: (good) => ({ ...good, priceRange: () => ({ min: usdc(1n), max: usdc(2n) }) }),
    },
  ],
  noHead: [
    'has no answer to HEAD',
    saying((response, { method }) => (method === 'HEAD' ? new Response(null, { status: 404 }) : response)),
  ],
  silentOnLargeBodies: [
    'says nothing to a large body',
    saying((response) => (response.status === 413 ? new Response(null, { status: 413 }) : response)),
  ],
  alwaysAvailable: [
    'quotes what nobody can make',
    {
      endpoint: (good) => ({ ...good, isAvailable: () => true }),
    },
  ],
  silentNodeBlamesPayment: [
    'blames the payment for a silent node',
    onChain(({ verify }) => ({
      async verify(...args) {
        const verdict = await verify(...args)
        return verdict.kind === 'unavailable'
          ? { kind: 'refused', code: 'PAYMENT_INVALID', reason: verdict.reason }
          : verdict
      },
    })),
  ],
  lateResult: [
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
  ],
  noReceipt: ['gives no receipt header', withHeader(({ status }) => status === 200, 'x-payment-receipt', null)],
  readsByAddress: ['tells whoever repeats an order what came of it', acting(addressBlind)],
  callPerRacer: [
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
  ],
  oneWallet: [
    'takes everybody for one wallet',
    onChain(({ identify }) => ({
      async identify(...args) {
        const identity = await identify(...args)
        return identity.kind === 'known' ? { ...identity, payer: 'everybody' } : identity
      },
    })),
  ],
  boundToMany: [
    'binds a later authorization to as many calls as it is offered for',
    onStorage((good) => ({
      async claimSettlement(id, offered, at) {
        const call = await good.getCall(id)
        const isFresh = offered && offered.key !== call?.authorization
        return await good.claimSettlement(id, isFresh ? { ...offered, key: `${offered.key}#${id}` } : offered, at)
      },
    })),
  ],
  unawareOfLeavers: [
    'does not notice that its buyer has gone',
    acting((gateway) => ({
      fetch: (request, caller) => gateway.fetch(request, { ...caller, gone: new AbortController().signal }),
    })),
  ],
  noSettlementHeader: [
    'does not say that nothing was settled',
    withHeader(({ status }) => status === 402, 'payment-response', null),
  ],
  lostIsRefused: [
    'takes a lost answer for a refusal',
    onChain(({ settle }) => ({
      async settle(...args) {
        const settlement = await settle(...args)
        return settlement.kind === 'unknown' ? { ...settlement, kind: 'refused' } : settlement
      },
    })),
  ],
  noTakeOver: ['leaves the work of the dead to the dead', acting(() => ({ takeOver: async () => 0 }))],
} satisfies Readonly<Record<string, readonly [but: string, defect: Defect]>>
