/** Coding agents, unmodified: each has a base URL and a key, and buys through `farebox proxy` and with an API key. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { AGENTS } from '../../programs/agents/agents.ts'
import { check, faults, WAYS } from '../../programs/agents/check.ts'
import { openRoom, type Room } from '../../programs/agents/room.ts'

let room: Room

beforeAll(async () => {
  room = await openRoom()
}, 60_000)

afterAll(() => room.close())

/** The native ones take 1.1 GB: `bun test/programs/agents/run.ts` runs them too. */
describe.each(AGENTS.filter((agent) => agent.room === 'agents').map((agent) => [agent.name, agent] as const))(
  '%s',
  (_, agent) => {
    test.each(WAYS)(
      '%s: streams an answer, runs a tool, is charged once for each order, and tells why nothing can be paid',
      async (way) => {
        expect(faults(agent, await check(room, agent, way))).toEqual([])
      },
      600_000,
    )
  },
)
