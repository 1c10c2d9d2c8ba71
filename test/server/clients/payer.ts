/** A wallet on a running devnet gateway: signs by hand, asks the chain itself what was paid. */
import { randomBytes } from 'node:crypto'
import { encodeFunctionData, type Hex, pad, parseAbi, parseSignature, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { rpc } from '../../../server/devnet/anvil.ts'

export const GENERATIONS = '/api/v1/images/generations'

/** GET /devnet. */
export type Devnet = {
  readonly network: string
  readonly rpc_url: string
  readonly asset: Hex
  readonly pay_to: Hex
  readonly buyer: { readonly address: Hex; readonly private_key: Hex }
}

export type Offer = {
  readonly scheme: string
  readonly network: string
  readonly amount: string
  readonly asset: Hex
  readonly payTo: Hex
  readonly maxTimeoutSeconds: number
  readonly extra: { readonly name: string; readonly version: string }
}
type Authorization = {
  readonly from: Hex
  readonly to: Hex
  readonly value: string
  readonly validAfter: string
  readonly validBefore: string
  readonly nonce: Hex
}
export type Payment = {
  readonly x402Version: 2
  readonly resource: unknown
  readonly accepted: Offer
  readonly payload: { readonly signature: Hex; readonly authorization: Authorization }
}
export type Answer = { readonly status: number; readonly headers: Headers; readonly body: any }
type Transfer = { readonly from: Hex; readonly to: Hex; readonly value: bigint }

const TOKEN = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function balanceOf(address account) view returns (uint256)',
])
const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
export const AUTHORIZATION_USED: Hex = '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5'

const field = (type: string, name: string) => ({ type, name })
const TRANSFER_WITH_AUTHORIZATION = {
  TransferWithAuthorization: [
    field('address', 'from'),
    field('address', 'to'),
    field('uint256', 'value'),
    field('uint256', 'validAfter'),
    field('uint256', 'validBefore'),
    field('bytes32', 'nonce'),
  ],
}
const CANCEL_AUTHORIZATION = { CancelAuthorization: [field('address', 'authorizer'), field('bytes32', 'nonce')] }

/**
 * Signed fields that differ from the offer; `as` signs in the payer's place, `domain` replaces the token's name.
 */
export type Twist = {
  readonly authorization?: Partial<Authorization>
  readonly as?: PrivateKeyAccount
  readonly domain?: string
}

/** Signs one authorization for an offer, good from the epoch on, as the official client does. */
export async function signOffer(
  account: PrivateKeyAccount,
  { offer, resource }: { offer: Offer; resource: unknown },
  { authorization: changed, as = account, domain }: Twist = {},
): Promise<Payment> {
  const validBefore = String(Math.floor(Date.now() / 1000) + offer.maxTimeoutSeconds)
  const authorization = {
    from: account.address,
    to: offer.payTo,
    value: offer.amount,
    validAfter: '0',
    validBefore,
    nonce: toHex(randomBytes(32)),
    ...changed,
  }
  const { value, validAfter, validBefore: end } = authorization
  const signature = await as.signTypedData({
    domain: { ...domainOf(offer), ...(domain && { name: domain }) },
    types: TRANSFER_WITH_AUTHORIZATION,
    primaryType: 'TransferWithAuthorization',
    message: { ...authorization, value: BigInt(value), validAfter: BigInt(validAfter), validBefore: BigInt(end) },
  })
  return { x402Version: 2, resource, accepted: offer, payload: { signature, authorization } }
}

function domainOf({ network, asset, extra }: Offer) {
  return { name: extra.name, version: extra.version, chainId: Number(network.split(':')[1]), verifyingContract: asset }
}

export const encodePayment = (payment: unknown): string => Buffer.from(JSON.stringify(payment)).toString('base64')
export const decodeHeader = (header: string | null): any => JSON.parse(Buffer.from(header ?? '', 'base64').toString())

export type Payer = Awaited<ReturnType<typeof payerAt>>

/** The devnet's funded buyer, or whoever's key is given, in front of the gateway at `url`. */
export async function payerAt(url: string, key?: Hex) {
  const devnet = (await (await fetch(`${url}/devnet`)).json()) as Devnet
  const account = privateKeyToAccount(key ?? devnet.buyer.private_key)
  const { rpc_url, asset, pay_to } = devnet

  async function post(body: unknown, header?: Readonly<Record<string, string>>, path = GENERATIONS): Promise<Answer> {
    return await read(
      await fetch(url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...header },
        body: JSON.stringify(body),
      }),
    )
  }

  const get = async (path: string, header: Readonly<Record<string, string>> = {}): Promise<Answer> =>
    read(await fetch(url + path, { headers: header }))

  /** Asks for the price and signs it. */
  async function sign(body: unknown, twist?: Twist, path = GENERATIONS): Promise<Payment> {
    const { headers } = await post(body, {}, path)
    const { accepts, resource } = decodeHeader(headers.get('payment-required')) as {
      accepts: readonly [Offer]
      resource: unknown
    }
    return await signOffer(account, { offer: accepts[0], resource }, twist)
  }

  async function balance(of: Hex = account.address): Promise<bigint> {
    return BigInt(
      await rpc<Hex>(rpc_url, 'eth_call', [
        { to: asset, data: encodeFunctionData({ abi: TOKEN, functionName: 'balanceOf', args: [of] }) },
        'latest',
      ]),
    )
  }

  /** The token's Transfer logs in one transaction. */
  async function transfersIn(transaction: string): Promise<readonly Transfer[]> {
    type Log = { readonly address: Hex; readonly topics: readonly Hex[]; readonly data: Hex }
    const receipt = await rpc<{ status: Hex; logs: readonly Log[] } | null>(rpc_url, 'eth_getTransactionReceipt', [
      transaction,
    ])
    if (receipt?.status !== '0x1') throw new Error(`no transaction ${transaction} went through`)
    const own = receipt.logs.filter(
      ({ address, topics }) => address.toLowerCase() === asset.toLowerCase() && topics[0] === TRANSFER,
    )
    return own.map(({ topics: [, from = '0x', to = '0x'], data }) => ({
      from: `0x${from.slice(26)}`,
      to: `0x${to.slice(26)}`,
      value: BigInt(data),
    }))
  }

  /** Hashes of the transactions that used an authorization. */
  async function usesOf({ payload: { authorization } }: Payment): Promise<readonly string[]> {
    const topics = [AUTHORIZATION_USED, pad(authorization.from.toLowerCase() as Hex), authorization.nonce]
    const logs = await rpc<readonly { transactionHash: string }[]>(rpc_url, 'eth_getLogs', [
      { address: asset, fromBlock: '0x0', toBlock: 'latest', topics },
    ])
    return logs.map(({ transactionHash }) => transactionHash)
  }

  /** Sends the buyer's own transaction to the token. */
  async function send(data: Hex): Promise<void> {
    const transaction = await account.signTransaction({
      chainId: Number(devnet.network.split(':')[1]),
      nonce: Number(await rpc<Hex>(rpc_url, 'eth_getTransactionCount', [account.address, 'pending'])),
      to: asset,
      data,
      gas: 200_000n,
      maxFeePerGas: 10_000_000_000n,
      maxPriorityFeePerGas: 0n,
    })
    const receipt = await rpc<{ status: Hex }>(rpc_url, 'eth_sendRawTransactionSync', [transaction])
    if (receipt.status !== '0x1') throw new Error('the transaction reverted')
  }

  /** Spends a signed payment on chain, past the gateway. */
  async function spend({ payload: { authorization, signature } }: Payment): Promise<void> {
    const { from, to, value, validAfter, validBefore, nonce } = authorization
    const args = [from, to, BigInt(value), BigInt(validAfter), BigInt(validBefore), nonce, signature] as const
    await send(encodeFunctionData({ abi: TOKEN, functionName: 'transferWithAuthorization', args }))
  }

  /** Cancels it on chain. */
  async function cancel({ accepted, payload: { authorization } }: Payment): Promise<void> {
    const { from, nonce } = authorization
    const message = { authorizer: from, nonce }
    const signature = await account.signTypedData({
      domain: domainOf(accepted),
      types: CANCEL_AUTHORIZATION,
      primaryType: 'CancelAuthorization',
      message,
    })
    const { v = 27n, r, s } = parseSignature(signature)
    await send(
      encodeFunctionData({ abi: TOKEN, functionName: 'cancelAuthorization', args: [from, nonce, Number(v), r, s] }),
    )
  }

  return { url, devnet, account, payTo: pay_to, post, get, sign, balance, transfersIn, usesOf, spend, cancel }
}

async function read(response: Response): Promise<Answer> {
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
}

/** The size that a PNG says it has; undefined when it is none. */
export function pngSize(bytes: Uint8Array): string | undefined {
  const isPng = Buffer.from(bytes.subarray(0, 8)).toString('hex') === '89504e470d0a1a0a'
  if (!isPng) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  return `${view.getUint32(16)}x${view.getUint32(20)}`
}
