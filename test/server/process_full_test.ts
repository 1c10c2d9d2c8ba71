/**
 * The binary as an operator meets it: real processes, signals, kill -9, ports and files. Nothing here sleeps: it reads
 * lines and exits.
 */
import { describe, expect, test } from 'bun:test'
import { Database } from 'bun:sqlite'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { aliveIn, gatewayProcesses, imageHost, nodesIn } from './gateway_process.ts'
import { encodePayment, GENERATIONS, payerAt, pngSize } from './clients/payer.ts'

const SMALL = { model: 'vendor-d/image-cv4', prompt: 'a lighthouse at dusk', size: '512x512' }
/** Drawn by the image host of the test, which takes as long as the test wants. */
const HOSTED = { model: 'vendor-a/image-1', prompt: 'mountains' }

const { dir: freshDir, start: farebox } = gatewayProcesses()

function listening(): Promise<Server> {
  const server = createServer()
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

/** Nobody listens there now. */
async function freePort(): Promise<number> {
  const server = await listening()
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

const header = (payment: unknown) => ({ 'payment-signature': encodePayment(payment) })

describe('a gateway process', () => {
  test('kill -9 in the middle of work loses nothing that was paid, charges nothing that was lost, and frees its authorization', async () => {
    const dir = freshDir()
    const host = imageHost()
    const killed = farebox(dir, host.env)
    const payer = await payerAt(await killed.url)
    const [retained, lost] = [header(await payer.sign(SMALL)), header(await payer.sign(HOSTED))]
    const bought = await payer.post(SMALL, retained)
    expect(bought.status).toBe(200)
    const balance = await payer.balance()
    const working = payer.post(HOSTED, lost).catch((error: Error) => error)
    await host.requested
    const replay = await payer.post(HOSTED, lost)
    expect(replay).toMatchObject({ status: 402, body: { code: 'PAYMENT_REPLAY' } })
    const poll = replay.body.poll_url
    expect(await payer.get(poll, lost)).toMatchObject({ status: 202 })
    killed.kill('SIGKILL')
    expect(await working).toBeInstanceOf(Error)
    await killed.exited
    host.release()

    const gateway = farebox(dir, host.env)
    const again = await payerAt(await gateway.url)
    expect(again.account.address).toBe(payer.account.address)
    expect(await again.balance()).toBe(balance)
    expect(nodesIn(dir)).toHaveLength(1) // the old one has gone

    const failed = await again.get(poll, lost)
    expect(failed).toMatchObject({
      status: 200,
      body: {
        status: 'failed',
        payment_status: 'not_charged',
        error: expect.stringContaining('lost when the server stopped'),
      },
    })
    const collected = await again.get((await again.post(SMALL, retained)).body.poll_url, retained)
    expect(collected).toMatchObject({
      status: 200,
      body: { payment: { status: 'already_settled', tx_hash: bought.body.payment.tx_hash } },
    })
    const media = await fetch(collected.body.data[0].url)
    expect(pngSize(await media.bytes())).toBe('512x512')
    expect(await again.balance()).toBe(balance)

    const anew = await again.post(HOSTED, lost)
    expect(anew).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
    expect(balance - (await again.balance())).toBe(22_000n)
    gateway.kill('SIGINT')
    expect((await gateway.exited).code).toBe(0)
    await host.stop()
    expect(aliveIn(dir)).toEqual([])
  }, 300_000)

  test('a local chain that is behind the ledger: both are moved aside, and begin anew', async () => {
    const dir = freshDir()
    const first = farebox(dir, { DATABASE_URL: '' }) // where everything is kept when nothing is said
    const payer = await payerAt(await first.url)
    const paid = header(await payer.sign(SMALL))
    const bought = await payer.post(SMALL, paid)
    expect(bought.status).toBe(200)
    first.kill('SIGTERM')
    await first.exited
    rmSync(join(dir, '.farebox/devnet/chain.json'))

    const second = farebox(dir, { DATABASE_URL: '' })
    const again = await payerAt(await second.url)
    expect(await again.balance()).toBe(1_000_000_000_000n)
    expect(await again.get(`${GENERATIONS}/${bought.body.id}`, paid)).toMatchObject({ status: 404 })
    // Its nonce is unused again.
    expect(await again.post(SMALL, paid)).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
    second.kill('SIGTERM')
    const { out } = await second.exited
    expect(out).toContain('the local chain is behind the ledger: both were moved aside')
    const aside = readdirSync(join(dir, '.farebox/devnet')).filter((name) =>
      name.startsWith('farebox.db.before-reset-'),
    )
    expect(aside).toHaveLength(1)
    expect(out).toContain(aside[0] ?? '')
    const database = new Database(join(dir, '.farebox/devnet', aside[0] ?? ''), { readonly: true })
    expect(database.query('SELECT id FROM calls').all()).toEqual([{ id: bought.body.id }])
    database.close()
  }, 300_000)

  test.each([
    ['in memory', { DATABASE_URL: 'memory:', OBJECT_STORE: 'memory:' }, '127.0.0.1'],
    ['on a name', { HOST: 'localhost', DATABASE_URL: 'memory:' }, 'localhost'],
    ['behind another origin', { PUBLIC_ORIGIN: 'https://sketches.example', OBJECT_STORE: 'memory:' }, '127.0.0.1'],
  ])(
    'starts its own chain %s',
    async (_, env, host) => {
      const port = await freePort()
      const gateway = farebox(freshDir(), { PORT: String(port), ...env })
      const origin = ('PUBLIC_ORIGIN' in env && env.PUBLIC_ORIGIN) || `http://${host}:${port}`
      expect(await gateway.url).toBe(`http://${host}:${port}`)
      const payer = await payerAt(`http://${host}:${port}`)
      const bought = await payer.post(SMALL, header(await payer.sign(SMALL)))
      expect(bought).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
      expect(bought.body.data[0].url).toStartWith(`${origin}/api/media/`)
      gateway.kill('SIGTERM')
      expect(await gateway.exited).toMatchObject({ code: 0, err: '' })
    },
    60_000,
  )

  test('counts the endpoints that its documents show, and says so when it listens where others can reach it', async () => {
    const gateway = farebox(freshDir(), { HOST: '0.0.0.0', DATABASE_URL: 'memory:' })
    const { port } = new URL(await gateway.url)
    const { endpoints } = (await (await fetch(`http://127.0.0.1:${port}/brand/numbers.json`)).json()) as {
      endpoints: { paid: number; free: number }
    }
    gateway.kill('SIGTERM')
    const { code, out } = await gateway.exited
    expect(code).toBe(0)
    expect(out).toContain(`: ${endpoints.paid + endpoints.free} endpoints, paid in USDC`)
    expect(out).toContain('note: listening on 0.0.0.0, so other machines can reach this devnet')
  }, 300_000)
})

describe('a start that cannot succeed says why in one go, exits with 1 and leaves nothing behind', () => {
  test('a second process on the same SQLite database', async () => {
    const dir = freshDir()
    const first = farebox(dir)
    await first.url
    const second = farebox(dir)
    const path = join(dir, 'data/farebox.db')
    expect(await second.exited).toEqual({
      code: 1,
      out: '',
      err: `Another Farebox is running on ${path}. SQLite serves one process: stop the other one, or set DATABASE_URL.\n`,
    })
    expect(nodesIn(dir)).toHaveLength(1)
    first.kill('SIGTERM')
    expect((await first.exited).code).toBe(0)
    expect(aliveIn(dir)).toEqual([])
  }, 300_000)

  test('a port that is taken', async () => {
    const dir = freshDir()
    const taken = await listening()
    const { port } = taken.address() as AddressInfo
    const refused = await farebox(dir, { PORT: String(port) }).exited
    taken.close()
    expect({ ...refused, out: '' }).toEqual({
      code: 1,
      out: '',
      err: `Port ${port} on 127.0.0.1 is already in use. Stop the other process, or set PORT to another port (0 picks a free one).\n`,
    })
    expect(aliveIn(dir)).toEqual([])
  }, 300_000)

  test('a configuration with mistakes: all of them are listed, by name, and no secret is shown', async () => {
    const dir = freshDir()
    writeFileSync(join(dir, 'farebox.toml'), 'drain_seconds = "soon"\nmax_boddy_bytes = 5\n')
    const env = {
      PORT: '70000',
      DATABASE_URL: 'mysql://root:hunter2@db',
      OPERATOR_TOKEN: 'short',
      LOG_LEVEL: 'loud',
    }
    const refused = await farebox(dir, env, ['start']).exited
    expect(refused).toMatchObject({ code: 1, out: '' })
    const lines = refused.err.trimEnd().split('\n')
    expect(lines[0]).toBe('Farebox cannot start. The configuration has these errors:')
    expect(lines.slice(1).map((line) => /^ *- (?:[\w.]+:\d+:\d+: )?(\w+):/.exec(line)?.[1])).toEqual(
      expect.arrayContaining([
        'PORT',
        'DATABASE_URL',
        'OPERATOR_TOKEN',
        'LOG_LEVEL',
        'drain_seconds',
        'max_boddy_bytes',
      ]),
    )
    expect(lines).toHaveLength(7)
    expect(refused.err).not.toContain('hunter2')
    expect(aliveIn(dir)).toEqual([])
  })

  test('a configuration file that is not there', async () => {
    const { code, err } = await farebox(freshDir(), { FAREBOX_CONFIG: 'elsewhere.toml' }, ['start']).exited
    expect({ code, err }).toEqual({
      code: 1,
      err: 'Farebox cannot start. The configuration has these errors:\n  - FAREBOX_CONFIG: no file at elsewhere.toml\n',
    })
  })
})
