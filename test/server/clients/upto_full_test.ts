/** The official client of the scheme `upto`, unmodified, against one devnet gateway: a real node, real transactions. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { toClientEvmSigner } from '@x402/evm'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { createPublicClient, createWalletClient, erc20Abi, type Hex, parseAbi } from 'viem'
import { baseSepolia } from 'viem/chains'
import { PERMIT2 } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Running } from '../../../server/main.ts'
import { startedGateways } from '../started_gateway.ts'
import { type Payer, payerAt } from './payer.ts'
import { steadyHttp } from '../../fault/between_blocks.ts'

const MODEL = 'farebox/echo'
/** Micro-USDC for a token, by the catalog, and the fee. */
const RATES = { input: 0.5, output: 1.5, fee: 1_000 }
const ASK = { model: MODEL, messages: [{ role: 'user', content: 'Why is the sky blue?' }], max_tokens: 8_000 }
const COMPLETIONS = '/api/v1/chat/completions'
const CALLS = 200
const ERC20 = parseAbi([
  'function approve(address spender, uint256 value) returns (bool)',
  'function allowance(address owner, address spender) view returns (uint256)',
])

const { onDisk, startWith } = startedGateways()
let running: Running
let payer: Payer
/** Amount that the first test has paid. */
let first = 0n

beforeAll(async () => {
  running = await startWith(onDisk)
  payer = await payerAt(running.url)
}, 60_000)

const node = () => createPublicClient({ chain: baseSepolia, transport: steadyHttp(payer.devnet.rpc_url) })

const balanceOf = async (address: Hex) =>
  await node().readContract({ address: payer.devnet.asset, abi: erc20Abi, functionName: 'balanceOf', args: [address] })

/** `fetch` as @x402/fetch makes it, with a wallet that can read the chain. */
const official = () => {
  const signer = toClientEvmSigner(payer.account, node() as never)
  return wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: 'eip155:*', client: new UptoEvmScheme(signer) }],
  })
}

const post = (body: unknown) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

const costOf = (usage: { prompt_tokens: number; completion_tokens: number }): bigint =>
  BigInt(Math.ceil(usage.prompt_tokens * RATES.input + usage.completion_tokens * RATES.output + RATES.fee))

const inUsdc = (micro: bigint): string => `0.${String(micro).padStart(6, '0')}`

async function allow(value: bigint): Promise<void> {
  const wallet = createWalletClient({
    account: payer.account,
    chain: baseSepolia,
    transport: steadyHttp(payer.devnet.rpc_url),
  })
  await fundGas()
  const hash = await wallet.writeContract({
    address: payer.devnet.asset,
    abi: ERC20,
    functionName: 'approve',
    args: [PERMIT2 as Hex, value],
  })
  await node().waitForTransactionReceipt({ hash })
}

async function fundGas(): Promise<void> {
  const body = {
    jsonrpc: '2.0',
    id: 1,
    method: 'anvil_setBalance',
    params: [payer.account.address, '0xde0b6b3a7640000'],
  }
  await fetch(payer.devnet.rpc_url, post(body))
}

describe('the official client of upto', () => {
  test('buys a chat without an allowance, by a permit that comes with it: charged equals usage times rates (contract 1.77)', async () => {
    const before = await payer.balance()
    const response = await official()(running.url + COMPLETIONS, post(ASK))
    const body = (await response.json()) as any
    expect([response.status, body.error]).toEqual([200, undefined])
    const charge = costOf(body.usage)
    const receipt = decodePaymentResponseHeader(response.headers.get('payment-response') ?? '')
    expect(receipt).toMatchObject({ success: true, amount: String(charge), payer: payer.account.address })
    expect(response.headers.get('x-payment-charged')).toBe(inUsdc(charge))
    expect(before - (await payer.balance())).toBe(charge)
    first = charge
    expect((await payer.transfersIn(receipt.transaction)).map(({ value }) => value)).toEqual([charge])
  })

  test('buys streams and whole chats with an allowance, side by side; the ledger equals the chain', async () => {
    await allow(10_000_000n)
    const before = await payer.balance()
    const pay = official()
    const streamed = async () => {
      const response = await pay(running.url + COMPLETIONS, post({ ...ASK, stream: true }))
      const text = await response.text()
      return BigInt((/: x-payment-charged 0\.(\d{6})/.exec(text)?.[1] ?? 'none').replace(/^0+/, ''))
    }
    const whole = async () => {
      const response = await pay(running.url + COMPLETIONS, post(ASK))
      const { usage } = (await response.json()) as any
      expect(response.headers.get('x-payment-charged')).toBe(inUsdc(costOf(usage)))
      return costOf(usage)
    }
    const charges: bigint[] = []
    for (let round = 0; round < 3; round++) charges.push(...(await Promise.all([streamed(), whole(), whole()])))
    const sum = charges.reduce((all, charge) => all + charge, 0n)
    expect(charges.length).toBe(9)
    expect(before - (await payer.balance())).toBe(sum)
    const report = await fetch(`${running.url}/api/v1/wallet/${payer.account.address}/reconciliation`)
    const { totals } = (await report.json()) as any
    expect(totals.calls).toBe(10)
    expect(BigInt(String(totals.usd).replace('.', ''))).toBe(first + sum)
  })

  test(`buys ${CALLS} chats: charged equals usage times rates, and the ledger equals the chain to the unit`, async () => {
    await allow(10_000_000n)
    const [before, earned] = [await payer.balance(), await balanceOf(payer.devnet.pay_to)]
    const since = Date.now()
    const pay = official()
    let due = 0n
    // One after another: the client reads the chain itself, and the node refuses that while it makes a block.
    for (let call = 0; call < CALLS; call++) {
      const messages = [{ role: 'user', content: `Question ${call}, of ${CALLS}` }]
      const response = await pay(running.url + COMPLETIONS, post({ ...ASK, messages }))
      const { usage, error } = (await response.json()) as any
      expect([response.status, error]).toEqual([200, undefined])
      expect(response.headers.get('x-payment-charged')).toBe(inUsdc(costOf(usage)))
      due += costOf(usage)
    }
    expect(before - (await payer.balance())).toBe(due)
    expect((await balanceOf(payer.devnet.pay_to)) - earned).toBe(due)
    const [spend] = await running.wired.storage.spendByModel(payer.account.address, since)
    expect([spend?.calls, spend?.spent as bigint]).toEqual([CALLS, due])
  }, 240_000)
})
