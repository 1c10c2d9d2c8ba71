/**
 * Merges the write-ahead log into the file beside the event loop. A commit that checkpoints, as SQLite does by default,
 * holds every request while it writes a thousand pages and flushes twice.
 */
import type { Worker } from 'node:worker_threads'
import type { SqliteDriver } from './driver.ts'

/** Rows that are changed between two passes. A row changes about one page of the log when many share a commit. */
const ROWS_OF_A_PASS = 1_000
/** Bytes by which the log grows before there is a pass, however few the rows: results may be megabytes. */
const BYTES_OF_A_PASS = 4 << 20
/** With so many passes' rows unmerged, commits wait for the pass that is under way. */
const MAX_PASSES_BEHIND = 8
/** Bytes that stay of a log that a long reader, a backup for example, has made longer. */
const MAX_SPARE_LOG = 64 << 20
/** SQLite's own, for a runtime without a thread. */
const DEFAULT_PAGES = 1_000

/** Rejects with this where the disk failed: what the file holds is then unknown. */
export type DiskError = Error & { readonly isOfDisk?: boolean }

export type Checkpoints = {
  /** Notes rows that a flush has put on disk and the size of the log. Starts a pass beside commits when it is time. */
  note(rows: number, bytes: number): void
  /** To be awaited before commits. Rejects once the disk has failed in a pass. */
  turn(): Promise<void>
  close(): Promise<void>
}

/**
 * Decides when to merge. `merge` resolves when what was committed before is in the file, unless another process still
 * reads it in the log. What is committed during a pass is left in the log, which so would never end. Therefore commits
 * wait for a second pass, which has little to do, and the log begins again with the next of them.
 */
export function checkpoints(merge: () => Promise<void>): Omit<Checkpoints, 'close'> & { settle(): Promise<void> } {
  let rows = 0
  let isSecondDue = false
  let [size, merged] = [0, 0]
  let running: Promise<void> | undefined
  let failed: DiskError | undefined

  async function pass(): Promise<void> {
    rows = 0
    merged = size
    try {
      await merge()
    } catch (error) {
      // The log has everything, and the next pass comes. After an error of the disk that is not sure.
      if ((error as DiskError).isOfDisk) failed = error as DiskError
    } finally {
      running = undefined
    }
  }

  return {
    note(changed, bytes) {
      rows += changed
      size = bytes
      const isTime = rows >= ROWS_OF_A_PASS || size >= merged + BYTES_OF_A_PASS
      if (!isTime || running) return
      isSecondDue = true
      running = pass()
    },
    async turn() {
      const isBehind =
        rows >= ROWS_OF_A_PASS * MAX_PASSES_BEHIND || size >= merged + BYTES_OF_A_PASS * MAX_PASSES_BEHIND
      if (isBehind) await running
      if (isSecondDue && !running) {
        isSecondDue = false
        await (running = pass())
      }
      if (failed) throw failed
    },
    settle: async () => await running,
  }
}

/** An answer of the thread. Without a message the pass has ended well. */
type Passed = { readonly message?: string; readonly code?: string; readonly isOfDisk?: boolean }

/**
 * The thread's program, which stands alone: it is started from its text, so that it is part of every build. Its
 * connection makes passes and nothing else. Error codes 10, 11 and 26: SQLITE_IOERR, SQLITE_CORRUPT, SQLITE_NOTADB.
 */
const PROGRAM = `
const { parentPort, workerData: path } = require('node:worker_threads')
const builtin = (name) => process.getBuiltinModule(name)
const { Database } = builtin('bun:sqlite') ?? {}
const database = Database ? new Database(path, { readwrite: true }) : new (builtin('node:sqlite').DatabaseSync)(path)
for (const setting of ['busy_timeout = 0', 'synchronous = NORMAL'])
  Database ? database.run('PRAGMA ' + setting) : database.exec('PRAGMA ' + setting)
const pass = database.prepare('PRAGMA wal_checkpoint(PASSIVE)')
parentPort.on('message', (order) => {
  try {
    if (order === 'pass') pass.all()
    else {
      pass.finalize?.()
      database.close()
    }
    parentPort.postMessage({})
  } catch (error) {
    const code = String(error.code)
    const isOfDisk = /^SQLITE_(IOERR|CORRUPT|NOTADB)/.test(code) || [10, 11, 26].includes(error.errcode & 255)
    parentPort.postMessage({ message: String(error.message), code, isOfDisk })
  }
})
`

/**
 * Takes checkpoints out of the connection's hands. The thread is started by the first pass, so that a gateway that
 * sells little has none. Undefined where the runtime has no SQLite of its own, which then checkpoints by itself.
 */
export function checkpointsOf(database: SqliteDriver, path: string): Checkpoints | undefined {
  const hasOwn = ['bun:sqlite', 'node:sqlite'].some((name) => builtin(name) !== undefined)
  const threads = builtin('node:worker_threads')
  if (!hasOwn || !threads) return undefined
  let thread: ReturnType<typeof threadOf> | undefined
  database.exec(`PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = ${MAX_SPARE_LOG}`)
  const made = checkpoints(async () => {
    try {
      thread ??= threadOf(threads as Threads, path)
      await thread.ask('pass')
    } catch (error) {
      // Without a thread the connection merges, as SQLite does by default.
      if (thread?.isOver() ?? true) database.exec(`PRAGMA wal_autocheckpoint = ${DEFAULT_PAGES}`)
      throw error
    }
  })
  return {
    ...made,
    async close() {
      await made.settle()
      await thread?.end()
    },
  }
}

type Threads = { readonly Worker: typeof Worker }

function threadOf(threads: Threads, path: string) {
  const worker = new threads.Worker(PROGRAM, { eval: true, workerData: path })
  const pending: { resolve(): void; reject(error: unknown): void }[] = []
  let over: Error | undefined
  // It keeps the process alive while it has something to do.
  worker.unref()
  worker.on('message', ({ message, code, isOfDisk }: Passed) => {
    const next = pending.shift()
    if (pending.length === 0) worker.unref()
    if (message === undefined) next?.resolve()
    else next?.reject(Object.assign(new Error(message), { code, isOfDisk }))
  })
  const isOver = (error: Error) => {
    over ??= error
    for (const { reject } of pending.splice(0)) reject(error)
  }
  worker.on('error', isOver)
  worker.on('exit', () => isOver(new Error('the thread that merges the log has ended')))
  const ask = (order: 'pass' | 'end') =>
    new Promise<void>((resolve, reject) => {
      if (over) return reject(over)
      pending.push({ resolve, reject })
      worker.ref()
      worker.postMessage(order)
    })
  return {
    ask,
    isOver: () => over !== undefined,
    async end() {
      // A thread that is over has closed nothing, and the kernel does it with the process.
      await ask('end').catch(() => {})
      await worker.terminate()
    },
  }
}

/** Without an import, which other runtimes could not resolve. */
function builtin(name: string): unknown {
  try {
    return process.getBuiltinModule?.(name)
  } catch {
    return undefined
  }
}
