/** A gateway killed with settlements in flight: its buyers send the same request again, and wait 30 s at most. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { toClientEvmSigner } from '@x402/evm'
import { BatchSettlementEvmScheme } from '@x402/evm/batch-settlement/client'
import { ExactEvmScheme } from '@x402/evm/exact/client'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { createPublicClient } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { type Devnet, startDevnet } from '../../server/devnet/mod.ts'
import { wallets } from '../bench/buyers.ts'
import { steadyHttp } from '../fault/between_blocks.ts'
import { holdingNode } from '../fault/holding_node.ts'
import { talker } from '../fault/talker.ts'
import { type GatewayProcess, gatewayProcesses } from './gateway_process.ts'
import { killedGateway } from './killed_gateway.ts'

const COMPLETIONS = '/api/v1/chat/completions'
const ASK = { model: 'vendor-h/chat-4', messages: [{ role: 'user', content: 'Hello?' }], max_tokens: 200 }
/** Time that clients commonly wait for an answer. */
const CLIENT_TIMEOUT_MS = 30_000
const BUYERS = 12

const { dir: freshDir, start } = gatewayProcesses()
const undo: (() => unknown)[] = []
let devnet: Devnet
let node: ReturnType<typeof holdingNode>
let talks: string

beforeAll(async () => {
  devnet = await startDevnet()
  undo.push(() => devnet.stop())
  node = holdingNode(devnet.rpcUrl)
  undo.push(() => node.stop())
  const chat = talker()
  undo.push(() => chat.stop())
  talks = chat.origin
}, 60_000)

afterAll(async () => {
  for (const step of undo.reverse()) await step()
})

const gatewayIn = (at: string): GatewayProcess => killedGateway(at, { start, devnet, vendor: talks, rpcUrl: node.url })

type Sent = { readonly header: string; readonly body: string }

/** One purchase by the official client of a scheme. `sent` is what it paid with, as soon as that is on its way. */
function purchase(url: string, account: PrivateKeyAccount, scheme: 'exact' | 'batch-settlement') {
  const sent = Promise.withResolvers<Sent>()
  const observing = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init)
    const header = request.headers.get('payment-signature')
    if (header) sent.resolve({ header, body: await request.clone().text() })
    return await fetch(request)
  }
  const reader = createPublicClient({ chain: baseSepolia, transport: steadyHttp(devnet.rpcUrl) })
  const signer = toClientEvmSigner(account, reader as never)
  const client = scheme === 'exact' ? new ExactEvmScheme(signer) : new BatchSettlementEvmScheme(signer)
  const pay = wrapFetchWithPaymentFromConfig(observing as typeof fetch, {
    schemes: [{ network: 'eip155:*', client }],
  })
  const answer = pay(url + COMPLETIONS, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(ASK),
  }).then(
    async (response) => `${response.status} ${await response.text()}`,
    (error: Error) => error,
  )
  return { sent: sent.promise, answer }
}

/** Sends the same request again and polls where it is told to, as a client does that has no answer. */
async function collect(url: string, { header, body }: Sent): Promise<{ status: number; text: string }> {
  const headers = { 'content-type': 'application/json', 'payment-signature': header }
  const signal = () => AbortSignal.timeout(CLIENT_TIMEOUT_MS)
  let response = await fetch(url + COMPLETIONS, { method: 'POST', headers, body, signal: signal() })
  while (response.status === 202) {
    const { poll_url } = (await response.json()) as { poll_url: string }
    response = await fetch(url + poll_url, { headers, signal: signal() })
  }
  return { status: response.status, text: await response.text() }
}

describe('a gateway that is killed with settlements in flight (contract 1.90)', () => {
  for (const scheme of ['exact', 'batch-settlement'] as const)
    test(`gives each of its buyers by ${scheme} the answer when the request is sent again`, async () => {
      const dir = freshDir()
      const people = await wallets(
        { port: 0, rpcUrl: devnet.rpcUrl, asset: devnet.asset, payTo: devnet.payTo, minterKey: devnet.relayerKey },
        BUYERS,
      )
      const killed = gatewayIn(dir)
      const url = await killed.url
      const isSettling = node.hold()
      const purchases = people.map((account) => purchase(url, account, scheme))
      const sent = await Promise.all(purchases.map((each) => each.sent))
      await isSettling
      killed.kill('SIGKILL')
      await killed.exited
      await Promise.all(purchases.map(({ answer }) => answer))
      node.release()

      const next = gatewayIn(dir)
      const again = await next.url
      const collected = await Promise.all(
        sent.map((each) => collect(again, each).catch((error: Error) => ({ status: 0, text: error.message }))),
      )
      expect(collected.map(({ status }) => status)).toEqual(collected.map(() => 200))
      for (const { text } of collected) expect(text).toContain('end-of-work-')
      next.kill('SIGTERM')
      await next.exited
    }, 120_000)
})
