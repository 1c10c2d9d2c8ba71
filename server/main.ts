/**
 * The entry point: runs a command. `start` reads the configuration, wires the gateways, listens, and drains on SIGTERM,
 * SIGINT and SIGHUP.
 */
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Io } from './cli/command.ts'

import { runProcess } from './cli_process.ts'
import { type Config, databasePath, isLoopback, parseConfig, readConfig, realVendors } from './config/mod.ts'
import type { Environment } from './config/settings.ts'
import { drainProcess } from './drain.ts'
import { inFlight, listen } from './listen.ts'
import { type ServerLog, serverLog } from './log.ts'
import { startAlerts } from './signals/alerts.ts'
import { findersOf } from './signals/conditions.ts'
import { webhook } from './signals/webhook.ts'
import { StartError } from './start_error.ts'
import { enlargePool } from './request_pool.ts'
import { startMaintenance } from './maintenance.ts'
import { VERSION } from './wiring/gateways.ts'
import { type Wired, wire } from './wiring/mod.ts'
import { RENEWALS } from './wiring/chains.ts'

/** By then a start has left 6 MB of garbage and of code that ran once. Giving it back takes a turn of 15 ms. */
const SHRINK_AFTER_MS = 500

export type Running = { readonly url: string; readonly wired: Wired; stop(): Promise<void> }

/** Starts a gateway process. Throws StartError, with everything closed again, when it cannot. */
export async function start(config: Config, log: ServerLog): Promise<Running> {
  const wired = await wire(config, log)
  try {
    const requests = inFlight()
    const listening = listen(config, wired, { log, requests })
    const { gateways, storage, objects, archive, clock, workerId } = wired
    const maintenance = startMaintenance({
      gateways: gateways.map(({ gateway }) => gateway),
      storage,
      objects,
      archive,
      retention: config.retention,
      clock,
      log,
      workerId,
      everyMs: Math.min(5_000, (config.lease_seconds * 1000) / RENEWALS),
    })
    const alerts = watchAlerts(config, wired, log)
    const { url } = listening
    setTimeout(() => requests.isIdle() && Bun.shrink(), SHRINK_AFTER_MS).unref()
    return { url, wired, stop }

    async function stop(): Promise<void> {
      await drainProcess({
        gateways: gateways.map(({ gateway }) => gateway),
        clock,
        log,
        graceMs: config.drain_grace_seconds * 1000,
        drainMs: config.drain_seconds * 1000,
        stopAccepting: () => listening.stop(false),
        answered: requests.finished,
        finishWork: wired.drain,
        onPhase(phase) {
          listening.closeConnections()
          wired.metrics?.drainPhase(phase)
        },
      })
      await alerts.stop()
      await maintenance.stop()
      await listening.stop(true)
      await wired.close()
      log.flush()
    }
  } catch (error) {
    await wired.close()
    throw error
  }
}

/** Conditions that no other part of the process logs, so they are checked without a webhook too. */
const LOGGED = ['settlements', 'objects']

/** Posts alerts to the operator's webhook, if there is one. */
function watchAlerts(config: Config, wired: Wired, log: ServerLog): { stop(): Promise<void> } {
  const { clock, gateways, storage, lowAccounts, clockTrouble } = wired
  const { alertWebhook } = config
  const hook = alertWebhook && webhook({ ...alertWebhook, clock, log, newId: () => crypto.randomUUID() })
  const { database, objects } = config
  const path = databasePath(database)
  const finders = findersOf({
    gateways: gateways.filter(({ config }) => !config.retired).map(({ gateway }) => gateway),
    storage,
    objects: wired.objects,
    clock,
    lowAccounts,
    clockTrouble,
    directories: [...(path === undefined ? [] : [dirname(path)]), ...(objects.kind === 'file' ? [objects.dir] : [])],
  })
  const alerts = startAlerts({
    finders: finders.filter(({ name }) => hook || LOGGED.includes(name)),
    clock,
    log,
    report(alert) {
      if (['payments_unsettled', 'objects_unreachable'].includes(alert.event) && alert.state === 'started')
        log.alert(alert.summary, { gateway: alert.gateway, ...alert.details })
      hook?.send(alert)
    },
  })
  return {
    async stop() {
      alerts.stop()
      await hook?.flush(ALERT_FLUSH_MS)
      hook?.close()
    },
  }
}

/** How long a process that stops tries to deliver its last alerts. */
const ALERT_FLUSH_MS = 2_000

const serve: Io['serve'] = async (env, { isDevnet, data } = { isDevnet: false }) => {
  enlargePool(process.env)
  const read = isDevnet ? parseConfig('', env) : readConfig(env)
  if (!read.ok)
    return exitWithError([
      'Farebox cannot start. The configuration has these errors:',
      ...read.mistakes.map((mistake) => `  - ${mistake}`),
    ])
  const config = data === undefined ? read.config : { ...read.config, devnetDir: data }
  if (!isDevnet && config.production.length > 0) return exitWithError(noConfiguration(config.production, env))
  const log = serverLog(config.log_level)
  let running: Running
  try {
    running = await start(config, log)
  } catch (error) {
    if (error instanceof StartError) return exitWithError([error.message])
    throw error
  }
  let isStopping = false
  const stop = async (signal: string) => {
    if (isStopping) process.exit(1)
    isStopping = true
    log.info('draining; send a second signal to exit now', { signal })
    await running.stop()
    process.exit(0)
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, stop)
  running.wired.devnet?.evm.exited.then(({ isExpected }) => {
    if (isExpected || isStopping) return
    log.alert('the local chain exited unexpectedly; shutting down')
    void running.stop().then(() => process.exit(1))
  })
  greet(running, config) // last: signals are handled by now
}

/** A start in the wrong folder, or without a variable, must not become a devnet beside what is sold for real. */
function noConfiguration(found: readonly string[], { FAREBOX_CONFIG }: Environment): readonly string[] {
  const file = resolve(FAREBOX_CONFIG || 'farebox.toml')
  return [
    existsSync(file)
      ? `Farebox cannot start: ${file} has no gateway, and a devnet needs none of what is set: ${found.join(', ')}.`
      : `Farebox cannot start: there is no ${file}, and a devnet needs none of what is set: ${found.join(', ')}.`,
    'To sell for real, start it in the folder of farebox.toml, or set FAREBOX_CONFIG; farebox init writes that file.',
    'For a devnet with these settings, run farebox devnet.',
  ]
}

function exitWithError(lines: readonly string[]): void {
  console.error(lines.join('\n'))
  process.exitCode = 1
}

type Summary = {
  readonly version: string
  readonly origin: string
  readonly listening: string
  readonly labels: readonly string[]
  readonly endpoints: number
  readonly isDevnet: boolean
  readonly real: readonly string[]
}

/** The lines printed on standard output when the server is ready. */
export function greeting({
  version,
  origin,
  listening,
  labels,
  endpoints,
  isDevnet,
  real,
}: Summary): readonly string[] {
  const address = listening === origin ? origin : `${origin}, listening on ${listening}`
  const first = `Farebox ${version} at ${address}: ${endpoints} endpoints, paid in USDC on ${labels.join(', ')}`
  if (!isDevnet) return [first]
  const contents = 'a local chain, a funded buyer, demo images and an echo model'
  return [
    first,
    real.length === 0
      ? `  devnet: ${contents}; no real money, no real models`
      : `  devnet: ${contents}; but calls to ${real.join(', ')} are real and are charged to your keys`,
    '  chat with a model:  npx -y bun@1.4.4 run buy -- chat "Why is the sky blue?"',
    '  buy an image:       npx -y bun@1.4.4 run buy -- images "a red fox in the snow"',
    `  look around:        ${listening}/  ${listening}/play  ${listening}/docs`,
  ]
}

function greet({ url, wired }: Running, config: Config): void {
  const { gateways, devnet } = wired
  const labels = [...new Set(gateways.map((row) => row.config.label))]
  const summary = {
    version: VERSION,
    origin: config.public_origin ?? url,
    listening: url,
    labels,
    endpoints:
      gateways
        .find((row) => !row.config.retired)
        ?.gateway.offered()
        .filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden).length ?? 0,
  }
  console.log(greeting({ ...summary, isDevnet: devnet !== undefined, real: realVendors(config) }).join('\n'))
  if (devnet && !isLoopback(config.host))
    console.log(`  note: listening on ${config.host}, so other machines can reach this devnet`)
}

if (import.meta.main) await runProcess(process.argv.slice(2), serve)
