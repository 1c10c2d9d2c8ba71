/**
 * The stand-in of the batched payments' API, a fetch that can show it as it was, and the hands that the chain laws
 * need.
 */
import { type Hex, keccak256, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { type BatchedChain, batchedChain } from '../../../../../adapters/chains/evm/batched/mod.ts'
import { type BatchedConfig } from '../../../../../adapters/chains/evm/batched/scheme.ts'
import { offerOf } from '../../../../../core/x402/offer.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import type { Payment } from '../../../../../core/x402/protocol.ts'
import { type BatchedStandIn, startBatchedApi } from '../../../../../server/devnet/batched_api.ts'
import type { ChainHarness, Payer, Signing } from '../../../../conformance/chains.ts'
import type { Subject } from '../../../../conformance/law.ts'
import { START, testLog } from '../../../../kit.ts'
import { ASSET, NETWORK, signPayment } from '../evm_kit.ts'

export const WALLET = '0x0077777d7EBA4688BDeF3E311b846F25870A19B9'
/** Seconds that the API wants to be left of an authorization's life: it ends so long before its `validBefore`. */
export const RESERVE = 604_800n
const UINT256_MAX = 2n ** 256n - 1n

export type Harness = ChainHarness & {
  readonly chain: BatchedChain
  readonly api: BatchedStandIn
  readonly config: BatchedConfig
  readonly log: ReturnType<typeof testLog>
  account(payer: Payer): PrivateKeyAccount
  close(): Promise<void>
}

let keys = 0
export const key = (): Hex => keccak256(toHex(`batched key ${keys++}`))

/**
 * An authorization that dies at `validBefore`, as the laws speak of it, is signed to live on for as long as the API
 * wants.
 */
function lived({ validBefore, ...signing }: Signing): Signing {
  if (validBefore === undefined) return signing
  const end = validBefore + RESERVE
  return { ...signing, validBefore: end > UINT256_MAX ? UINT256_MAX : end }
}

/** One checked chain before a stand-in of its own. */
export async function harness(change: Partial<BatchedConfig> = {}): Promise<Harness> {
  let now = START
  const api = startBatchedApi({ clock: { now: () => now }, network: NETWORK, asset: ASSET })
  const log = testLog()
  const answers = new Map<string, string>()
  let memory: 'off' | 'marking' | 'replaying' = 'off'
  let onSearch = () => {}

  /** Keeps what the API said, so that it can be said again when it is to look as it was. */
  async function through(input: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> {
    const request = `${String(input)} ${String(init?.body)}`
    if (request.includes('/transfers')) onSearch()
    const known = answers.get(request)
    if (memory === 'replaying' && known !== undefined) return new Response(known)
    const response = await fetch(input, init)
    if (memory === 'marking' && known === undefined) answers.set(request, await response.clone().text())
    return response
  }

  const payTo = privateKeyToAccount(key()).address
  const config: BatchedConfig = {
    apiUrl: api.url,
    networks: [],
    payTo,
    alert: log.alert,
    fetch: through as typeof fetch,
    ...change,
  }
  const chain = batchedChain(config)
  const checked = await chain.check({ now })
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  const [terms] = chain.terms(now)
  if (!terms) throw new Error('no terms')
  const accounts = new Map<string, PrivateKeyAccount>()
  const accountOf = ({ address }: Payer) => accounts.get(address) as PrivateKeyAccount

  async function submit(payment: Payment): Promise<string> {
    const { to, value } = payment.payload.authorization as { to: string; value: string }
    const paymentRequirements = { ...payment.accepted, payTo: to, amount: value }
    const body = JSON.stringify({
      paymentPayload: { ...payment, resource: { url: 'http://127.0.0.1/' } },
      paymentRequirements,
    })
    const reply = (await (await fetch(`${api.url}/v1/x402/settle`, { method: 'POST', body })).json()) as {
      success: boolean
      errorReason?: string
      transaction: string
    }
    if (!reply.success) throw new Error(reply.errorReason)
    return reply.transaction
  }

  return {
    chain,
    api,
    config,
    log,
    contract: WALLET,
    offer: offerOf(terms, { amount: usdc(10_000n), maxTimeoutSeconds: 300 }),
    now: () => now,
    account: accountOf,
    async payer(balance = 1_000_000n) {
      const made = privateKeyToAccount(key())
      accounts.set(made.address, made)
      api.setBalance(made.address, balance)
      return { address: made.address }
    },
    sign: (payer, offer, signing = {}) => signPayment(accountOf(payer), offer, { now, ...lived(signing) }),
    balanceOf: async (address) => api.balanceOf(address, 'with_incoming'),
    tellsBlocks: false,
    arrive: async () => api.advance(undefined, 'completed'),
    fund: async ({ address }, balance) => api.setBalance(address, balance),
    async transfersIn(transaction) {
      const own = api.transfers.filter(({ id }) => id === transaction)
      return own.map(({ fromAddress, toAddress, amount }) => ({
        from: fromAddress.toLowerCase(),
        to: toAddress.toLowerCase(),
        value: BigInt(amount),
      }))
    },
    /** Nobody can take an authorization back here; one whose transfer has failed is as good as that. */
    cancel: async (_, payment) => api.advance(await submit(payment), 'failed'),
    submit: async (payment) => void (await submit(payment)),
    async mineAt(seconds) {
      now = seconds * 1000
    },
    reads: () => api.reads(),
    outage: api.outage,
    /** One counts as lost once the API is asked what became of it. */
    drop: (what) => new Promise((resolve) => void api.drop(what).then(() => (onSearch = resolve))),
    recover: api.recover,
    mark() {
      answers.clear()
      memory = 'marking'
    },
    rewind: (on) => void (memory = on ? 'replaying' : 'off'),
    async close() {
      chain.close()
      await api.stop()
    },
  }
}

export async function batchedSubject(): Promise<Subject<Harness>> {
  const made = await harness()
  return { open: async () => made, close: () => made.close() }
}
