/** A gateway that sells to API keys, with a channel in memory. */
import { expect } from 'bun:test'
import { type Hex, keccak256, recoverMessageAddress, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { ChainKeys, Gateway, Offer, OpenedKey, Storage } from '../../../core/mod.ts'
import { keyText } from '../../../core/x402/api_key.ts'
import { signInText } from '../../../core/x402/sign_in.ts'
import type { ChannelCosts } from '../../../adapters/chains/evm/channels/costs.ts'
import { FREE, keyBuyer, NETWORK, voucherChain } from '../../adapters/chains/evm/channels/vouchers.ts'
import { decodeHeader } from '../../kit.ts'
import { COMPLETIONS, SKY, table } from './stream_kit.ts'

export const QUOTE = 2_000n
/** 10 tokens in, 2 out, and the fee. */
export const CHARGE = 1_017n
export const SEED = new Uint8Array(32).fill(0x22)
export const KEY = keyText(SEED, 'test')
/** The wallet of the key, who may use what operators restrict. */
const PAYER = privateKeyToAccount(keccak256(toHex(`payer ${SEED[0]}`))).address
export const HTTPS = 'https://gateway.example'

type Views = readonly (readonly bigint[])[]

type Selling = {
  readonly balance?: bigint
  readonly storage?: Storage
  readonly takesKeys?: boolean
  readonly costs?: ChannelCosts
  /** The node's answer about the channel, after these refunds; nothing while it does not answer. */
  readonly views?: (balance: bigint, refunded: readonly bigint[]) => Views | Promise<Views>
} & Pick<NonNullable<Parameters<typeof table>[1]>, 'name' | 'inlineMs' | 'vendor' | 'video' | 'controls'>

const deposited = (balance: bigint): Views => [[balance, 0n], [0n, 0n], [0n]]

/** A gateway that takes keys, and a key whose channel has this balance. */
export async function selling(
  script?: Parameters<typeof table>[0],
  {
    balance = 100_000n,
    storage = memoryStorage(),
    takesKeys = true,
    views = deposited,
    costs = FREE,
    ...given
  }: Selling = {},
) {
  const refunded: bigint[] = []
  const good = voucherChain(
    storage,
    refunded,
    () => views(balance, refunded),
    () => 'mined',
    costs,
    takesKeys,
  )
  const opened: { readonly seed: Uint8Array; readonly key: OpenedKey }[] = []
  const open: ChainKeys['open'] = async (seed, as) => {
    const key = await (good.apiKeys as ChainKeys).open(seed, as)
    opened.push({ seed, key })
    return key
  }
  const hasSigned = async ({ wallet, message, signature }: { wallet: string; message: string; signature: string }) =>
    (await recoverMessageAddress({ message, signature: signature as Hex })) === wallet ? wallet : undefined
  const chain = { ...good, hasSigned, ...(good.apiKeys && { apiKeys: { ...good.apiKeys, open } }) }
  const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes))
  const listed = { allowlists: { generate_content: [PAYER] }, ...given }
  const subject = await table(script, { ...listed, ports: { storage, chain, random } })
  const challenge = decodeHeader((await subject.post(SKY)).headers.get('payment-required'))
  const buyer = keyBuyer(SEED, challenge.accepts[0] as Offer)
  const at = { now: subject.clock.now(), signal: AbortSignal.timeout(10_000) }
  if (takesKeys)
    expect(await chain.apiKeys?.deposit(await buyer.deposit(balance), at)).toMatchObject({ kind: 'deposited' })
  const ask = async (
    body: unknown,
    {
      path = COMPLETIONS,
      headers = { authorization: `Bearer ${KEY}` } as Record<string, string>,
      on = subject.gateway as Gateway,
    } = {},
  ): Promise<Response> =>
    await on.fetch(
      new Request(HTTPS + path, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
      { ip: '192.0.2.1' },
    )
  const channel = async () => {
    const now = subject.clock.now()
    return (await chain.apiKeys?.channels(buyer.key.address, { ...at, now }))?.[0]
  }
  const calls = () => storage.listCalls({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 99 })
  return { ...subject, storage, chain, buyer, opened, refunded, ask, channel, calls }
}

type Asking = Pick<Awaited<ReturnType<typeof selling>>, 'ask'>

/** Closes a key by a wallet that signs in for the route `to`, and sends the signature to the route `as`. */
export async function closeByWallet({ ask }: Asking, account: PrivateKeyAccount, to: string, as = to) {
  const first = await ask({}, { path: to, headers: {} })
  const { info } = (await first.json()).extensions['sign-in-with-x']
  const by = { address: account.address, chainId: NETWORK }
  const message = signInText(info, { ...by, accountName: 'Ethereum' })
  const signed = { ...info, ...by, signature: await account.signMessage({ message }) }
  return await ask({}, { path: as, headers: { 'sign-in-with-x': btoa(JSON.stringify(signed)) } })
}
