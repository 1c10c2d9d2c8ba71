/** API keys as the operator sees them: what each has, was charged, and cost in gas, and when it was used last. */
import { print } from '../../core/mod.ts'
import type { Rules } from '../../core/payment/mod.ts'
import type { ChainKeys } from '../../core/ports/mod.ts'
import { iso } from './payment.ts'

export type KeySources = {
  /** Of all networks that take keys. */
  readonly keys: () => readonly Pick<ChainKeys, 'list'>[]
  readonly rules: () => Pick<Rules, 'blocked'>
}

const KEYS_ON_PAGE = 100

/** The key is blocked by its own address, or by that of its payer. */
function blockOf(addresses: readonly string[], blocked: Rules['blocked']) {
  const address = addresses.find((each) => each.toLowerCase() in blocked)
  return { is_blocked: address !== undefined, blocked_address: address ?? null }
}

/** A page of keys in the order of their addresses; `next` is the address to go on after, null on the last page. */
export async function listKeys({ keys, rules }: KeySources, { now, after }: { now: number; after: string }) {
  const at = { now, after: after.toLowerCase(), limit: KEYS_ON_PAGE }
  const pages = await Promise.all(keys().map((each) => each.list(at)))
  const found = new Map(pages.flat().map((key) => [`${key.network}/${key.channelId}`, key]))
  const addresses = [...new Set([...found.values()].map(({ address }) => address))].sort().slice(0, KEYS_ON_PAGE)
  const isFull = pages.some((page) => new Set(page.map(({ address }) => address)).size >= KEYS_ON_PAGE)
  const { blocked } = rules()
  const listed = [...found.values()]
    .filter(({ address }) => addresses.includes(address))
    .map(({ address, network, channelId, payer, usedAt, ...amounts }) => ({
      address,
      network,
      channel_id: channelId,
      payer,
      balance: print(amounts.deposited),
      charged: print(amounts.charged),
      unclaimed: print(amounts.unclaimed),
      reserved: print(amounts.reserved),
      available: print(amounts.available),
      gas_spent: print(amounts.gasSpent),
      gas_paid: print(amounts.gasPaid),
      last_used_at: usedAt === undefined ? null : iso(usedAt),
      ...blockOf([address, payer], blocked),
    }))
  return { keys: listed, next: isFull ? (addresses.at(-1) ?? null) : null }
}
