/**
 * Start: from the start of the process to the first 402 for an image, configured and on devnet, of the binary and from
 * source, with a local chain that answers at once; and the resident memory afterwards. Prints, never asserts.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../adapters/local.ts'
import { type Devnet, startDevnet } from '../../server/devnet/mod.ts'
import { compileBinary } from '../../server/release/binary.ts'
import { GENERATIONS } from '../server/clients/payer.ts'
import { ORDER } from './buyers.ts'
import { fixed, median, table, verdict } from './print.ts'

const ROOT = join(import.meta.dir, '../..')
const RUNS = 5
const IDLE_MS = 1_000
const MAX_WAIT_MS = 20_000

type StartBench = { readonly scratch: string; readonly children: Bun.Subprocess[] }
type Started = { readonly firstMs: number; readonly idleMb: number }
/** `goals` are what at most it should take. */
type Way = {
  readonly name: string
  readonly command: readonly string[]
  readonly isConfigured: boolean
  readonly goals?: Started
}

export async function start({ scratch, children }: StartBench): Promise<void> {
  const binary = join(scratch, 'farebox')
  await compileBinary(binary)
  const source = [process.execPath, join(ROOT, 'server/main.ts')]
  const ways: readonly Way[] = [
    { name: 'configured, binary', command: [binary], isConfigured: true, goals: { firstMs: 300, idleMb: 90 } },
    { name: 'configured, from source', command: source, isConfigured: true },
    {
      name: 'devnet, binary',
      command: [binary, 'devnet'],
      isConfigured: false,
      goals: { firstMs: 2_000, idleMb: 105 },
    },
    { name: 'devnet, from source', command: [...source, 'devnet'], isConfigured: false },
  ]
  const seen = new Map<string, Started[]>(ways.map(({ name }) => [name, []]))
  const chain = await startDevnet()
  try {
    for (let run = 0; run < RUNS; run++)
      for (const way of ways) seen.get(way.name)?.push(await startOnce(way, { scratch, children, chain }))
  } finally {
    await chain.stop()
  }
  console.log(`\nstart, ${RUNS} runs taking turns; medians (least to most)`)
  table(
    ['', 'first 402, ms', 'idle MB'],
    [...seen].map(([name, runs]) => [name, spread(runs, 'firstMs'), spread(runs, 'idleMb')]),
  )
  for (const { name, goals } of ways) {
    if (!goals) continue
    for (const [key, unit] of [
      ['firstMs', 'ms to the first 402'],
      ['idleMb', 'MB idle'],
    ] as const) {
      const got = median((seen.get(name) ?? []).map((each) => each[key]))
      verdict(got <= goals[key], `${fixed(got, 0)} ${unit}, ${name}; goal: at most ${goals[key]}`)
    }
  }
}

function spread(runs: readonly Started[], key: keyof Started): string {
  const all = runs.map((each) => each[key])
  return `${fixed(median(all), 0)} (${fixed(Math.min(...all), 0)} to ${fixed(Math.max(...all), 0)})`
}

async function startOnce(
  { command, isConfigured }: Way,
  { scratch, children, chain }: StartBench & { chain: Devnet },
): Promise<Started> {
  const port = freePort()
  const dir = mkdtempSync(join(scratch, 'start-'))
  if (isConfigured) writeFileSync(join(dir, 'farebox.toml'), gatewayOn(chain))
  const startedAt = performance.now()
  const child = Bun.spawn([...command], {
    // The binary finds the local chain's program in the node_modules of the folder that it is started in.
    cwd: ROOT,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: dir,
      PORT: String(port),
      DATABASE_URL: `sqlite:${join(dir, 'farebox.db')}`,
      OBJECT_STORE: `file:${join(dir, 'media')}`,
      ...(isConfigured && {
        FAREBOX_CONFIG: join(dir, 'farebox.toml'),
        RELAYER_KEY: chain.relayerKey,
        OPENAI_API_KEY: 'none',
      }),
    },
    stdin: 'ignore',
    stdout: Bun.file(join(dir, 'log')),
    stderr: Bun.file(join(dir, 'errors')),
  })
  children.push(child)
  for (;;) {
    const status = await statusOf(port)
    if (status === 402) break
    if (child.exitCode !== null || performance.now() - startedAt > MAX_WAIT_MS) {
      child.kill()
      throw new Error(`no 402 (${status}): ${readFileSync(join(dir, 'errors'), 'utf8').slice(0, 800)}`)
    }
    await systemClock.wait(2)
  }
  const firstMs = performance.now() - startedAt
  await systemClock.wait(IDLE_MS)
  const kilobytes = Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1])
  child.kill()
  await child.exited
  return { firstMs, idleMb: kilobytes / 1_000 }
}

/** One gateway on the local chain; the key of a vendor of images and chat is in the environment. */
const gatewayOn = ({ network, payTo, rpcUrl }: Devnet) => `[[gateways]]
name = "bench"
network = "${network}"
pay_to = "${payTo}"
rpc_url = "${rpcUrl}"
relayer_key_env = "RELAYER_KEY"
`

async function statusOf(port: number): Promise<number | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}${GENERATIONS}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: ORDER,
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return undefined
  }
}

function freePort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = probe
  probe.stop(true)
  return port
}
