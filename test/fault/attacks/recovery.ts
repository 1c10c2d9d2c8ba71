/** Traces that strangers have left on the chain for a database that is lost and written again from it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { decodeFunctionData, encodeFunctionData, type Hex, toHex } from 'viem'
import type { ChannelConfig } from '../../../adapters/chains/evm/channels/digests.ts'
import { BATCH_SETTLEMENT, batchSettlementAbi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Payment } from '../../../core/x402/protocol.ts'
import { COLLECTOR, COLLECTOR_CODE } from '../../conformance/schemes/signers.ts'
import { MAIN } from '../../scope.ts'
import type { Attack, Outcome } from './attack.ts'
import {
  isWhole,
  newAccount,
  offerFor,
  ORDERS,
  post,
  send,
  setBalance,
  transactions,
  variant,
  walletWith,
} from './caller.ts'
import { ask, channelFor, deposit, depositAlone, funded, KEYS, newKey, usageOf } from './key_caller.ts'
import type { Target } from './target.ts'

const DUST = 1n
/** More blocks than one question for logs has. */
const BLOCKS = 2_100
const STRANGERS = 20

/** Runs a command of the operator in the folder of the gateway. Resolves with what it printed. */
async function command({ dir, environment }: Target, args: readonly string[]): Promise<string> {
  const env = { PATH: process.env.PATH ?? '', HOME: dir, ...environment }
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)))
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${text}`)
  return text
}

/** The operator writes the keys again. Resolves with what was printed. */
async function dropDatabase(target: Target): Promise<string> {
  await target.crash()
  await target.ledger.drop()
  const printed = await command(target, ['keys', 'recover', '--from-block', '0'])
  await target.restart()
  return printed
}

/** Channels of strangers: one of a buyer before its own deposit, others that name its key or a key of nobody. */
async function recoverAmongStrangers(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const thief = await walletWith(target, 0n)
  await target.chain('anvil_setCode', [COLLECTOR, COLLECTOR_CODE])
  await setBalance(target, COLLECTOR, 100n)
  const fill = async (config: ChannelConfig) => {
    const args = [config, DUST, COLLECTOR, '0x'] as const
    const data = encodeFunctionData({ abi: batchSettlementAbi, functionName: 'deposit', args })
    await send(target, thief, { to: BATCH_SETTLEMENT, data })
  }
  const usual = await funded(target, offer)
  const opened = { wallet: await walletWith(target, 4_000_000n), key: newKey() }
  await fill(channelFor(offer, opened.wallet, opened.key).config)
  for (let i = 0; i < STRANGERS; i++) {
    const key = i % 2 === 0 ? usual.key : newKey()
    await fill(channelFor(offer, newAccount(), key).config)
  }
  await target.chain('anvil_mine', [toHex(BLOCKS), '0x0'])
  await depositAlone(target, await deposit(offer, { ...opened, price: '0' }))
  const printed = await dropDatabase(target)
  let lost = 0
  for (const { key } of [usual, opened]) {
    const found = await ask(target, { path: '/v1/key', key })
    if (found.status !== 200 || found.body.data.limit < 2 || (await usageOf(target, key)) !== 0) lost++
  }
  const { keys } = await target.operator('GET', '/keys')
  lost += Math.max(0, keys.length - 2)
  const tried = STRANGERS + 2
  return { tried, refused: tried - lost, note: `${keys.length} channels of 2 keys are listed; ${printed.trim()}` }
}

type Claim = { readonly voucher: { readonly maxClaimableAmount: bigint }; readonly signature: Hex }

/** The voucher of the last claim, as anybody reads it on the chain. */
async function publishedVoucher(target: Target): Promise<Claim> {
  const claimsIn = (data: Hex): readonly Claim[] => {
    const call = decodeFunctionData({ abi: batchSettlementAbi, data })
    if (call.functionName === 'multicall') return call.args[0].flatMap(claimsIn)
    return call.functionName === 'claimWithSignature' ? (call.args[0] as readonly Claim[]) : []
  }
  const ours = (await transactions(target)).filter(({ to }) => to?.toLowerCase() === BATCH_SETTLEMENT.toLowerCase())
  const last = ours.flatMap(({ input }) => claimsIn(input)).at(-1)
  if (!last) throw new Error('nothing was claimed')
  return last
}

/** A voucher that covers a child's cap is published; after the loss of the database its key buys, then a stranger. */
async function spendPublished(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const { wallet, key } = await funded(target, offer)
  const { config, id } = channelFor(offer, wallet, key)
  const buy = async (number: number) => {
    const order = variant(ORDERS.chat, number)
    const { status, text } = await ask(target, { path: order.path, key, body: order.body })
    if (status !== 200) throw new Error(`a key was refused: ${status} ${text.slice(0, 300)}`)
  }
  for (let i = 0; i < 12; i++) await buy(i)
  // The voucher is then above what is claimed by two calls.
  await ask(target, { path: KEYS, key, body: { name: 'child', cap: '0.04' } })
  await buy(20)
  await ask(target, { path: `${KEYS}/close`, key, body: {} })
  await depositAlone(target, await deposit(offer, { wallet, key, price: '0' }))
  const { voucher: published, signature } = await publishedVoucher(target)
  const voucher = { channelId: id, maxClaimableAmount: String(published.maxClaimableAmount), signature }
  const payload = { type: 'voucher', channelConfig: config, voucher }
  const payment = { x402Version: 2, accepted: offer, payload } as Payment
  await dropDatabase(target)
  await buy(30)
  let taken = 0
  for (const order of [variant(ORDERS.chat, 40), variant(ORDERS.stream, 41)])
    if (isWhole(await post(target, order, payment))) taken++
  return { tried: 2, refused: 2 - taken, note: `${taken} answers for a voucher of ${published.maxClaimableAmount}` }
}

export const attacks: readonly Attack[] = [
  { family: 'deletion', name: 'keys found again among channels of strangers', run: recoverAmongStrangers },
  { family: 'deletion', name: 'a published voucher of a key that was found again', run: spendPublished },
]
