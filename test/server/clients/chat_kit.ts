/** A fetch that pays on a running devnet gateway, and what the chain itself says of it. */
import { expect } from 'bun:test'
import { ExactEvmScheme } from '@x402/evm'
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { type Hex, pad } from 'viem'
import { rpc } from '../../../server/devnet/anvil.ts'
import { decodeHeader, payerAt } from './payer.ts'

const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/**
 * One answer to a paid request: what its 402 asked for, what its headers said, and what its stream says of the payment,
 * in comments or in the last event, once that is read.
 */
type Sale = { readonly quote: bigint; readonly headers: Headers; comments: string }
type Bought<T> = { readonly answer: T; readonly sales: readonly Sale[] }

export type Checkout = Awaited<ReturnType<typeof checkoutAt>>

/** The devnet's buyer, as a client has him: nothing but a `fetch`, made by @x402/fetch without a single option. */
export async function checkoutAt(url: string) {
  const payer = await payerAt(url)
  const { rpc_url, asset } = payer.devnet
  const from = pad(payer.account.address.toLowerCase() as Hex)
  let sales: Sale[] = []
  let quote: bigint | undefined
  /** Statuses of 5xx, after which clients quietly ask again. */
  let failures: number[] = []

  /** Sees what passes; a stream goes on to its reader piece by piece, and hangs up when he does. */
  async function seen(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const response = await fetch(input, init)
    const { status, headers, body } = response
    if (status === 402) quote = BigInt(decodeHeader(headers.get('payment-required')).accepts[0].amount)
    if (status >= 500) failures.push(status)
    if (status !== 200 || quote === undefined) return response
    const sale: Sale = { quote, headers, comments: '' }
    quote = undefined
    sales.push(sale)
    if (!body || !headers.get('content-type')?.startsWith('text/event-stream')) return response
    const decoder = new TextDecoder()
    const listening = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        for (const [line] of decoder.decode(bytes, { stream: true }).matchAll(/^:.*$|"payment":\{.*$/gm))
          sale.comments += `${line}\n`
        controller.enqueue(bytes)
      },
    })
    return new Response(body.pipeThrough(listening), { status, headers })
  }

  const pay = wrapFetchWithPaymentFromConfig(seen as typeof fetch, {
    schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(payer.account) }],
  })

  async function block(): Promise<bigint> {
    return BigInt(await rpc<Hex>(rpc_url, 'eth_blockNumber', []))
  }

  /** Transfers of the buyer since a block: amounts in order, and their transactions. */
  async function transfersSince(start: bigint) {
    type Log = {
      readonly blockNumber: Hex
      readonly data: Hex
      readonly transactionHash: string
      readonly topics: readonly Hex[]
    }
    const logs = await rpc<readonly Log[]>(rpc_url, 'eth_getLogs', [
      { address: asset, fromBlock: '0x0', toBlock: 'latest', topics: [TRANSFER, from] },
    ])
    const fresh = logs.filter(({ blockNumber }) => BigInt(blockNumber) > start)
    return fresh.map(({ data, transactionHash, topics: [, , to = '0x'] }) => ({
      value: BigInt(data),
      transaction: transactionHash,
      to: `0x${to.slice(26)}`,
    }))
  }

  /**
   * Runs `work`, and expects that the chain has one Transfer of the quoted amount to the seller for every answer that
   * was paid, no other, and that each answer carries its receipt: in its headers, or in its stream.
   */
  async function bought<T>(work: () => Promise<T>): Promise<Bought<T>> {
    sales = []
    failures = []
    const start = await block()
    const answer = await work()
    expect(failures).toEqual([])
    const transfers = await transfersSince(start)
    expect(sales).not.toEqual([])
    expect(transfers.map(({ value, to }) => [to, value])).toEqual(
      sales.map((sale) => [payer.payTo.toLowerCase(), sale.quote]),
    )
    for (const [index, { transaction }] of transfers.entries())
      expect(receiptOf(sales[index])).toMatchObject({
        success: true,
        transaction,
        network: payer.devnet.network,
        payer: payer.account.address,
      })
    return { answer, sales }
  }

  return { url, payer, pay, bought, block, transfersSince, quoted: () => sales.at(-1)?.quote }
}

function receiptOf(sale: Sale | undefined) {
  const receipt =
    sale?.headers.get('payment-response') ??
    /(?:^: payment-response |"payment-response":")([\w+/=]+)/im.exec(sale?.comments ?? '')?.[1]
  return receipt ? decodePaymentResponseHeader(receipt) : undefined
}
