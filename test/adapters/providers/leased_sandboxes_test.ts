/**
 * Sandboxes at E2B, by its own library against a stand-in; and at Modal, by a library that a test wrote from its types.
 */
import { afterEach, describe, expect, test } from 'bun:test'
import { e2bSandbox, quote } from '../../../adapters/providers/e2b/sandbox.ts'
import { type ModalLike, type ModalSandboxLike, modalSandbox } from '../../../adapters/providers/modal/sandbox.ts'
import { systemClock } from '../../../adapters/local.ts'
import { MAX_OUTPUT } from '../../../adapters/providers/lib/sandbox_provider.ts'
import { testClock, testLog } from '../../kit.ts'
import { e2bStandIn } from './e2b/stand_in.ts'

const at = { signal: new AbortController().signal }
const ORDER = { seconds: 300, cpu: 1, memory: 512 }
const KEY = 'e2b_s3cret'
let standIn: ReturnType<typeof e2bStandIn> | undefined
afterEach(() => void standIn?.stop())

function e2b(...script: Parameters<typeof e2bStandIn>) {
  const here = e2bStandIn(...script)
  standIn = here
  const log = testLog()
  return {
    here,
    log,
    vendor: e2bSandbox({
      key: KEY,
      baseUrl: here.url,
      sandboxUrl: here.url,
      template: 'python-3-11',
      clock: systemClock,
      log,
    }),
  }
}

describe('a sandbox at E2B', () => {
  test('is made of a template for its time, runs, and is ended', async () => {
    const { here, vendor } = e2b(() => ({ stdout: 'out\n', stderr: 'err', exitCode: 3 }))
    const { handle } = await vendor.create(ORDER, at)
    expect([
      handle,
      here.requests.at(-1)?.body.templateID,
      here.requests.at(-1)?.body.timeout,
      here.requests.at(-1)?.headers.get('x-api-key'),
    ]).toEqual(['e2b-1', 'python-3-11', 300, KEY])
    expect(await vendor.exec(handle, { command: ['python', '-c', "print('a b')"], seconds: 7 }, at)).toEqual({
      stdout: 'out\n',
      stderr: 'err',
      returncode: 3,
    })
    const [connected, started] = here.requests.slice(-2)
    expect([connected?.path, connected?.body.timeout]).toEqual(['/v2/sandboxes/e2b-1/connect', 1])
    expect([started?.path, started?.body.process.args.at(-1), started?.headers.get('x-api-key')]).toEqual([
      '/process.Process/Start',
      `exec timeout -k 1 7 'python' '-c' 'print('\\''a b'\\'')'`,
      null,
    ])
    expect(await vendor.status(handle, at)).toEqual({ kind: 'running' })
    await vendor.terminate(handle, at)
    expect([here.alive.size, await vendor.status(handle, at)]).toEqual([0, { kind: 'ended', returncode: null }])
    expect(await vendor.exec(handle, { command: ['ls'], seconds: 1 }, at)).toBeUndefined()
    await vendor.terminate(handle, at)
  })

  test('says no more than is read', async () => {
    const { vendor } = e2b(() => ({ stdout: 'x'.repeat(MAX_OUTPUT + 1) }))
    const { handle } = await vendor.create(ORDER, at)
    const ran = await vendor.exec(handle, { command: ['x'], seconds: 5 }, at)
    expect(ran?.stdout.length).toBe(MAX_OUTPUT + `\n[stdout was cut after ${MAX_OUTPUT} characters]\n`.length)
  })

  test.each([
    [401, 'NOT_CONFIGURED', 'alert'],
    [403, 'UPSTREAM_FAILED', 'warn'],
    [429, 'RATE_LIMITED', undefined],
    [500, 'UPSTREAM_FAILED', 'warn'],
  ] as const)('that is refused with %i is told as %s, without a word of the service', async (status, code, level) => {
    const { vendor, log } = e2b(undefined, () =>
      Response.json({ code: status, message: `quotes ${KEY}` }, { status, headers: { 'retry-after': '9' } }),
    )
    const error = (await vendor.create(ORDER, at).catch((each: unknown) => each)) as { code: string }
    expect([error.code, log.lines.map((line) => line.level)]).toEqual([code, level ? [level] : []])
    expect(JSON.stringify([error, log.lines])).not.toContain('s3cret')
    await vendor.create(ORDER, at).catch(() => {})
    expect(log.lines.filter((line) => line.level === 'alert').length).toBe(level === 'alert' ? 1 : 0)
  })

  test('is asked in one line, and nothing in a word of it is read by the shell', () => {
    const words = [
      'a b',
      "it's",
      '$(id)',
      '`id`',
      '"; id; "',
      '\\',
      '\n',
      '*',
      '~',
      '',
      '-rf',
      '${IFS}',
      '!!',
      '&& id',
      "'\\''",
    ]
    const { stdout } = Bun.spawnSync(['/bin/sh', '-c', `printf '%s\\0' ${words.map(quote).join(' ')}`])
    expect(stdout.toString().split('\0').slice(0, -1)).toEqual(words)
  })
})

// ── Modal ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Errors are told apart by the names of their classes, as in modal@0.11.1. */
class NotFoundError extends Error {}
class ResourceExhaustedError extends Error {}
class TimeoutError extends Error {}

const streamOf = (text: string) => new Blob([text]).stream() as ReadableStream<Uint8Array>

function modal(script: Partial<ModalSandboxLike> = {}, connect?: () => Promise<ModalLike>) {
  const requests: unknown[] = []
  let ended: number | null = null
  const sandbox: ModalSandboxLike = {
    sandboxId: 'sb-modal',
    exec: async (command, how) => (
      requests.push([command, how]),
      { stdout: streamOf('out'), stderr: streamOf('err'), wait: async () => 3 }
    ),
    poll: async () => ended,
    terminate: async () => void (ended = 137),
    ...script,
  }
  const library: ModalLike = {
    apps: { fromName: async (name, how) => (requests.push([name, how]), 'app') },
    images: { fromRegistry: (tag) => (requests.push(tag), 'image') },
    sandboxes: {
      create: async (...given: unknown[]) => (requests.push(given), sandbox),
      fromId: async (id) => (id === 'sb-modal' ? sandbox : Promise.reject(new NotFoundError('no'))),
    },
  }
  const clock = testClock()
  const log = testLog()
  return {
    requests,
    clock,
    log,
    ended: () => ended,
    vendor: modalSandbox({
      tokenId: 'ak-s3cret',
      tokenSecret: 'as-s3cret',
      clock,
      log,
      connect: connect ?? (async () => library),
    }),
  }
}

describe('a sandbox at Modal', () => {
  test('has the image, the cores, the memory and the GPU that were ordered, and no more', async () => {
    const { requests, vendor } = modal()
    expect(await vendor.create({ ...ORDER, gpu: 'T4' }, at)).toEqual({ handle: 'sb-modal' })
    expect(requests).toEqual([
      ['farebox', { createIfMissing: true }],
      'python:3.11',
      ['app', 'image', { cpu: 1, cpuLimit: 1, memoryMiB: 512, memoryLimitMiB: 512, timeoutMs: 300_000, gpu: 'T4' }],
    ])
  })

  test('runs words as they are, and is ended', async () => {
    const { requests, vendor } = modal()
    expect(await vendor.exec('sb-modal', { command: ['python', '-c', 'a b'], seconds: 7 }, at)).toEqual({
      stdout: 'out',
      stderr: 'err',
      returncode: 3,
    })
    expect(requests).toEqual([[['python', '-c', 'a b'], { mode: 'binary', timeoutMs: 7_000 }]])
    expect(await vendor.status('sb-modal', at)).toEqual({ kind: 'running' })
    await vendor.terminate('sb-modal', at)
    expect(await vendor.status('sb-modal', at)).toEqual({ kind: 'ended', returncode: 137 })
    expect(await vendor.exec('sb-modal', { command: ['ls'], seconds: 1 }, at)).toBeUndefined()
    expect([
      await vendor.status('sb-none', at),
      await vendor.exec('sb-none', { command: ['ls'], seconds: 1 }, at),
    ]).toEqual([{ kind: 'ended', returncode: null }, undefined])
    await vendor.terminate('sb-none', at)
  })

  test('whose command is too slow or prints too much returns the output so far', async () => {
    const late = {
      stdout: streamOf('x'.repeat(MAX_OUTPUT + 9)),
      stderr: streamOf(''),
      wait: () => Promise.reject(new TimeoutError('deadline')),
    }
    const ran = await modal({ exec: async () => late }).vendor.exec('sb-modal', { command: ['x'], seconds: 1 }, at)
    expect([ran?.returncode, ran?.stdout.length]).toEqual([
      124,
      MAX_OUTPUT + `\n[stdout was cut after ${MAX_OUTPUT} characters]\n`.length,
    ])
  })

  test('reports a refusal in our words: full, wrong key, unreachable, no answer', async () => {
    const failing = async (error: unknown) => {
      const { vendor, log } = modal({ poll: () => Promise.reject(error as Error) })
      const reported = (await vendor.status('sb-modal', at).catch((each: unknown) => each)) as { code: string }
      expect(JSON.stringify([reported, log.lines])).not.toContain('s3cret')
      return [reported.code, log.lines[0]?.level]
    }
    expect(await failing(new ResourceExhaustedError('ak-s3cret'))).toEqual(['RATE_LIMITED', undefined])
    expect(await failing(Object.assign(new Error('as-s3cret'), { code: 16 }))).toEqual(['NOT_CONFIGURED', 'alert'])
    expect(await failing(new Error('as-s3cret'))).toEqual(['UPSTREAM_FAILED', 'warn'])
    const { vendor, clock } = modal({ poll: () => new Promise(() => {}) })
    const asking = vendor.status('sb-modal', at).catch((each: unknown) => each)
    await clock.advance(14_000)
    expect(await asking).toMatchObject({ code: 'UPSTREAM_TIMEOUT' })
  })

  test('that nobody waits for any more is terminated once it exists', async () => {
    let ready = () => {}
    const opened = new Promise<void>((resolve) => (ready = resolve))
    const { vendor, clock, ended } = modal()
    const slow = modal(
      {},
      async () => (
        await opened,
        {
          apps: { fromName: async () => 'app' },
          images: { fromRegistry: () => 'image' },
          sandboxes: {
            create: async () => ({
              sandboxId: 'sb-modal',
              terminate: async () => await vendor.terminate('sb-modal', at),
            }),
            fromId: () => Promise.reject(new NotFoundError()),
          },
        }
      ),
    )
    const creating = slow.vendor.create(ORDER, at).catch((each: unknown) => each)
    await slow.clock.advance(115_000)
    expect(await creating).toMatchObject({ code: 'UPSTREAM_TIMEOUT' })
    ready()
    await clock.settle()
    expect(ended()).toBe(137)
  })

  test('is asked for by a library that has what is asked of it', async () => {
    const { ModalClient } = await import('modal')
    const { apps, images, sandboxes } = new ModalClient({
      tokenId: 'ak-x',
      tokenSecret: 'as-x',
      endpoint: 'http://127.0.0.1:1',
    })
    expect([apps.fromName, images.fromRegistry, sandboxes.create, sandboxes.fromId].map((each) => typeof each)).toEqual(
      Array(4).fill('function'),
    )
  })
})
