/** The private key that a command pays with: of the environment, of the wallet's file, or a devnet's. */
import { homedir } from 'node:os'
import { type Money, readWallet, walletPath } from '../../buyer/wallet_file.ts'
import { findWallet } from '../buy/gateway.ts'
import { CommandError, type Io } from '../command.ts'
import { isLocal } from './buyer_options.ts'

export type BuyerKey = {
  readonly key: string
  readonly money: Money
  readonly rpcUrl: string | undefined
  readonly isDevnet: boolean
}

/** Finds the wallet for the seller at `url`. Throws CommandError without one. The key stays in this process. */
export async function buyerKey(
  io: Io,
  { url, isTest, rpc }: { readonly url: string; readonly isTest: boolean; readonly rpc: string | undefined },
): Promise<BuyerKey> {
  // Only a gateway of this machine may name a key to pay with: it is the published one of a devnet.
  const devnet = isLocal(url)
    ? await findWallet({ origin: url, rpc, key: undefined }).catch(() => undefined)
    : undefined
  const money = isTest || devnet ? 'test' : 'real'
  const key = ownKey(io, money) ?? devnet?.key
  if (key !== undefined) return { key, money, rpcUrl: rpc ?? devnet?.rpcUrl, isDevnet: devnet !== undefined }
  throw new CommandError(
    `There is no wallet for ${money} money. Run farebox wallet new${isTest ? ' --test' : ''}, or set FAREBOX_BUYER_KEY.`,
  )
}

function ownKey({ env }: Io, money: Money): string | undefined {
  if (env.FAREBOX_BUYER_KEY) return env.FAREBOX_BUYER_KEY
  try {
    return readWallet(walletPath(env.HOME ?? homedir(), money))?.key
  } catch (error) {
    throw new CommandError((error as Error).message)
  }
}
