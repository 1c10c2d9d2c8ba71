/** Kills a replica at a chosen point: freezes it when it may be there, looks, and lets it go on where it is not. */
import { type FSWatcher, mkdirSync, watch } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Chance } from '../simulation/chance.ts'
import { type Point, pointsOf, type Scene } from './kill_points.ts'
import type { Replica } from './replicas.ts'
import { holdsReceipt, type Moment, sentIn, type Watcher } from './rpc_proxy.ts'

export type Killed = {
  readonly replica: string
  readonly aim: Point
  readonly hit: readonly Point[]
  readonly tries: number
  readonly afterMs: number
}

/** How long what was already said may take to arrive in the database. */
const SETTLE_MS = 30

type KillOptions = {
  readonly scene: Scene
  readonly chance: Chance
  readonly waitMs: number
  readonly startedAt: number
}

/** Resolves when the replica is dead: at `aim` if it was ever seen there within patience, else wherever it was. */
export async function killAt(
  aim: Point,
  target: Replica,
  { scene, chance, waitMs, startedAt }: KillOptions,
): Promise<Killed> {
  const until = performance.now() + waitMs
  const stop = new AbortController()
  const timer = setTimeout(() => stop.abort(), waitMs)
  try {
    for (let tries = 1; ; tries++) {
      const verdict = Promise.withResolvers<'cut' | 'go'>()
      await frozen(aim, target, { scene, chance, verdict: verdict.promise, signal: stop.signal })
      target.freeze()
      await pause(SETTLE_MS)
      const hit = [...(await pointsOf(target, scene))]
      const isOver = hit.includes(aim) || performance.now() >= until || !target.isUp()
      if (isOver) await target.kill()
      else target.thaw()
      verdict.resolve(isOver ? 'cut' : 'go')
      if (isOver) return { replica: target.life(), aim, hit, tries, afterMs: performance.now() - startedAt }
    }
  } finally {
    clearTimeout(timer)
    scene.proxy.watch(undefined)
  }
}

type Trap = {
  readonly scene: Scene
  readonly chance: Chance
  readonly verdict: Promise<'cut' | 'go'>
  readonly signal: AbortSignal
}

/** Resolves at the moment at which the target may be at the point, or when patience ends; it is then already frozen. */
function frozen(aim: Point, target: Replica, { scene, chance, verdict, signal }: Trap): Promise<void> {
  return new Promise((resolve) => {
    const files: FSWatcher[] = []
    let isSprung = false
    const spring = () => {
      if (isSprung) return
      isSprung = true
      target.freeze()
      scene.proxy.watch(undefined)
      for (const watcher of files) watcher.close()
      resolve()
    }
    signal.addEventListener('abort', spring, { once: true })
    if (signal.aborted) return spring()
    if (aim === 'worked' || aim === 'put') return files.push(...onFiles(aim, target, { media: scene.media, spring }))
    const watcher: Watcher = (moment) => {
      const when = moment.replica === target.name && !isSprung ? whenOf(aim, moment, scene) : undefined
      if (when === undefined) return undefined
      if (when === 'later') return void setTimeout(spring, chance.below(12))
      spring()
      return verdict
    }
    scene.proxy.watch(watcher)
    return undefined
  })
}

/** Whether this message is the one to freeze at: at once, or some milliseconds later. */
function whenOf(
  aim: Point,
  { point, question, answer, replica }: Moment,
  { board }: Scene,
): 'now' | 'later' | undefined {
  const isSend = sentIn(question).length > 0
  const asksForPost = () =>
    [...board].some((mark) => mark.isPost && mark.replica === replica && question.toLowerCase().includes(mark.nonce))
  if (aim === 'asked') return point === 'answered' && !isSend && asksForPost() ? 'now' : undefined
  if (aim === 'opened') return point === 'told' && !isSend && asksForPost() ? 'later' : undefined
  if (aim === 'stored') return point === 'asked' && isSend ? 'now' : undefined
  if (aim === 'broadcast') return point === 'answered' && isSend ? 'now' : undefined
  if (point !== 'told' || !holdsReceipt(answer)) return undefined
  return aim === 'receipt' ? 'now' : 'later'
}

function onFiles(
  aim: 'worked' | 'put',
  target: Replica,
  { media, spring }: { media: string; spring: () => void },
): FSWatcher[] {
  const incoming = join(media, '.incoming')
  mkdirSync(incoming, { recursive: true, mode: 0o700 })
  if (aim === 'worked') return [watch(incoming, (_, file) => file?.startsWith(`${target.pid()}-`) && spring())]
  const day = join(media, 'images', new Date().toISOString().slice(0, 10))
  mkdirSync(day, { recursive: true, mode: 0o700 })
  return [watch(day, () => spring())]
}
