/**
 * The peer for vouchers: `@x402/hono` with its own batch-settlement server, channels in its memory or in files, and an
 * in-process facilitator on the same chain. It charges its price, and passes the upstream's answers on as text.
 */
import { x402Facilitator } from '@x402/core/facilitator'
import type { FacilitatorClient } from '@x402/core/server'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { BatchSettlementEvmScheme as FacilitatorScheme } from '@x402/evm/batch-settlement/facilitator'
import { BatchSettlementEvmScheme as ServerScheme } from '@x402/evm/batch-settlement/server'
import { FileChannelStorage } from '@x402/evm/batch-settlement/server/file-storage'
import { paymentMiddlewareFromConfig } from '@x402/hono'
import { Hono } from 'hono'
import { createWalletClient, http, publicActions } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import type { Channels } from './chat_gateways.ts'

const RECEIPT_MS = 5
const PATH = '/api/v1/chat/completions'
/** The quote of Farebox for the chat of this bench, in base units. */
const PRICE = '2000'

export async function voucherPeer(
  channels: Channels & { readonly dir: string },
  upstreamUrl: string,
): Promise<(request: Request) => Response | Promise<Response>> {
  const { network, payTo, asset, domain, authorizerKey, dir } = channels
  const scheme = new ServerScheme(payTo, {
    receiverAuthorizerSigner: privateKeyToAccount(authorizerKey),
    withdrawDelay: 86_400,
    ...(channels.inFiles && { storage: new FileChannelStorage({ directory: dir }) }),
  })
  const routes = {
    [`POST ${PATH}`]: {
      accepts: {
        scheme: 'batch-settlement',
        network,
        payTo,
        price: { amount: PRICE, asset, extra: { ...domain } },
        maxTimeoutSeconds: 300,
      },
      description: 'Chat',
      mimeType: 'application/json',
    },
  }
  const app = new Hono()
  app.use(paymentMiddlewareFromConfig(routes, facilitator(channels), [{ network, server: scheme }]))
  app.post(PATH, async (context) => {
    const answer = await fetch(upstreamUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: await context.req.text(),
    })
    return context.body(await answer.text(), 200, { 'content-type': 'application/json' })
  })
  return app.fetch
}

function facilitator({ network, rpcUrl, relayerKey }: Channels): FacilitatorClient {
  const account = privateKeyToAccount(relayerKey)
  const client = createWalletClient({
    account,
    chain: baseSepolia,
    transport: http(rpcUrl),
    pollingInterval: RECEIPT_MS,
  }).extend(publicActions)
  const signer = toFacilitatorEvmSigner({
    address: account.address,
    getCode: (args) => client.getCode(args),
    readContract: (args) => client.readContract(args as Parameters<typeof client.readContract>[0]),
    verifyTypedData: (args) => client.verifyTypedData(args as Parameters<typeof client.verifyTypedData>[0]),
    writeContract: (args) => client.writeContract(args as Parameters<typeof client.writeContract>[0]),
    sendTransaction: (args) => client.sendTransaction(args),
    waitForTransactionReceipt: (args) => client.waitForTransactionReceipt(args),
  })
  const local = new x402Facilitator()
  local.register(network, new FacilitatorScheme(signer))
  return {
    verify: (payload, requirements) => local.verify(payload, requirements),
    settle: (payload, requirements) => local.settle(payload, requirements),
    getSupported: async () => local.getSupported() as Awaited<ReturnType<FacilitatorClient['getSupported']>>,
  }
}
