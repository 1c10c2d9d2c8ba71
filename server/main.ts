/** The binary: read the configuration, wire, listen, drain on SIGTERM. */
import { type Config, isLoopback, readConfig, realVendors } from './config/mod.ts'
import { inFlight, listen } from './listen.ts'
import { type ServerLog, serverLog } from './log.ts'
import { StartError } from './start_error.ts'
import { sweep } from './maintenance.ts'
import { VERSION, type Wired, wire } from './wiring/mod.ts'
import { RENEWALS } from './wiring/chains.ts'

export type Running = { readonly url: string; readonly wired: Wired; stop(): Promise<void> }

/** Starts a gateway process. Throws StartError with a text for the operator, leaving nothing behind. */
export async function start(config: Config, log: ServerLog): Promise<Running> {
  const wired = await wire(config, log)
  try {
    const requests = inFlight()
    const listening = listen(config, wired, { log, requests })
    const { gateways, storage, clock, workerId } = wired
    const sweeping = sweep({
      gateways: gateways.map(({ gateway }) => gateway),
      storage,
      clock,
      log,
      workerId,
      everyMs: Math.min(5_000, config.leaseMs / RENEWALS),
    })
    const { url } = listening
    return { url, wired, stop }

    async function stop(): Promise<void> {
      for (const { gateway } of gateways) gateway.leaveRotation()
      const closed = listening.stop(false)
      const deadline = clock.now() + config.drainMs
      await Promise.race([requests.over(), nothingBegun(wired), clock.wait(config.drainMs)])
      // Streams may outlast any drain: what they have given is settled while that can still be done.
      const going = await wired.drain(Math.max(0, deadline - clock.now() - config.drainMs / 3))
      if (going > 0) for (const { gateway } of gateways) gateway.drain()
      const left = await wired.drain(Math.max(0, deadline - clock.now()))
      if (left > 0) log.warn('the drain ended before all work did; what was left is failed, uncharged', { left })
      // Replies are on their way out; a connection that never finished its request is not waited for.
      await Promise.race([closed, clock.wait(FAREWELL_MS)])
      await sweeping.stop()
      await listening.stop(true)
      await wired.close()
      log.flush()
    }
  } catch (error) {
    await wired.close()
    throw error
  }
}

/** How long finished replies may take to leave when the server stops. */
const FAREWELL_MS = 1_000
/** Longer than verifications take, before which no work begins; one that hangs is cut short, uncharged. Docker kills after 10 s. */
const IDLE_LOOKS = 6

/** Resolves when no work has been under way for a while: requests that are still open then have not even been read. */
async function nothingBegun({ clock, drain }: Wired): Promise<void> {
  let idle = 0
  while (idle < IDLE_LOOKS) {
    await clock.wait(FAREWELL_MS)
    idle = (await drain(0)) === 0 ? idle + 1 : 0
  }
}

async function main(): Promise<void> {
  const read = readConfig(process.env)
  if (!read.ok)
    return refuse([
      'Farebox cannot start; the configuration has mistakes:',
      ...read.mistakes.map((mistake) => `  - ${mistake}`),
    ])
  const { config } = read
  const log = serverLog(config.logLevel)
  let running: Running
  try {
    running = await start(config, log)
  } catch (error) {
    if (error instanceof StartError) return refuse([error.message])
    throw error
  }
  let isStopping = false
  const stop = async (signal: string) => {
    if (isStopping) process.exit(1)
    isStopping = true
    log.info('draining; a second signal stops at once', { signal })
    await running.stop()
    process.exit(0)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  running.wired.devnet?.evm.exited.then(({ asked }) => {
    if (asked || isStopping) return
    log.alert('the local chain has died; stopping')
    void running.stop().then(() => process.exit(1))
  })
  greet(running, config) // last: whoever has read it may send a signal
}

function refuse(lines: readonly string[]): void {
  console.error(lines.join('\n'))
  process.exitCode = 1
}

type Facts = {
  readonly version: string
  readonly origin: string
  readonly listening: string
  readonly labels: readonly string[]
  readonly endpoints: number
  readonly isDevnet: boolean
  readonly real: readonly string[]
}

/** What a person reads first. */
export function greeting({ version, origin, listening, labels, endpoints, isDevnet, real }: Facts): readonly string[] {
  const place = listening === origin ? origin : `${origin}, listening on ${listening}`
  const first = `Farebox ${version} at ${place}: ${endpoints} endpoints, paid in USDC on ${labels.join(', ')}`
  if (!isDevnet) return [first]
  const play = 'a local chain, a funded buyer, demo pictures and an echo model'
  return [
    first,
    real.length === 0
      ? `  devnet: ${play}; no real money, no real models`
      : `  devnet: ${play}; but what ${real.join(', ')} makes is real, and is charged to your keys`,
    '  talk to a model:  npx -y bun@1.4.4 run buy -- chat "Why is the sky blue?"',
    '  buy a picture:    npx -y bun@1.4.4 run buy -- images "a red fox in the snow"',
    `  look around:      ${listening}/docs/guide/  ${listening}/docs  ${listening}/devnet`,
  ]
}

function greet({ url, wired }: Running, config: Config): void {
  const { gateways, devnet } = wired
  const labels = [...new Set(gateways.map((row) => row.config.label))]
  const facts = {
    version: VERSION,
    origin: config.publicOrigin ?? url,
    listening: url,
    labels,
    endpoints:
      gateways
        .find((row) => !row.config.retired)
        ?.gateway.endpoints.filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden).length ?? 0,
  }
  console.log(greeting({ ...facts, isDevnet: devnet !== undefined, real: realVendors(config) }).join('\n'))
  if (devnet && !isLoopback(config.host))
    console.log(`  note: listening on ${config.host}, so others can reach this play system`)
}

if (import.meta.main) await main()
