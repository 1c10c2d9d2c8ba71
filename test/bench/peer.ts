/**
 * The peer: `@x402/hono` in front of the same vendor, with an in-process facilitator, a local signer and a queue of
 * nonces.
 */
import { x402Facilitator } from '@x402/core/facilitator'
import type { FacilitatorClient } from '@x402/core/server'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { ExactEvmScheme as FacilitatorScheme } from '@x402/evm/exact/facilitator'
import { ExactEvmScheme as ServerScheme } from '@x402/evm/exact/server'
import { paymentMiddlewareFromConfig } from '@x402/hono'
import { Hono } from 'hono'
import { createWalletClient, type Hex, http, publicActions } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import type { ImageVendor } from '../../core/mod.ts'
import type { Devnet } from '../../server/devnet/mod.ts'
import { betweenBlocks } from '../fault/between_blocks.ts'
import { GENERATIONS } from '../server/clients/payer.ts'

/**
 * Tuned in its favour: gas and fees are fixed, so that a settlement costs one send, and receipts are looked for every 5
 * ms. Waiting for each receipt inside the send (eth_sendRawTransactionSync) made it a fifth faster alone and slower
 * with others; sending without waiting for the one before is a third faster at 32 in flight, until anvil forgets to
 * mine one, and all behind it are stuck.
 */
const RECEIPT_MS = 5
const GAS = { gas: 120_000n, maxFeePerGas: 10_000_000_000n, maxPriorityFeePerGas: 0n }

/** Its `fetch`, selling one image for `amount` base units. */
export async function peer(
  devnet: Devnet,
  vendor: ImageVendor,
  amount: string,
): Promise<(request: Request) => Response | Promise<Response>> {
  const routes = {
    [`POST ${GENERATIONS}`]: {
      accepts: {
        scheme: 'exact',
        network: devnet.network,
        payTo: devnet.payTo,
        price: { amount, asset: devnet.asset, extra: { ...devnet.domain } },
        maxTimeoutSeconds: 600,
      },
      description: 'Generate images from a prompt',
      mimeType: 'application/json',
    },
  }
  const app = new Hono()
  app.use(
    paymentMiddlewareFromConfig(routes, await facilitator(devnet), [
      { network: devnet.network, server: new ServerScheme() },
    ]),
  )
  app.post(GENERATIONS, async (context) => {
    const { model, prompt } = (await context.req.json()) as { model: string; prompt: string }
    const images = await vendor.generate(
      { model, prompt, width: 1024, height: 1024, n: 1 },
      { signal: context.req.raw.signal },
    )
    return context.json({ created: Math.floor(Date.now() / 1000), data: images })
  })
  return app.fetch
}

async function facilitator(devnet: Devnet): Promise<FacilitatorClient> {
  const account = privateKeyToAccount(devnet.relayerKey)
  const client = createWalletClient({
    account,
    chain: baseSepolia,
    transport: http(devnet.rpcUrl),
    pollingInterval: RECEIPT_MS,
  }).extend(publicActions)
  const queue = nonces(() => client.getTransactionCount({ address: account.address, blockTag: 'pending' }))
  type Write = Parameters<typeof client.writeContract>[0]
  const signer = toFacilitatorEvmSigner({
    address: account.address,
    getCode: (args) => betweenBlocks(() => client.getCode(args)),
    readContract: (args) => betweenBlocks(() => client.readContract(args as Parameters<typeof client.readContract>[0])),
    verifyTypedData: (args) => client.verifyTypedData(args as Parameters<typeof client.verifyTypedData>[0]),
    writeContract: (args) => queue((nonce) => client.writeContract({ ...args, ...GAS, nonce } as Write)),
    sendTransaction: (args) => queue((nonce) => client.sendTransaction({ ...args, ...GAS, nonce })),
    waitForTransactionReceipt: (args) => client.waitForTransactionReceipt(args),
  })
  const local = new x402Facilitator()
  local.register(devnet.network, new FacilitatorScheme(signer))
  return {
    verify: (payload, requirements) => local.verify(payload, requirements),
    settle: (payload, requirements) => local.settle(payload, requirements),
    getSupported: async () => local.getSupported() as Awaited<ReturnType<FacilitatorClient['getSupported']>>,
  }
}

/**
 * One send at a time, so that one that fails leaves no gap for those behind it to be stuck at: the count is then read
 * again.
 */
function nonces(count: () => Promise<number>) {
  let next: number | undefined
  let last: Promise<unknown> = Promise.resolve()
  return (send: (nonce: number) => Promise<Hex>): Promise<Hex> => {
    const turn = last.then(async () => {
      const nonce = (next ??= await count())
      next = undefined
      const hash = await send(nonce)
      next = nonce + 1
      return hash
    })
    last = turn.catch(() => {})
    return turn
  }
}
