/** The official client of `batch-settlement`, unmodified, against one devnet gateway with real transactions. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { toClientEvmSigner } from '@x402/evm'
import { BatchSettlementEvmScheme } from '@x402/evm/batch-settlement/client'
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { createPublicClient, erc20Abi, type Hex, parseEventLogs } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { evmChain } from '../../../adapters/chains/evm/mod.ts'
import { BATCH_SETTLEMENT, batchSettlementAbi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import { rpc } from '../../../server/devnet/anvil.ts'
import type { Running } from '../../../server/main.ts'
import { startedGateways } from '../started_gateway.ts'
import { type Payer, payerAt } from './payer.ts'
import { steadyHttp } from '../../fault/between_blocks.ts'

const MODEL = 'farebox/echo'
/** Micro-USDC for a token, by the catalog, and the fee. */
const RATES = { input: 0.5, output: 1.5, fee: 1_000 }
const COMPLETIONS = '/api/v1/chat/completions'
/** Calls over one channel. */
const CALLS = 1_000

const { onDisk, startWith } = startedGateways()
let running: Running
let payer: Payer

beforeAll(async () => {
  running = await startWith(onDisk)
  payer = await payerAt(running.url)
}, 60_000)

const node = () => createPublicClient({ chain: baseSepolia, transport: steadyHttp(payer.devnet.rpc_url) })

/** `fetch` as @x402/fetch makes it, with a wallet that can read the chain, and a channel of its own by `salt`. */
function official(salt: Hex) {
  const signer = toClientEvmSigner(payer.account, node() as never)
  const scheme = new BatchSettlementEvmScheme(signer, { salt })
  return wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: 'eip155:*', client: scheme }] })
}

const saltOf = (number: number): Hex => `0x${number.toString(16).padStart(64, '0')}`

const ask = (text: string, more: object = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: text }], max_tokens: 200, ...more }),
})

type Usage = { prompt_tokens: number; completion_tokens: number }
const costOf = (usage: Usage): bigint =>
  BigInt(Math.ceil(usage.prompt_tokens * RATES.input + usage.completion_tokens * RATES.output + RATES.fee))

const receiptIn = (response: Response) =>
  decodePaymentResponseHeader(response.headers.get('payment-response') ?? '') as unknown as {
    transaction: Hex
    extra: { chargedAmount: string; channelState: { channelId: Hex; balance: string; chargedCumulativeAmount: string } }
  }

const balanceOf = async (address: Hex) =>
  await node().readContract({ address: payer.devnet.asset, abi: erc20Abi, functionName: 'balanceOf', args: [address] })

const onChain = async (channelId: Hex) => {
  const [balance, claimed] = await node().readContract({
    address: BATCH_SETTLEMENT,
    abi: batchSettlementAbi,
    functionName: 'channels',
    args: [channelId],
  })
  return { balance, claimed }
}

/** Claims what is due now, as the gateway does when enough of it is: with its key for claims, and gas of its own. */
async function claimAll(): Promise<bigint> {
  const { devnet, storage } = running.wired
  if (!devnet) throw new Error('no local chain runs')
  const { network, rpcUrl, asset, payTo, domain, relayerKey } = devnet.evm
  const sender = generatePrivateKey()
  await rpc(rpcUrl, 'anvil_setBalance', [privateKeyToAccount(sender).address, '0xde0b6b3a7640000'])
  const takeLease = async () => true
  const gas = { coinPrice: 0, minDeposit: 1n }
  const channels = { storage, authorizerKey: relayerKey, withdrawDelay: 86_400, ...gas, takeLease }
  const schemes = ['batch-settlement'] as const
  const chain = evmChain({
    network,
    rpcUrl,
    asset,
    payTo,
    domain,
    relayerKey: sender,
    schemes,
    channels,
    readAt: 'pending',
  })
  const checked = await chain.check({ now: Date.now() })
  if (checked.kind !== 'ready' || !chain.claimChannels) throw new Error(JSON.stringify(checked))
  const { claimed } = await chain.claimChannels({ now: Date.now() })
  chain.close()
  return claimed
}

/** Events of the settlement contract since the chain began, and in how many transactions. */
async function eventsOfContract() {
  const logs = await node().getLogs({ address: BATCH_SETTLEMENT, fromBlock: 0n })
  const named = parseEventLogs({ abi: batchSettlementAbi, logs }) as readonly { eventName: string }[]
  const transactions = new Set(logs.map(({ transactionHash }) => transactionHash)).size
  return { events: named.map(({ eventName }) => eventName), transactions }
}

describe('the official client of batch-settlement', () => {
  test(`buys ${CALLS} chats over one channel with a deposit and a claim; charged equals usage times rates, and the ledger equals the chain (contract 1.83)`, async () => {
    const pay = official(saltOf(1))
    const before = await payer.balance()
    let due = 0n
    let channel: Hex = '0x'
    const deposits: string[] = []
    for (let i = 0; i < CALLS; i++) {
      const response = await pay(running.url + COMPLETIONS, ask(`Question ${i}`))
      const body = (await response.json()) as any
      expect([response.status, body.error]).toEqual([200, undefined])
      due += costOf(body.usage)
      const { transaction, extra } = receiptIn(response)
      if (transaction !== ('' as string)) deposits.push(transaction)
      expect(BigInt(extra.chargedAmount)).toBe(costOf(body.usage))
      expect(BigInt(extra.channelState.chargedCumulativeAmount)).toBe(due)
      channel = extra.channelState.channelId
    }
    const { balance, claimed } = await onChain(channel)
    expect(deposits.length).toBe(1)
    expect(before - (await payer.balance())).toBe(balance)
    expect(due).toBeLessThanOrEqual(balance)
    expect(claimed).toBe(0n)
    const earned = await balanceOf(payer.devnet.pay_to)
    expect(await claimAll()).toBe(due)
    expect(await onChain(channel)).toEqual({ balance, claimed: due })
    expect((await balanceOf(payer.devnet.pay_to)) - earned).toBe(due)
    const events = ['ChannelCreated', 'Deposited', 'Claimed', 'Settled']
    expect(await eventsOfContract()).toEqual({ events, transactions: 2 })
    const [spend] = await running.wired.storage.spendByModel(payer.account.address, 0)
    expect([spend?.calls, spend?.spent as bigint]).toEqual([CALLS, due])
  }, 60_000)

  test('goes on after streams, whose charge no header says: one corrective 402 resynchronises it (contract 1.84)', async () => {
    const pay = official(saltOf(2))
    let channel: Hex = '0x'
    let charged = 0n
    for (let i = 0; i < 6; i++) {
      const isStream = i % 2 === 1
      const response = await pay(running.url + COMPLETIONS, ask(`Stream ${i}`, { stream: isStream }))
      const text = await response.text()
      expect([response.status, response.status === 200 ? '' : text]).toEqual([200, ''])
      if (isStream) continue
      const { extra } = receiptIn(response)
      channel = extra.channelState.channelId
      const now = BigInt(extra.channelState.chargedCumulativeAmount)
      // With what the stream before it has cost.
      expect(now - charged).toBeGreaterThan(i === 0 ? 0n : BigInt(extra.chargedAmount))
      charged = now
    }
    expect((await onChain(channel)).balance).toBeGreaterThan(charged)
  })

  test('has two calls at once on one channel: the second waits for the first, is corrected and bought (contract 1.84)', async () => {
    const pay = official(saltOf(4))
    await (await pay(running.url + COMPLETIONS, ask('First'))).text()
    const both = await Promise.all(['One', 'Two'].map((text) => pay(running.url + COMPLETIONS, ask(text))))
    expect(both.map(({ status }) => status)).toEqual([200, 200])
    const totals = both.map((each) => BigInt(receiptIn(each).extra.channelState.chargedCumulativeAmount))
    const charges = both.map((each) => BigInt(receiptIn(each).extra.chargedAmount))
    const [low = 0n, high = 0n] = totals.toSorted((a, b) => Number(a - b))
    expect(charges).toContain(high - low)
    for (const each of both) expect(receiptIn(each).transaction).toBe('' as Hex)
  })

  test('recovers a channel whose state it has lost (contract 1.84)', async () => {
    const first = await official(saltOf(3))(running.url + COMPLETIONS, ask('Before the loss'))
    await first.text()
    const again = await official(saltOf(3))(running.url + COMPLETIONS, ask('After the loss'))
    expect([again.status, again.status === 200 ? '' : await again.text()]).toEqual([200, ''])
    const [one, two] = [receiptIn(first).extra, receiptIn(again).extra]
    expect(receiptIn(again).transaction).toBe('' as Hex)
    expect(BigInt(two.channelState.chargedCumulativeAmount)).toBe(BigInt(one.chargedAmount) + BigInt(two.chargedAmount))
  })
})
