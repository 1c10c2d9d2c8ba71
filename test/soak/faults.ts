/**
 * Faults of the gateways of a soak, one every ten minutes. Nothing ends the first replica on Postgres or the gateway
 * on SQLite: their memory is that of the whole run.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Chance } from '../simulation/chance.ts'
import { faults } from '../fault/weather.ts'
import type { Town } from './sellers.ts'

const PAUSE_MS = 8_000

type SoakFault = { readonly name: string; play(town: Town, chance: Chance): Promise<void> }

const ofReplicas: readonly SoakFault[] = Object.entries(faults).map(([name, fault]) => ({
  name,
  async play({ postgres }, chance) {
    const [a, b] = postgres.replicas
    await fault({ ...postgres, a, b, chance, whenAnswerStarts: () => {} })
  },
}))

/** In the order in which they are played, again and again. */
export const soakFaults: readonly SoakFault[] = [
  ...ofReplicas,
  {
    name: 'the gateway on SQLite pauses',
    async play({ sqlite }) {
      sqlite.freeze()
      await pause(PAUSE_MS)
      sqlite.thaw()
    },
  },
]
