/**
 * Bounds the connections of this process, in total and per address. Bun accepts whatever comes: at the limit of descriptors its loop spins, and nobody
 * new is answered. So every quarter of a second the open connections are counted, and those over the limits are shut down. Linux only.
 */
import { dlopen, FFIType, ptr } from 'bun:ffi'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { addressKey } from '../core/http/caller_address.ts'

export type Connection = { readonly fd: number; readonly address: string; readonly port: number }
export type ConnectionLimits = { readonly total: number; readonly perAddress: number }

/** Descriptors that other things need: the database, vendors, files. */
const RESERVED = 64
const MAX_TOTAL = 20_000

/** Of the descriptors that the process may have: a quarter, and at least 64, stay free. Half of the connections may come from one address. */
export function defaultLimits(descriptors = descriptorLimit()): ConnectionLimits {
  const total = Math.max(16, Math.min(MAX_TOTAL, Math.floor(descriptors * 0.75), descriptors - RESERVED))
  return { total, perAddress: Math.ceil(total / 2) }
}

/** The soft limit of open files; 1024 where it cannot be read. */
function descriptorLimit(): number {
  try {
    return Number(/^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 1024)
  } catch {
    return 1024
  }
}

type Judging = ConnectionLimits & {
  /** When a connection was first seen, in any unit that grows. */
  readonly seenAt: (connection: Connection) => number
  /** Whether it has a request that is being answered. */
  readonly isBusy: (connection: Connection) => boolean
  /** Addresses of proxies, which stand for many callers. */
  readonly isExempt: (address: string) => boolean
}

/**
 * The connections to shut down. Those without a request go first, the oldest before the others: whoever connects and asks at once is answered. Of
 * those with a request the newest go first. An address over its own limit loses connections before anybody else does.
 */
export function excess(
  open: readonly Connection[],
  { total, perAddress, seenAt, isBusy, isExempt }: Judging,
): readonly Connection[] {
  const rank = (connection: Connection) =>
    isBusy(connection) ? Number.MAX_SAFE_INTEGER - seenAt(connection) : seenAt(connection)
  const ranked = open
    .map((connection) => ({ connection, rank: rank(connection) }))
    .sort((one, other) => one.rank - other.rank)
  const left = new Map<string, number>()
  for (const { address } of open) left.set(addressKey(address), (left.get(addressKey(address)) ?? 0) + 1)
  const closing = new Set<Connection>()
  for (const { connection } of ranked) {
    const key = addressKey(connection.address)
    const count = left.get(key) ?? 0
    if (count <= perAddress || isExempt(connection.address)) continue
    left.set(key, count - 1)
    closing.add(connection)
  }
  for (const { connection } of ranked) {
    if (open.length - closing.size <= total) break
    closing.add(connection)
  }
  return [...closing]
}

export type ConnectionGuard = {
  /** Notes that this peer has a request; the function that is returned notes its reply, which may go on as a stream. */
  begin(
    peer: { readonly address: string; readonly port: number } | null,
  ): (reply: { readonly isStream: boolean }) => void
  stop(): void
}

type Guarding = ConnectionLimits & {
  /** Of the sockets that listen. */
  readonly ports: () => readonly number[]
  readonly isExempt: (address: string) => boolean
  readonly onClosed: (facts: { readonly open: number; readonly closed: number }) => void
}

const EVERY_MS = 250

/** Watches the connections until `stop`. Where the system's sockets cannot be read it does nothing. */
export function guardConnections({ ports, onClosed, ...limits }: Guarding): ConnectionGuard {
  const sockets = openSockets()
  const busy = new Map<string, number>()
  /** Connections whose last reply was a stream; it may be under way until they close or ask again. */
  const streaming = new Set<string>()
  let seen = new Map<string, number>()
  let turn = 0
  const nameOf = ({ address, port }: { address: string; port: number }) => `${address.replace(/^::ffff:/i, '')} ${port}`
  const timer = sockets && setInterval(look, EVERY_MS)
  timer?.unref()
  return {
    begin(peer) {
      if (!timer || !peer) return () => {}
      const name = nameOf(peer)
      busy.set(name, (busy.get(name) ?? 0) + 1)
      streaming.delete(name)
      return ({ isStream }) => {
        if (isStream) streaming.add(name)
        const left = (busy.get(name) ?? 1) - 1
        if (left > 0) busy.set(name, left)
        else busy.delete(name)
      }
    },
    stop: () => clearInterval(timer),
  }

  function look(): void {
    if (!sockets) return
    turn += 1
    const open = sockets.list(new Set(ports()))
    seen = new Map(open.map((connection) => [nameOf(connection), seen.get(nameOf(connection)) ?? turn]))
    for (const name of streaming) if (!seen.has(name)) streaming.delete(name)
    const closing = excess(open, {
      ...limits,
      seenAt: (one) => seen.get(nameOf(one)) ?? turn,
      isBusy: (one) => busy.has(nameOf(one)) || streaming.has(nameOf(one)),
    })
    for (const { fd } of closing) sockets.shutdown(fd)
    if (closing.length > 0) onClosed({ open: open.length, closed: closing.length })
  }
}

const [AF_INET, AF_INET6, BOTH_WAYS] = [2, 10, 2]
/** Above it only the directory of descriptors is read, and not every number that there may be. */
const MAX_NUMBERS = 65_536

/** The connected sockets of this process. Undefined where there is no libc of Linux. */
function openSockets() {
  if (process.platform !== 'linux') return undefined
  const libc = load()
  if (!libc) return undefined
  const { getpeername, getsockname, shutdown } = libc.symbols
  const address = new Uint8Array(128)
  const length = new Uint32Array(1)
  // At the limit of descriptors a directory cannot be read, so one is kept for it.
  let spare = openSync('/dev/null', 'r')

  function nameBy(ask: typeof getpeername, fd: number): DataView | undefined {
    length[0] = address.length
    return ask(fd, ptr(address), ptr(length)) === 0 ? new DataView(address.buffer) : undefined
  }

  function connectionOf(fd: number, ports: ReadonlySet<number>): Connection | undefined {
    const own = nameBy(getsockname, fd)
    if (!own || !ports.has(own.getUint16(2))) return undefined
    const peer = nameBy(getpeername, fd)
    if (!peer) return undefined
    const family = peer.getUint16(0, true)
    if (family === AF_INET) return { fd, address: address.slice(4, 8).join('.'), port: peer.getUint16(2) }
    if (family !== AF_INET6) return undefined
    const groups = Array.from({ length: 8 }, (_, at) => peer.getUint16(8 + 2 * at).toString(16))
    const isMapped = groups.slice(0, 5).every((group) => group === '0') && groups[5] === 'ffff'
    return { fd, address: isMapped ? address.slice(20, 24).join('.') : groups.join(':'), port: peer.getUint16(2) }
  }

  function descriptors(): readonly number[] {
    closeSync(spare)
    try {
      return readdirSync('/proc/self/fd').map(Number)
    } catch {
      return Array.from({ length: Math.min(MAX_NUMBERS, descriptorLimit()) }, (_, fd) => fd)
    } finally {
      spare = openSync('/dev/null', 'r')
    }
  }

  return {
    list: (ports: ReadonlySet<number>): readonly Connection[] =>
      descriptors().flatMap((fd) => connectionOf(fd, ports) ?? []),
    shutdown: (fd: number): void => void shutdown(fd, BOTH_WAYS),
  }
}

function load() {
  for (const name of ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]) {
    try {
      const naming = { args: [FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 }
      return dlopen(name, {
        getpeername: naming,
        getsockname: naming,
        shutdown: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
      })
    } catch {
      // The next one.
    }
  }
  return undefined
}
