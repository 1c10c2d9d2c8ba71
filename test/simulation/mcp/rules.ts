/** The rules of the door of MCP, each switched off by a mistake of the door: the model must miss every one. */
import type { LawName } from '../ledger.ts'
import type { Rule } from '../setup.ts'
import type { Doors, Mistake } from './doors.ts'

type McpRule = Pick<Rule, 'name' | 'isDeaf'> & {
  readonly breaks?: readonly LawName[]
  /** A campaign that misses it soon. */
  readonly seed?: number
  /** Called for each campaign. */
  readonly mistake?: () => Mistake
}

export const THROUGH_MCP: McpRule = { name: 'through MCP, as built' }

export function behindDoors(doors: Doors, { mistake, seed: _, ...rule }: McpRule): Rule {
  const made = mistake?.()
  if (!made) return { ...rule, doors }
  return { ...rule, doors: { send: (process, sent) => doors.send(process, { ...sent, mistake: made }) } }
}

export const mcpFlags: readonly (McpRule & Required<Pick<McpRule, 'breaks'>>)[] = [
  { name: 'a call whose client has gone is not charged', breaks: ['goneIsFree'], isDeaf: true, seed: 4 },
  {
    name: 'a refusal says by what its buyer finds the call that was paid',
    breaks: ['noSecondSignature', 'nothingStuck'],
    mistake: () => async (reply) => {
      if (reply.status !== 402) return reply
      const { code: _, job_id: _id, poll_url: _url, ...rest } = (await reply.json()) as Record<string, unknown>
      return new Response(JSON.stringify(rest), { status: 402, headers: reply.headers })
    },
  },
  {
    name: 'an answer is for whoever paid for it',
    breaks: ['onlyThePayer', 'moneyHasResult', 'oneCall'],
    mistake() {
      let before: { readonly status: number; readonly text: string } | undefined
      return async (reply, { method }) => {
        if (method !== 'POST' || reply.status !== 200) return reply
        before ??= { status: reply.status, text: await reply.clone().text() }
        return new Response(before.text, { status: before.status, headers: reply.headers })
      }
    },
  },
]
