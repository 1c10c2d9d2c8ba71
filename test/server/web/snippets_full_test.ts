/** The code that the pages show, run as it is against a devnet. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Model } from '../../../server/web/pages/lib/api.ts'
import { exampleOf } from '../../../server/web/pages/front/examples.ts'
import { type Snippet, snippetsOf } from '../../../server/web/pages/lib/snippets.ts'
import { CHECKOUT_COMMAND } from '../../../server/config/buyer_command.ts'
import { gatewayProcesses } from '../gateway_process.ts'

const ROOT = join(import.meta.dirname, '../../..')

type Chain = { readonly name: string; readonly base_url: string; readonly buyer: { readonly private_key: string } }

const processes = gatewayProcesses()
let chains: readonly Chain[]

beforeAll(async () => {
  const url = await processes.start(processes.dir()).url
  chains = ((await (await fetch(`${url}/devnet`)).json()) as { gateways: readonly Chain[] }).gateways
})

const chainOf = (name: string): Chain => chains.find((each) => each.name === name) as Chain

function snippet(id: string, category: string, { name, chain }: { name: string; chain: Chain }): string {
  const model = {
    id,
    name: id,
    owned_by: '',
    categories: [category],
    billing_mode: 'paid',
    pricing: {},
  } satisfies Model
  const all: readonly Snippet[] = snippetsOf(exampleOf(model), {
    origin: chain.base_url,
    network: chain.name,
    command: CHECKOUT_COMMAND,
  })
  return all.find(([title]) => title === name)?.[1] ?? ''
}

/** Output of the code. Packages are those of this repository. */
async function output(command: readonly string[], { buyer }: Chain): Promise<string> {
  const env = { PATH: process.env.PATH ?? '', WALLET_KEY: buyer.private_key }
  const child = Bun.spawn([...command], { cwd: ROOT, env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  if (code !== 0) throw new Error(`${command.at(-1)}\n${err}`)
  return out
}

const run = (code: string, chain: Chain) => output([process.execPath, '-e', code], chain)

describe('the code on the pages', () => {
  test('of fetch buys one of each kind', async () => {
    const chain = chainOf('devnet')
    const bought = await Promise.all(
      [
        ['farebox/echo', 'chat', /sky/],
        ['vendor-a/image-1', 'image', /url/],
        ['vendor-c/video-1', 'video', /url/],
        ['elevenlabs/flash-v2.5', 'speech', /url/],
        ['elevenlabs/sound-effects', 'sound-effects', /url/],
        ['minimax/music-2.5+', 'music', /url/],
      ].map(async ([id, kind, expected]) => {
        const out = await run(snippet(String(id), String(kind), { name: 'fetch', chain }), chain)
        return [kind, (expected as RegExp).test(out) ? 'bought' : out]
      }),
    )
    expect(bought).toEqual(
      ['chat', 'image', 'video', 'speech', 'sound-effects', 'music'].map((kind) => [kind, 'bought']),
    )
  })

  test('of the SDKs buys a chat, and a stream in the playground is bought whole by its code', async () => {
    const chain = chainOf('devnet')
    for (const name of ['OpenAI SDK', 'Anthropic SDK'])
      expect(await run(snippet('farebox/echo', 'chat', { name, chain }), chain)).toContain('sky')
    const body = { model: 'farebox/echo', messages: [{ role: 'user', content: 'a stream' }], stream: true }
    const [first] = snippetsOf(
      { path: '/api/v1/chat/completions', body },
      {
        origin: chain.base_url,
        network: 'base',
        command: CHECKOUT_COMMAND,
      },
    )
    expect(await run(first?.[1] ?? '', chain)).toContain('a stream')
  })

  test('of fetch buys on Solana, and asks nobody but the gateway before it pays', async () => {
    const chain = chainOf('solana')
    expect(await run(snippet('farebox/echo', 'chat', { name: 'fetch', chain }), chain)).toContain('sky')
  })

  test('of curl shows the price', async () => {
    const chain = chainOf('devnet')
    const code = snippet('vendor-a/image-1', 'image', { name: 'curl', chain })
    expect(await output(['sh', '-c', code], chain)).toMatch(/^HTTP\/1.1 402[^]*payment-required/i)
  })
})
