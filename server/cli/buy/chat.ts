/** Buys a chat answer: prints it as it streams, then its token usage and the payment. */
import { eventSplitter } from '../../../core/lib/mod.ts'
import { LOCAL_URL } from '../../config/settings.ts'
import { BuyError, errorFrom, fetchGateway, postJson, type PurchaseOptions, readQuote } from './gateway.ts'
import { createPaymentClient } from './wallet.ts'

/** Billing modes of chat models. The model list has image and video models too. */
const CHAT_MODES: readonly string[] = ['paid', 'flat', 'free']

/** The cheapest model to try first, on gateways that serve it. */
const ECHO_MODEL = 'farebox/echo'

type ChatOptions = PurchaseOptions & { readonly system: string | undefined; readonly maxTokens: number | undefined }
type Model = {
  readonly id: string
  readonly billing_mode: string
  readonly pricing?: { readonly input?: number; readonly output?: number }
}
type Usage = { readonly prompt_tokens: number; readonly completion_tokens: number }
type Chunk = {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null }
  }[]
  readonly usage?: Usage | null
  readonly error?: { readonly message?: string }
}
/**
 * Summary of a stream. `comments` has its SSE comments by name, such as `payment-response`. `failure` says why the
 * answer is incomplete. `isTruncated`: the stream ended without [DONE] or an error event.
 */
type StreamSummary = {
  readonly usage: Usage | undefined
  readonly comments: ReadonlyMap<string, string>
  readonly failure: string | undefined
  readonly isTruncated: boolean
}

export async function buyChat(options: ChatOptions): Promise<void> {
  const { origin, prompt, system, maxTokens } = options
  if (!/^https?:\/\//i.test(origin) || !URL.canParse(origin))
    throw new BuyError(`--url takes the URL of a gateway, such as ${LOCAL_URL}, not ${JSON.stringify(origin)}`)
  const model = options.model ?? (await defaultModel(origin))
  const question = { role: 'user', content: prompt }
  const messages = system === undefined ? [question] : [{ role: 'system', content: system }, question]
  const init = postJson({ model, messages, stream: true, ...(maxTokens !== undefined && { max_tokens: maxTokens }) })
  const url = `${origin}/api/v1/chat/completions`
  const first = await fetchGateway(url, init)
  if (first.ok) {
    printHeader(first, model)
    const summary = await printStream(first)
    printUsage(summary)
    console.log('paid      nothing: the model is free')
    return throwIfIncomplete(summary)
  }
  const { pay, note, printBalance } = await createPaymentClient(
    options,
    await parsed(origin, readQuote(first, options)),
  )
  const response = await pay(url, init)
  if (!response.ok) throw errorFrom(response.status, await parsed(origin, response.json()))
  printHeader(response, model)
  const summary = await printStream(response)
  printUsage(summary)
  await note(summary.comments.get('payment-response'))
  console.log(`paid      ${describePayment(summary)}`)
  await printBalance()
  throwIfIncomplete(summary)
}

/** Explains a response that is not JSON: `--url` probably names something other than a gateway. */
async function parsed<T>(origin: string, value: Promise<T>): Promise<T> {
  return await value.catch((error) => {
    throw error instanceof SyntaxError
      ? new BuyError(`The server at ${origin} is not a gateway: its response is not valid JSON. Check --url.`)
      : error
  })
}

/** The echo model, else the cheapest paid chat model of the gateway, else the first chat model. */
async function defaultModel(origin: string): Promise<string> {
  const response = await fetchGateway(`${origin}/api/v1/models`)
  const { data } = (await parsed(origin, response.json())) as { data?: readonly Model[] }
  if (!Array.isArray(data))
    throw new BuyError(`The server at ${origin} is not a gateway: it has no model list. Check --url.`)
  const chat = (data as readonly Model[]).filter(({ billing_mode: mode }) => CHAT_MODES.includes(mode))
  const model =
    chat.find(({ id }) => id === ECHO_MODEL) ??
    chat.filter(({ billing_mode: mode }) => mode === 'paid').toSorted((a, b) => rateOf(a) - rateOf(b))[0] ??
    chat[0]
  if (!model) throw new BuyError('This gateway has no chat models.')
  return model.id
}

/** Price of one token in and one token out together. */
const rateOf = ({ pricing: { input = Number.POSITIVE_INFINITY, output = 0 } = {} }: Model): number => input + output

/** Prints the model that answers, and its output limit if that is below the requested one. */
function printHeader({ headers }: Response, model: string): void {
  console.log(`model     ${headers.get('x-fallback-model') ?? model}`)
  const [requested, effective] = ['x-max-tokens-requested', 'x-max-tokens-effective'].map((name) => headers.get(name))
  if (headers.get('x-max-tokens-capped') === 'true')
    console.log(`capped    at ${effective} tokens: the model cannot write ${requested} for this prompt`)
}

/**
 * Prints the text as it arrives, reasoning dimmed, between blank lines. Failures are returned, not thrown, because a
 * receipt may follow them.
 */
async function printStream(response: Response): Promise<StreamSummary> {
  const isTerminal = process.stdout.isTTY === true
  const comments = new Map<string, string>()
  let usage: Usage | undefined
  let failure: string | undefined
  let isReasoning = false
  let isTruncated = true
  process.stdout.write('\n')
  try {
    for await (const line of linesOf(response)) {
      const [, name, value] = /^: (\S+) (.*)$/.exec(line) ?? []
      if (name !== undefined && value !== undefined) comments.set(name, value)
      if (!line.startsWith('data:')) continue
      isTruncated &&= !line.endsWith('[DONE]')
      if (line.endsWith('[DONE]')) continue
      const chunk = parseChunk(line)
      if (!chunk || chunk.error)
        failure ??= chunk ? (chunk.error?.message ?? 'no reason given') : 'an event could not be parsed'
      isTruncated &&= !chunk?.error
      usage = chunk?.usage ?? usage
      const { reasoning_content: reasoning, content } = chunk?.choices?.[0]?.delta ?? {}
      if (reasoning) process.stdout.write(isTerminal ? `\x1b[2m${reasoning}\x1b[22m` : reasoning)
      if (content && isReasoning) process.stdout.write('\n\n')
      if (content) process.stdout.write(content)
      isReasoning = Boolean(reasoning) || (isReasoning && !content)
    }
  } catch {
    isTruncated = true
  }
  process.stdout.write('\n\n')
  return { usage, comments, failure: failure ?? (isTruncated ? 'the connection was lost' : undefined), isTruncated }
}

/** Undefined for data that is not a JSON object: the gateway passes on what a vendor sends. */
function parseChunk(line: string): Chunk | undefined {
  try {
    const chunk: unknown = JSON.parse(line.slice('data:'.length))
    return typeof chunk === 'object' && chunk !== null ? (chunk as Chunk) : undefined
  } catch {
    return undefined
  }
}

function throwIfIncomplete({ failure }: StreamSummary): void {
  if (failure !== undefined) throw new BuyError(`The answer is incomplete: ${failure}`)
}

async function* linesOf(response: Response): AsyncGenerator<string> {
  const splitter = eventSplitter()
  for await (const bytes of response.body ?? []) for (const event of splitter.push(bytes)) yield* event.split('\n')
  yield* splitter.flush().split('\n')
}

function printUsage({ usage }: StreamSummary): void {
  if (usage) console.log(`usage     ${usage.prompt_tokens} tokens in, ${usage.completion_tokens} out`)
}

/** The receipt of a stream is in its comments, because its headers were sent before the settlement. */
function describePayment({ comments, failure, isTruncated }: StreamSummary): string {
  const transaction = comments.get('x-payment-receipt')
  const charged = comments.get('x-payment-charged')
  if (charged !== undefined)
    return `${charged} USDC from the channel${transaction ? `, deposited with transaction ${transaction}` : ''}`
  if (transaction) return `settled, transaction ${transaction}`
  const errorClass = comments.get('x-payment-settle-error-class')
  if (errorClass) return `not settled: ${errorClass}`
  if (isTruncated) return 'unknown: no receipt was received; the delivered part may still be charged'
  return failure === undefined ? 'unknown: no receipt was received' : 'probably nothing: no receipt was received'
}
