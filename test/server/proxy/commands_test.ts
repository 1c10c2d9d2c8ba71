/** farebox proxy env, farebox wallet: what they print and what they write. */
import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../cli/command_kit.ts'

const scratch = mkdtempSync(join(tmpdir(), 'farebox-wallet-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const at = (name: string) => {
  const HOME = join(scratch, name)
  const run = (...args: string[]) => runCommand(args, { env: { HOME } })
  return { run, file: (path: string) => join(HOME, '.farebox', path) }
}

/** A node of Base on which every wallet has 1.5 USDC. */
async function nodeOfBase(request: Request): Promise<Response> {
  const { id, method } = (await request.json()) as { id: number; method: string }
  const result = method === 'eth_chainId' ? '0x2105' : `0x${(1_500_000).toString(16).padStart(64, '0')}`
  return Response.json({ jsonrpc: '2.0', id, result })
}

describe('farebox wallet', () => {
  test('new writes a file for its owner alone, prints the address and never the key, and overwrites nothing', async () => {
    const { run, file } = at('new')
    const made = await run('wallet', 'new')
    const { address, key } = JSON.parse(readFileSync(file('wallet.json'), 'utf8'))
    expect([made.code, made.out]).toEqual([0, `${address}\n`])
    expect(statSync(file('wallet.json')).mode & 0o777).toBe(0o600)
    const node = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: nodeOfBase })
    const listed = await run('wallet', 'show', '--rpc', `http://127.0.0.1:${node.port}`)
    await node.stop(true)
    const printed = [made, listed, await run('wallet', 'fund'), await run('wallet', 'new')]
    expect(printed.map(({ code }) => code)).toEqual([0, 0, 0, 1])
    for (const { out, err } of printed) expect(out + err).not.toContain(key.slice(2))
    expect(printed[1]?.out).toBe(
      `wallet    ${address}, real money\nbalance   1.5 USDC on Base\ntoday     0 USDC spent or signed\n`,
    )
    expect(printed[2]?.out).toContain('Base (eip155:8453), token 0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913')
  })

  test('keeps test money apart', async () => {
    const { run } = at('apart')
    expect((await run('wallet', 'new', '--test')).code).toBe(0)
    const real = await run('wallet', 'show')
    expect([real.code, real.err]).toEqual([1, 'There is no wallet for real money. Run farebox wallet new.\n'])
    const fund = await run('wallet', 'fund', '--test')
    expect([fund.out.includes('eip155:84532'), fund.out.includes('eip155:8453)')]).toEqual([true, false])
  })

  test('refuses a file that other users can read, and tells nothing of a broken one', async () => {
    const { run, file } = at('open')
    await run('wallet', 'new')
    chmodSync(file('wallet.json'), 0o644)
    const refused = await run('wallet')
    expect([refused.code, refused.err]).toEqual([
      1,
      `Other users can read ${file('wallet.json')}. Run: chmod 600 ${file('wallet.json')}\n`,
    ])
  })

  test.each([
    [['wallet', 'burn'], 'wallet takes show, new, fund or close; not burn'],
    [['wallet', 'close'], 'close needs --url: the gateway of the channel'],
    [['wallet', 'fund', '--url', 'http://x'], '--url goes with farebox wallet show or close'],
    [['proxy', '--channel', '--no-channel'], '--no-channel goes with neither --channel nor --deposit'],
    [['proxy', 'env', 'emacs'], 'env takes one of claude, codex, opencode, gemini, openai, anthropic'],
    [['proxy', 'env', 'claude', '--model', "x'; rm"], '--model takes the id of a model'],
    [['proxy', '--to', 'http://shop.example'], '--to must be an https URL'],
    [['proxy', '--max-per-day', 'much'], '--max-per-day must be an amount in USDC such as 0.10, got "much"'],
    [['proxy', '--port', '99999'], '--port takes a number below 65536'],
  ])('%p is wrong usage', async (args, message) => {
    const { code, err } = await at('usage').run(...args)
    expect([code, err]).toEqual([2, expect.stringContaining(message)])
  })
})

describe('farebox proxy env', () => {
  test('prints the same token for each tool, which another user cannot read', async () => {
    const { run, file } = at('env')
    const tools = ['claude', 'codex', 'opencode', 'gemini', 'openai', 'anthropic']
    const lines = await Promise.all(tools.map((tool) => run('proxy', 'env', tool, '--model', 'farebox/echo')))
    const token = readFileSync(file('proxy_token'), 'utf8').trim()
    expect(token).toMatch(/^sk-proxy-[\w-]{43}$/)
    for (const { code, out } of lines) {
      expect(code).toBe(0)
      expect(out).toContain(token)
      expect(out).toContain('http://127.0.0.1:8402')
    }
    expect(lines[0]?.out).toContain("export ANTHROPIC_BASE_URL='http://127.0.0.1:8402'")
    expect(lines[1]?.out).toContain('base_url = "http://127.0.0.1:8402/v1"')
    expect(statSync(file('proxy_token')).mode & 0o777).toBe(0o600)
    chmodSync(file('proxy_token'), 0o644)
    const refused = await run('proxy', 'env', 'claude')
    expect([refused.code, refused.out, refused.err]).toEqual([
      1,
      '',
      expect.stringContaining('farebox proxy --new-token'),
    ])
  })
})
