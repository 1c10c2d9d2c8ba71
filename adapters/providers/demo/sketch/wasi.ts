/** Just enough of WASI preview 1 for one command that writes one file: nothing of the machine is in its reach, and its clock stands still. */

/** `file` is what it wrote under `path`; undefined where it wrote none. `said` is what it printed, for whoever looks into a failure. */
export type Ran = { readonly file: Uint8Array | undefined; readonly code: number; readonly said: string }

const SUCCESS = 0
const BAD_FD = 8
const NO_ENTRY = 44
const CHARACTER_DEVICE = 2
const DIRECTORY = 3
const REGULAR_FILE = 4
const ROOT_FD = 3
const FILE_FD = 4
const FILE_TYPES: Readonly<Record<number, number>> = { [ROOT_FD]: DIRECTORY, [FILE_FD]: REGULAR_FILE }
const MAX_SAID = 2_000

/** Ends a command that calls exit. */
class Exit extends Error {
  readonly code: number
  constructor(code: number) {
    super(`it exited with ${code}`)
    this.code = code
  }
}

/** Runs a command to its end, in this thread. It may write to `path`, which it finds in the only folder there is, `/`. Throws where it crashes. */
export async function runCommand(module: WebAssembly.Module, args: readonly string[], path: string): Promise<Ran> {
  const words = args.map((arg) => new TextEncoder().encode(`${arg}\0`))
  const file = { bytes: new Uint8Array(1 << 16), size: 0, at: 0, isOpen: false, wasOpened: false }
  let said = ''
  let memory = new WebAssembly.Memory({ initial: 0 })
  const view = () => new DataView(memory.buffer)
  const bytes = (at: number, length: number) => new Uint8Array(memory.buffer, at, length)

  /** Lays a list of texts into memory: where each begins, and the texts themselves. */
  function lay(pointers: number, texts: number): number {
    let to = texts
    for (const [index, word] of words.entries()) {
      view().setUint32(pointers + 4 * index, to, true)
      bytes(to, word.length).set(word)
      to += word.length
    }
    return SUCCESS
  }

  function write(part: Uint8Array): void {
    const end = file.at + part.length
    if (end > file.bytes.length) {
      const larger = new Uint8Array(Math.max(end, 2 * file.bytes.length))
      larger.set(file.bytes.subarray(0, file.size))
      file.bytes = larger
    }
    file.bytes.set(part, file.at)
    file.at = end
    file.size = Math.max(file.size, end)
  }

  const set32 = (at: number, value: number) => (view().setUint32(at, value, true), SUCCESS)
  const system = {
    args_sizes_get: (count: number, size: number) =>
      set32(count, words.length) ||
      set32(
        size,
        words.reduce((sum, { length }) => sum + length, 0),
      ),
    args_get: lay,
    clock_time_get: (_clock: number, _precision: bigint, at: number) => (view().setBigUint64(at, 0n, true), SUCCESS),
    fd_close(fd: number) {
      if (fd === FILE_FD) file.isOpen = false
      return SUCCESS
    },
    fd_fdstat_get(fd: number, at: number) {
      if (fd > FILE_FD || (fd === FILE_FD && !file.isOpen)) return BAD_FD
      bytes(at, 24).fill(0)
      view().setUint8(at, FILE_TYPES[fd] ?? CHARACTER_DEVICE)
      view().setBigUint64(at + 8, ~0n, true)
      view().setBigUint64(at + 16, ~0n, true)
      return SUCCESS
    },
    fd_fdstat_set_flags: () => SUCCESS,
    fd_prestat_get(fd: number, at: number) {
      if (fd !== ROOT_FD) return BAD_FD
      return set32(at, 0) || set32(at + 4, 1)
    },
    fd_prestat_dir_name: (fd: number, at: number) =>
      fd === ROOT_FD ? (view().setUint8(at, '/'.charCodeAt(0)), SUCCESS) : BAD_FD,
    fd_read: (fd: number, _vectors: number, _count: number, read: number) => (fd === 0 ? set32(read, 0) : BAD_FD),
    fd_seek(fd: number, offset: bigint, whence: number, at: number) {
      if (fd !== FILE_FD) return BAD_FD
      file.at = Math.max(0, Number(offset) + ([0, file.at, file.size][whence] ?? 0))
      view().setBigUint64(at, BigInt(file.at), true)
      return SUCCESS
    },
    fd_write(fd: number, vectors: number, count: number, written: number) {
      if (fd === 0 || fd === ROOT_FD || fd > FILE_FD) return BAD_FD
      let length = 0
      for (let index = 0; index < count; index++) {
        const part = bytes(view().getUint32(vectors + 8 * index, true), view().getUint32(vectors + 8 * index + 4, true))
        if (fd === FILE_FD) write(part)
        else if (said.length < MAX_SAID) said += new TextDecoder().decode(part)
        length += part.length
      }
      return set32(written, length)
    },
    path_open(
      _fd: number,
      _look: number,
      name: number,
      length: number,
      creates: number,
      _base: bigint,
      _inherits: bigint,
      _flags: number,
      at: number,
    ) {
      const wanted = new TextDecoder().decode(bytes(name, length))
      if (wanted !== path.slice(1) || (creates & 1) === 0) return NO_ENTRY
      Object.assign(file, { at: 0, size: 0, isOpen: true, wasOpened: true })
      return set32(at, FILE_FD)
    },
    proc_exit(code: number): never {
      throw new Exit(code)
    },
  }

  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: system })
  memory = instance.exports.memory as WebAssembly.Memory
  const code = run(instance.exports._start as () => void)
  return { file: file.wasOpened ? file.bytes.subarray(0, file.size) : undefined, code, said }
}

function run(command: () => void): number {
  try {
    command()
    return 0
  } catch (error) {
    if (error instanceof Exit) return error.code
    throw error
  }
}
