/** Deposits for a key: with which offer, how much, and the request that is sent until its outcome is known. */
import { toHex, type LocalAccount } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { keyChannel, keyDeposit } from '../../buyer/key_deposit.ts'
import { writeKeyFile } from '../../buyer/key_files.ts'
import type { Offer } from '../../buyer/signed_payment.ts'
import { networksOf } from '../../proxy/demand.ts'
import { probe } from '../buy/channel.ts'
import { usd } from '../buy/gateway.ts'
import { evmWallet } from '../buy/evm_wallet.ts'
import { CommandError, UsageError } from '../command.ts'
import { buyerKey, type BuyerKey } from '../lib/buyer_key.ts'
import { microUsdc } from '../lib/buyer_options.ts'
import { ask, type KeyCommand, reasonOf } from './command.ts'

/** Offer, wallet and amount of a deposit. */
type Depositor = {
  readonly offer: Offer
  readonly wallet: LocalAccount
  readonly money: BuyerKey['money']
  /** In base units. */
  readonly amount: bigint
}

/** Finds offer, wallet and amount. Throws CommandError where no deposit can be made; nothing is signed yet. */
export async function depositor({ io, origin, values }: KeyCommand): Promise<Depositor> {
  const { deposit, test = false, rpc } = values
  const given = deposit === undefined ? undefined : microUsdc('--deposit', deposit)
  const { key, money, rpcUrl, isDevnet } = await buyerKey(io, { url: origin, isTest: test, rpc })
  await mustTakeKeys(origin)
  const { offer } = await probe(origin)
  const known = networksOf(money).find(({ network }) => network === offer.network)
  if (!isDevnet && known?.asset.toLowerCase() !== offer.asset.toLowerCase())
    throw new CommandError(
      `The gateway takes deposits of ${offer.asset} on ${offer.network}, which is not ${money} money.`,
    )
  if (!/^0x[0-9a-fA-F]{64}$/.test(key))
    throw new CommandError(`Deposits are made on ${offer.network}, and the wallet has no key for it.`)
  const { minDeposit } = offer.extra ?? {}
  const least = BigInt(typeof minDeposit === 'string' && /^\d{1,30}$/.test(minDeposit) ? minDeposit : 0)
  if (given === undefined && money === 'real')
    throw new UsageError(`say how much to deposit: --deposit ${usd(least)} is the smallest of this gateway`)
  const amount = given ?? least
  if (amount < least)
    throw new CommandError(`--deposit is ${usd(amount)} USDC; this gateway takes ${usd(least)} USDC or more`)
  if (amount === 0n) throw new UsageError('--deposit must be more than 0')
  const wallet = privateKeyToAccount(key as `0x${string}`)
  const balance = await (await evmWallet(key as `0x${string}`, { rpcUrl, offer })).balance().catch(() => undefined)
  if (balance !== undefined && balance < amount)
    throw new CommandError(
      `The wallet ${wallet.address} holds ${usd(balance)} USDC on ${offer.network}, and the deposit is ${usd(amount)} USDC. Send USDC to it. Nothing was moved.`,
    )
  return { offer, wallet, money, amount }
}

async function mustTakeKeys(origin: string): Promise<void> {
  const { status } = await ask(`${origin}/api/v1/key`)
  if (status !== 401) throw new CommandError(`The gateway at ${origin} takes no API keys.`)
}

/** Most requests for one deposit: it is mined within the first two, unless the chain is in trouble. */
const TRIES = 4
const PAUSE_MS = 5_000

/**
 * Deposits for a key, and notes its channel before anything is sent. The same request is sent again while its outcome
 * is not known, which deposits once. Throws CommandError for a deposit that was refused.
 */
export async function depositFor(
  { io, origin, directory }: KeyCommand,
  { offer, wallet, amount, key }: Depositor & { readonly key: LocalAccount },
): Promise<{ readonly isKnown: boolean; readonly reason: string }> {
  const nonce = toHex(crypto.getRandomValues(new Uint8Array(32)))
  const payment = await keyDeposit(offer, { wallet, key, amount, now: Date.now(), nonce })
  const { config, id } = keyChannel(offer, { payer: wallet.address, key: key.address })
  const { network } = offer
  const createdAt = new Date().toISOString()
  writeKeyFile(directory, { address: key.address, origin, network, channelId: id, config, createdAt })
  const body = JSON.stringify({ payment: Buffer.from(JSON.stringify(payment)).toString('base64') })
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
  for (let tries = 1; ; tries++) {
    const answer = await ask(`${origin}/api/v1/keys/deposit`, init)
    const { transaction } = answer.body
    if (answer.status === 200) {
      const sent =
        typeof transaction === 'string' && /^0x[0-9a-f]{64}$/.test(transaction) ? `, transaction ${transaction}` : ''
      io.err(`deposited ${usd(amount)} USDC from ${wallet.address} on ${network}${sent}`)
      return { isKnown: true, reason: '' }
    }
    if (answer.status !== 503 && answer.status !== 429)
      throw new CommandError(`The gateway did not take the deposit. ${reasonOf(answer)}`)
    if (tries === TRIES) return { isKnown: false, reason: reasonOf(answer) }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}
