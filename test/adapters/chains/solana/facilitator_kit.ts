/** The reference facilitator for Solana over HTTP, and chains that use one. */
import { x402Facilitator } from '@x402/core/facilitator'
import { toFacilitatorSvmSigner } from '@x402/svm'
import { registerExactSvmScheme } from '@x402/svm/exact/facilitator'
import {
  solanaFacilitator,
  type SolanaFacilitatorChain,
  type SolanaFacilitatorConfig,
} from '../../../../adapters/chains/solana/facilitator.ts'
import type { Offer } from '../../../../core/x402/protocol.ts'
import type { SolanaNode } from '../../../../server/devnet/solana/node.ts'
import type { Subject } from '../../../conformance/law.ts'
import { type Desk, desk } from '../facilitator/facilitator_kit.ts'
import { ask, cosigned, type Key, NETWORK, newKey, type SolanaHarness, solanaHarness } from './solana_kit.ts'

export type SolanaDesk = Desk & { readonly feePayer: Key }

/** The entry of /supported for a facilitator that signs for one fee payer. */
export const supporting =
  (feePayer: string, signers: readonly string[] = [feePayer]) =>
  () =>
    Response.json({
      kinds: [{ x402Version: 2, scheme: 'exact', network: NETWORK, extra: { feePayer } }],
      extensions: [],
      signers: { 'solana:*': signers },
    })

/** The reference facilitator, with a fee payer of its own. */
export async function referenceSolanaDesk(node: SolanaNode): Promise<SolanaDesk> {
  const feePayer = await newKey()
  node.airdropSol(feePayer.address)
  const signer = toFacilitatorSvmSigner(feePayer, { defaultRpcUrl: node.url })
  const facilitator = registerExactSvmScheme(new x402Facilitator(), { signer, networks: NETWORK })
  const made = desk(async ({ path, json }) => {
    const { paymentPayload, paymentRequirements } = json
    try {
      if (path === '/x402/verify') return Response.json(await facilitator.verify(paymentPayload, paymentRequirements))
      return Response.json(await facilitator.settle(paymentPayload, paymentRequirements))
    } catch (error) {
      return Response.json({ error: (error as Error).message }, { status: 500 })
    }
  })
  made.supported = supporting(feePayer.address)
  return Object.assign(made, { feePayer })
}

export type FacilitatorHarness = Omit<SolanaHarness, 'chain' | 'config'> & {
  readonly chain: SolanaFacilitatorChain
  readonly config: SolanaFacilitatorConfig
}

const RECEIPTS = ['getTransaction', 'getSignaturesForAddress']
let drawn = 0

/** One checked chain on the shared node. What is asked of facilitators and of the node goes over one faulty line. */
export async function facilitatorHarness(
  node: SolanaNode,
  desks: readonly SolanaDesk[],
  change: Partial<SolanaFacilitatorConfig> = {},
): Promise<FacilitatorHarness> {
  const base = await solanaHarness(node)
  base.chain.close()
  let requestCount = 0
  let judge: ((method: string) => 'fine' | 'lost' | 'deaf') | undefined
  const through = async (input: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> => {
    const url = String(input)
    const isNode = url.startsWith(node.url)
    requestCount++
    const apiError =
      judge?.(isNode ? (JSON.parse(String(init?.body)) as { method: string }).method : new URL(url).pathname) ?? 'fine'
    if (apiError === 'lost') throw new TypeError('the socket was closed')
    const response = await fetch(input, init)
    if (apiError === 'fine') return response
    await response.text()
    throw new TypeError('the socket was closed')
  }
  const config: SolanaFacilitatorConfig = {
    network: NETWORK,
    rpcUrl: node.url,
    mint: base.config.mint,
    payTo: base.config.payTo,
    facilitators: desks.map(({ url }) => ({ url })),
    fetch: through as typeof fetch,
    random: (bytes) => new Uint8Array(bytes).fill(++drawn),
    pollMs: 1,
    ...change,
  }
  const chain = solanaFacilitator(config)
  const checked = await chain.check({ now: node.now() })
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  const offer: Offer = { ...base.offer, extra: chain.terms(node.now())[0]?.extra ?? {} }
  return {
    ...base,
    chain,
    config,
    offer,
    feePayer: desks[0]?.feePayer ?? base.feePayer,
    reads: () => requestCount,
    outage(on) {
      judge = on ? () => 'lost' : undefined
    },
    drop(what) {
      return new Promise((resolve) => {
        judge = (method) => {
          if (what === 'sends' && method.endsWith('/settle')) resolve()
          if (what === 'answers' && RECEIPTS.includes(method)) resolve()
          if (what === 'sends') return method.endsWith('/settle') ? 'lost' : 'fine'
          return method.endsWith('/settle') || RECEIPTS.includes(method) ? 'deaf' : 'fine'
        }
      })
    },
    recover() {
      judge = undefined
    },
    async submit(payment) {
      await ask(node, 'sendTransaction', await cosigned(payment, desks[0]?.feePayer ?? base.feePayer), {
        encoding: 'base64',
        skipPreflight: true,
      })
    },
  }
}

export async function solanaFacilitatorSubject(
  node: SolanaNode,
  desks: readonly SolanaDesk[],
): Promise<Subject<FacilitatorHarness>> {
  const made = await facilitatorHarness(node, desks)
  return {
    open: async () => made,
    async close() {
      made.chain.close()
      node.rewind(false)
    },
  }
}
