/**
 * How much memory a gateway needs to mirror a clip of 500 MB from its vendor to the object store: the high-water mark
 * of its process, read from outside. Alone: `bun test/bench/clip.ts`. The vendor's host, the S3 server and the gateways
 * are processes of their own, on loopback.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { diskObjects } from '../../adapters/objects/disk.ts'
import { type S3Config, s3Objects } from '../../adapters/objects/s3/mod.ts'
import { mediaStreamer } from '../../adapters/http/media_download.ts'
import { scriptedVideo } from '../fakes/videos.ts'
import { teachMultipart } from '../adapters/objects/s3/s3_multipart.ts'
import { s3Server } from '../adapters/objects/s3/s3_server.ts'
import { kit } from '../kit.ts'
import { fixed, table, verdict } from './print.ts'

const MIB = 1024 * 1024
const CLIP_BYTES = 500 * MIB
const QUICK_BYTES = 100 * MIB
const GOAL_MIB = 100

type Store = { readonly kind: 'disk'; readonly dir: string } | { readonly kind: 's3'; readonly config: S3Config }
type Given =
  | { readonly role: 'host'; readonly bytes: number }
  | { readonly role: 's3' }
  | { readonly role: 'gateway'; readonly host: string; readonly store: Store }
type Bought = { readonly url: string; readonly isHosted: boolean }
type Stored = { readonly size: number; readonly crc: number }

// ── the processes ───────────────────────────────────────────────────────────────────────────────────────────────────

const say = (message: unknown): void => void process.send?.(message)

/** A clip made as it is sent, no megabyte like another; `/crc` tells what it adds up to. */
function startHost(bytes: number): void {
  let crc = 0
  const server = createServer((request, response) => {
    if (request.url === '/crc') return response.end(String(crc))
    crc = 0
    let sent = 0
    const length = request.url === '/short.mp4' ? MIB : bytes
    response.writeHead(200, { 'content-type': 'video/mp4', 'content-length': length })
    const more = (): void => {
      while (sent < length) {
        const piece = Buffer.alloc(MIB, sent / MIB)
        if (sent === 0) piece.write('\0\0\0\x18ftypmp42', 'latin1')
        crc = crc32(piece, crc)
        sent += piece.length
        if (!response.write(piece)) return void response.once('drain', more)
      }
      response.end()
    }
    more()
  })
  server.listen(0, '127.0.0.1', () => say(`127.0.0.1:${(server.address() as { port: number }).port}`))
}

async function startS3(): Promise<void> {
  teachMultipart()
  const server = await s3Server('minded')
  process.on('disconnect', () => void server.stop().finally(() => process.exit()))
  say(server.fresh())
}

const FILM = { model: 'vendor-c/video-1', prompt: 'a red fox runs through the snow' }
const FILMS = { path: '/api/v1/videos/generations' }

/**
 * Sells a clip of one megabyte first, so that all is loaded that a sale needs; then, when it is told to, the long one.
 */
async function startGateway(host: string, store: Store): Promise<void> {
  const objects = store.kind === 'disk' ? diskObjects(store.dir) : s3Objects(store.config)
  const video = scriptedVideo({
    pollUpstream: async (_, { handle }) => ({
      kind: 'done',
      url: `http://${host}/${handle === 'job-1' ? 'short' : 'long'}.mp4`,
    }),
  })
  const { buyer } = kit({ video, ports: { objects, vendors: { stream: mediaStreamer({ trusted: [host] }) } } })
  const alice = buyer()
  const buy = async (): Promise<Bought> => {
    const payment = alice.sign(await alice.ask(FILM, FILMS))
    const { body: job } = await alice.buy(FILM, { ...FILMS, payment })
    const { body } = await alice.poll(job.poll_url, payment)
    const { url, backed_up: isHosted } = body.data[0]
    return { url, isHosted }
  }
  await buy()
  let url = ''
  process.on('message', async (order) => {
    if (order === 'buy') {
      const bought = await buy()
      url = bought.url
      return say(bought)
    }
    const found = await objects.get(new URL(url).pathname.slice('/api/media/'.length))
    if (!found) throw new Error('the clip is not there')
    let [size, crc] = [0, 0]
    for await (const piece of new Response(found.body as BodyInit).body ?? []) {
      size += piece.length
      crc = crc32(piece, crc)
    }
    say({ size, crc } satisfies Stored)
  })
  say('ready')
}

// ── the measurement ─────────────────────────────────────────────────────────────────────────────────────────────────

type ClipBench = { readonly scratch: string; readonly isQuick: boolean; readonly children: Bun.Subprocess[] }

export async function clip({ scratch, isQuick, children }: ClipBench): Promise<void> {
  const bytes = isQuick ? QUICK_BYTES : CLIP_BYTES
  const host = start({ role: 'host', bytes }, children)
  const s3 = start({ role: 's3' }, children)
  const address = (await host.next()) as string
  const stores: readonly Store[] = [
    { kind: 'disk', dir: join(scratch, 'clips') },
    { kind: 's3', config: (await s3.next()) as S3Config },
  ]
  const rows: string[][] = []
  const verdicts: [isMet: boolean, text: string][] = []
  for (const store of stores) {
    const gateway = start({ role: 'gateway', host: address, store }, children)
    await gateway.next()
    const before = kilobytes(gateway.pid, 'VmRSS')
    forgetPeak(gateway.pid)
    const whenAnswerStarts = performance.now()
    gateway.tell('buy')
    const { isHosted } = (await gateway.next()) as Bought
    const seconds = (performance.now() - whenAnswerStarts) / 1000
    const peak = kilobytes(gateway.pid, 'VmHWM')
    const sent = Number(await (await fetch(`http://${address}/crc`)).text())
    if (isHosted) gateway.tell('read')
    const stored = isHosted ? ((await gateway.next()) as Stored) : { size: 0, crc: 0 }
    const isWhole = stored.size === bytes && stored.crc === sent
    const extra = (peak - before) / 1024
    rows.push([
      store.kind,
      String(bytes / MIB),
      fixed(seconds, 1),
      fixed(bytes / MIB / seconds, 0),
      fixed(before / 1024, 0),
      fixed(peak / 1024, 0),
      fixed(extra, 0),
      isWhole ? 'whole' : 'NOT WHOLE',
    ])
    verdicts.push([
      extra < GOAL_MIB && isWhole,
      `${fixed(extra, 0)} MiB of extra memory, to ${store.kind} (goal: under ${GOAL_MIB})`,
    ])
    await gateway.stop()
  }
  await host.stop()
  await s3.stop()
  console.log('\na clip bought and mirrored before it is settled; memory of the gateway process, by /proc')
  table(['to', 'MiB', 'seconds', 'MiB/s', 'before MiB', 'peak MiB', 'extra MiB', 'read back'], rows)
  for (const each of verdicts) verdict(...each)
}

function start(given: Given, children: Bun.Subprocess[]) {
  const messages: unknown[] = []
  let waiting: ((message: unknown) => void) | undefined
  const child = Bun.spawn([process.execPath, import.meta.path, JSON.stringify(given)], {
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'inherit',
    ipc(message) {
      if (!waiting) return void messages.push(message)
      waiting(message)
      waiting = undefined
    },
  })
  children.push(child)
  const ended = child.exited.then((code) => Promise.reject(new Error(`${given.role} ended with ${code}`)))
  ended.catch(() => {})
  return {
    pid: child.pid,
    tell: (message: string) => child.send(message),
    next: () =>
      messages.length > 0
        ? Promise.resolve(messages.shift())
        : Promise.race([new Promise<unknown>((resolve) => (waiting = resolve)), ended]),
    async stop() {
      child.disconnect()
      await child.exited
    },
  }
}

function kilobytes(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/**
 * The high-water mark begins anew (proc(5), clear_refs). Where that is not allowed it counts from the start of the
 * process.
 */
function forgetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    console.log('  the high-water mark could not be reset: it includes the start of the process')
  }
}

// ── alone, or as one of the processes ───────────────────────────────────────────────────────────────────────────────

async function alone(): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), 'farebox-clip-'))
  const children: Bun.Subprocess[] = []
  try {
    await clip({ scratch, isQuick: process.argv.includes('--quick'), children })
  } finally {
    for (const child of children) child.kill()
    rmSync(scratch, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const argument = process.argv[2] ?? ''
  const given = argument.startsWith('{') ? (JSON.parse(argument) as Given) : undefined
  if (given && given.role !== 's3') process.on('disconnect', () => process.exit())
  if (!given) await alone()
  if (given?.role === 'host') startHost(given.bytes)
  if (given?.role === 's3') await startS3()
  if (given?.role === 'gateway') await startGateway(given.host, given.store)
}
