/**
 * Loaded into a server of the bench before all else (`--preload`): beats once a millisecond, and says over IPC how long
 * its event loop was held at most. `cpu` counts only what this thread computed between two beats, so that other
 * processes on the machine add nothing to it; what it waited for a disk is in `wall` alone.
 */
export type Gaps = { readonly wall: number; readonly cpu: number }

/** In milliseconds. */
let longest = { wall: 0, cpu: 0 }
let [lastAt, lastCpu] = [performance.now(), cpuMs()]

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

function beat(): void {
  const [at, cpu] = [performance.now(), cpuMs()]
  longest = { wall: Math.max(longest.wall, at - lastAt), cpu: Math.max(longest.cpu, cpu - lastCpu) }
  ;[lastAt, lastCpu] = [at, cpu]
}

setInterval(beat, 1)
process.on('message', (message) => {
  if (message !== 'gaps') return
  beat()
  process.send?.({ gaps: longest })
  longest = { wall: 0, cpu: 0 }
})
