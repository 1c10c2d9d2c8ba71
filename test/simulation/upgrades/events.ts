/** Events of processes of several versions: they are replaced, killed while they migrate, and rolled back. */
import { crash, type Habits, habitsOf, start } from '../events.ts'
import { ownerOf, type Process } from '../scheduler.ts'
import type { World } from '../world.ts'
import type { Version } from './versions.ts'

/** The migrations of this version take fewer statements. */
const STATEMENTS = 7

/** Those of a plain run, with starts of any version, and orderly stops. */
export function upgradingHabitsOf(world: World): Habits {
  const often = <T>(...of: readonly T[]): T => world.chance.pick(of)
  const mild = habitsOf(world)
  const next = often(0, 1, 2)
  return {
    ...mild,
    calls: often(2, 3, 5),
    events: [
      ...mild.events.filter(([event]) => event !== start && event !== crash),
      [crash, often(1, 3, 6)],
      [(here) => startOne(here, next), often(8, 16)],
      [leave, often(1, 4)],
      [rollBack, often(0, 1, 4)],
    ],
  }
}

/** Starts a process of any version: the newest so far, a newer one, or an older one that should not. */
function startOne(world: World, next: number): void {
  const { fleet, chance, processes, setup } = world
  endOfLeaving(world)
  const running = processes.filter(({ isAlive }) => isAlive).length
  if (!fleet || running >= (world.isSingle ? 1 : 2) || processes.length >= setup.gateways.length - 1) return
  const newest = Array.from({ length: next }, (): Version => 'next')
  const version = chance.pick<Version>([fleet.newest, 'this', 'last', ...newest])
  const crashAt = chance.isLucky(0.4) ? chance.below(STATEMENTS) : undefined
  const by = processes.length
  const { kind } = fleet.start({ by, version, crashAt })
  world.say(() => `${ownerOf(by)}, of the ${version} version, is ${kind}`)
  if (kind !== 'started') return
  world.boot(true)
  // Requests fail at a replica whose database others have upgraded.
  if (processes.some((each) => each.isAlive && fleet.isPast(each.index))) world.isFlaky = true
}

/** An orderly stop: it takes nothing new, and ends when nothing goes on in it. */
function leave(world: World): void {
  const running = world.processes.filter(({ isAlive, isLeaving }) => isAlive && !isLeaving)
  if (running.length === 0) return
  const process = world.chance.pick(running)
  world.say(() => `${ownerOf(process.index)} is told to stop`)
  process.isLeaving = true
  endOfLeaving(world)
}

function endOfLeaving(world: World): void {
  for (const process of world.processes)
    if (process.isAlive && process.isLeaving && !world.isBusy(process)) end(world, process)
}

function end(world: World, process: Process): void {
  world.say(() => `${ownerOf(process.index)} has stopped`)
  process.isAlive = false
}

/** The operator returns to the version before, with the copy that the upgrade made: nothing was sold since. */
function rollBack(world: World): void {
  const { fleet, processes } = world
  endOfLeaving(world)
  if (!fleet?.mayReturn() || processes.some(({ isAlive }) => isAlive)) return
  world.say(() => 'the operator returns to the copy from before the upgrade')
  fleet.giveBack()
}

/** When all is well again, nobody is left who cannot read the database, or was told to stop. */
export function retireOlder(world: World): void {
  const { fleet } = world
  if (!fleet) return
  const isOld = ({ index, isLeaving }: Process) => isLeaving || fleet.isPast(index)
  for (const process of world.processes) if (process.isAlive && isOld(process)) world.crash(process)
}
