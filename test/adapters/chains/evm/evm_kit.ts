/** A local chain for tests, a fetch that fails as told in front of it, and the hands that the chain laws need. */
import { type Hex, keccak256, pad, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { transferCall } from '../../../../adapters/chains/evm/node/token.ts'
import { type EvmChain, type EvmConfig, evmChain } from '../../../../adapters/chains/evm/mod.ts'
import { parseExact } from '../../../../adapters/chains/evm/exact/payload.ts'
import { word } from '../../../../adapters/chains/lib/hex.ts'
import type { Offer, Payment } from '../../../../core/x402/protocol.ts'
import { rpc, startAnvil } from '../../../../server/devnet/anvil.ts'
import { CONTRACTS } from '../../../../server/devnet/mod.ts'
import type { ChainHarness, Forgery, Signing } from '../../../conformance/chains.ts'
import type { Subject } from '../../../conformance/law.ts'

export const ASSET: Hex = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
export const MULTICALL: Hex = '0xcA11bde05977b3631167028862bE2a173976CA11'
export const NETWORK = 'eip155:84532'
export const DOMAIN = { name: 'USDC', version: '2' }
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

const UINTS = ['value', 'validAfter', 'validBefore'].map((name) => ({ name, type: 'uint256' }))
const TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    ...UINTS,
    { name: 'nonce', type: 'bytes32' },
  ],
  CancelAuthorization: [
    { name: 'authorizer', type: 'address' },
    { name: 'nonce', type: 'bytes32' },
  ],
}

export type World = {
  readonly url: string
  now(): number
  mineAt(seconds: number): Promise<void>
  key(): Hex
  setBalance(address: string, balance: bigint): Promise<void>
  balanceOf(address: string): Promise<bigint>
  /** Sends a transaction of nobody's in particular; throws when it reverts. */
  act(to: string | null, data: Hex): Promise<{ transactionHash: Hex; contractAddress: Hex | null }>
  ask<T = unknown>(method: string, ...params: readonly unknown[]): Promise<T>
  close(): Promise<void>
}

type Log = { address: string; topics: string[]; data: string }

/** Starts a node, once per file, with the contracts of devnet in place. */
export async function world(): Promise<World> {
  const node = await startAnvil()
  const ask = <T>(method: string, ...params: readonly unknown[]) => rpc<T>(node.url, method, params)
  let made = 0
  let offset = 0
  const key = () => keccak256(toHex(`key ${made++}`))
  const stranger = privateKeyToAccount(key())
  await Promise.all(CONTRACTS.map((contract) => ask('anvil_setCode', ...contract)))
  await ask('anvil_setBalance', stranger.address, toHex(10n ** 21n))
  return {
    url: node.url,
    ask,
    key,
    now: () => Date.now() + offset,
    async mineAt(seconds) {
      await ask('evm_setNextBlockTimestamp', seconds)
      await ask('evm_mine')
      offset = seconds * 1000 - Date.now()
    },
    setBalance: (address, balance) => ask('anvil_setStorageAt', ASSET, balanceSlot(address), pad(toHex(balance))),
    balanceOf: async (address) =>
      // The node refuses calls at its latest block while it makes another one; it reads storage at any time.
      BigInt(await ask<Hex>('eth_getStorageAt', ASSET, balanceSlot(address), 'latest')),
    async act(to, data) {
      const nonce = Number(await ask<Hex>('eth_getTransactionCount', stranger.address, 'latest'))
      const fees = { gas: 1_000_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 0n }
      const raw = await stranger.signTransaction({
        chainId: 84532,
        nonce,
        ...(to ? { to: to as Hex } : {}),
        data,
        ...fees,
      })
      const receipt = await ask<{ status: Hex; transactionHash: Hex; contractAddress: Hex | null }>(
        'eth_sendRawTransactionSync',
        raw,
      )
      if (receipt.status !== '0x1') throw new Error('it reverted')
      return receipt
    },
    close: () => node.stop(),
  }
}

function balanceSlot(address: string): Hex {
  return keccak256(`0x${word(address)}${word(1n)}`)
}

// ── a network that fails as told ────────────────────────────────────────────────────────────────────────────────────

export type Message = { readonly id: number; readonly method: string; readonly params: readonly unknown[] }
type Reply = { readonly id: number; readonly result?: unknown; readonly error?: { code: number; message: string } }

/**
 * The fate of one HTTP request: `deaf` arrives, but its answer is lost; `lost` never arrives. A function answers in
 * the node's place.
 */
export type ApiError = 'fine' | 'lost' | 'deaf' | 'busy' | 'garbage' | Stand
type Stand = (messages: readonly Message[], forward: () => Promise<readonly Reply[]>) => Promise<readonly Reply[]>

/** Answers of the node, but for some messages something else. */
export function instead(isIt: (message: Message) => boolean, input: object): Stand {
  return async (messages, forward) => {
    const replies = await forward()
    return messages.map((message) =>
      isIt(message)
        ? { id: message.id, ...input }
        : (replies.find(({ id }) => id === message.id) ?? { id: message.id }),
    )
  }
}

export type Line = {
  readonly fetch: typeof globalThis.fetch
  /** Decides for each request; undefined is a sound line. */
  judge: ((messages: readonly Message[], count: number) => ApiError) | undefined
  count: number
}

export function line(): Line {
  const made: Line = { fetch: fetch as typeof globalThis.fetch, judge: undefined, count: 0 }
  const through = async (input: Parameters<typeof globalThis.fetch>[0], init?: RequestInit): Promise<Response> => {
    const sent: unknown = JSON.parse(String(init?.body))
    const messages = (Array.isArray(sent) ? sent : [sent]) as Message[]
    const apiError = made.judge?.(messages, ++made.count) ?? 'fine'
    if (!made.judge) made.count++
    const forward = () => fetch(input, init)
    if (apiError === 'fine') return forward()
    if (apiError === 'busy') return new Response('{"message":"slow down"}', { status: 429 })
    if (apiError === 'garbage') return new Response('<html>the gateway is tired</html>')
    if (typeof apiError === 'function') {
      const replies = await apiError(messages, async () => listOf(await (await forward()).json()))
      return Response.json(Array.isArray(sent) ? replies : replies[0])
    }
    if (apiError === 'deaf') await (await forward()).text()
    throw new TypeError(`connect ECONNREFUSED ${String(input)}`)
  }
  return Object.assign(made, { fetch: through as typeof globalThis.fetch })
}

function listOf(value: unknown): readonly Reply[] {
  return (Array.isArray(value) ? value : [value]) as readonly Reply[]
}

export const isSend = ({ method }: Message): boolean => method.startsWith('eth_sendRawTransaction')
export const isReceipt = ({ method }: Message): boolean => method === 'eth_getTransactionReceipt'

// ── payments ────────────────────────────────────────────────────────────────────────────────────────────────────────

export function offerTo(payTo: string, amount = 10_000n): Offer {
  return {
    scheme: 'exact',
    network: NETWORK,
    amount: String(amount),
    asset: ASSET,
    payTo,
    maxTimeoutSeconds: 300,
    extra: { ...DOMAIN },
  }
}

let nonces = 0

/** Signs as public clients do, and badly where told. */
export async function signPayment(
  account: PrivateKeyAccount,
  offer: Offer,
  at: Signing & { now: number; from?: string },
): Promise<Payment> {
  const authorization = {
    from: at.from ?? account.address,
    to: at.to ?? offer.payTo,
    value: at.value ?? BigInt(offer.amount),
    validAfter: at.validAfter ?? 0n,
    validBefore: at.validBefore ?? BigInt(Math.floor(at.now / 1000) + offer.maxTimeoutSeconds),
    nonce: (at.nonce ?? keccak256(toHex(`nonce ${nonces++}`))) as Hex,
  }
  const extra = offer.extra as { name: string; version: string }
  const name = at.forge === 'another domain' ? 'USD Coin' : extra.name
  const signer = at.forge === 'another key' ? privateKeyToAccount(keccak256(toHex('somebody else'))) : account
  const domain = domainOf(offer, { ...extra, name })
  const signature = await signer.signTypedData({
    domain,
    types: TYPES,
    primaryType: 'TransferWithAuthorization',
    message: authorization,
  })
  const { value, validAfter, validBefore } = authorization
  const spelled = {
    ...authorization,
    value: String(value),
    validAfter: String(validAfter),
    validBefore: String(validBefore),
  }
  return { x402Version: 2, accepted: offer, payload: { signature: bent(signature, at.forge), authorization: spelled } }
}

function domainOf({ asset, extra }: Offer, { name, version }: { name: string; version: string }) {
  return { name, version, chainId: 84532, verifyingContract: (extra?.verifyingContract ?? asset) as Hex }
}

function bent(signature: Hex, forge: Forgery | undefined): Hex {
  if (forge === 'too short') return signature.slice(0, -2) as Hex
  if (forge === 'too long') return `${signature}00`
  if (forge !== 'high s') return signature
  const s = ORDER - BigInt(`0x${signature.slice(66, 130)}`)
  return `${signature.slice(0, 66) as Hex}${word(s)}${signature.endsWith('1b') ? '1c' : '1b'}`
}

// ── the harness ─────────────────────────────────────────────────────────────────────────────────────────────────────

export type EvmHarness = ChainHarness & { readonly chain: EvmChain; readonly line: Line; readonly config: EvmConfig }

/** One checked chain on the shared node, with a relayer of its own. */
export async function evmHarness(
  world: World,
  change: Partial<EvmConfig> & { judge?: Line['judge'] } = {},
): Promise<EvmHarness> {
  const format = line()
  format.judge = change.judge
  const relayerKey = world.key()
  await world.ask('anvil_setBalance', privateKeyToAccount(relayerKey).address, toHex(10n ** 20n))
  const payTo = privateKeyToAccount(world.key()).address
  const base = { network: NETWORK, rpcUrl: world.url, asset: ASSET, payTo, domain: DOMAIN, relayerKey }
  const config: EvmConfig = { ...base, fetch: format.fetch, resendMs: 64, pollMs: 4, ...change }
  const chain = evmChain(config)
  const checked = await chain.check()
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  const accounts = new Map<string, PrivateKeyAccount>()
  const account = (address: string) => accounts.get(address) as PrivateKeyAccount
  const answers = new Map<string, unknown>()
  const marked = new Map<string, unknown>()
  const offer = offerTo(payTo)

  /** Keeps what the node said, so that it can be said again when the node is to look as it was. */
  async function recording(
    messages: readonly Message[],
    forward: () => Promise<readonly Reply[]>,
  ): Promise<readonly Reply[]> {
    const replies = await forward()
    return messages.map(({ id, method, params }) => {
      const text = JSON.stringify([method, params])
      const reply = replies.find((each) => each.id === id) as Reply
      if (marked.has(text)) return { ...reply, result: marked.get(text) }
      if (!answers.has(text)) answers.set(text, reply.result)
      return reply
    })
  }

  return {
    chain,
    line: format,
    config,
    offer,
    now: world.now,
    async payer(balance = 1_000_000n) {
      const made = privateKeyToAccount(world.key())
      accounts.set(made.address, made)
      await world.setBalance(made.address, balance)
      return { address: made.address }
    },
    sign: (payer, wanted, signing = {}) =>
      signPayment(account(payer.address), wanted, { now: world.now(), ...signing }),
    balanceOf: world.balanceOf,
    fund: (payer, balance) => world.setBalance(payer.address, balance),
    async transfersIn(transaction) {
      const receipt = await world.ask<{ logs: Log[] } | null>('eth_getTransactionReceipt', transaction)
      const logs = (receipt?.logs ?? []).filter(
        (log) => log.topics[0] === TRANSFER && log.address === ASSET.toLowerCase(),
      )
      return logs.map(({ topics, data }) => ({
        from: `0x${topics[1]?.slice(26)}`,
        to: `0x${topics[2]?.slice(26)}`,
        value: BigInt(data),
      }))
    },
    async cancel(payer, payment) {
      const { nonce } = payment.payload.authorization as { nonce: Hex }
      const message = { authorizer: payer.address, nonce }
      const domain = domainOf(offer, DOMAIN)
      const signature = await account(payer.address).signTypedData({
        domain,
        types: TYPES,
        primaryType: 'CancelAuthorization',
        message,
      })
      const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)]
      await world.act(ASSET, `0x5a049a70${[payer.address, nonce, v, r, s].map((part) => word(part)).join('')}`)
    },
    async submit(payment) {
      const { to } = payment.payload.authorization as { to: string }
      const exact = parseExact(payment, { ...payment.accepted, payTo: to })
      if (exact.kind === 'refused') throw new Error(exact.reason)
      await world.act(ASSET, transferCall(exact))
    },
    mineAt: world.mineAt,
    reads: () => format.count,
    outage(on) {
      format.judge = on ? () => 'lost' : undefined
    },
    drop(what) {
      return new Promise((resolve) => {
        format.judge = (messages) => {
          const isSending = messages.some(isSend)
          if (isSending) resolve()
          if (what === 'answers') return isSending || messages.some(isReceipt) ? 'deaf' : 'fine'
          return isSending ? 'lost' : 'fine'
        }
      })
    },
    recover() {
      format.judge = undefined
    },
    mark() {
      format.judge = () => recording
      answers.clear()
    },
    rewind(on) {
      marked.clear()
      if (on) for (const [text, result] of answers) marked.set(text, result)
    },
  }
}

export async function evmSubject(world: World): Promise<Subject<EvmHarness>> {
  const harness = await evmHarness(world)
  return { open: async () => harness, close: async () => harness.chain.close() }
}
