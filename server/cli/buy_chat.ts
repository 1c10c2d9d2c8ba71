/** Buys an answer: prints it as it comes, then what it used and what was paid for it. */
import { ask, type Asked, BuyError, openPurse, postJson, quoted, refusal } from './buy_wallet.ts'

/** How models of chat are billed; the list names those of pictures and films too. */
const CHAT_MODES: readonly string[] = ['paid', 'flat', 'free']

/** What a first try costs least, where it is served. */
const ECHO = 'farebox/echo'

type Chat = Asked & { readonly system: string | undefined; readonly maxTokens: number | undefined }
type Model = { readonly id: string; readonly billing_mode: string }
type Usage = { readonly prompt_tokens: number; readonly completion_tokens: number }
type Chunk = {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null }
  }[]
  readonly usage?: Usage | null
  readonly error?: { readonly message?: string }
}
/** What follows an answer; comments are by name, for example `payment-response`. `broken` says why an answer is not whole, `isCut` that its end never came. */
type Told = {
  readonly usage: Usage | undefined
  readonly comments: ReadonlyMap<string, string>
  readonly broken: string | undefined
  readonly isCut: boolean
}

export async function buyChat(asked: Chat): Promise<void> {
  const { origin, prompt, system, maxTokens } = asked
  if (!/^https?:\/\//i.test(origin) || !URL.canParse(origin))
    throw new BuyError(
      `--url takes the address of a gateway, such as http://127.0.0.1:4020, not ${JSON.stringify(origin)}`,
    )
  const model = asked.model ?? (await cheapest(origin))
  const words = { role: 'user', content: prompt }
  const messages = system === undefined ? [words] : [{ role: 'system', content: system }, words]
  const order = postJson({ model, messages, stream: true, ...(maxTokens !== undefined && { max_tokens: maxTokens }) })
  const target = `${origin}/api/v1/chat/completions`
  const first = await ask(target, order)
  if (first.ok) {
    tellHead(first, model)
    const told = await print(first)
    tellUsage(told)
    console.log('paid      free, nothing was paid')
    return wholeOrThrow(told)
  }
  const { pay, spent } = await openPurse(asked, await readable(origin, quoted(first)))
  const response = await pay(target, order)
  if (!response.ok) throw refusal(response.status, await readable(origin, response.json()))
  tellHead(response, model)
  const told = await print(response)
  tellUsage(told)
  console.log(`paid      ${receiptIn(told)}`)
  await spent()
  wholeOrThrow(told)
}

/** What something else than a gateway answers is often no JSON. */
async function readable<T>(origin: string, reading: Promise<T>): Promise<T> {
  return await reading.catch((error) => {
    throw error instanceof SyntaxError
      ? new BuyError(`What answers at ${origin} is no gateway: its reply cannot be read.`)
      : error
  })
}

/** The echo model, else the first paid model that the gateway serves, else the first of any kind. */
async function cheapest(origin: string): Promise<string> {
  const response = await ask(`${origin}/api/v1/models`)
  const { data } = (await readable(origin, response.json())) as { data?: readonly Model[] }
  if (!Array.isArray(data)) throw new BuyError(`What answers at ${origin} is no gateway: it lists no models.`)
  const chat = (data as readonly Model[]).filter(({ billing_mode: mode }) => CHAT_MODES.includes(mode))
  const model = chat.find(({ id }) => id === ECHO) ?? chat.find(({ billing_mode: mode }) => mode === 'paid') ?? chat[0]
  if (!model) throw new BuyError('This gateway serves no chat model.')
  return model.id
}

/** Who answers, and with how much where that is less than was asked for. */
function tellHead({ headers }: Response, model: string): void {
  console.log(`model     ${headers.get('x-fallback-model') ?? model}`)
  const most = headers.get('x-max-tokens-effective')
  if (headers.get('x-max-tokens-capped') === 'true')
    console.log(
      `capped    at ${most} tokens; ${headers.get('x-max-tokens-requested')} are more than the model gives to this prompt`,
    )
}

/** Prints the text as it arrives, reasoning dimmed, between two blank lines. What went wrong on the way is in what it gives: a receipt may follow. */
async function print(response: Response): Promise<Told> {
  const isTerminal = process.stdout.isTTY === true
  const comments = new Map<string, string>()
  let usage: Usage | undefined
  let broken: string | undefined
  let isThinking = false
  let isCut = true
  process.stdout.write('\n')
  try {
    for await (const line of linesOf(response)) {
      const [, name, value] = /^: (\S+) (.*)$/.exec(line) ?? []
      if (name !== undefined && value !== undefined) comments.set(name, value)
      if (!line.startsWith('data:')) continue
      isCut &&= !line.endsWith('[DONE]')
      if (line.endsWith('[DONE]')) continue
      const chunk = chunkIn(line)
      if (!chunk || chunk.error)
        broken ??= chunk ? (chunk.error?.message ?? 'no reason was given') : 'a part of it could not be read'
      isCut &&= !chunk?.error
      usage = chunk?.usage ?? usage
      const { reasoning_content: thought, content } = chunk?.choices?.[0]?.delta ?? {}
      if (thought) process.stdout.write(isTerminal ? `\x1b[2m${thought}\x1b[22m` : thought)
      if (content && isThinking) process.stdout.write('\n\n')
      if (content) process.stdout.write(content)
      isThinking = Boolean(thought) || (isThinking && !content)
    }
  } catch {
    isCut = true
  }
  process.stdout.write('\n\n')
  return { usage, comments, broken: broken ?? (isCut ? 'the connection was lost' : undefined), isCut }
}

/** Undefined for what is no chunk: a stream passes on what a vendor writes. */
function chunkIn(line: string): Chunk | undefined {
  try {
    const chunk: unknown = JSON.parse(line.slice('data:'.length))
    return typeof chunk === 'object' && chunk !== null ? (chunk as Chunk) : undefined
  } catch {
    return undefined
  }
}

function wholeOrThrow({ broken }: Told): void {
  if (broken !== undefined) throw new BuyError(`The answer broke off: ${broken}`)
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
function receiptIn({ comments, broken, isCut }: Told): string {
  const transaction = comments.get('x-payment-receipt')
  if (transaction) return `settled, transaction ${transaction}`
  const why = comments.get('x-payment-settle-error-class')
  if (why) return `not settled: ${why}`
  if (isCut) return 'no receipt came; what had arrived may still be charged'
  return broken === undefined ? 'no receipt came' : 'nothing, as far as the gateway says: no receipt came'
}
