/**
 * Runs inside Deno, in a process that may only read Pyodide's folder (machine.ts). Python runs in its own thread. Its
 * code can reach all of JavaScript, so the process is the sandbox, not the thread. This thread only forwards lines, and
 * exits when its parent does.
 */
import { Buffer } from 'node:buffer'
import { PRELUDE } from './prelude.ts'

declare const Deno: {
  readonly args: readonly string[]
  readonly stdin: { readonly readable: ReadableStream<Uint8Array> }
  readonly stdout: { writeSync(bytes: Uint8Array): number }
  exit(code: number): never
}

/** A line of JSON on standard input. `ms` is the time limit of the command; the reply repeats `id`. */
export type InterpreterRequest = { readonly id: number; readonly command: readonly string[]; readonly ms: number }
/** A line on standard output: id, return code, and stdout and stderr in base64. */
export type InterpreterReply = {
  readonly id: number
  readonly stdout: string
  readonly stderr: string
  readonly returncode: number
}

type Setting = {
  readonly folder: string
  readonly door: string
  readonly prelude: string
  readonly mostBytes: number
  readonly interrupt: Uint8Array
}

/**
 * Serialized as text and run in the thread, so it must not refer to anything outside itself. Replies to id 0 when it is
 * ready.
 */
async function interpreter(): Promise<void> {
  const scope = globalThis as unknown as {
    onmessage: (event: { data: unknown }) => void
    postMessage(message: unknown): void
  }
  const tell = scope.postMessage.bind(scope)
  // An unhandled rejection of one command must not end the process for later ones.
  addEventListener('unhandledrejection', (event) => event.preventDefault())
  const { folder, door, prelude, mostBytes, interrupt } = await new Promise<Setting>((resolve) => {
    scope.onmessage = ({ data }) => resolve(data as Setting)
  })
  const { loadPyodide } = await import(door)
  const env = { HOME: '/home/user', PATH: '/usr/bin:/bin', USER: 'user', LANG: 'C.UTF-8' }
  const python = await loadPyodide({ indexURL: `${folder}/`, env, stdin: () => null })

  function sink() {
    let chunks: Uint8Array[] = []
    let left = mostBytes
    let isCut = false
    return {
      isatty: false,
      write(bytes: Uint8Array): number {
        isCut ||= bytes.length > left
        if (left > 0) chunks.push(bytes.slice(0, left))
        left = Math.max(0, left - bytes.length)
        return bytes.length
      },
      async take(name: string): Promise<string> {
        const text = await new Blob(chunks as BlobPart[]).text()
        const whole = isCut ? `${text}\n[${name} was cut after ${mostBytes} bytes]\n` : text
        chunks = []
        left = mostBytes
        isCut = false
        return whole
      },
    }
  }
  const [out, err] = [sink(), sink()]
  python.setStdout(out)
  python.setStderr(err)
  python.setInterruptBuffer(interrupt)
  const never = new Int32Array(new SharedArrayBuffer(4))
  const doze = (seconds: number): void => void Atomics.wait(never, 0, 0, seconds * 1000)
  const run = python.runPython(prelude, { globals: python.toPy({ __name__: 'sandbox', doze }), filename: '<sandbox>' })

  let last: Promise<unknown> = Promise.resolve()
  const answer = async ({ id, command }: InterpreterRequest): Promise<void> => {
    let isBroken = false
    const returncode: unknown = await run.callPromising(JSON.stringify(command)).catch((error: unknown) => {
      // An interrupt may also hit the code around the command. Any other error means that Python is broken.
      isBroken = !String(error).includes('KeyboardInterrupt')
      return isBroken ? 134 : 130
    })
    tell({ id, stdout: await out.take('stdout'), stderr: await err.take('stderr'), returncode })
    if (isBroken) throw new Error('Python has crashed')
  }
  scope.onmessage = ({ data }) => {
    last = last.then(() => answer(data as InterpreterRequest)).catch(() => tell(undefined))
  }
  tell({ id: 0, stdout: '', stderr: '', returncode: 0 })
}

const [folder = '', door = '', mostBytes = ''] = Deno.args
const SIGINT = 2
const INTERRUPTED = 130
const LATE = 124
const INSIST_MS = 40

const interrupt = new Uint8Array(new SharedArrayBuffer(1))
const thread = new Worker(URL.createObjectURL(new Blob([`(${interpreter})()`], { type: 'text/javascript' })), {
  type: 'module',
})
let timer: ReturnType<typeof setTimeout> | undefined
let isLate = false

thread.onerror = () => Deno.exit(1)
thread.onmessage = ({ data }: { data: InterpreterReply | undefined }) => {
  clearTimeout(timer)
  if (data === undefined) Deno.exit(1)
  say(isLate && data.returncode === INTERRUPTED ? { ...data, returncode: LATE } : data)
}
thread.postMessage({ folder, door, prelude: PRELUDE, mostBytes: Number(mostBytes), interrupt } satisfies Setting)

let rest = ''
for await (const text of Deno.stdin.readable.pipeThrough(
  new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>,
)) {
  const lines = (rest + text).split('\n')
  rest = lines.pop() ?? ''
  for (const line of lines) take(JSON.parse(line) as InterpreterRequest)
}
// The parent process has exited.
Deno.exit(0)

function take(order: InterpreterRequest): void {
  isLate = false
  interrupt[0] = 0
  timer = setTimeout(() => {
    isLate = true
    // Repeat, because running code may swallow one interrupt.
    timer = setInterval(() => void (interrupt[0] = SIGINT), INSIST_MS)
  }, order.ms)
  thread.postMessage(order)
}

function say({ id, returncode, stdout, stderr }: InterpreterReply): void {
  const [out, err] = [stdout, stderr].map((text) => Buffer.from(text).toString('base64'))
  let bytes = new TextEncoder().encode(`${id} ${returncode} ${out} ${err}\n`)
  while (bytes.length > 0) bytes = bytes.subarray(Deno.stdout.writeSync(bytes))
}
