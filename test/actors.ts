/**
 * Those who act upon the world, for tests: nobody is called, nothing is bought, and all that they are asked is written
 * down.
 */
import { ApiError, type Line, type Ringing, type Storage, usdc, type Vendors } from '../core/mod.ts'
import { NUMBER, TERM_MS, NO_EXPIRY } from '../core/products/phone/number_leases.ts'

export const LINE = '+14155550100'
export const BRIDGE = '0x23566f8b2e82adfcf01846e54899d110e97ac053'

export type Actors = Required<Pick<Vendors, 'voice' | 'phone' | 'onramp' | 'bridge'>> & {
  readonly rung: Ringing[]
  /** Numbers that the operator rents at the carrier just now. */
  readonly lines: Line[]
  /** Every number that was bought, in order. */
  readonly bought: string[]
  readonly released: string[]
  readonly links: { readonly address: string; readonly ip: string }[]
}

export function actors(): Actors {
  const lines: Line[] = [{ number: LINE, id: 'PN-0', order: 'seeded' }]
  const [rung, bought, released, links]: [Ringing[], string[], string[], Actors['links']] = [[], [], [], []]
  return {
    rung,
    lines,
    bought,
    released,
    links,
    voice: {
      ring: async (call) => ({ handle: `vendor-call-${rung.push(call)}` }),
      callStatus: async (handle) => ({ call_id: handle, queue_status: 'queued', completed: false }),
    },
    phone: {
      countries: ['US', 'CA', 'GB'],
      lookup: async (number) => JSON.stringify({ phone_number: number, valid: true }),
      async buy({ order }) {
        const found = lines.find((line) => line.order === order)
        if (found) return found
        const line: Line = {
          number: `+1415555${String(200 + bought.length).padStart(4, '0')}`,
          id: `PN-${bought.length + 1}`,
          order,
        }
        bought.push(line.number)
        lines.push(line)
        return line
      },
      has: async (id) => lines.some((line) => line.id === id),
      async release(id) {
        const index = lines.findIndex((line) => line.id === id)
        if (index >= 0) released.push(...lines.splice(index, 1).map(({ number }) => number))
      },
      lines: async () => [...lines],
    },
    onramp: {
      link: async ({ address, ip }) =>
        `https://pay.coinbase.com/buy/select-asset?sessionToken=${links.push({ address, ip })}`,
    },
    bridge: { networks: ['eip155:84532'], depositAddress: async () => BRIDGE },
  }
}

/** A vendor that says no. */
export const failing = (): Promise<never> =>
  Promise.reject(new ApiError('UPSTREAM_FAILED', { message: 'It failed. Payment was NOT charged.' }))

/** Makes `LINE` this wallet's, paid for by a call that has settled. */
export async function rentTo(storage: Storage, owner: string, now: number, number = LINE): Promise<void> {
  const id = `job_seed_${owner.slice(2, 10)}_${number.slice(1)}`
  const offer = {
    scheme: 'exact',
    network: 'eip155:84532',
    amount: '5001000',
    asset: '0x0',
    payTo: '0x0',
    maxTimeoutSeconds: 300,
  }
  const authorization = {
    key: id,
    payer: owner,
    payment: { x402Version: 2 as const, accepted: offer, payload: {} },
    offer,
    expiresAt: now + 300_000,
  }
  const call = {
    id,
    gateway: 'default',
    endpoint: 'phone.numbers.buy',
    model: null,
    payer: owner,
    asset: 'seed',
    quote: usdc(5_001_000n),
    offer,
    fingerprint: '',
    request: {},
    createdAt: now,
    workerId: 'seed',
    expiresAt: now + TERM_MS,
  }
  await storage.openCall(call, authorization, { now, until: now + 1_000 })
  const claim = await storage.claimSettlement(id, authorization, {
    now,
    until: now + 1_000,
    result: { result: {}, expiresAt: now + TERM_MS },
  })
  if (claim.kind !== 'yours') throw new Error('a seed that does not settle')
  await storage.finishSettlement(
    id,
    claim.token,
    { kind: 'paid', receipt: { transaction: '0x5eed', network: offer.network, payer: owner, amount: '5001000' } },
    { now },
  )
  const data = {
    id: number === LINE ? 'PN-0' : `PN-${number}`,
    order: 'seeded',
    chain: 'base-sepolia',
    from: now,
    terms: 0,
    payment: id,
  }
  await NUMBER.put(storage, { id: number, owner, data, expiresAt: NO_EXPIRY }, now)
}
