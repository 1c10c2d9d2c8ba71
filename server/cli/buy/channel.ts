/** A wallet that pays by a channel of the scheme `batch-settlement`: one deposit, then a voucher for each call. */
import type { BatchSettlementEvmScheme } from '@x402/evm/batch-settlement/client'
import { createPublicClient, erc20Abi, http, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { optional } from '../../../core/lib/mod.ts'
import { decodeObject } from '../../../core/x402/mod.ts'
import { networkFacts } from '../../../adapters/chains/families.ts'
import { type ChannelConfig, channelFile, channelsWith, type ChannelFile } from '../../buyer/channel_files.ts'
import {
  BUY_COMMAND,
  BuyError,
  CHANNEL_SCHEME,
  type ChannelOptions,
  fetchGateway,
  findWallet,
  type Offer,
  type PurchaseOptions,
  usd,
  type Wallet,
  type WalletOptions,
} from './gateway.ts'

/** In base units. */
type Balance = { readonly deposited: bigint; readonly charged: bigint }

/**
 * Opens the wallet's channel with the seller of the offer. Its state is read from its file or, without one, from the
 * chain. `maxDeposit` in base units; undefined for no limit.
 */
export async function channelWallet(key: Hex, { rpcUrl, offer, channel, origin }: ChannelWalletOptions) {
  if (!rpcUrl) throw new BuyError('--channel reads the channel from the chain. Add the URL of an RPC node with --rpc')
  const { toClientEvmSigner } = await optional('@x402/evm', BUY_COMMAND, () => import('@x402/evm'))
  const {
    BatchSettlementEvmScheme: ChannelScheme,
    computeChannelId,
    processPaymentResponse,
    readChannelBalanceAndTotalClaimed,
    recoverChannel,
  } = await import('@x402/evm/batch-settlement/client')
  const account = privateKeyToAccount(key)
  const node = createPublicClient({ transport: http(rpcUrl, { timeout: 5_000, retryCount: 1 }) })
  const signer = toClientEvmSigner(account, node as never)
  const { config, id } = named()
  const storage = channelFile(channel.directory, { origin, network: offer.network, id, config })
  const { maxDeposit } = channel
  const client = new ChannelScheme(signer, {
    storage,
    depositPolicy: { depositMultiplier: NO_CLAMP },
    depositStrategy: ({ minimumDepositAmount }) => String(depositFor(BigInt(minimumDepositAmount))),
  })

  function named(): { readonly config: ChannelConfig; readonly id: Hex } {
    const made = new ChannelScheme(signer).buildChannelConfig(requirements(offer))
    return { config: made, id: computeChannelId(made, offer.network) }
  }

  /** Amount to deposit if the channel lacks `lacking`: the requested one, otherwise the gateway's smallest deposit. */
  function depositFor(lacking: bigint): bigint {
    const least = BigInt(typeof offer.extra?.minDeposit === 'string' ? offer.extra.minDeposit : 0)
    const needed = lacking > least ? lacking : least
    if (channel.deposit !== undefined && channel.deposit < needed)
      throw new BuyError(`--deposit is ${usd(channel.deposit)} USDC; this gateway and price need ${usd(needed)} USDC`)
    const deposit = channel.deposit ?? needed
    if (maxDeposit !== undefined && channel.deposit === undefined && deposit > maxDeposit)
      throw new BuyError(
        `The deposit would be ${usd(deposit)} USDC, above the limit of ${usd(maxDeposit)} USDC. To deposit it, add --deposit ${usd(deposit)}`,
      )
    return deposit
  }

  /** As the file says, unless the chain has less: then it is another chain, or money was withdrawn. */
  async function balance(): Promise<Balance> {
    const before = await storage.get()
    try {
      const [onChain] = await readChannelBalanceAndTotalClaimed(signer, id)
      const isGone = before !== undefined && onChain < BigInt(before.balance ?? 0)
      if (isGone) await storage.delete()
      const deps = { signer, storage, salt: config.salt }
      const context = before && !isGone ? before : await recoverChannel(deps, requirements(offer))
      return { deposited: BigInt(context.balance ?? 0), charged: BigInt(context.chargedCumulativeAmount ?? 0) }
    } catch {
      throw new BuyError('The channel cannot be read from the chain: the node of --rpc does not answer as it should.')
    }
  }

  return {
    address: account.address,
    scheme: { network: 'eip155:*', client },
    balance: async () =>
      await node.readContract({
        address: offer.asset as Hex,
        abi: erc20Abi,
        functionName: 'balanceOf',
        args: [account.address],
      }),
    channel: {
      id,
      config,
      balance,
      /** Remaining deposit as the file has it, in base units; undefined before the first receipt. */
      async left(): Promise<bigint | undefined> {
        const context = await storage.get()
        return context && BigInt(context.balance ?? 0) - BigInt(context.chargedCumulativeAmount ?? 0)
      },
      async lacking(price: bigint): Promise<bigint> {
        const { deposited, charged } = await balance()
        return charged + price > deposited ? depositFor(charged + price - deposited) : 0n
      },
      /** Takes note of a receipt that the client did not see: of a stream, or of a poll. */
      async note(header: string | null | undefined, payment: string | null): Promise<void> {
        const { payload } = (decodeObject(payment ?? '') ?? {}) as { payload?: { deposit?: { amount: string } } }
        const depositAmount = payload?.deposit?.amount
        const local = { channelId: id, requestAmount: offer.amount, ...(depositAmount && { depositAmount }) }
        // The gateway corrects the stored state with the next call if this fails.
        await processPaymentResponse(storage, () => header ?? null, local).catch(() => {})
      },
      /** Asks the gateway for what is left. Rejects with why it does not pay it back. */
      refund: (url: string) => client.refund(url),
    },
  } satisfies Wallet & { readonly channel: object }
}

type ChannelWalletOptions = WalletOptions & {
  readonly origin: string
  readonly channel: ChannelOptions & { readonly maxDeposit: bigint | undefined }
}

/** The public client clamps deposits to a multiple of the highest price; ours has a limit of its own. */
const NO_CLAMP = 1_000_000_000

type Requirements = Parameters<BatchSettlementEvmScheme['buildChannelConfig']>[0]
const requirements = (offer: Offer): Requirements => offer as unknown as Requirements

// ── show and close ──────────────────────────────────────────────────────────────────────────────────────────────────

type ChannelCommand = Pick<PurchaseOptions, 'origin' | 'rpc' | 'key'> & { readonly channel: ChannelOptions }

/** Prints what was deposited in the wallet's channel, what was charged and what is left. */
export async function showChannel(options: ChannelCommand): Promise<void> {
  const found = await openChannel(options)
  if (found.kind === 'away') {
    for (const file of found.files) printChannel(file.id, balanceIn(file), file.network)
    throw new BuyError(`${found.reason} What is shown is from the files of this wallet.`)
  }
  const balance = await found.wallet.channel.balance()
  if (balance.deposited === 0n) throw new BuyError(`This wallet has no channel with the gateway at ${options.origin}.`)
  printChannel(found.wallet.channel.id, balance, found.offer.network)
}

/** Has the gateway send back what is left. Says how to withdraw without it where it does not. */
export async function closeChannel(options: ChannelCommand): Promise<void> {
  const found = await openChannel(options)
  if (found.kind === 'away') {
    const hints = found.files.map((file) => withdrawal(file, balanceIn(file)))
    throw new BuyError([found.reason, ...hints].join('\n\n'))
  }
  const { wallet, offer, url } = found
  const { channel } = wallet
  const before = await channel.balance()
  if (before.deposited <= before.charged) return console.log('left      0 USDC: nothing to send back')
  const settled = await channel.refund(url).catch(async (error: Error) => {
    const reason = `The gateway did not send back what is left: ${error.message}.`
    const file = { id: channel.id, config: channel.config, network: offer.network }
    throw new BuyError([reason, withdrawal(file, await channel.balance())].join('\n\n'))
  })
  if (!settled.success)
    throw new BuyError(`The refund is under way (${settled.errorReason}). Run this again for its outcome.`)
  console.log(`refunded  ${usd(BigInt(settled.amount ?? 0))} USDC, transaction ${settled.transaction}`)
  console.log(`wallet    ${wallet.address}, ${usd(await wallet.balance())} USDC`)
}

type Opened =
  | { readonly kind: 'open'; readonly wallet: Awaited<ReturnType<typeof channelWallet>>; offer: Offer; url: string }
  | { readonly kind: 'away'; readonly reason: string; readonly files: readonly ChannelFile[] }

/** The channel with the gateway; where that does not answer or sells by none, what the wallet's files know. */
async function openChannel({ origin, rpc, key, channel }: ChannelCommand): Promise<Opened> {
  const files = channelsWith(channel.directory, origin)
  try {
    const { offer, url } = await probe(origin)
    const { key: found, rpcUrl = networkFacts(offer.network)?.node } = await findWallet({ origin, rpc, key })
    const options = { rpcUrl, offer, origin, channel: { ...channel, maxDeposit: undefined } }
    return { kind: 'open', wallet: await channelWallet(found as Hex, options), offer, url }
  } catch (error) {
    if (!(error instanceof BuyError) || files.length === 0) throw error
    return { kind: 'away', reason: error.message, files }
  }
}

/** A paid route of the gateway that sells by channels. */
export async function probe(origin: string): Promise<{ readonly offer: Offer; readonly url: string }> {
  const document = await fetchGateway(`${origin}/.well-known/x402`)
  const { resources = [] } = (await document.json().catch(() => ({}))) as { resources?: readonly string[] }
  for (const url of resources.slice(0, MAX_PROBES)) {
    const response = await fetchGateway(url)
    const { accepts = [] } = (await response.json().catch(() => ({}))) as { accepts?: readonly Offer[] }
    const offer = accepts.find(({ scheme }) => scheme === CHANNEL_SCHEME)
    if (response.status === 402 && offer) return { offer, url }
  }
  throw new BuyError(`The gateway at ${origin} sells nothing by channels.`)
}

const MAX_PROBES = 20

const balanceIn = ({ context }: ChannelFile): Balance => ({
  deposited: BigInt(context.balance ?? 0),
  charged: BigInt(context.chargedCumulativeAmount ?? 0),
})

function printChannel(id: string, { deposited, charged }: Balance, network: string): void {
  console.log(`channel   ${id} on ${network}`)
  console.log(`deposited ${usd(deposited)} USDC`)
  console.log(`charged   ${usd(charged)} USDC`)
  console.log(`left      ${usd(deposited - charged)} USDC`)
}

/** One address on every EVM network (x402 specification, scheme `batch-settlement` for EVM). */
const CONTRACT = '0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003'

/** The two transactions by which a payer takes its money out of the contract, without the gateway. */
function withdrawal(
  { id, config, network }: Pick<ChannelFile, 'id' | 'config' | 'network'>,
  { deposited, charged }: Balance,
): string {
  const tuple = 'address,address,address,address,address,uint40,bytes32'
  const { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt } = config
  const given = `(${[payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt].join(',')})`
  const left = deposited > charged ? deposited - charged : 0n
  return [
    `To take the ${usd(left)} USDC of channel ${id} out without the gateway, send two transactions on ${network} from ${payer}, which pays their gas. With Foundry:`,
    `  cast send ${CONTRACT} 'initiateWithdraw((${tuple}),uint128)' '${given}' ${left}`,
    `and ${withdrawDelay} seconds later:`,
    `  cast send ${CONTRACT} 'finalizeWithdraw((${tuple}))' '${given}'`,
  ].join('\n')
}
