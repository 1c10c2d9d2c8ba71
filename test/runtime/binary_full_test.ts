/** The server as one executable: it comes up on its own chain, sells, and has in it what it starts or loads later. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodePayment, payerAt } from '../server/clients/payer.ts'
import { blocks, guideText } from './readme.ts'

const SMALL = { model: 'vendor-d/image-cv4', prompt: 'a lighthouse at dusk', size: '512x512' }

let dir: string
let binary: Bun.Subprocess<'ignore', 'pipe', 'pipe'>
let url: string

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'farebox-binary-'))
  // The local chain is a program of its own, which the binary looks for among the packages beside it.
  await symlink(join(import.meta.dirname, '../../node_modules'), join(dir, 'node_modules'), 'dir')
  const file = join(dir, 'farebox')
  const build = Bun.spawn([process.execPath, join(import.meta.dirname, '../../server/build.ts'), '--binary', file], {
    stdout: 'ignore',
    env: { PATH: process.env.PATH ?? '' },
  })
  expect(await build.exited).toBe(0)
  const [haiku = ''] = blocks(await guideText('sell_your_api'), '## 1. Write the product', 'ts')
  await writeFile(join(dir, 'haiku.ts'), `import 'image-size'\n${haiku}`)
  binary = Bun.spawn([file, 'devnet'], {
    cwd: dir,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: dir,
      PORT: '0',
      DATABASE_URL: `sqlite:${dir}/data/farebox.db`,
      OPENAI_API_KEY: 'sk-none',
      PRODUCTS: './haiku.ts',
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  url = await addressIn(binary.stdout)
}, 300_000)

afterAll(async () => {
  binary.kill('SIGKILL')
  await binary.exited
  await rm(dir, { recursive: true, force: true })
})

async function addressIn(stdout: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stdout) {
    text += decoder.decode(chunk, { stream: true })
    const address = /^ {2}look around: +(\S+)\/ /m.exec(text)?.[1]
    if (address) return address
  }
  throw new Error(`the binary ended without a greeting: ${text}${await new Response(binary.stderr).text()}`)
}

test('the binary sells an image on its own chain', async () => {
  const payer = await payerAt(url)
  const bought = await payer.post(SMALL, { 'payment-signature': encodePayment(await payer.sign(SMALL)) })
  expect(bought).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
})

test('the binary sells a product of a file, which imports Farebox and a package beside it', async () => {
  const payer = await payerAt(url)
  const order = { about: 'snow' }
  const payment = await payer.sign(order, undefined, '/api/v1/haiku')
  const bought = await payer.post(order, { 'payment-signature': encodePayment(payment) }, '/api/v1/haiku')
  expect([bought.status, bought.body.lines?.[0]]).toEqual([200, 'first light on snow'])
})

test('the binary has the pages in it, with every file that they name', async () => {
  const headers = { accept: 'text/html', 'user-agent': 'Mozilla/5.0' }
  for (const path of ['/', '/play']) {
    const page = await fetch(url + path, { headers })
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    const files = [...(await page.text()).matchAll(/(?:src|href)="(\/web\/[^"]+)"/g)].map(([, file = '']) => file)
    expect(files.length).toBeGreaterThan(1)
    for (const file of files) {
      const { status, headers: sent } = await fetch(url + file)
      expect([status, sent.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable'])
    }
  }
})

test('the binary counts the tokens of a long prompt on its thread', async () => {
  const body = {
    model: 'vendor-a/chat-6-small',
    messages: [{ role: 'user', content: 'why is the sky blue? '.repeat(900) }],
  }
  const reply = await fetch(`${url}/api/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(reply.status).toBe(402)
})

test('the binary recovers signatures with the library that was built in', async () => {
  if (`${process.platform}-${process.arch}` !== 'linux-x64') return
  const maps = await readFile(`/proc/${binary.pid}/maps`, 'utf8')
  const libraries = new Set([...maps.matchAll(/ (\S+\.node)\b/g)].map(([, path = '']) => path))
  const sizes = [...libraries].map((path) => Bun.file(path).size)
  const built = join(import.meta.dirname, '../../node_modules/secp256k1/prebuilds/linux-x64')
  expect(
    sizes.some((size) =>
      [`${built}/secp256k1.glibc.node`, `${built}/secp256k1.musl.node`].some((path) => Bun.file(path).size === size),
    ),
  ).toBe(true)
})
