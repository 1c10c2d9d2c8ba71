/** `farebox key show`, `topup` and `close`: what a key has, more for it, and the rest back to the wallet. */
import { privateKeyToAccount } from 'viem/accounts'
import { fieldsOf, objectsOf } from '../../../core/lib/mod.ts'
import { type SignInInfo, signInText } from '../../../core/x402/mod.ts'
import { type KeyFile, keyFiles } from '../../buyer/key_files.ts'
import { printable } from '../../proxy/payees.ts'
import { CommandError, UsageError } from '../command.ts'
import { buyerKey } from '../lib/buyer_key.ts'
import { ask, bearer, type KeyCommand, keyAccount, reasonOf } from './command.ts'
import { depositFor, depositor } from './deposit.ts'

export async function showKey({ io, origin, key }: KeyCommand): Promise<void> {
  if (key === undefined) throw new CommandError('Set FAREBOX_KEY to the key.')
  const answer = await ask(`${origin}/key/info`, { headers: bearer(key) })
  if (answer.status !== 200) throw new CommandError(reasonOf(answer))
  const left = await ask(`${origin}/api/v1/key`, { headers: bearer(key) })
  if (left.status !== 200) throw new CommandError(reasonOf(left))
  const { limit, limit_remaining: remaining, usage } = fieldsOf(left.body.data)
  io.out(`key       ${printed(answer.body.key)} at ${origin}`)
  io.out(`wallet    ${printed(fieldsOf(answer.body.info).user_id)}`)
  io.out(`deposited ${printed(limit)} USDC`)
  io.out(`charged   ${printed(usage)} USDC`)
  io.out(`left      ${printed(remaining)} USDC`)
}

export async function topUpKey(given: KeyCommand): Promise<void> {
  const { origin, key = '' } = given
  const account = keyAccount(given.key)
  const from = await depositor(given)
  const { status, body } = await ask(`${origin}/key/info`, { headers: bearer(key) })
  const payer = status === 200 ? String(fieldsOf(body.info).user_id) : undefined
  // Another wallet would open a second channel, and what is left would go to two wallets.
  if (payer !== undefined && payer.toLowerCase() !== from.wallet.address.toLowerCase())
    throw new CommandError(`The key pays from the wallet ${printed(payer)}; this wallet is ${from.wallet.address}.`)
  const { isKnown, reason } = await depositFor(given, { ...from, key: account })
  if (!isKnown) throw new CommandError(`The deposit may be under way (${reason}). See farebox key show.`)
  await showKey(given)
}

export async function closeKey(given: KeyCommand): Promise<void> {
  const { io, origin, key, values } = given
  if (key !== undefined && values.address !== undefined)
    throw new UsageError('--address is for a key that is lost: unset FAREBOX_KEY')
  const answer =
    key === undefined
      ? await closeByWallet(given)
      : await ask(`${origin}/api/v1/keys/close`, { method: 'POST', headers: bearer(key) })
  if (answer.status !== 200) throw new CommandError(`Nothing was sent back. ${reasonOf(answer)}`)
  const { amount, payer, transaction, network, reserved } = answer.body
  io.out(
    `refunded  ${printed(amount)} USDC to ${printed(payer)} on ${printed(network)}, transaction ${printed(transaction)}`,
  )
  if (Number(reserved) > 0)
    io.out(`reserved  ${printed(reserved)} USDC for open calls; what they leave goes back when they have ended`)
}

/** The wallet shows who it is by a signature that is for this key and this gateway. */
async function closeByWallet({ io, origin, directory, values }: KeyCommand) {
  const { address, network } = fileOf(keyFiles(directory), { origin, address: values.address })
  const { key } = await buyerKey(io, { url: origin, isTest: values.test ?? false, rpc: values.rpc })
  const wallet = privateKeyToAccount(key as `0x${string}`)
  const url = `${origin}/api/v1/keys/${address}/close`
  const challenge = await ask(url, { method: 'POST' })
  const { info, supportedChains } = fieldsOf(fieldsOf(challenge.body.extensions)['sign-in-with-x'])
  const { domain, uri, statement, version, nonce, issuedAt, requestId } = fieldsOf(info) as Record<string, string>
  const isOffered = objectsOf(supportedChains).some(({ chainId }) => chainId === network)
  if (uri !== url || domain !== new URL(url).host || !isOffered)
    throw new CommandError(`The gateway does not ask who the wallet is. ${reasonOf(challenge)}`)
  const request = { domain, uri, statement, version, nonce, issuedAt, requestId } as SignInInfo
  const by = { address: wallet.address, chainId: network }
  const signature = await wallet.signMessage({ message: signInText(request, { ...by, accountName: 'Ethereum' }) })
  const signed = { ...request, ...by, signature }
  const header = Buffer.from(JSON.stringify(signed)).toString('base64')
  return await ask(url, { method: 'POST', headers: { 'sign-in-with-x': header } })
}

/** The key to close: the one of this address, or the only one of the gateway. */
function fileOf(
  files: readonly KeyFile[],
  { origin, address }: { readonly origin: string; readonly address: string | undefined },
): Pick<KeyFile, 'address' | 'network'> {
  const ours = files.filter((file) => file.origin === origin)
  const named = address === undefined ? ours : ours.filter((file) => isSame(file.address, address))
  const [only, other] = named
  if (only && !other) return only
  if (address !== undefined)
    throw new CommandError(`No key of the address ${printed(address)} was made here for ${origin}.`)
  throw new CommandError(
    only
      ? `Several keys were made here for ${origin}. Name one with --address: ${ours.map((file) => file.address).join(', ')}.`
      : `No key was made here for ${origin}. Set FAREBOX_KEY to the key.`,
  )
}

const isSame = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase()

const printed = (value: unknown): string => printable(String(value ?? 'unknown'))
