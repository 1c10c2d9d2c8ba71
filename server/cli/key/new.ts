/** `farebox key new`: deposits for a new key, prints it once, and the lines that make tools use it. */
import { curlLine, TOOL_LINES, TOOL_TITLES } from '../../buyer/tool_lines.ts'
import { objectsOf } from '../../../core/lib/mod.ts'
import { UsageError } from '../command.ts'
import { ask, type KeyCommand, randomKey } from './command.ts'
import { depositFor, depositor } from './deposit.ts'

const VARIABLE = 'FAREBOX_KEY'

export async function newKey(given: KeyCommand): Promise<void> {
  const { io, origin, values } = given
  const { tool, model } = values
  if (tool !== undefined && !Object.hasOwn(TOOL_LINES, tool))
    throw new UsageError(`--tool takes one of ${Object.keys(TOOL_LINES).join(', ')}`)
  if (model !== undefined && !/^[\w./:@-]{1,200}$/.test(model)) throw new UsageError('--model takes the id of a model')
  const from = await depositor(given)
  const { text, account } = randomKey(from.money === 'test' ? 'test' : 'live')
  const { isKnown, reason } = await depositFor(given, { ...from, key: account })
  if (!isKnown) io.err(`The deposit may be under way (${reason}). farebox key show says when the key can pay.`)
  io.err(`The key of ${origin}, with the address ${account.address}. It is shown once and written nowhere; who has it`)
  io.err('can spend the deposit there, or send it back to your wallet. Keep it out of chats and repositories.')
  io.err('')
  io.out(`export ${VARIABLE}=${text}`)
  const base = `${origin}/api`
  const chosen = model ?? (await firstModel(origin))
  for (const name of tool === undefined ? Object.keys(TOOL_LINES) : [tool]) {
    io.err('')
    io.err(`# ${TOOL_TITLES[name] ?? name}`)
    io.err(TOOL_LINES[name]?.({ base, variable: VARIABLE, model: chosen }) ?? '')
  }
  if (tool !== undefined) return
  io.err('')
  io.err('# curl')
  io.err(curlLine({ base, variable: VARIABLE, model: chosen }))
}

/** The first chat model that the gateway lists, a free one if there is any; undefined if it lists none. */
async function firstModel(origin: string): Promise<string | undefined> {
  const { body } = await ask(`${origin}/api/v1/models`)
  const ids = objectsOf(body.data).flatMap(({ id, type, kind }) =>
    typeof id === 'string' && /^[\w./:@-]{1,200}$/.test(id) && [undefined, 'chat'].includes((type ?? kind) as string)
      ? [id]
      : [],
  )
  return ids.find((id) => id === 'farebox/echo') ?? ids[0]
}
