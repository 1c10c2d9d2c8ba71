/** `farebox buy --channel` against a started gateway: a process of its own, the public client inside. */
import { beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createPublicClient, type Hex } from 'viem'
import { BATCH_SETTLEMENT, batchSettlementAbi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Running } from '../../../server/main.ts'
import { startedGateways } from '../started_gateway.ts'
import { type Payer, payerAt } from '../clients/payer.ts'
import { steadyHttp } from '../../fault/between_blocks.ts'

const MAIN = join(import.meta.dir, '../../../server/main.ts')
const { scratch, startWith } = startedGateways()
let running: Running
let payer: Payer

beforeAll(async () => {
  running = await startWith()
  payer = await payerAt(running.url)
})

type Bought = { readonly code: number; readonly out: string; readonly err: string }

async function buy(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Bought> {
  const child = Bun.spawn([process.execPath, MAIN, 'buy', ...args], {
    cwd: scratch,
    env: { PATH: process.env.PATH ?? '', HOME: scratch, FAREBOX_URL: running.url, ...env },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()])
  return { code, out, err }
}

const channels = (): readonly string[] => readdirSync(join(scratch, '.farebox/channels'))
const micro = (text: string | undefined): bigint => BigInt(Math.round(Number(text) * 1e6))
const close = () => buy(['--channel', '--close'])

test('buy --channel deposits once, pays what was used of each call, shows it, and has the rest sent back', async () => {
  const before = await payer.balance()
  const first = await buy(['chat', 'Hello', '--channel'])
  expect({ code: first.code, err: first.err }).toEqual({ code: 0, err: '' })
  const opened = /^deposit   2 USDC into channel (0x[0-9a-f]{64})$/m.exec(first.out)?.[1] ?? ''
  expect(first.out).toMatch(/^quote     at most 0\.002\d+ USDC on eip155:84532, to 0x/)
  expect(first.out).toMatch(/^paid      0\.001\d+ USDC from the channel, deposited with transaction 0x[0-9a-f]{64}$/m)
  expect(first.out).toMatch(/^channel   2 USDC deposited, 0\.001\d* charged, 1\.998\d* left$/m)
  expect(before - (await payer.balance())).toBe(2_000_000n)

  const second = await buy(['images', 'a fox', '--channel', '--out', 'fox.png'])
  expect(second.out).toMatch(/^paid      settled on base-sepolia, from the channel$/m)
  expect(second.out).not.toContain('deposit   ')
  expect(before - (await payer.balance())).toBe(2_000_000n)
  expect(channels()).toEqual([`${opened}.json`])
  expect(statSync(join(scratch, '.farebox/channels', `${opened}.json`)).mode & 0o777).toBe(0o600)

  const listed = await buy(['--channel', '--show'])
  const charged = micro(/^charged   (\S+) USDC$/m.exec(listed.out)?.[1])
  expect([listed.code, listed.out.split('\n').slice(0, 2)]).toEqual([
    0,
    [`channel   ${opened} on eip155:84532`, 'deposited 2 USDC'],
  ])
  const closed = await close()
  expect([closed.code, closed.err]).toEqual([0, ''])
  expect(closed.out).toMatch(/^refunded  1\.98\d* USDC, transaction 0x[0-9a-f]{64}\nwallet    0x\w{40}, \S+ USDC\n$/)
  expect(before - (await payer.balance())).toBe(charged)
  expect(channels()).toEqual([])
  expect(await close()).toEqual({ code: 0, out: 'left      0 USDC: nothing to send back\n', err: '' })
}, 60_000)

test('buy --channel goes on with a channel whose file is lost: the chain and the gateway know it', async () => {
  expect((await buy(['chat', 'One', '--channel'])).code).toBe(0)
  const before = await payer.balance()
  rmSync(join(scratch, '.farebox/channels'), { recursive: true })
  const { code, out } = await buy(['chat', 'Two', '--channel'])
  expect([code, out.includes('deposit   ')]).toEqual([0, false])
  expect(await payer.balance()).toBe(before)
  const [file = ''] = channels()
  const { context } = JSON.parse(readFileSync(join(scratch, '.farebox/channels', file), 'utf8'))
  const left = micro(/charged, (\S+) left$/m.exec(out)?.[1])
  expect(BigInt(context.balance) - BigInt(context.chargedCumulativeAmount)).toBe(left)
  expect((await close()).code).toBe(0)
  expect((await payer.balance()) - before).toBe(left)
}, 60_000)

test('buy --channel deposits nothing above its limit, and exactly what --deposit says', async () => {
  const before = await payer.balance()
  const real = { FAREBOX_BUYER_KEY: payer.devnet.buyer.private_key }
  const args = ['chat', 'Hello', '--channel']
  expect(await buy(args, real)).toMatchObject({
    code: 1,
    err: '--channel reads the channel from the chain. Add the URL of an RPC node with --rpc\n',
  })
  const rpc = ['--rpc', payer.devnet.rpc_url]
  expect(await buy([...args, ...rpc], real)).toMatchObject({
    code: 1,
    err: 'The deposit would be 2 USDC, above the limit of 1 USDC. To deposit it, add --deposit 2\n',
  })
  expect(await buy([...args, '--deposit', '1.5'])).toMatchObject({
    code: 1,
    err: '--deposit is 1.5 USDC; this gateway and price need 2 USDC\n',
  })
  expect(await buy([...args, '--deposit', '1000001'])).toMatchObject({
    code: 1,
    err: expect.stringMatching(
      /^The wallet 0x\w{40} holds \S+ USDC on eip155:84532, and the deposit is 1000001 USDC\./,
    ),
  })
  expect(await payer.balance()).toBe(before)
  expect((await buy([...args, ...rpc, '--deposit', '2.5'], real)).code).toBe(0)
  expect(before - (await payer.balance())).toBe(2_500_000n)
  expect((await close()).code).toBe(0)
}, 60_000)

test.each([
  ['--deposit alone', ['chat', 'Hello', '--deposit', '2'], 2, '--deposit is an option of channels: add --channel'],
  ['--close alone', ['--close'], 2, '--close is an option of channels: add --channel'],
  ['--show and a product', ['chat', 'Hello', '--channel', '--show'], 2, '--show and --close buy nothing'],
  ['--show and --close', ['--channel', '--show', '--close'], 2, 'use one of --show and --close'],
  [
    'an amount that is none',
    ['chat', 'Hello', '--channel', '--deposit', 'all'],
    2,
    '--deposit takes an amount in USDC',
  ],
  ['a gateway without channels', ['chat', 'Hello', '--channel', '--gateway', 'solana'], 1, 'sells nothing by channels'],
  [
    'a gateway without channels to show',
    ['--channel', '--show', '--gateway', 'solana'],
    1,
    'sells nothing by channels',
  ],
])('buy --channel with %s says so, and pays nothing', async (_, args, code, message) => {
  const before = await payer.balance()
  const bought = await buy(args)
  expect({ code: bought.code, err: bought.err }).toEqual({ code, err: expect.stringContaining(message) })
  expect(bought.err).not.toContain('    at ')
  expect(await payer.balance()).toBe(before)
})

test('buy --channel --close says how to withdraw where the gateway does not answer', async () => {
  const forward = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url)
    const body = request.method === 'GET' ? null : await request.text()
    const headers = new Headers(request.headers)
    headers.delete('accept-encoding')
    const {
      status,
      headers: given,
      body: answer,
    } = await fetch(running.url + pathname + search, {
      method: request.method,
      headers,
      body,
    })
    given.delete('content-encoding')
    return new Response(answer, { status, headers: given })
  }
  const front = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: forward })
  const url = front.url.origin
  const bought = await buy(['chat', 'Hello', '--channel', '--url', url])
  const left = micro(/charged, (\S+) left$/m.exec(bought.out)?.[1])
  expect([bought.code, left > 0n]).toEqual([0, true])
  await front.stop(true)
  const { code, err } = await buy(['--channel', '--close', '--url', url])
  expect([code, err]).toEqual([1, expect.stringContaining('Cannot reach a gateway at ')])
  const [, to, tuple = '', amount = ''] =
    /cast send (0x\w{40}) 'initiateWithdraw\(.*\)' '\((.*)\)' (\d+)/.exec(err) ?? []
  expect([to, BigInt(amount)]).toEqual([BATCH_SETTLEMENT, left])
  const [payerOf, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt] = tuple.split(',') as Hex[]
  const config = { payer: payerOf, payerAuthorizer, receiver, receiverAuthorizer, token, salt }
  await createPublicClient({ transport: steadyHttp(payer.devnet.rpc_url) }).simulateContract({
    address: BATCH_SETTLEMENT,
    abi: batchSettlementAbi,
    functionName: 'initiateWithdraw',
    args: [{ ...config, withdrawDelay: Number(withdrawDelay) } as never, BigInt(amount)],
    account: payer.account.address,
  })
  expect(err).toContain(`and ${withdrawDelay} seconds later:\n  cast send ${BATCH_SETTLEMENT} 'finalizeWithdraw(`)
}, 60_000)
