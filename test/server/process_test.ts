/**
 * One process of each kind: the gateway on its local chains, and the buyer's command. process_full_test.ts and
 * buy_full_test.ts have the rest.
 */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { encodePayment, payerAt, pngSize } from './clients/payer.ts'
import { aliveIn, gatewayProcesses, imageHost, nodesIn } from './gateway_process.ts'

const MAIN = join(import.meta.dirname, '../../server/main.ts')
const HOSTED = { model: 'vendor-a/image-1', prompt: 'mountains' }
const processes = gatewayProcesses()

async function buy(dir: string, url: string, gateway: string): Promise<{ out: string; size: string }> {
  const model = ['--model', 'vendor-d/image-cv4', '--size', '512x512']
  const child = Bun.spawn(
    [
      process.execPath,
      MAIN,
      'buy',
      'images',
      'a lighthouse',
      ...model,
      '--url',
      url,
      '--out',
      'a.png',
      '--gateway',
      gateway,
    ],
    { cwd: dir, env: { PATH: process.env.PATH ?? '' }, stdout: 'pipe', stderr: 'pipe' },
  )
  const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return { out, size: pngSize(await Bun.file(join(dir, 'a.png')).bytes()) ?? '' }
}

test('a gateway process sells on both local chains; SIGTERM lets a request under way finish with 200, then nothing is left', async () => {
  const dir = processes.dir()
  const host = imageHost()
  const gateway = processes.start(dir, host.env)
  const url = await gateway.url
  const payer = await payerAt(url)
  expect(nodesIn(dir)).toHaveLength(1)

  const before = await payer.balance()
  expect(await buy(dir, url, 'devnet')).toEqual({
    out: expect.stringContaining('paid      settled on base-sepolia'),
    size: '512x512',
  })
  expect(before - (await payer.balance())).toBe(16_750n)
  expect((await buy(dir, url, 'solana')).out).toContain('paid      settled on solana-devnet')

  const signed = { 'payment-signature': encodePayment(await payer.sign(HOSTED)) }
  const working = payer.post(HOSTED, signed)
  await host.requested
  gateway.kill('SIGTERM')
  await gateway.printed('draining')
  host.release()
  expect(await working).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
  const { code, err } = await gateway.exited
  expect({ code, err }).toEqual({ code: 0, err: '' })
  await expect(fetch(`${url}/api/health`)).rejects.toThrow()
  expect(aliveIn(dir)).toEqual([])
  await host.stop()
})

test('a start loads no package that only some requests or other configurations need', async () => {
  const preloaded = join(import.meta.dirname, 'loaded_packages.ts')
  const gateway = processes.start(processes.dir(), { BUN_OPTIONS: `--preload=${preloaded}` })
  const payer = await payerAt(await gateway.url)
  expect((await payer.post(HOSTED)).status).toBe(402)
  gateway.kill('SIGUSR2')
  await gateway.printed('loaded: ')
  gateway.kill('SIGTERM')
  const loaded = /^loaded: (.*)\.$/m.exec((await gateway.exited).out)?.[1]?.split(' ') ?? []
  const later = [
    '@modelcontextprotocol/server',
    '@aws-sdk/client-s3',
    'gpt-tokenizer',
    'pg',
    'prom-client',
    'modal',
    'e2b',
  ]
  expect(loaded).toContain('elysia')
  expect(loaded.filter((name) => later.includes(name))).toEqual([])
})
