/** Many wallets with money, and their signed requests, made before anything is measured. */
import { encodeFunctionData, type Hex, parseAbi } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { rpc } from '../../server/devnet/anvil.ts'
import { DEVNET_MULTICALL } from '../../server/devnet/mod.ts'
import { encodePayment, GENERATIONS, type Offer, signOffer } from '../server/clients/payer.ts'

export const ORDER = JSON.stringify({ model: 'vendor-a/image-1', prompt: 'a red fox in the snow' })

/** Facts of a shop that a buyer needs. */
export type Gateway = {
  readonly port: number
  readonly rpcUrl: string
  readonly asset: Hex
  readonly payTo: Hex
  readonly minterKey: Hex
}

export type Challenge = { readonly accepts: readonly [Offer]; readonly resource: unknown }

const ABI = parseAbi([
  'function mint(address to, uint256 value)',
  'struct Call { address target; bool allowFailure; bytes callData; }',
  'function aggregate3(Call[] calls) payable returns ((bool success, bytes returnData)[])',
])
const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/** `count` fresh wallets with 1,000 USDC each. */
export async function wallets(
  { rpcUrl, asset, minterKey }: Gateway,
  count: number,
): Promise<readonly PrivateKeyAccount[]> {
  const made = Array.from({ length: count }, () => privateKeyToAccount(generatePrivateKey()))
  const minter = privateKeyToAccount(minterKey)
  const calls = made.map(({ address }) => {
    const callData = encodeFunctionData({ abi: ABI, functionName: 'mint', args: [address, 1_000_000_000n] })
    return { target: asset, allowFailure: false, callData }
  })
  const transaction = await minter.signTransaction({
    chainId: Number(await rpc<Hex>(rpcUrl, 'eth_chainId', [])),
    nonce: Number(await rpc<Hex>(rpcUrl, 'eth_getTransactionCount', [minter.address, 'pending'])),
    to: DEVNET_MULTICALL,
    data: encodeFunctionData({ abi: ABI, functionName: 'aggregate3', args: [calls] }),
    gas: 25_000_000n,
    maxFeePerGas: 10_000_000_000n,
    maxPriorityFeePerGas: 0n,
  })
  const receipt = await rpc<{ status: Hex }>(rpcUrl, 'eth_sendRawTransactionSync', [transaction])
  if (receipt.status !== '0x1') throw new Error('the bench could not mint money for its buyers')
  return made
}

/** The challenge as it came, headers and all. */
export async function ask(
  port: number,
): Promise<{ status: number; headers: [string, string][]; body: string; challenge: Challenge }> {
  const response = await fetch(`http://127.0.0.1:${port}${GENERATIONS}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: ORDER,
  })
  const body = await response.text()
  const required = response.headers.get('payment-required')
  if (!required) throw new Error(`no challenge from port ${port}: ${response.status} ${body}`)
  return { status: response.status, headers: [...response.headers], body, challenge: JSON.parse(atob(required)) }
}

/** A raw request, with a payment or without. */
function request(payment?: string): string {
  const paid = payment === undefined ? '' : `payment-signature: ${payment}\r\n`
  return `POST ${GENERATIONS} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n${paid}content-length: ${ORDER.length}\r\n\r\n${ORDER}`
}

/** `count` requests, each paid by another authorization, the wallets taking turns. */
export async function signed(
  { accepts: [offer], resource }: Challenge,
  buyers: readonly PrivateKeyAccount[],
  count: number,
): Promise<readonly string[]> {
  const made: string[] = []
  for (let index = 0; index < count; index++) {
    const buyer = buyers[index % buyers.length]
    if (!buyer) throw new RangeError('signing needs a buyer')
    made.push(request(encodePayment(await signOffer(buyer, { offer, resource }))))
  }
  return made
}

/** Transfers to the seller that the chain has seen: what was truly paid. */
export async function transfers({ rpcUrl, asset, payTo }: Gateway): Promise<number> {
  const filter = {
    address: asset,
    fromBlock: '0x0',
    toBlock: 'latest',
    topics: [TRANSFER, null, `0x${payTo.slice(2).toLowerCase().padStart(64, '0')}`],
  }
  return (await rpc<unknown[]>(rpcUrl, 'eth_getLogs', [filter])).length
}
