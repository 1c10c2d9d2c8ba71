/** Checks of one client, and their outcome. */
import type { Client, Ran } from './agents.ts'
import type { Room, Seen, Target } from './room.ts'

export const WAYS = ['proxied', 'keyed'] as const
type Way = (typeof WAYS)[number]

/** One run: what was printed, what was sent, and how many calls the ledger has more. */
type Tried = Ran & { readonly orders: readonly Seen[]; readonly charges: number }
type Checked = { readonly answer: Tried; readonly loop: Tried; readonly empty: Tried }

/** Runs a client three times: with a question, with a tool to call, and with nothing to pay from. */
export async function check(room: Room, client: Client, way: Way): Promise<Checked> {
  const funded = await room[way]('funded')
  const answer = await tried(room, client, { target: funded, prompt: 'say hi' })
  const loop = await tried(room, client, { target: funded, prompt: `call ${client.tool}` })
  const empty = await tried(room, client, { target: await room[way]('empty'), prompt: 'say hi' })
  return { answer, loop, empty }
}

async function tried(
  room: Room,
  client: Client,
  { target, prompt }: { readonly target: Target; readonly prompt: string },
): Promise<Tried> {
  const before = await room.charges()
  const seen = target.requests.length
  const ran = await client.run({ ...target, home: room.folder(), cwd: room.folder() }, prompt)
  const orders = target.requests.slice(seen).filter(({ method }) => method === 'POST')
  return { ...ran, orders, charges: (await room.charges()) - before }
}

/** Everything that is not as it should be, one sentence each. */
export function faults(client: Client, { answer, loop, empty }: Checked): readonly string[] {
  const found: string[] = []
  const expected = (what: string, is: boolean) => void (is || found.push(`${client.name}: ${what}`))
  expected('the answer is shown', answer.code === 0 && answer.text.includes('You said: '))
  expected(
    'the answer is streamed',
    answer.orders.some(({ isStream }) => isStream),
  )
  expected(`an answer is ${1 + client.besides} charges`, answer.charges === 1 + client.besides)
  expected('the output of the tool comes back', loop.code === 0 && loop.text.includes('The tool answered: '))
  expected(`a tool loop is ${2 + client.besides} charges`, loop.charges === 2 + client.besides)
  for (const { orders, charges } of [answer, loop])
    expected('each order is answered and charged once', orders.length === charges && orders.every(isAnswered))
  expected('nothing to pay from is no charge', empty.charges === 0)
  expected('nothing to pay from is not tried again', empty.orders.length === 1 + client.besides)
  expected('nothing to pay from is a failure', empty.code !== 0)
  expected('nothing to pay from is told', /USDC|insufficient|balance|402/i.test(empty.text))
  return found
}

const isAnswered = ({ status }: Seen): boolean => status === 200

/** The line that tells the person why nothing was bought. */
export const reasonIn = ({ text }: Ran): string =>
  text
    .split('\n')
    .find((line) => /USDC|insufficient|402/i.test(line))
    ?.trim()
    .slice(0, 220) ?? '(none)'
