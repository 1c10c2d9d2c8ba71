/** Unmodified agents and SDKs with a base URL and a key: they buy through `farebox proxy` and with an API key. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { AGENTS } from '../../programs/agents/agents.ts'
import { check, faults, WAYS } from '../../programs/agents/check.ts'
import { SDKS } from '../../programs/agents/sdks.ts'
import { openRoom, type Room } from '../../programs/agents/room.ts'

/**
 * The native ones take 1.1 GB: `bun test/programs/agents/run.ts` runs them too. Each client has a devnet of its own:
 * what a gateway pays in gas for the keys of one wallet has an end.
 */
const clients = [...SDKS, ...AGENTS.filter((agent) => agent.room === 'agents')]
describe.each(clients.map((client) => [client.name, client] as const))('%s', (_, client) => {
  let room: Room

  beforeAll(async () => {
    room = await openRoom()
  }, 60_000)

  afterAll(() => room.close())

  test.each(WAYS)(
    '%s: streams an answer, runs a tool, is charged once for each order, and tells why nothing can be paid',
    async (way) => {
      expect(faults(client, await check(room, client, way))).toEqual([])
    },
    600_000,
  )
})
