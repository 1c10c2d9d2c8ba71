/** A 402 is written once for each price: what is kept says the same as what is written anew. */
import { expect, test } from 'bun:test'
import { catalog } from '../../../core/mod.ts'
import { GENERATIONS, kit, ORIGIN } from '../../kit.ts'

const ask = async ({ gateway }: ReturnType<typeof kit>, body: object, headers: Record<string, string> = {}) => {
  const request = new Request(`${ORIGIN}${GENERATIONS}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ prompt: 'a red fox', ...body }),
  })
  const response = await gateway.fetch(request)
  // The challenge of MPP is another one each time.
  const header = (text: string) => text.replace(/ (id|opaque)="[^"]*"/g, ' $1=""')
  return {
    status: response.status,
    headers: [...response.headers].map((each) => each.map(header)),
    body: await response.text(),
  }
}

const orders = catalog().images.all.flatMap((row) =>
  row.sizes.flatMap(({ size }) => [1, 2].map((n) => ({ model: row.id, size, n }))),
)

test('the 402 of an order is the same when it is asked for again, after all others, and at a new gateway', async () => {
  const gateway = kit()
  const first = []
  for (const order of orders) first.push(await ask(gateway, order))
  for (const [at, order] of orders.entries()) {
    const again = await ask(gateway, order)
    expect(again).toEqual(first[at] as typeof again)
    expect(again).toEqual(await ask(kit(), order))
  }
})

test('orders of the same price but with other words get a 402 of their own', async () => {
  const gateway = kit()
  const answers = await Promise.all(orders.map((order) => ask(gateway, order)))
  const bodies = answers.map(({ body }) => JSON.parse(body))
  for (const [at, { n }] of orders.entries()) {
    expect(bodies[at].price.totalImages).toBe(n)
    const { model } = orders[at] as { model: string }
    const isSlow = catalog().images.get(model)?.slow === true
    expect(bodies[at].generation_info.generation_time.includes('2 minutes')).toBe(isSlow)
  }
})

test('a page with an Origin and a person in a browser each get their own 402', async () => {
  const gateway = kit()
  const order = { model: 'vendor-a/image-1' }
  const plain = await ask(gateway, order)
  const browser = { accept: 'text/html', 'user-agent': 'Mozilla/5.0' }
  expect((await ask(gateway, order, browser)).body).toStartWith('<!doctype html>')
  expect(await ask(gateway, order, { origin: 'https://page.example' })).toEqual(
    await ask(kit(), order, { origin: 'https://page.example' }),
  )
  expect(await ask(gateway, order)).toEqual(plain)
})
