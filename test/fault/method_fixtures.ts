/**
 * The rails beside the plain one, in this process: a Solana node and the batched payments' API, with payers and hands
 * that lose settlements.
 */
import { BatchEvmScheme } from '@circle-fin/x402-batching/client'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { generatePrivateKey, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts'
import { startBatchedApi } from '../../server/devnet/batched_api.ts'
import { DEVNET_ASSET, DEVNET_NETWORK } from '../../server/devnet/mod.ts'
import { solanaNode } from '../../server/devnet/solana/node.ts'
import { ask, NETWORK, newKey } from '../adapters/chains/solana/solana_kit.ts'

export type Payer = {
  readonly address: string
  /** Its public client's payment for an offer: version and payload. */
  pay(offer: unknown): Promise<{ readonly x402Version: number }>
  /** Everything that the rail has moved out of its wallet. */
  transfers(): Promise<readonly { readonly id: string; readonly value: bigint }[]>
  spent(): Promise<bigint>
}

export type PaymentMethod = {
  readonly name: string
  /** Its gateway answers to this name. */
  readonly host: string
  /** The gateway as TOML, and the keys that it names. */
  readonly row: string
  readonly env: Readonly<Record<string, string>>
  payer(): Promise<Payer>
  /** From now on settlements do not arrive, or arrive while nobody is told. Resolves when one has met this. */
  drop(what: 'sends' | 'answers'): Promise<void>
  recover(): void
}

const FUNDS = 10_000_000n
const clock = { now: Date.now }

export async function onSolana(undo: (() => unknown)[]): Promise<PaymentMethod> {
  const node = await solanaNode({ clock })
  undo.push(() => node.stop())
  node.setLag(1)
  const [feePayer, seller] = [await newKey(), await newKey()]
  node.airdropSol(feePayer.address)
  await node.openAccount(seller.address)
  const row = `[[gateways]]
name = "solana"
hosts = ["solana.example"]
network = "${NETWORK}"
pay_to = "${seller.address}"
rpc_url = "${node.url}"
fee_payer_key_env = "FEE_PAYER"
`
  return {
    name: 'solana',
    host: 'solana.example',
    row,
    env: { FEE_PAYER: JSON.stringify([...feePayer.bytes]) },
    drop(what) {
      if (what === 'sends') return node.drop(what)
      const lost = Promise.withResolvers<void>()
      node.fakeReply('sendTransaction', (truth) => (void node.drop(what).then(lost.resolve), truth)) // before it all is to be seen
      return lost.promise
    },
    recover() {
      node.fakeReply('sendTransaction')
      node.recover()
    },
    async payer() {
      const key = await newKey()
      await node.fund(key.address, FUNDS)
      return {
        address: key.address,
        pay: (offer) => new ExactSvmScheme(key, { rpcUrl: node.url }).createPaymentPayload(2, offer as never),
        async transfers() {
          node.advance(2) // whatever has arrived is confirmed then
          const ran = await ask<readonly { signature: string }[]>(node, 'getSignaturesForAddress', feePayer.address, {
            commitment: 'confirmed',
          })
          return ran.flatMap(({ signature }) =>
            node
              .transfersIn(signature)
              .filter(({ from }) => from === key.address)
              .map(({ value }) => ({ id: signature, value })),
          )
        },
        spent: async () => FUNDS - (await node.balanceOf(key.address)),
      }
    },
  }
}

export function nano(undo: (() => unknown)[]): PaymentMethod {
  const api = startBatchedApi({ clock, network: DEVNET_NETWORK, asset: DEVNET_ASSET })
  undo.push(() => api.stop())
  let onSettle = () => {}
  const front = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      if (pathname.endsWith('/settle')) onSettle()
      const { status, headers, body } = await fetch(api.url + pathname + search, {
        method: request.method,
        ...(request.method === 'POST' && { body: await request.text() }),
      })
      return new Response(body, {
        status,
        headers: { 'content-type': headers.get('content-type') ?? '', date: headers.get('date') ?? '' },
      })
    },
  })
  undo.push(() => front.stop(true))
  const row = `[[gateways]]
name = "nano"
hosts = ["nano.example"]
pay_to = "${privateKeyToAddress(generatePrivateKey())}"
batched = { url = "${front.url.origin}", networks = ["${DEVNET_NETWORK}"] }
`
  return {
    name: 'nano',
    host: 'nano.example',
    row,
    env: {},
    drop(what) {
      const lost = Promise.withResolvers<void>()
      onSettle = () => void api.drop(what).then(lost.resolve) // before it all is to be seen
      return lost.promise
    },
    recover() {
      onSettle = () => {}
      api.recover()
    },
    async payer() {
      const account = privateKeyToAccount(generatePrivateKey())
      api.deposit(account.address, FUNDS)
      return {
        address: account.address,
        pay: (offer) => new BatchEvmScheme(account).createPaymentPayload(2, offer as never),
        transfers: async () =>
          api.transfers
            .filter(({ fromAddress }) => fromAddress === account.address)
            .map(({ id, amount }) => ({ id, value: BigInt(amount) })),
        spent: async () => FUNDS - api.balanceOf(account.address),
      }
    },
  }
}
