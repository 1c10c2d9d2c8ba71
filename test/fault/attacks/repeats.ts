/** Requests of API keys under one `Idempotency-Key`: more answers than were paid for, those of others, and waiting. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Attack, Outcome } from './attack.ts'
import { isWhole, offerFor, ORDERS, read, variant } from './caller.ts'
import { ask, funded, type Key, KEYS } from './key_caller.ts'
import type { Target } from './target.ts'

const ID = 'order-1'
/** Time that common clients wait for the answer that they have paid for. */
const CLIENT_MS = 30_000

type Repeated = { readonly key: Key; readonly id?: string; readonly number?: number; readonly stream?: boolean }

async function order(target: Target, { key, id = ID, number = 0, stream = false }: Repeated) {
  const { path, body } = variant(stream ? ORDERS.stream : ORDERS.chat, number)
  const headers = { authorization: `Bearer ${key.text}`, 'content-type': 'application/json', 'idempotency-key': id }
  return await read(await fetch(target.origin + path, { method: 'POST', headers, body: JSON.stringify(body) }))
}

const chargesOf = async (target: Target, key: Key) => (await ask(target, { path: `${KEYS}/statement`, key })).body

/** One id for many requests at once, equal ones and others: what is answered is worked on and charged once. */
async function together(target: Target): Promise<Outcome> {
  const ROUNDS = 4
  let lost = 0
  const notes: string[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const { key } = await funded(target, await offerFor(target, ORDERS.chat, 'batch-settlement'))
    const before = target.vendor.answers()
    const stream = round % 2 === 1
    const orders = Array.from({ length: 24 }, (_, i) => order(target, { key, number: i % 6, stream }))
    const answers = await Promise.all(orders)
    const made = target.vendor.answers() - before
    const { calls, charged, calls_charged: sum } = await chargesOf(target, key)
    const others = answers.filter((each) => !isWhole(each) && each.status !== 409).length
    if (made !== 1 || calls !== 1 || charged !== sum || others > 0) lost++
    notes.push(`${answers.filter(isWhole).length} answers, ${made} made, ${calls} charged`)
  }
  return { tried: ROUNDS, refused: ROUNDS - lost, note: notes.join('; ') }
}

/** The id of another key, with its very request: by a stranger's key, and by a child of the same key. */
async function ofOthers(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const [{ key }, { key: stranger }] = [await funded(target, offer), await funded(target, offer)]
  const { body } = await ask(target, { path: KEYS, key, body: { name: 'child', cap: '0.1' } })
  const child: Key = { ...key, text: body.key }
  const own = await order(target, { key })
  let taken = isWhole(own) ? 0 : 1
  for (const [thief, number] of [
    [stranger, 0],
    [child, 0],
    [stranger, 1],
    [child, 1],
  ] as const) {
    const answer = await order(target, { key: thief, number, id: number === 0 ? ID : `${ID}/${number}` })
    // It buys an answer of its own, or is refused as any other purchase is.
    if (answer.headers.get('x-payment-status') !== null || answer.body?.id === own.body.id) taken++
  }
  const { calls } = await chargesOf(target, key)
  return { tried: 5, refused: 5 - taken, note: `${calls} calls of the key and its child, ${taken} read or lost` }
}

/** Purchases under ids whose process is killed, and that are sent again: none is charged twice, none is lost. */
async function amongCrashes(target: Target): Promise<Outcome> {
  const CALLS = 16
  const { key } = await funded(target, await offerFor(target, ORDERS.chat, 'batch-settlement'))
  const all = () =>
    Promise.all(
      Array.from({ length: CALLS }, (_, i) =>
        order(target, { key, id: `order-${i}`, number: i, stream: i % 2 === 1 }).catch(() => undefined),
      ),
    )
  for (let crash = 0; crash < 2; crash++) {
    const killed = all()
    await Promise.race([killed, pause(20 + 40 * crash)])
    await target.crash()
    await killed
    await target.restart()
  }
  // Replicas take over after their leases, and clients send again for as long as they wait.
  const endAt = performance.now() + CLIENT_MS
  await all()
  let answers = await all()
  while (!answers.every((answer) => answer && isWhole(answer)) && performance.now() < endAt) {
    await pause(500)
    answers = await all()
  }
  const whole = answers.filter((answer) => answer !== undefined && isWhole(answer)).length
  const { calls, charged, calls_charged: sum } = await chargesOf(target, key)
  const lost = Math.abs(CALLS - whole) + Math.abs(CALLS - calls) + (charged === sum ? 0 : 1)
  return {
    tried: CALLS,
    refused: CALLS - Math.min(CALLS, lost),
    note: `${whole} answers, ${calls} charged, ${charged}`,
  }
}

export const attacks: readonly Attack[] = [
  { family: 'take', name: 'one Idempotency-Key of a key for many answers', run: together },
  { family: 'read', name: 'the Idempotency-Key of another API key', run: ofOthers },
  { family: 'keys', name: 'purchases under ids that are sent again after crashes', run: amongCrashes },
]
