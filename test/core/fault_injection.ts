/** A process that is struck by death, or by one failing answer, for tests of what is left after it. */
import { expect, test } from 'bun:test'
import type { Gateway, ImageVendor, Ports } from '../../core/mod.ts'
import type { Kit } from '../kit.ts'

/**
 * The fault of a process at its k-th question to the world, before that takes effect or right after: death, or an error
 * that it survives.
 */
export type Blow = { readonly at: number; readonly after: boolean; readonly kills: boolean }

/** Ports of a process that is struck. After a death nothing is done and nothing answers, as after kill -9. */
export function injected(ports: Ports, { at, after, kills }: Blow) {
  const requests: string[] = []
  const never = new Promise<never>(() => {})
  let isDead = false
  let isFaultInjected = false

  function step<Args extends unknown[], Answered>(name: string, ask: (...args: Args) => Promise<Answered>) {
    return (...question: Args): Promise<Answered> => {
      if (isDead) return never
      requests.push(name)
      const isHit = requests.length === at
      isFaultInjected ||= isHit
      isDead = isHit && kills
      const blow = () => (isDead ? never : Promise.reject(new Error('connection reset')))
      if (isHit && !after) return blow()
      return ask(...question).then((answer) => (isHit || isDead ? blow() : answer))
    }
  }

  const all = <Port extends object>(port: Port, ...except: (keyof Port)[]): Port => {
    const verbs = Object.entries(port).filter(
      ([name, verb]) => typeof verb === 'function' && !except.includes(name as keyof Port),
    )
    return { ...port, ...Object.fromEntries(verbs.map(([name, verb]) => [name, step(name, verb)])) }
  }
  const images: Ports['vendors']['images'] = (row) => {
    const vendor = ports.vendors.images(row)
    return vendor && ({ generate: step('generate', vendor.generate) } satisfies ImageVendor)
  }
  const { voice, phone, bridge } = ports.vendors
  const actors = {
    ...(voice && { voice: all(voice) }),
    ...(phone && { phone: all(phone) }),
    ...(bridge && { bridge: all(bridge) }),
  }
  const doomed: Ports = {
    ...ports,
    storage: all(ports.storage),
    objects: all(ports.objects),
    chain: all(ports.chain, 'terms'),
    vendors: { ...ports.vendors, ...actors, images, media: step('media', ports.vendors.media) },
    background: (work) => void work.catch(() => {}),
  }
  return { ports: doomed, requests, isFaultInjected: () => isFaultInjected }
}

/**
 * How the world goes on: another process that knows the first one is dead, or that waits for its leases to run out; or
 * the same one.
 */
const RECOVERIES = ['takeOver', 'leases', 'survival'] as const
export type Recovery = (typeof RECOVERIES)[number]

/** Questions that a process asked until it was struck, or until its story ended. */
export type Played = { readonly requests: readonly string[]; readonly isFaultInjected: boolean }

/** The answer, or undefined when the process has died on it. */
export async function unlessDead<Answer>({ settle }: Kit['clock'], answer: Promise<Answer>) {
  await settle()
  return await Promise.race([answer, settle().then(() => undefined)])
}

const done = async (): Promise<void> => {}
type Recovering = Pick<Kit, 'clock'> & Partial<Record<'idle' | 'afterTakeOver', Kit['idle']>>

/** Sweeps for as long as leases last. */
export async function recover(
  { clock, idle = done, afterTakeOver = done }: Recovering,
  gateway: Gateway,
  recovery: Recovery,
): Promise<void> {
  if (recovery === 'takeOver') await gateway.takeOver().then(afterTakeOver)
  for (const ms of [29_000, 1_000, 29_000, 16_000]) {
    const sweep = recovery === 'survival' ? [gateway.renew, gateway.maintain] : [gateway.maintain]
    await clock.advance(ms)
    // One that fails is made up for by the next, as in the server.
    for (const step of sweep) await step().catch(() => {})
    await idle()
  }
}

export async function expectNothingLeft({ storage }: Ports, label: string): Promise<void> {
  const left = [
    await storage.unsettled(Number.MAX_SAFE_INTEGER, 10),
    await storage.lostCalls(Number.MAX_SAFE_INTEGER, 10),
  ]
  expect([label, left]).toEqual([label, [[], []]])
}

export const labelOf = ({ isFaultInjected, requests }: Played, { at, after }: Omit<Blow, 'kills'>): string =>
  isFaultInjected ? `struck ${after ? 'after' : 'before'} ${requests[at - 1]} (question ${at})` : 'unhurt'

/**
 * One test for each story and recovery, which strikes at one question after the other. `least` is the fewest questions
 * of a process that survives: a harness that counts nothing proves nothing.
 */
export function injectEverywhere<Story extends { readonly least: number }, How extends string = Recovery>(
  stories: Readonly<Record<string, Story>>,
  play: (story: Story, blow: Omit<Blow, 'kills'>, how: How) => Promise<Played>,
  hows: readonly How[] = RECOVERIES as readonly string[] as readonly How[],
): void {
  for (const [name, story] of Object.entries(stories))
    for (const how of hows)
      test(`in ${name}: ${how}`, async () => {
        for (const after of [false, true]) {
          for (let at = 1; ; at++) {
            const { isFaultInjected, requests } = await play(story, { at, after }, how)
            if (isFaultInjected) continue
            expect([requests, requests.length >= story.least]).toEqual([requests, true])
            break
          }
        }
      })
}
