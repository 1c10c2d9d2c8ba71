/**
 * The embedded sandbox, for real: one Python for most of it, and small programs in its place where it would be ended.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { EventEmitter } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../../../adapters/local.ts'
import { randomBytes } from '../../../../adapters/machine.ts'
import { type EmbeddedSandbox, embeddedSandbox } from '../../../../adapters/providers/pyodide/sandbox.ts'
import {
  findPrograms,
  hear,
  type Machine,
  MAX_OUTPUT,
  startMachine,
} from '../../../../adapters/providers/pyodide/machine.ts'
import type { Ran } from '../../../../core/mod.ts'
import { testLog } from '../../../kit.ts'
import { PROGRAMS } from '../../../programs/mod.ts'
import { hostile, SECRETS } from './hostile_commands.ts'

const at = { signal: new AbortController().signal }
const ORDER = { seconds: 300, cpu: 1, memory: 256 }
const START_MS = 600_000
/**
 * Sandboxes yield to everything else on the machine. Beside busy neighbours one may take many times as long as the
 * deadlines of the host allow, so those are stretched where nothing is about them. What is measured in processor time,
 * and what runs inside, is as it is.
 */
let stretch = 20
const clock: typeof systemClock = {
  ...systemClock,
  wait: (ms, signal) => systemClock.wait(ms < 1_000 ? ms : ms * stretch, signal),
}
const programs = findPrograms(PROGRAMS)
const connections: string[] = []
const log = testLog()
let vendor: EmbeddedSandbox
let handle: string
let folder: string
let listener: { readonly port: number; stop(closeActiveConnections?: boolean): void }

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-host-'))
  await writeFile(join(folder, 'secret.json'), '"s3cret-of-the-host"')
  process.env.SECRET_OF_THE_HOST = 's3cret-of-the-host'
  listener = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: { open: (socket) => void connections.push(socket.remoteAddress), data() {} },
  })
  vendor = embeddedSandbox({ most: 1, programs, clock, log, random: randomBytes })
  ;({ handle } = await vendor.create(ORDER, at))
}, START_MS)

afterAll(async () => {
  delete process.env.SECRET_OF_THE_HOST
  listener.stop(true)
  await vendor.close()
  await rm(folder, { recursive: true })
})

const exec = async (command: readonly string[], seconds = 120): Promise<Ran> => {
  const ran = await vendor.exec(handle, { command, seconds }, at)
  if (ran) return ran
  // A test that ends the sandbox fails alone: the next one gets another.
  ;({ handle } = await vendor.create(ORDER, at))
  return (await vendor.exec(handle, { command, seconds }, at)) as Ran
}
const python = (code: string, seconds?: number) => exec(['python', '-c', code], seconds)

describe('a command', () => {
  test('is Python: code, a file that stays, a module, with arguments; and its returncode is the program’s', async () => {
    expect(await exec(['python3', '-c', 'import sys; print(sys.argv, __name__)', 'a b', '$x'])).toEqual({
      stdout: "['-c', 'a b', '$x'] __main__\n",
      stderr: '',
      returncode: 0,
    })
    await python(
      "open('lib.py', 'w').write('value = 1')\nopen('main.py', 'w').write('import sys, lib\\nprint(lib.value, sys.argv)\\nsys.exit(7)')",
    )
    expect(await exec(['/usr/bin/python3', 'main.py', 'x'])).toEqual({
      stdout: "1 ['main.py', 'x']\n",
      stderr: '',
      returncode: 7,
    })
    await python("open('lib.py', 'w').write('value = 2')")
    expect((await exec(['python', 'main.py'])).stdout).toBe("2 ['main.py']\n")
    expect((await exec(['python', '-m', 'main'])).returncode).toBe(7)
    expect((await exec(['python', '--version'])).stdout).toMatch(/^Python 3\.14\.\d+\n$/)
  })

  test('is a program of its own: no name, folder, path or variable of the one before is left', async () => {
    await python("import os, sys\nx = 1\nos.chdir('/')\nos.environ['A'] = 'b'\nsys.path.insert(0, '/nowhere')")
    expect(
      (await python("import os, sys\nprint('x' in globals(), os.getcwd(), 'A' in os.environ, '/nowhere' in sys.path)"))
        .stdout,
    ).toBe('False /home/user False False\n')
  })

  test('that fails reports its line, and nothing of its runtime', async () => {
    const { stderr, returncode } = await python('1 / 0')
    expect([stderr, returncode]).toEqual([
      'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\nZeroDivisionError: division by zero\n',
      1,
    ])
    expect((await python('def f(:')).stderr).toContain('SyntaxError')
    expect(await python('raise SystemExit("bye")')).toEqual({ stdout: '', stderr: 'bye\n', returncode: 1 })
    expect((await exec(['python', 'none.py'])).returncode).toBe(2)
    expect((await exec(['python'])).returncode).toBe(2)
    expect((await python('input()')).stderr).toContain('EOFError')
  })

  test('is one of five, or not found', async () => {
    expect((await exec(['echo', '-n', 'a', '$HOME', '*'])).stdout).toBe('a $HOME *')
    expect((await exec(['ls'])).stdout).toContain('main.py\n')
    expect(await exec(['cat', 'lib.py', 'none'])).toEqual({
      stdout: 'value = 2',
      stderr: 'cat: none: No such file or directory\n',
      returncode: 1,
    })
    expect((await exec(['pwd'])).stdout).toBe('/home/user\n')
    for (const name of ['bash', 'sh', 'pip', 'rm', '/usr/bin/env', 'python2', 'Python'])
      expect(await exec([name, '-c', 'id'])).toMatchObject({
        returncode: 127,
        stdout: '',
        stderr: expect.stringContaining('command not found'),
      })
  })

  test('awaits what asyncio runs', async () => {
    expect(
      (
        await python(
          'import asyncio\nasync def go():\n  await asyncio.sleep(0.01)\n  return 5\nprint(asyncio.run(go()))',
        )
      ).stdout,
    ).toBe('5\n')
  })

  test('of the longest list of arguments is run whole', async () => {
    const words = Array.from({ length: 31 }, () => 'x'.repeat(2_000))
    expect((await exec(['echo', ...words])).stdout).toBe(`${words.join(' ')}\n`)
  })

  test('that prints too much is cut, with a note', async () => {
    const { stdout, stderr } = await python("import sys\nprint('x' * 3_000_000)\nsys.stderr.write('y' * 3_000_000)")
    expect([stdout.length, stderr.length].every((length) => length > 1 << 20 && length < (1 << 20) + 100)).toBe(true)
    expect(stdout).toEndWith('[stdout was cut after 1048576 bytes]\n')
  })

  test.each([
    ['while True: pass'],
    ["while True: print('x' * 100)"],
    ["import re; re.match('(a+)+$', 'a' * 60 + 'b')"],
    ['import time; time.sleep(60)'],
  ])('without end is stopped in time, and its sandbox lives: %s', async (code) => {
    const before = handle
    expect((await python(code, 0.2)).returncode).toBe(124)
    expect([(await python('print(1)')).stdout, handle]).toEqual(['1\n', before])
  })

  test('waits for the one before', async () => {
    const both = await Promise.all([python("import time; time.sleep(0.05); print('first')"), python("print('second')")])
    expect(both.map(({ stdout }) => stdout)).toEqual(['first\n', 'second\n'])
  })
})

describe('code that tries to escape', () => {
  test.each(hostile)('%s: to no avail', async (_what, code, outcome) => {
    const facts = {
      $file: join(folder, 'secret.json'),
      $folder: folder,
      $port: String(listener.port),
      $pid: String(process.pid),
      $pyodide: programs.pyodide,
    }
    const filled = Object.entries(facts).reduce((text, [name, value]) => text.replaceAll(name, value), code)
    const { stdout, stderr } = await python(filled)
    expect(stdout + stderr).toMatch(outcome)
    for (const secret of SECRETS) expect(stdout + stderr).not.toContain(secret)
  })

  test('has reached nothing, and its sandbox still answers', async () => {
    expect([connections, await readdir(folder), await readFile(join(folder, 'secret.json'), 'utf8')]).toEqual([
      [],
      ['secret.json'],
      '"s3cret-of-the-host"',
    ])
    expect((await python('print(6 * 7)')).stdout).toBe('42\n')
  })

  test('finds one sandbox full, and ends it by what cannot be stopped', async () => {
    stretch = 1
    await expect(vendor.create(ORDER, at)).rejects.toMatchObject({ code: 'BUSY' })
    const stuck =
      'from pyodide.code import run_js\nrun_js("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)")'
    expect(await python(stuck, 0.1)).toEqual({
      stdout: '',
      stderr: 'The sandbox has ended: it ran for more than 0.1 seconds and could not be interrupted.\n',
      returncode: 124,
    })
    expect([await vendor.status(handle, at), await vendor.exec(handle, { command: ['ls'], seconds: 1 }, at)]).toEqual([
      { kind: 'ended', returncode: null },
      undefined,
    ])
    await vendor.terminate(handle, at)
    stretch = 20
  })
})

// ── the process itself ──────────────────────────────────────────────────────────────────────────────────────────────

const READY =
  'const say = (text) => Deno.stdout.writeSync(new TextEncoder().encode(text)); const answer = (id) => say(`${id} 0  \\n`); answer(0);'

/** A process that does as `code` says when it is asked something, under the same walls as Python. */
async function machine(code: string, how: { start?: string; memory?: number } = {}): Promise<Machine> {
  const script = `data:application/javascript,${encodeURIComponent(`${how.start ?? READY} for await (const chunk of Deno.stdin.readable) { const { id } = JSON.parse(new TextDecoder().decode(chunk)); ${code} }`)}`
  return await startMachine({ programs, cwd: folder, memory: how.memory ?? 64, clock, script, idleSeconds: 0.02 }, at)
}

describe('a process', () => {
  const ended: readonly [what: string, code: string, why: string][] = [
    [
      'takes memory',
      'const held = []; for (;;) { const part = new Uint8Array(1 << 24); part.fill(1); held.push(part) }',
      'it used more than its 64 MB of memory',
    ],
    ['says too much', 'const part = "x".repeat(1 << 20); for (;;) say(part)', 'it sent too much output'],
    ['says what is no answer', 'say("nonsense\\n")', 'it sent an unexpected reply'],
    ['answers what was not asked', 'answer(id + 1)', 'it sent an unexpected reply'],
    ['answers in other shapes', 'say(`${id} zero  \\n`)', 'it sent an unexpected reply'],
    [
      'starts thread after thread',
      'for (;;) { new Worker("data:application/javascript,setInterval(()=>{},1000)", { type: "module" }); await new Promise((resolve) => setTimeout(resolve, 20)) }',
      'it started too many threads',
    ],
    ['gives up', 'Deno.exit(0)', 'it exited unexpectedly'],
  ]
  test.each(ended)(
    'that %s is ended',
    async (_what, code, why) => {
      const subject = await machine(code)
      const ran = await subject.run(['x'], { seconds: 120, signal: at.signal })
      expect(ran).toEqual({ stdout: '', stderr: `The sandbox has ended: ${why}.\n`, returncode: 137 })
      expect([subject.isAlive(), await subject.run(['x'], { seconds: 1, signal: at.signal })]).toEqual([
        false,
        undefined,
      ])
    },
    START_MS,
  )

  test(
    'that answers twice is ended, and so is one that works on when nobody asks',
    async () => {
      const duplicated = await machine('answer(id); answer(id)')
      await duplicated.run(['x'], { seconds: 120, signal: at.signal })
      await duplicated.gone
      const busy = await machine('answer(id); setTimeout(() => { for (;;); }, 0)')
      expect((await busy.run(['x'], { seconds: 120, signal: at.signal }))?.returncode).toBe(0)
      await busy.gone
      expect([duplicated.isAlive(), busy.isAlive()]).toEqual([false, false])
    },
    START_MS,
  )

  test('is heard in whatever pieces it speaks, and not for long: neither small pieces nor large ones hold up who listens', () => {
    const heard = (pieces: readonly string[]): unknown => {
      let outcome: unknown
      const stdout = new EventEmitter()
      hear(
        { stdin: null, stdout: stdout as never },
        { answered: (ran) => void (outcome = ran), isExpected: (id) => id === 7, end: (why) => void (outcome ??= why) },
      )
      for (const piece of pieces) stdout.emit('data', Buffer.from(piece))
      return outcome
    }
    const most = Buffer.alloc(MAX_OUTPUT, '\0').toString('base64')
    expect(heard(['7 ', '-1', ` ${btoa('out')} `, '\n'])).toEqual({ id: 7, stdout: 'out', stderr: '', returncode: -1 })
    expect(heard([`7 0 ${most} ${most}\n`])).toMatchObject({ stdout: '\0'.repeat(MAX_OUTPUT) })
    expect(heard(Array.from({ length: 5_000 }, () => '1'))).toBe('it sent too much output')
    expect(heard([`7 0 ${most}${most}${most} \n`])).toBe('it sent too much output')
    for (const text of [
      '7 0  \n7 0  \n',
      '7 0  \n7',
      '[['.repeat(1_000_000) + '\n',
      ' '.repeat(4_000_000) + '\n',
      '8 0  \n',
      '\n',
    ])
      expect(heard([text])).toBe('it sent an unexpected reply')
  })

  test(
    'is one that the gateway and the system come before, in every thread, and that leaves no file behind',
    async () => {
      const { pid, end, gone } = await machine('')
      const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8')
      const threads = await Promise.all(
        (await readdir(`/proc/${pid}/task`)).map((thread) => read(`task/${thread}/stat`)),
      )
      const niceness = threads.map((stat) => stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
      const limits = await read('limits')
      expect([new Set(niceness), (await read('oom_score_adj')).trim()]).toEqual([new Set(['10']), '1000'])
      for (const name of ['Max file size', 'Max core file size']) expect(limits).toMatch(new RegExp(`${name} +0 +0 `))
      expect(limits).toMatch(/Max cpu time +\d+ +\d+ /)
      end()
      await gone
    },
    START_MS,
  )

  test(
    'goes when whoever started it goes, also in the middle of work',
    async () => {
      const program = `import { startMachine, findPrograms } from ${JSON.stringify(join(import.meta.dir, '../../../../adapters/providers/pyodide/machine.ts'))}
      import { systemClock as clock } from ${JSON.stringify(join(import.meta.dir, '../../../../adapters/local.ts'))}
      const guest = ${JSON.stringify(`data:application/javascript,${encodeURIComponent(`${READY} new Worker(URL.createObjectURL(new Blob(["for(;;);"], { type: "text/javascript" })), { type: "module" }); for await (const _ of Deno.stdin.readable); Deno.exit(0)`)}`)}
      const { pid } = await startMachine({ programs: findPrograms(${JSON.stringify(PROGRAMS)}), cwd: ${JSON.stringify(folder)}, memory: 64, clock, guest }, { signal: new AbortController().signal })
      console.log(pid)
      setInterval(() => {}, 1_000)`
      const parent = Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe', stderr: 'inherit' })
      const { value } = await parent.stdout.getReader().read()
      const pid = Number(new TextDecoder().decode(value))
      expect(() => process.kill(pid, 0)).not.toThrow()
      parent.kill('SIGKILL')
      await parent.exited
      for (let isThere = true; isThere;) {
        await new Promise((resolve) => setTimeout(resolve, 5))
        isThere = await readFile(`/proc/${pid}/stat`, 'utf8').then(
          (stat) => !/\) Z /.test(stat),
          () => false,
        )
      }
    },
    START_MS,
  )

  test(
    'that is given up while it starts is ended, and one that cannot start says why',
    async () => {
      const given = new AbortController()
      const starting = startMachine(
        { programs, cwd: folder, memory: 64, clock, script: 'data:application/javascript,setInterval(()=>{},1000)' },
        { signal: given.signal },
      )
      given.abort()
      await expect(starting).rejects.toThrow('the caller no longer waits')
      await expect(
        startMachine({ programs: { ...programs, deno: '/nowhere/deno' }, cwd: folder, memory: 64, clock }, at),
      ).rejects.toThrow('it cannot be started: the program is missing')
      await expect(
        startMachine({ programs, cwd: folder, memory: 64, clock, script: 'data:application/javascript,throw(1)' }, at),
      ).rejects.toThrow('it exited unexpectedly')
    },
    START_MS,
  )

  test('is of the programs that npm installed, and what is missing is named', () => {
    expect(() => findPrograms(import.meta.url, 'plan9-mips')).toThrow('does not run on plan9-mips')
    expect(() => findPrograms(import.meta.url, 'darwin-x64')).toThrow(
      'needs the package @deno/darwin-x64, which is not installed',
    )
  })
})
