/** Buys an answer: prints it as it comes, then what it used and what was paid for it. */
import { ask, type Asked, BuyError, openPurse, postJson, quoted, refusal } from './buy_wallet.ts'

/** What a first try costs least, where it is served. */
const PARROT = 'farebox/parrot'

type Chat = Asked & { readonly system: string | undefined; readonly maxTokens: number | undefined }
type Model = { readonly id: string; readonly billing_mode: string }
type Usage = { readonly prompt_tokens: number; readonly completion_tokens: number }
type Chunk = {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null } }[]
  readonly usage?: Usage | null
  readonly error?: { readonly message?: string }
}
/** What follows an answer; comments are by name, for example `payment-response`. */
type Told = { readonly usage: Usage | undefined; readonly comments: ReadonlyMap<string, string> }

export async function buyChat(asked: Chat): Promise<void> {
  const { origin, prompt, model = await cheapest(origin), system, maxTokens } = asked
  const words = { role: 'user', content: prompt }
  const messages = system === undefined ? [words] : [{ role: 'system', content: system }, words]
  const order = postJson({ model, messages, stream: true, ...(maxTokens !== undefined && { max_tokens: maxTokens }) })
  const target = `${origin}/api/v1/chat/completions`
  const first = await ask(target, order)
  if (first.ok) {
    console.log(`model     ${answering(first, model)}`)
    tellUsage(await print(first))
    return console.log('paid      free, nothing was paid')
  }
  const { pay, spent } = await openPurse(asked, await quoted(first))
  const response = await pay(target, order)
  if (!response.ok) throw refusal(response.status, await response.json())
  console.log(`model     ${answering(response, model)}`)
  const told = await print(response)
  tellUsage(told)
  console.log(`paid      ${receiptIn(told)}`)
  await spent()
}

/** The parrot, else the first paid model that the gateway serves, else the first of any kind. */
async function cheapest(origin: string): Promise<string> {
  const { data } = (await (await ask(`${origin}/api/v1/models`)).json()) as { data: readonly Model[] }
  const chat = data.filter(({ billing_mode: mode }) => mode !== 'per_image')
  const model = chat.find(({ id }) => id === PARROT) ?? chat.find(({ billing_mode: mode }) => mode === 'paid') ?? chat[0]
  if (!model) throw new BuyError('This gateway serves no chat model.')
  return model.id
}

const answering = ({ headers }: Response, model: string): string => headers.get('x-fallback-model') ?? model

/** Prints the text as it arrives, reasoning dimmed, between two blank lines. Throws when the stream says that it failed. */
async function print(response: Response): Promise<Told> {
  const isTerminal = process.stdout.isTTY === true
  const comments = new Map<string, string>()
  let usage: Usage | undefined
  let isThinking = false
  process.stdout.write('\n')
  for await (const line of linesOf(response)) {
    const [, name, value] = /^: (\S+) (.*)$/.exec(line) ?? []
    if (name !== undefined && value !== undefined) comments.set(name, value)
    if (!line.startsWith('data:') || line.endsWith('[DONE]')) continue
    const chunk = JSON.parse(line.slice('data:'.length)) as Chunk
    if (chunk.error) throw new BuyError(`\nThe answer broke off: ${chunk.error.message ?? 'no reason was given'}`)
    usage = chunk.usage ?? usage
    const { reasoning_content: thought, content } = chunk.choices?.[0]?.delta ?? {}
    if (thought) process.stdout.write(isTerminal ? `\x1b[2m${thought}\x1b[22m` : thought)
    if (content && isThinking) process.stdout.write('\n\n')
    if (content) process.stdout.write(content)
    isThinking = Boolean(thought) || (isThinking && !content)
  }
  process.stdout.write('\n\n')
  return { usage, comments }
}

async function* linesOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of response.body ?? []) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split(/\r?\n/)
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}

function tellUsage({ usage }: Told): void {
  if (usage) console.log(`usage     ${usage.prompt_tokens} tokens in, ${usage.completion_tokens} out`)
}

/** The receipt of a stream stands in its comments, for its headers have long gone. */
function receiptIn({ comments }: Told): string {
  const transaction = comments.get('x-payment-receipt')
  if (transaction) return `settled, transaction ${transaction}`
  const why = comments.get('x-payment-settle-error-class')
  return why ? `not settled: ${why}` : 'no receipt came'
}
