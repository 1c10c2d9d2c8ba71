/**
 * Limits the connections of this process, in total and per address (decision 96). Bun accepts every connection; at the
 * limit of file descriptors its event loop spins and serves no new client. So open connections are counted every 250
 * ms, and those over the limits are shut down. Linux only.
 */
import { dlopen, FFIType, ptr } from 'bun:ffi'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { addressKey } from '../../core/http/mod.ts'

export type Connection = { readonly fd: number; readonly address: string; readonly port: number }
type ConnectionLimits = { readonly total: number; readonly perAddress: number }

/** Descriptors left for the database, upstream connections and files. */
const RESERVED = 64
const MAX_TOTAL = 20_000

/**
 * Limits from the number of file descriptors: a quarter of them, and at least 64, stay free. One address may have half
 * of the connections.
 */
export function defaultLimits(descriptors = descriptorLimit()): ConnectionLimits {
  const total = Math.max(16, Math.min(MAX_TOTAL, Math.floor(descriptors * 0.75), descriptors - RESERVED))
  return { total, perAddress: Math.ceil(total / 2) }
}

/** The soft limit of open files, or 1024 if it cannot be read. */
function descriptorLimit(): number {
  try {
    return Number(/^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 1024)
  } catch {
    return 1024
  }
}

type ExcessOptions = ConnectionLimits & {
  /** When a connection was first seen, as any increasing number. */
  readonly seenAt: (connection: Connection) => number
  /** Whether it has a request in progress. */
  readonly isBusy: (connection: Connection) => boolean
  /** True for addresses of proxies, which carry many clients. */
  readonly isExempt: (address: string) => boolean
}

/**
 * The connections to shut down. Idle ones come first, oldest first, so that a client which sends its request at once is
 * served. Of the busy ones the newest come first. Addresses over their own limit lose connections before others do.
 */
export function excess(
  open: readonly Connection[],
  { total, perAddress, seenAt, isBusy, isExempt }: ExcessOptions,
): readonly Connection[] {
  const rank = (connection: Connection) =>
    isBusy(connection) ? Number.MAX_SAFE_INTEGER - seenAt(connection) : seenAt(connection)
  const ranked = open
    .map((connection) => ({ connection, rank: rank(connection) }))
    .sort((one, other) => one.rank - other.rank)
  const remaining = new Map<string, number>()
  for (const { address } of open) remaining.set(addressKey(address), (remaining.get(addressKey(address)) ?? 0) + 1)
  const closing = new Set<Connection>()
  for (const { connection } of ranked) {
    const key = addressKey(connection.address)
    const count = remaining.get(key) ?? 0
    if (count <= perAddress || isExempt(connection.address)) continue
    remaining.set(key, count - 1)
    closing.add(connection)
  }
  for (const { connection } of ranked) {
    if (open.length - closing.size <= total) break
    closing.add(connection)
  }
  return [...closing]
}

type Peer = { readonly address: string; readonly port: number }

type ConnectionGuard = {
  /** Marks a request of this peer as started. Call the returned function once, when its response has begun. */
  begin(peer: Peer | null): (reply: { readonly isStream: boolean }) => void
  stop(): void
}

const unwatched = () => {}

type GuardOptions = ConnectionLimits & {
  /** The listening ports. */
  readonly ports: () => readonly number[]
  readonly isExempt: (address: string) => boolean
  readonly onClosed: (counts: { readonly open: number; readonly closed: number }) => void
}

const INTERVAL_MS = 250

/** Checks the connections until `stop`. Does nothing on systems whose sockets cannot be listed. */
export function guardConnections({ ports, onClosed, ...limits }: GuardOptions): ConnectionGuard {
  const sockets = openSockets()
  // A slot for each request in progress; whose connections these are is asked only when connections are counted.
  const slots: (Peer | undefined)[] = []
  const empty: number[] = []
  /** Connections whose last response was a stream: busy until they close or send another request. */
  const streaming = new Set<string>()
  let firstSeen = new Map<string, number>()
  let round = 0
  const keyOf = ({ address, port }: { address: string; port: number }) => `${address.replace(/^::ffff:/i, '')} ${port}`
  const timer = sockets && setInterval(closeExcess, INTERVAL_MS)
  timer?.unref()
  return {
    begin(peer) {
      if (!timer || !peer) return unwatched
      const slot = empty.pop() ?? slots.length
      slots[slot] = peer
      if (streaming.size > 0) streaming.delete(keyOf(peer))
      return ({ isStream }) => {
        slots[slot] = undefined
        empty.push(slot)
        if (isStream) streaming.add(keyOf(peer))
      }
    },
    stop: () => clearInterval(timer),
  }

  function closeExcess(): void {
    if (!sockets) return
    round += 1
    const open = sockets.list(new Set(ports()))
    firstSeen = new Map(open.map((connection) => [keyOf(connection), firstSeen.get(keyOf(connection)) ?? round]))
    for (const key of streaming) if (!firstSeen.has(key)) streaming.delete(key)
    const busy = new Set(slots.flatMap((peer) => (peer ? [keyOf(peer)] : [])))
    const closing = excess(open, {
      ...limits,
      seenAt: (connection) => firstSeen.get(keyOf(connection)) ?? round,
      isBusy: (connection) => busy.has(keyOf(connection)) || streaming.has(keyOf(connection)),
    })
    for (const { fd } of closing) sockets.shutdown(fd)
    if (closing.length > 0) onClosed({ open: open.length, closed: closing.length })
  }
}

const [AF_INET, AF_INET6, SHUT_RDWR] = [2, 10, 2]
/** The most descriptor numbers to try when /proc/self/fd cannot be read. */
const MAX_DESCRIPTORS = 65_536

/** Lists and shuts down the connected sockets of this process. Undefined without a Linux libc. */
function openSockets() {
  if (process.platform !== 'linux') return undefined
  const libc = loadLibc()
  if (!libc) return undefined
  const { getpeername, getsockname, shutdown } = libc.symbols
  const address = new Uint8Array(128)
  const length = new Uint32Array(1)
  // Reading a directory needs a descriptor, so one is reserved for the time when none is free.
  let spare = openSync('/dev/null', 'r')

  function socketName(getName: typeof getpeername, fd: number): DataView | undefined {
    length[0] = address.length
    return getName(fd, ptr(address), ptr(length)) === 0 ? new DataView(address.buffer) : undefined
  }

  function connectionOf(fd: number, ports: ReadonlySet<number>): Connection | undefined {
    const local = socketName(getsockname, fd)
    if (!local || !ports.has(local.getUint16(2))) return undefined
    const peer = socketName(getpeername, fd)
    if (!peer) return undefined
    const family = peer.getUint16(0, true)
    if (family === AF_INET) return { fd, address: address.slice(4, 8).join('.'), port: peer.getUint16(2) }
    if (family !== AF_INET6) return undefined
    const groups = Array.from({ length: 8 }, (_, index) => peer.getUint16(8 + 2 * index).toString(16))
    const isMapped = groups.slice(0, 5).every((group) => group === '0') && groups[5] === 'ffff'
    return { fd, address: isMapped ? address.slice(20, 24).join('.') : groups.join(':'), port: peer.getUint16(2) }
  }

  function descriptors(): readonly number[] {
    closeSync(spare)
    try {
      return readdirSync('/proc/self/fd').map(Number)
    } catch {
      return Array.from({ length: Math.min(MAX_DESCRIPTORS, descriptorLimit()) }, (_, fd) => fd)
    } finally {
      spare = openSync('/dev/null', 'r')
    }
  }

  return {
    list: (ports: ReadonlySet<number>): readonly Connection[] =>
      descriptors().flatMap((fd) => connectionOf(fd, ports) ?? []),
    shutdown: (fd: number): void => void shutdown(fd, SHUT_RDWR),
  }
}

function loadLibc() {
  for (const name of ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]) {
    try {
      const signature = { args: [FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 }
      return dlopen(name, {
        getpeername: signature,
        getsockname: signature,
        shutdown: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
      })
    } catch {
      // Not this libc: try the next one.
    }
  }
  return undefined
}
