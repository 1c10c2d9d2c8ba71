/**
 * The scheduler of one run: it decides in which order everything that processes ask is done and answered. Nothing here
 * waits for anything: `drainMicrotasks` runs the gateways until they have nothing left to do but ask.
 */
import { drainMicrotasks } from 'bun:jsc'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Reply } from '../../core/http/reply.ts'
import type { Gateway, Storage } from '../../core/mod.ts'
import type { Chance } from './chance.ts'

export const START = Date.UTC(2026, 10, 20)

/** How the process of a gateway calls itself in its calls. */
export const ownerOf = (index: number): string => `p${index}`

/** `skewMs`: how far its clock is ahead. `storage`: as its version sees it, where that is not the one of all. */
export type Process = {
  readonly index: number
  readonly gateway: Gateway
  readonly storage?: Storage
  isAlive: boolean
  isMaintaining: boolean
  isFrozen: boolean
  /** It takes nothing new, and ends when what goes on has ended. */
  isLeaving?: boolean
  skewMs: number
}

/** One thing that goes on in a process: a request, a round of tending. `Signed` is what it may pay with. */
export type Actor<Signed> = {
  readonly name: string
  readonly kind: 'post' | 'poll' | 'maintain' | 'claim' | 'start'
  readonly process: Process
  /** Its payment, and the call that it polls. */
  readonly signed?: Signed
  readonly call?: string
  readonly gone: AbortController
  /** Step at which it began. */
  readonly began: number
  /** Authorizations that it put on the wire. */
  readonly sent: Set<string>
  reply: Reply | undefined
  /** Step until which the scheduler leaves it alone: it is slow for a while. */
  asleepUntil: number
}

type Question<T> = { readonly label: string; readonly isStorage: boolean; readonly run: () => Promise<T> }

type Item<Signed> = Question<unknown> & {
  readonly actor: Actor<Signed>
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
  /** Done, but the answer is still on its way. */
  answer: { readonly value: unknown } | { readonly error: Error } | undefined
}

type Wait<Signed> = {
  readonly due: number
  readonly actor: Actor<Signed>
  readonly signal: AbortSignal | undefined
  readonly resolve: () => void
}

export type Scheduler<Signed> = {
  readonly chance: Chance
  readonly processes: Process[]
  /** The storage loses a question or an answer now and then. */
  readonly lost: number
  readonly lines: string[]
  now: number
  step: number
  /** Whose code runs. */
  active: Actor<Signed> | undefined
  /** Everything is done at once, and well. */
  isCalm: boolean
  /** The storage answers nobody. */
  isStorageAway: boolean
  say(text: () => string): void
  ask<T>(process: Process, question: Question<T>): Promise<T>
  wait(ms: number, signal: AbortSignal | undefined): Promise<void>
  /** Runs `work` as a new actor until it has nothing left to do but wait. */
  start(
    actor: Pick<Actor<Signed>, 'name' | 'kind' | 'process' | 'signed' | 'call'>,
    work: (actor: Actor<Signed>) => Promise<Reply | undefined>,
  ): Actor<Signed>
  /** Tasks that can go on. */
  ready(): readonly (Item<Signed> | Wait<Signed>)[]
  release(which: Item<Signed> | Wait<Signed>): void
  /** The earliest moment for which anybody waits. */
  nextWait(): number | undefined
  /**
   * Work that was asked for and not yet done is lost, or done all the same: at once by a storage that dies with its
   * process, else any time.
   */
  crash(process: Process, options: { readonly isSingle: boolean }): void
  hangUp(actor: Actor<Signed>): void
  /** Whether something goes on in a process, or waits. */
  isBusy(process: Process): boolean
}

type SchedulerOptions<Signed> = {
  readonly isTraced: boolean
  /**
   * The running process is known by the asynchronous context in which it was started, for requests that wait for one
   * answer together and go on at once. It takes time, so others are known by what was released last.
   */
  readonly isMixed?: boolean
  /** Work that is done, or not, when its process dies: questions whose label begins so. */
  readonly writes: RegExp
  replied(actor: Actor<Signed>, reply: Reply): void
  failed(actor: Actor<Signed>, error: Error): void
}

export function createScheduler<Signed>(
  dice: Chance,
  { isTraced, isMixed = false, writes, replied, failed }: SchedulerOptions<Signed>,
): Scheduler<Signed> {
  const items: Item<Signed>[] = []
  const contexts = isMixed ? new AsyncLocalStorage<Actor<Signed>>() : undefined
  let released: Actor<Signed> | undefined
  let waits: Wait<Signed>[] = []
  const often = (...shares: readonly number[]) => dice.pick(shares)
  /** Shares of what is answered without anybody coming between, done now but answered later, lost. */
  const climate = {
    atOnce: often(0.2, 0.5, 0.7, 0.85),
    lateAnswers: often(0, 0.1, 0.25),
    lost: often(0, 0, 0, 0, 0.05),
  }

  /** Done and answered in one go, or done now and answered later, or lost before or after it was done. */
  function perform(item: Item<Signed>): void {
    const gone = new Error('the database went away')
    if (item.isStorage && (scheduler.isStorageAway || dice.isLucky(climate.lost))) {
      scheduler.say(() => '   it fails before it is done')
      return item.reject(gone)
    }
    const isLost = item.isStorage && dice.isLucky(climate.lost)
    if (!isLost && !dice.isLucky(climate.lateAnswers)) return void item.run().then(item.resolve, item.reject)
    const store = (answer: Item<Signed>['answer']) => {
      item.answer = isLost ? { error: gone } : answer
      items.push(item)
    }
    item.run().then(
      (value) => store({ value }),
      (error: Error) => store({ error }),
    )
  }

  function answer({ answer: given, resolve, reject }: Item<Signed>): void {
    if (!given) return
    if ('error' in given) return reject(given.error)
    resolve(given.value)
  }

  /** Nobody hears what a dead process has asked for. */
  function performUnheard(item: Item<Signed>): void {
    scheduler.say(() => `${item.actor.name}: ${item.label} is done, but nobody hears`)
    scheduler.active = item.actor
    item.run().catch(() => {})
    drainMicrotasks()
  }

  const isOver = ({ signal, actor }: Wait<Signed>) => signal?.aborted === true || !actor.process.isAlive

  const scheduler: Scheduler<Signed> = {
    chance: dice,
    processes: [],
    lost: climate.lost,
    lines: [],
    now: START,
    step: 0,
    get active() {
      return contexts?.getStore() ?? released
    },
    set active(actor) {
      released = actor
    },
    isCalm: false,
    isStorageAway: false,

    say(text) {
      if (!isTraced) return
      const { lines, step, now } = scheduler
      lines.push(`${String(step).padStart(3)} +${((now - START) / 1000).toFixed(1)}s  ${text()}`)
    },

    ask<T>(process: Process, question: Question<T>): Promise<T> {
      const { active: actor } = scheduler
      if (!actor || !process.isAlive) return new Promise(() => {})
      const isAway = question.isStorage && scheduler.isStorageAway
      if (!isAway && !process.isFrozen && (scheduler.isCalm || dice.isLucky(climate.atOnce))) {
        scheduler.say(() => `${actor.name}: ${question.label}, at once`)
        return question.run()
      }
      return new Promise<T>((resolve, reject) => {
        items.push({ ...question, actor, resolve: resolve as Item<Signed>['resolve'], reject, answer: undefined })
      })
    },

    wait(ms, signal) {
      const { active: actor } = scheduler
      if (signal?.aborted || !actor) return Promise.resolve()
      return new Promise((resolve) => {
        waits.push({ due: scheduler.now + ms, actor, signal, resolve })
      })
    },

    start(given, work) {
      const actor: Actor<Signed> = {
        ...given,
        gone: new AbortController(),
        began: scheduler.step,
        sent: new Set(),
        reply: undefined,
        asleepUntil: 0,
      }
      scheduler.active = actor
      const working = contexts ? contexts.run(actor, () => work(actor)) : work(actor)
      working.then(
        (reply) => {
          actor.reply = reply
          if (reply) replied(actor, reply)
        },
        (error: Error) => failed(actor, error),
      )
      drainMicrotasks()
      return actor
    },

    ready() {
      waits = waits.filter((wait) => !isOver(wait))
      const due = waits.filter((wait) => wait.due <= scheduler.now)
      const all = due.length > 0 ? [...items, ...due] : items
      const isAnyFrozen = scheduler.processes.some(({ isFrozen }) => isFrozen)
      return isAnyFrozen ? all.filter(({ actor }) => !actor.process.isFrozen) : all
    },

    release(which) {
      const { actor } = which
      scheduler.active = actor
      if ('due' in which) {
        waits.splice(waits.indexOf(which), 1)
        scheduler.say(() => `${actor.name}: time is up`)
        which.resolve()
        return drainMicrotasks()
      }
      items.splice(items.indexOf(which), 1)
      if (!actor.process.isAlive) return performUnheard(which)
      scheduler.say(() => `${actor.name}: ${which.label}${which.answer ? ' is answered' : ''}`)
      if (which.answer) answer(which)
      else perform(which)
      drainMicrotasks()
    },

    nextWait() {
      waits = waits.filter((wait) => !isOver(wait))
      const going = waits.filter(({ actor }) => !actor.process.isFrozen)
      return going.length === 0 ? undefined : Math.min(...going.map(({ due }) => due))
    },

    crash(process, { isSingle }) {
      scheduler.say(() => `${ownerOf(process.index)} crashes`)
      process.isAlive = false
      const left = items.splice(0)
      items.push(...left.filter(({ actor }) => actor.process !== process))
      for (const item of left.filter(({ actor }) => actor.process === process)) {
        if (item.answer || !writes.test(item.label) || dice.isLucky(0.5)) continue
        if ((item.isStorage && isSingle) || dice.isLucky(0.5)) performUnheard(item)
        else items.push(item)
      }
    },

    isBusy(process) {
      waits = waits.filter((wait) => !isOver(wait))
      return [...items, ...waits].some(({ actor }) => actor.process === process)
    },

    hangUp(actor) {
      scheduler.say(() => `${actor.name}: the caller hangs up`)
      scheduler.active = actor
      actor.gone.abort()
      drainMicrotasks()
    },
  }
  return scheduler
}

/** Events by their weights, and the shares of steps in which something goes on, or falls asleep. */
type Pace<World, Habits> = {
  readonly releases: number
  readonly sleeps: number
  readonly events: readonly (readonly [event: (world: World, habits: Habits) => void, weight: number])[]
}

/** One step: something goes on, or falls asleep, or something happens. */
export function step<
  World extends Pick<Scheduler<any>, 'chance' | 'step' | 'ready' | 'release'>,
  Habits extends Pace<World, Habits>,
>(world: World, habits: Habits): void {
  const { chance } = world
  const ready = world.ready().filter(({ actor }) => actor.asleepUntil <= world.step)
  const next = ready.length > 0 ? chance.pick(ready) : undefined
  if (next && chance.isLucky(habits.sleeps)) {
    next.actor.asleepUntil = world.step + 6 + chance.below(30)
    return
  }
  if (next && chance.isLucky(habits.releases)) return world.release(next)
  let left = chance.next() * habits.events.reduce((sum, [, weight]) => sum + weight, 0)
  for (const [event, weight] of habits.events) {
    left -= weight
    if (left < 0) return event(world, habits)
  }
}

/** A round of a process's own timer; the next begins when this one has ended. */
export function maintain(world: Pick<Scheduler<any>, 'say' | 'step' | 'start'>, process: Process): void {
  const name = `${ownerOf(process.index)} tends #${world.step}`
  world.say(() => name)
  process.isMaintaining = true
  world.start({ name, kind: 'maintain', process }, async () => {
    try {
      await process.gateway.maintain()
    } finally {
      process.isMaintaining = false
    }
    return undefined
  })
}
