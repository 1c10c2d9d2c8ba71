/** Requests of buyers to a process, and the rounds that a process makes by itself. */
import type { Reply } from '../../core/http/reply.ts'
import { callTool } from './mcp/calls.ts'
import { pollUrl, requestOf } from './products.ts'
import { ownerOf, type Process } from './scheduler.ts'
import type { Actor, Signed, World } from './world.ts'

const NEVER = new AbortController().signal
/** The address of all buyers: an order that is sent again is known by it. */
const BUYER = '192.0.2.1'

export function post(world: World, process: Process, signed: Signed): Actor {
  const request = requestOf('POST', signed.product.path, { body: signed.product.body, header: signed.header })
  const name = `${ownerOf(process.index)} post ${signed.name} #${world.step}`
  world.say(() => name)
  signed.isPresented = true
  const { isDeaf, doors } = world.setup.rule
  if (doors)
    return world.start({ name, kind: 'post', process, signed }, (actor) => {
      const gone = isDeaf ? NEVER : actor.gone.signal
      const args = JSON.parse(signed.product.body) as object
      return callTool(world, actor, { doors, process, gone, tool: 'images_generations', args, signed })
    })
  return world.start(
    { name, kind: 'post', process, signed },
    async ({ gone }) =>
      await heard(
        await process.gateway.handle(request, { ip: BUYER, gone: isDeaf ? NEVER : gone.signal }),
        gone.signal,
      ),
  )
}

export function poll(world: World, process: Process, { id, signed }: { id: string; signed: Signed }): Actor {
  const url = pollUrl(id, world.ledgerRows.isLive(id) ? '/api/v1/calls' : undefined)
  const request = requestOf('GET', url, { header: signed.header })
  const name = `${ownerOf(process.index)} poll ${world.ledgerRows.nameOf(id)} ${signed.name} #${world.step}`
  world.say(() => name)
  signed.isPresented = true
  const { doors } = world.setup.rule
  if (doors)
    return world.start({ name, kind: 'poll', process, signed, call: id }, (actor) => {
      const gone = actor.gone.signal
      return callTool(world, actor, { doors, process, gone, tool: 'collect_result', args: { poll_url: url }, signed })
    })
  return world.start({ name, kind: 'poll', process, signed, call: id }, ({ gone }) =>
    process.gateway.handle(request, { ip: BUYER, gone: gone.signal }),
  )
}

/** A stream is read to its end, or until its reader leaves; it is then what came of it. */
async function heard(reply: Reply, gone: AbortSignal): Promise<Reply> {
  if (!(reply.body instanceof ReadableStream)) return reply
  const reader = reply.body.getReader()
  const decoder = new TextDecoder()
  gone.addEventListener('abort', () => void reader.cancel().catch(() => {}), { once: true })
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return { ...reply, body: text }
    text += decoder.decode(value, { stream: true })
  }
}

/** The authorization that opened a call. */
export function openerOf(world: World, id: string): Signed {
  const signed = world.byKey(world.ledgerRows.row(id)?.authorization ?? '')
  if (!signed) throw new Error(`nobody signed for ${id}`)
  return signed
}

export function alive(world: World): Process | undefined {
  const running = world.processes.filter(({ isAlive, isFrozen, isLeaving }) => isAlive && !isFrozen && !isLeaving)
  return running.length === 0 ? undefined : world.chance.pick(running)
}
