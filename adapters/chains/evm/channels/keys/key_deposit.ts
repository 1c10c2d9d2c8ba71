/** A deposit for a key, which pays for no call. */
import type { KeyDeposit, KeyDepositOptions, Refused, Unavailable } from '../../../../../core/ports/mod.ts'
import { fits, type Offer, type Payment, type Terms } from '../../../../../core/x402/mod.ts'
import { lower, numberIn, uintIn } from '../../../lib/hex.ts'
import { type CallOptions, unavailable } from '../../../lib/results.ts'
import { balanceCall } from '../../node/token.ts'
import { type Channeled, type Deposit, parseDeposit, refusedChannel } from '../payload.ts'
import { channelOf, type KeyParts } from './key_channels.ts'
import { isKeyChannel } from './key_index.ts'

type Depositing = Pick<Channeled, 'config' | 'channelId' | 'ceiling' | 'signature'> & { readonly deposit: Deposit }

/** Checks a deposit as one that pays for a call, and that its key can be nobody's wallet; then brings it on chain. */
export async function deposit(parts: KeyParts, payment: Payment, at: KeyDepositOptions): Promise<KeyDeposit> {
  const { network, channels, deposits, digests, index, states } = parts
  const terms = channels.terms()
  if (!fits(terms, payment.accepted))
    return refusedChannel('PAYMENT_INVALID', 'network_mismatch', `this is not ${network}`)
  const parsed = parseDeposit(payment, offerOf(terms), digests)
  if ('kind' in parsed) return parsed
  const bad =
    notOfKey(parsed) ?? (await channels.wrongDepositing(parsed, at)) ?? (await walletProblem(parts, parsed, at))
  if (bad) return bad
  at.requireListed?.(parsed.config.payer, parsed.config.payerAuthorizer)
  const problem = await deposits.problem(parsed, at)
  if (problem && problem !== 'landed') return problem
  const landing = await deposits.land(parsed, at)
  if (landing.kind !== 'landed') return landing
  await index.add(landing.state, at.now)
  // A deposit is a use: an idle key is not closed just after it.
  const used = await states.change(landing.state.channelId, at.now, (state) => ({ ...state, usedAt: at.now }))
  const { transaction = '' } = landing.state.deposit ?? {}
  return { kind: 'deposited', channel: channelOf(parts, used ?? landing.state, at.now), transaction }
}

function notOfKey({ config: channel }: Depositing): Refused | undefined {
  if (channel.payer === channel.payerAuthorizer)
    return refusedChannel('PAYMENT_INVALID', 'key', 'channelConfig.payerAuthorizer is the payer; it must be a key')
  if (isKeyChannel(channel)) return undefined
  const text = 'channelConfig.salt must be keccak256("farebox key v1" and the 20 bytes of payerAuthorizer)'
  return refusedChannel('PAYMENT_INVALID', 'key', text)
}

/** The address of a key owns nothing: whoever reads the key could sign it away. Asked before the first deposit. */
async function walletProblem(
  { states, rpc, reads, asset, lagSeconds }: KeyParts,
  { channelId, config: channel }: Depositing,
  { now, signal }: CallOptions,
): Promise<Refused | Unavailable | undefined> {
  if (await states.get(channelId, now)) return undefined
  const address = channel.payerAuthorizer
  const [code, count, seen] = await Promise.all([
    rpc.request('eth_getCode', [address, 'latest'], signal),
    rpc.request('eth_getTransactionCount', [address, 'latest'], signal),
    reads.view([{ to: lower(asset), data: balanceCall(address) }], { lagSeconds, signal }),
  ])
  if (code.kind !== 'result' || count.kind !== 'result' || seen.kind === 'failure')
    return unavailable('the address of the key cannot be read')
  const balance = uintIn(seen.results[0]) ?? 0n
  const isUsed = (code.value !== '0x' && code.value !== '0x0') || numberIn(count.value) !== 0 || balance > 0n
  if (!isUsed) return undefined
  const text = `${address} has code, transactions or a balance, so it is a wallet; make a key with farebox key new`
  return refusedChannel('PAYMENT_INVALID', 'key', text)
}

/** The terms as an offer that nothing is bought with. */
const offerOf = (terms: Terms): Offer => ({ ...terms, amount: '0', maxTimeoutSeconds: 300, extra: terms.extra })
