/** Strangers' channels in the logs that a lost database is written from again. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { encodeFunctionData, toHex } from 'viem'
import type { ChannelConfig } from '../../../adapters/chains/evm/channels/digests.ts'
import { BATCH_SETTLEMENT, batchSettlementAbi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import { COLLECTOR, COLLECTOR_CODE } from '../../conformance/schemes/signers.ts'
import type { Attack, Outcome } from './attack.ts'
import { newAccount, offerFor, ORDERS, send, setBalance, walletWith } from './caller.ts'
import { ask, channelFor, deposit, depositAlone, funded, newKey, usageOf } from './key_caller.ts'
import { MAIN } from './process.ts'
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
  await target.crash()
  for (const end of ['', '-wal', '-shm']) rmSync(join(target.dir, `target.db${end}`), { force: true })
  const printed = await command(target, ['keys', 'recover', '--from-block', '0'])
  await target.restart()
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

export const attacks: readonly Attack[] = [
  { family: 'deletion', name: 'keys found again among channels of strangers', run: recoverAmongStrangers },
]
