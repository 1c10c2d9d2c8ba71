/** Requests that arrive in one turn of the event loop. */
import { expect, test } from 'bun:test'
import { inTurns } from '../../server/http/turns.ts'

const requestTo = (path: string) => new Request(`http://127.0.0.1${path}`)
const pathOf = ({ url }: Request) => new URL(url).pathname
const endOfTurn = () => new Promise<void>((resume) => setImmediate(resume))

test('the first request of a turn is answered at once, the others in order at its end', async () => {
  const started: string[] = []
  const answer = inTurns((request) => {
    started.push(pathOf(request))
    return pathOf(request)
  })
  const answers = ['/1', '/2', '/3'].map((path) => answer(requestTo(path)))
  await Promise.resolve()
  expect(started).toEqual(['/1'])
  expect(await Promise.all(answers)).toEqual(['/1', '/2', '/3'])
  expect(started).toEqual(['/1', '/2', '/3'])
  await endOfTurn()
  void answer(requestTo('/4'))
  expect(started).toEqual(['/1', '/2', '/3', '/4'])
  await endOfTurn()
})

test('a request that fails fails alone', async () => {
  const pathUnlessSecond = (request: Request) => {
    if (pathOf(request) === '/2') throw new Error('this one')
    return pathOf(request)
  }
  for (const handle of [pathUnlessSecond, async (request: Request) => pathUnlessSecond(request)]) {
    const answer = inTurns(handle)
    const ended = await Promise.allSettled(['/1', '/2', '/3'].map((path) => answer(requestTo(path))))
    expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    await endOfTurn()
  }
})
