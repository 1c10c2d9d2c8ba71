/** The search of the pages, over the models of a gateway. */
import { expect, test } from 'bun:test'
import type { Model } from '../../../server/web/pages/lib/api.ts'
import { isFound, makersName } from '../../../server/web/pages/lib/find.ts'
import { scriptedChat } from '../../fakes/chat.ts'
import { kit, ORIGIN } from '../../kit.ts'

const { gateway } = kit({ chatVendor: scriptedChat() })
const { data: models } = (await (await gateway.fetch(new Request(`${ORIGIN}/api/v1/models`))).json()) as {
  readonly data: readonly Model[]
}
const idsFor = (search: string) => models.filter((model) => isFound(model, search)).map(({ id }) => id)

test('finds models by the names of their makers, which requests may use (contract 8.2, 8.7)', async () => {
  expect(idsFor('gpt')).toContain('vendor-a/chat-6-small')
  expect(idsFor('openai gpt-6-luna')).toEqual(['vendor-a/chat-6-small'])
  expect(idsFor('Chat 6 Small')).toContain('vendor-a/chat-6-small')
  expect(idsFor('  ')).toHaveLength(models.length)
  expect(idsFor('no such model')).toEqual([])
  const small = models.find(({ id }) => id === 'vendor-a/chat-6-small') as Model
  expect(makersName(small)).toBe('openai/gpt-6-luna')
})

test('every alias that the list shows is an accepted name of the model (contract 8.7)', async () => {
  const named = models.flatMap(({ id, aliases = [] }) => aliases.map((alias) => ({ id, alias })))
  expect(named.length).toBeGreaterThan(50)
  for (const { id, alias } of named) {
    const found = await gateway.fetch(new Request(`${ORIGIN}/api/v1/models/${alias}`))
    expect([alias, ((await found.json()) as Model).id]).toEqual([alias, id])
  }
})
