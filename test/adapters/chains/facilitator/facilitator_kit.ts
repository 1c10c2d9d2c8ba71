/**
 * Facilitators for tests: the reference class of @x402/evm over HTTP, stand-ins that say what they are told, and chains
 * that use them.
 */
import { x402Facilitator } from '@x402/core/facilitator'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { registerExactEvmScheme } from '@x402/evm/exact/facilitator'
import { createWalletClient, type Hex, http, publicActions, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { transferCall } from '../../../../adapters/chains/evm/node/token.ts'
import { parseExact } from '../../../../adapters/chains/evm/exact/payload.ts'
import {
  facilitatorChain,
  type FacilitatorChain,
  type FacilitatorConfig,
} from '../../../../adapters/chains/evm/facilitator.ts'
import type { Payment } from '../../../../core/x402/protocol.ts'
import type { ChainHarness } from '../../../conformance/chains.ts'
import type { Subject } from '../../../conformance/law.ts'
import { ASSET, evmHarness, isReceipt, type Line, NETWORK, type World } from '../evm/evm_kit.ts'

// ── a facilitator's door ────────────────────────────────────────────────────────────────────────────────────────────

export type ApiRequest = {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly json: any
}
export type Answer = (order: ApiRequest, request: Request) => Response | Promise<Response>

/** A server on loopback that keeps what it was asked, /supported aside, and says what `answer` says. */
export type Desk = {
  readonly url: string
  readonly requests: ApiRequest[]
  answer: Answer
  supported: Answer
  close(): Promise<void>
}

export function desk(answer: Answer = () => new Response('nobody is here', { status: 503 })): Desk {
  const requests: ApiRequest[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const { method, headers, url } = request
      const text = await request.text()
      const one = { method, path: new URL(url).pathname, headers, json: text ? JSON.parse(text) : undefined }
      if (one.path.endsWith('/supported')) return await made.supported(one, request)
      requests.push(one)
      return await made.answer(one, request)
    },
  })
  const made: Desk = {
    url: `http://127.0.0.1:${server.port}/x402`,
    requests,
    answer,
    supported: () => Response.json(SUPPORTED),
    close: () => server.stop(true),
  }
  return made
}

export const SUPPORTED = { kinds: [{ x402Version: 2, scheme: 'exact', network: NETWORK }], extensions: [], signers: {} }
export const VALID = () => Response.json({ isValid: true })
export const HANGS = () => new Promise<Response>(() => {})

/**
 * The reference facilitator, with a relayer of its own. It takes nonces one after another, without which it loses
 * payments under load.
 */
export async function referenceDesk(world: World): Promise<Desk> {
  const account = privateKeyToAccount(world.key())
  await world.ask('anvil_setBalance', account.address, toHex(10n ** 20n))
  const transport = http(world.url, { retryCount: 0 })
  const client = createWalletClient({ account, chain: baseSepolia, transport, pollingInterval: 4 }).extend(
    publicActions,
  )
  let last: Promise<unknown> = Promise.resolve()
  const writeContract = (call: never): Promise<Hex> => {
    const next = last.then(() => client.writeContract(call))
    last = next.catch(() => {})
    return next
  }
  const signer = toFacilitatorEvmSigner({ ...client, address: account.address, writeContract } as never)
  const facilitator = registerExactEvmScheme(new x402Facilitator(), { signer, networks: NETWORK })
  const made = desk(async ({ path, json }) => {
    const { paymentPayload, paymentRequirements } = json
    try {
      if (path === '/x402/verify') return Response.json(await facilitator.verify(paymentPayload, paymentRequirements))
      return Response.json(await facilitator.settle(paymentPayload, paymentRequirements))
    } catch (error) {
      return Response.json({ error: (error as Error).message }, { status: 500 })
    }
  })
  made.supported = () => Response.json(facilitator.getSupported())
  return made
}

// ── a chain that uses it ────────────────────────────────────────────────────────────────────────────────────────────

export type Harness = ChainHarness & {
  readonly chain: FacilitatorChain
  readonly config: FacilitatorConfig
  readonly line: Line
}

let drawn = 0

/** One checked chain on the shared node. What is asked of facilitators and of the node goes over one faulty network. */
export async function harness(
  world: World,
  desks: readonly Desk[],
  change: Partial<FacilitatorConfig> = {},
): Promise<Harness> {
  const base = await evmHarness(world)
  base.chain.close()
  const { line, offer } = base
  let requestCount = 0
  let judge: ((path: string) => 'fine' | 'lost' | 'deaf') | undefined
  const through = async (input: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> => {
    const url = String(input)
    if (url.startsWith(world.url)) return line.fetch(input, init)
    requestCount++
    const apiError = judge?.(new URL(url).pathname) ?? 'fine'
    if (apiError === 'lost') throw new TypeError('the socket was closed')
    const response = await fetch(input, init)
    if (apiError === 'fine') return response
    await response.text()
    throw new TypeError('the socket was closed')
  }
  const config: FacilitatorConfig = {
    network: NETWORK,
    rpcUrl: world.url,
    asset: ASSET,
    payTo: offer.payTo,
    domain: base.config.domain,
    facilitators: desks.map(({ url }) => ({ url })),
    fetch: through as typeof fetch,
    random: (bytes) => new Uint8Array(bytes).fill(++drawn),
    pollMs: 1,
    ...change,
  }
  const chain = facilitatorChain(config)
  const checked = await chain.check({ now: world.now() })
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  return {
    ...base,
    chain,
    config,
    reads: () => base.reads() + requestCount,
    outage(on) {
      base.outage(on)
      judge = on ? () => 'lost' : undefined
    },
    drop(what) {
      line.judge = (messages) => (what === 'answers' && messages.some(isReceipt) ? 'deaf' : 'fine')
      return new Promise((resolve) => {
        judge = (path) => {
          if (!path.endsWith('/settle')) return 'fine'
          if (what === 'sends') resolve()
          return what === 'sends' ? 'lost' : 'deaf'
        }
        if (what === 'answers') line.judge = watched(line.judge, resolve)
      })
    },
    recover() {
      base.recover()
      judge = undefined
    },
  }
}

/** An answer counts as lost once the chain is asked what became of the payment. */
function watched(judge: Line['judge'], resolve: () => void): Line['judge'] {
  return (messages, count) => {
    resolve()
    return judge?.(messages, count) ?? 'fine'
  }
}

export async function facilitatorSubject(world: World, desks: readonly Desk[]): Promise<Subject<Harness>> {
  const made = await harness(world, desks)
  return { open: async () => made, close: async () => made.chain.close() }
}

/** Somebody sends it, whatever the facilitator then says. */
export async function land(world: World, payment: Payment): Promise<Hex> {
  const exact = parseExact(payment, payment.accepted)
  if (exact.kind === 'refused') throw new Error(exact.reason)
  return (await world.act(ASSET, transferCall(exact))).transactionHash
}
