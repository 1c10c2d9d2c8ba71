/** The binary as an operator meets it: real processes, signals, kill -9, ports and files. Nothing here sleeps: it reads lines and exits. */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodePayment, GENERATIONS, payerAt, pngSize } from './clients/payer.ts'

const MAIN = join(import.meta.dir, '../../server/main.ts')
const SMALL = { model: 'vendor-d/image-cv4', prompt: 'a lighthouse at dusk', size: '512x512' }
/** Six pictures of four megapixels: a second of work at least, for the price of six small ones. */
const LONG = { model: 'vendor-b/image-pro', prompt: 'mountains', size: '2048x2048', n: 6 }
const SHORT = { ...LONG, size: '1024x1024' }
const TEN = { ...SMALL, n: 10 }

const scratch = mkdtempSync(join(tmpdir(), 'farebox-process-'))
const started: Process[] = []
/** What Bun has made of large modules; otherwise each home would get nine megabytes of it. */
const CACHE = { BUN_RUNTIME_TRANSPILER_CACHE_PATH: join(scratch, 'transpiled') }

afterAll(async () => {
  for (const process of started) process.kill('SIGKILL')
  await Promise.all(started.map(({ exited }) => exited))
  rmSync(scratch, { recursive: true, force: true })
})

const freshDir = (): string => mkdtempSync(join(scratch, 'run-'))

type Process = {
  readonly exited: Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>
  /** Resolves with the address that the greeting says it listens on; rejects, with what it said, when it ends without one. */
  readonly url: Promise<string>
  readonly pid: number
  kill(signal: NodeJS.Signals): void
}

/** `bun server/main.ts` in `dir`, on a free port and in its own database unless told. It inherits nothing but the path. */
function farebox(dir: string, env: Readonly<Record<string, string>> = {}): Process {
  const child = Bun.spawn([process.execPath, MAIN], {
    cwd: dir,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: dir,
      ...CACHE,
      PORT: '0',
      DATABASE_URL: `sqlite:${dir}/data/farebox.db`,
      ...env,
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const greeting = Promise.withResolvers<string>()
  greeting.promise.catch(() => {})
  const out = gather(child.stdout, (text) => {
    const url = /^ {2}look around: +(\S+)\/openapi\.json/m.exec(text)?.[1]
    if (url) greeting.resolve(url)
  })
  const exited = Promise.all([child.exited, out, gather(child.stderr)]).then(([, said, err]) => {
    greeting.reject(new Error(`farebox ended with ${child.exitCode}: ${err}`))
    return { code: child.exitCode, out: said, err }
  })
  const made = { exited, url: greeting.promise, pid: child.pid, kill: (signal: NodeJS.Signals) => child.kill(signal) }
  started.push(made)
  return made
}

async function gather(stream: ReadableStream<Uint8Array>, heard: (text: string) => void = () => {}): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream) heard((text += decoder.decode(chunk, { stream: true })))
  return text
}

/** The local chains that keep their state in this directory. */
const nodesIn = (dir: string): readonly string[] =>
  aliveIn(dir).filter((line) => line.includes('--dump-state') && !line.includes('/bin/sh'))

/** Command lines of living processes that name this directory: the local chain and its guard, whoever started them. */
function aliveIn(dir: string): readonly string[] {
  const lines = existsSync('/proc/self/cmdline')
    ? readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .map(commandLine)
    : Bun.spawnSync(['ps', '-Ao', 'command=']).stdout.toString().split('\n')
  return lines.filter((line) => line.includes(dir))
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}

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
  test('sells on devnet; SIGTERM lets a request under way finish with 200, then nothing is left', async () => {
    const dir = freshDir()
    const gateway = farebox(dir)
    const url = await gateway.url
    const payer = await payerAt(url)
    expect(nodesIn(dir)).toHaveLength(1)
    const before = await payer.balance()
    const bought = await payer.post(SMALL, header(await payer.sign(SMALL)))
    expect(bought).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
    expect(before - (await payer.balance())).toBe(16_750n)

    const signed = header(await payer.sign(TEN))
    const working = payer.post(TEN, signed)
    const twin = payer.post(TEN, signed)
    const first = await Promise.race([working, twin])
    expect(first.body).toMatchObject({ code: 'PAYMENT_REPLAY' }) // so the other one is at work
    gateway.kill('SIGTERM')
    const [finished] = (await Promise.all([working, twin])).filter((answer) => answer !== first)
    expect(finished).toMatchObject({ status: 200, body: { id: first.body.job_id, payment: { status: 'settled' } } })

    const { code, out, err } = await gateway.exited
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('draining')
    await expect(fetch(`${url}/api/health`)).rejects.toThrow()
    expect(aliveIn(dir)).toEqual([])
  }, 60_000)

  test('kill -9 in the middle of work loses nothing that was paid, charges nothing that was lost, and frees its authorization', async () => {
    const dir = freshDir()
    const killed = farebox(dir, { INLINE_WINDOW_SECONDS: '5' })
    const payer = await payerAt(await killed.url)
    const [kept, lost] = [header(await payer.sign(SMALL)), header(await payer.sign(LONG))]
    const bought = await payer.post(SMALL, kept)
    expect(bought.status).toBe(200)
    const balance = await payer.balance()
    const working = payer.post(LONG, lost).catch((error: Error) => error)
    const twin = payer.post(LONG, lost).catch((error: Error) => error)
    const replay = await Promise.race([working, twin])
    expect(replay).toMatchObject({ status: 402, body: { code: 'PAYMENT_REPLAY' } })
    const poll = replay instanceof Error ? '' : replay.body.poll_url
    expect(await payer.get(poll, lost)).toMatchObject({ status: 202 })
    killed.kill('SIGKILL')
    expect((await Promise.all([working, twin])).filter((answer) => answer instanceof Error)).toHaveLength(1)
    await killed.exited

    const gateway = farebox(dir)
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
    const collected = await again.get((await again.post(SMALL, kept)).body.poll_url, kept)
    expect(collected).toMatchObject({
      status: 200,
      body: { payment: { status: 'already_settled', tx_hash: bought.body.payment.tx_hash } },
    })
    const media = await fetch(collected.body.data[0].url)
    expect(pngSize(await media.bytes())).toBe('512x512')
    expect(await again.balance()).toBe(balance)

    const anew = await again.post(SHORT, lost)
    expect(anew).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
    expect(balance - (await again.balance())).toBe(631_000n)
    gateway.kill('SIGINT')
    expect((await gateway.exited).code).toBe(0)
    expect(aliveIn(dir)).toEqual([])
  }, 60_000)

  test('a local chain that is behind the ledger resets both, and says so', async () => {
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
    expect(await again.post(SMALL, paid)).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } }) // its nonce is unused again
    second.kill('SIGTERM')
    const { out } = await second.exited
    expect(out).toContain('the local chain is behind the ledger: both were reset')
  }, 60_000)

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
    expect(out).toContain('note: listening on 0.0.0.0, so others can reach this play system')
  }, 60_000)
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
  }, 60_000)

  test('a port that is taken', async () => {
    const dir = freshDir()
    const taken = await listening()
    const { port } = taken.address() as AddressInfo
    const refused = await farebox(dir, { PORT: String(port) }).exited
    taken.close()
    expect({ ...refused, out: '' }).toEqual({
      code: 1,
      out: '',
      err: `Port ${port} on 127.0.0.1 is taken. Stop what listens there, or set PORT to another one (0 picks a free one).\n`,
    })
    expect(aliveIn(dir)).toEqual([])
  }, 60_000)

  test('a configuration with mistakes: all of them are listed, by name, and no secret is shown', async () => {
    const dir = freshDir()
    writeFileSync(join(dir, 'farebox.toml'), 'drain_seconds = "soon"\nmax_boddy_bytes = 5\n')
    const refused = await farebox(dir, {
      PORT: '70000',
      DATABASE_URL: 'mysql://root:hunter2@db',
      OPERATOR_TOKEN: 'short',
      LOG_LEVEL: 'loud',
    }).exited
    expect(refused).toMatchObject({ code: 1, out: '' })
    const lines = refused.err.trimEnd().split('\n')
    expect(lines[0]).toBe('Farebox cannot start; the configuration has mistakes:')
    expect(lines.slice(1).map((line) => line.split(':')[0]?.trim())).toEqual(
      expect.arrayContaining([
        '- PORT',
        '- DATABASE_URL',
        '- OPERATOR_TOKEN',
        '- LOG_LEVEL',
        '- drain_seconds',
        '- max_boddy_bytes',
      ]),
    )
    expect(lines).toHaveLength(7)
    expect(refused.err).not.toContain('hunter2')
    expect(aliveIn(dir)).toEqual([])
  })

  test('a configuration file that is not there', async () => {
    const { code, err } = await farebox(freshDir(), { FAREBOX_CONFIG: 'elsewhere.toml' }).exited
    expect({ code, err }).toEqual({
      code: 1,
      err: 'Farebox cannot start; the configuration has mistakes:\n  - FAREBOX_CONFIG: there is no file at elsewhere.toml\n',
    })
  })
})
