/** A process that is struck by death, or by one failing answer, for tests of what is left after it. */
import type { ImageVendor, Ports } from '../../core/mod.ts'

/**
 * What befalls a process at its k-th question to the world, before that takes effect or right after: death, or an error
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
