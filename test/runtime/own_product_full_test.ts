/** The page "Sell your API", followed to the letter: the file is saved, the gateway started, the product bought. */
import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gatewayProcesses } from '../server/gateway_process.ts'
import { blocks, guideText } from './readme.ts'

const ROOT = join(import.meta.dirname, '../..')
const page = await guideText('sell_your_api')
const processes = gatewayProcesses()

test('the product of the page is bought by the program of the page', async () => {
  const dir = processes.dir()
  await writeFile(join(dir, 'haiku.ts'), blocks(page, '## 1. Write the product', 'ts')[0] ?? '')
  const [, name = '', value = ''] = /^(\w+)=(\S+) npx/.exec(blocks(page, '## 2. Start', '')[0] ?? '') ?? []
  const url = await processes.start(dir, { [name]: value }).url
  const { buyer } = (await (await fetch(`${url}/devnet`)).json()) as { buyer: { private_key: string } }
  const [program = ''] = blocks(page, '## 3. Buy it', 'js')
  const child = Bun.spawn([process.execPath, '-e', program.replace('http://127.0.0.1:4020', url)], {
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? '', FAREBOX_BUYER_KEY: buyer.private_key },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [output, complaints] = await Promise.all([child.stdout.text(), child.stderr.text()])
  expect(complaints).toBe('')
  expect(output).toContain('first light on snow')
  expect(output).toMatch(/status: ["']settled["']/)
}, 120_000)

test('a product that cannot be sold ends the process with status 1 and one message', async () => {
  const dir = processes.dir()
  const [haiku = ''] = blocks(page, '## 1. Write the product', 'ts')
  await writeFile(join(dir, 'haiku.ts'), haiku.replace("'/api/v1/haiku'", "'/api/v1/images/generations'"))
  await writeFile(join(dir, 'farebox.toml'), blocks(page, '## 2. Start', 'toml')[0] ?? '')
  const { code, err } = await processes.start(dir, { DATABASE_URL: '' }, ['start']).exited
  expect([code, err.split('\n')[0]]).toEqual([
    1,
    `products: ${dir}/haiku.ts: products[0].path: /api/v1/images/generations is taken by images.generations`,
  ])
}, 120_000)
