import { isHex } from './hex.ts'

/**
 * A node's answer. `failure` means no usable answer: no connection, a timeout, or no JSON-RPC. Nothing here rejects.
 */
export type Answer = { kind: 'result'; value: unknown } | { kind: 'error'; code: number; message: string } | RpcFailure
/** `retryable`: the node did answer, with an error. `isTooLarge`: it answered in JSON with more bytes than allowed. */
export type RpcFailure = { kind: 'failure'; reason: string; retryable?: true; isTooLarge?: true }

export type Rpc = {
  /** Sends the call in one HTTP request with other calls made at the same time. */
  request(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<Answer>
  /**
   * Sends the call in its own HTTP request: for calls that a node may hold open, or whose answer must not delay others.
   */
  requestAlone(method: string, params: readonly unknown[], limits: RequestLimits): Promise<Answer>
  /** Ends every pending call with a failure. */
  close(): void
}

/** Limits of one HTTP request. `maxBytes` defaults to the client's. */
type RequestLimits = { readonly timeoutMs: number; readonly maxBytes?: number; readonly signal?: AbortSignal }

export type RpcConfig = {
  /** Often holds an API key, so no part of it appears in any message. */
  readonly url: string
  readonly fetch?: typeof globalThis.fetch
  /** Deadline of one HTTP request. Default 10 s. */
  readonly timeoutMs?: number
  /** Calls per HTTP request. Default 50; use 1 for nodes without batches. */
  readonly maxBatch?: number
  /** Concurrent HTTP requests; further calls wait and are batched. Default 8. */
  readonly maxRequests?: number
  /** Largest answer in bytes. Default 8 MiB. */
  readonly maxBytes?: number
}

type PendingRequest = {
  readonly id: number
  readonly method: string
  readonly params: readonly unknown[]
  readonly done: (answer: Answer) => void
  isDone: boolean
}

/** State of `jsonRpc`. */
type RpcClient = {
  readonly url: ReturnType<typeof splitUrl>['url']
  readonly clean: ReturnType<typeof splitUrl>['clean']
  readonly fetchUrl: typeof fetch
  readonly timeoutMs: number
  readonly maxBatch: number
  readonly maxRequests: number
  readonly maxBytes: number
  readonly headers: { authorization?: string; 'content-type': string }
  readonly waiting: PendingRequest[]
  readonly closing: AbortController
  activeRequests: number
  ids: number
  scheduled: boolean
}

/**
 * A JSON-RPC client over HTTP that batches concurrent calls. Throws RangeError for an invalid URL; its calls never
 * reject.
 */
export function jsonRpc(config: RpcConfig): Rpc {
  const { url, authorization, clean } = splitUrl(config.url)

  const waiting: PendingRequest[] = []
  const closing = new AbortController()
  const client: RpcClient = {
    url,
    clean,
    fetchUrl: config.fetch ?? globalThis.fetch,
    timeoutMs: config.timeoutMs ?? 10_000,
    maxBatch: config.maxBatch ?? 50,
    maxRequests: config.maxRequests ?? 8,
    maxBytes: config.maxBytes ?? 8 * 1024 * 1024,
    headers: { 'content-type': 'application/json', ...(authorization ? { authorization } : {}) },
    waiting,
    closing,
    activeRequests: 0,
    ids: 0,
    scheduled: false,
  }
  return {
    request: (...args) => request(client, ...args),
    requestAlone: (...args) => requestAlone(client, ...args),
    close() {
      closing.abort()
      for (const pending of waiting.splice(0)) pending.done(failure('the client is closed'))
    },
  }
}

function createRequest(
  client: RpcClient,
  method: string,
  params: readonly unknown[],
): { pending: PendingRequest; answer: Promise<Answer> } {
  let resolve: (answer: Answer) => void = () => {}
  const answer = new Promise<Answer>((done) => (resolve = done))
  const pending: PendingRequest = {
    id: ++client.ids,
    method,
    params,
    isDone: false,
    done(reply) {
      if (pending.isDone) return
      pending.isDone = true
      resolve(reply)
    },
  }
  return { pending, answer }
}

function request(client: RpcClient, method: string, params: readonly unknown[], signal?: AbortSignal): Promise<Answer> {
  if (client.closing.signal.aborted) return Promise.resolve(failure('the client is closed'))
  if (signal?.aborted) return Promise.resolve(failure('no time left to call the node'))
  const { pending, answer } = createRequest(client, method, params)
  client.waiting.push(pending)
  cancelWith(signal, pending, answer)
  if (!client.scheduled) {
    client.scheduled = true
    queueMicrotask(() => pump(client))
  }
  return answer
}

async function requestAlone(
  client: RpcClient,
  method: string,
  params: readonly unknown[],
  { timeoutMs: limitMs, maxBytes: byteLimit = client.maxBytes, signal }: RequestLimits,
): Promise<Answer> {
  if (signal?.aborted) return failure('no time left to call the node')
  const { pending, answer } = createRequest(client, method, params)
  cancelWith(signal, pending, answer)
  await Promise.race([post(client, [pending], { limitMs, maxBytes: byteLimit, signal }), answer])
  return answer
}

function cancelWith(signal: AbortSignal | undefined, pending: PendingRequest, answer: Promise<Answer>): void {
  if (!signal) return
  const onAbort = () => pending.done(failure(`${pending.method}: the caller's time ran out`))
  signal.addEventListener('abort', onAbort, { once: true })
  void answer.then(() => signal.removeEventListener('abort', onAbort))
}

function pump(client: RpcClient): void {
  client.scheduled = false
  while (client.waiting.length > 0 && client.activeRequests < client.maxRequests) {
    const batch = client.waiting.splice(0, client.maxBatch).filter((pending) => !pending.isDone)
    if (batch.length === 0) continue
    client.activeRequests++
    void post(client, batch, { limitMs: client.timeoutMs, maxBytes: client.maxBytes }).finally(() => {
      client.activeRequests--
      pump(client)
    })
  }
}

async function post(
  client: RpcClient,
  batch: readonly PendingRequest[],
  { limitMs, maxBytes: byteLimit, signal }: { limitMs: number; maxBytes: number; signal?: AbortSignal | undefined },
): Promise<void> {
  const controller = new AbortController()
  const onClose = () => controller.abort()
  const timer = setTimeout(onClose, limitMs)
  client.closing.signal.addEventListener('abort', onClose, { once: true })
  signal?.addEventListener('abort', onClose, { once: true })
  if (client.closing.signal.aborted) controller.abort()
  const tooLate = failure(`no answer in ${limitMs} ms`)
  const timeout = new Promise<RpcFailure>((done) =>
    controller.signal.addEventListener('abort', () => done(tooLate), { once: true }),
  )
  const read = exchange(client, batch, { signal: controller.signal, maxBytes: byteLimit }).catch(() =>
    controller.signal.aborted ? tooLate : failure('the connection failed'),
  )
  const reply = await Promise.race([read, timeout])
  clearTimeout(timer)
  client.closing.signal.removeEventListener('abort', onClose)
  signal?.removeEventListener('abort', onClose)
  for (const pending of batch) pending.done(answerTo(client, pending, reply))
}

/** The parsed body as a list. Throws when the connection fails; every other defect is a failure. */
async function exchange(
  client: RpcClient,
  batch: readonly PendingRequest[],
  { signal, maxBytes: byteLimit }: { signal: AbortSignal; maxBytes: number },
): Promise<readonly unknown[] | RpcFailure> {
  const messages = batch.map(({ id, method, params }) => ({ jsonrpc: '2.0', id, method, params }))
  const body = JSON.stringify(messages.length === 1 ? messages[0] : messages)
  // Workers refuse `fetch` as a method of another object.
  const { fetchUrl } = client
  const response = await fetchUrl(client.url, {
    method: 'POST',
    headers: client.headers,
    body,
    signal,
    redirect: 'manual',
  })
  // Workers know no `redirect: 'error'`. A redirect is never followed: it would carry the request elsewhere.
  if (response.type === 'opaqueredirect' || isRedirect(response.status)) {
    await response.body?.cancel()
    return failure('the node answers with a redirect')
  }
  const text = await readText(response, byteLimit)
  if (text === undefined)
    return {
      ...failure(`the answer was longer than ${byteLimit} bytes`),
      ...(isJson(response) && { isTooLarge: true }),
    }
  try {
    const value: unknown = JSON.parse(text)
    if (Array.isArray(value)) return value
    if (response.ok || (batch.length === 1 && typeof value === 'object')) return [value]
  } catch {
    if (response.ok) return failure('the answer was not JSON')
  }
  return failure(`HTTP status ${response.status}`)
}

function answerTo(client: RpcClient, pending: PendingRequest, reply: readonly unknown[] | RpcFailure): Answer {
  if ('kind' in reply) return { ...reply, reason: `${pending.method}: ${reply.reason}` }
  const message = reply.find((each) => (each as { id?: unknown } | null)?.id === pending.id) as
    | { result?: unknown; error?: unknown }
    | undefined
  const error = message?.error as { code?: unknown; message?: unknown } | undefined | null
  if (error && typeof error === 'object') {
    return { kind: 'error', code: Number(error.code) || 0, message: client.clean(String(error.message)) }
  }
  if (message && message.result !== undefined) return { kind: 'result', value: message.result }
  return failure(`${pending.method}: the answer was not JSON-RPC`)
}

export function failure(reason: string): RpcFailure {
  return { kind: 'failure', reason }
}

/** Treats any answer other than a result as a failure. */
export function asFailure(method: string, answer: Extract<Answer, { kind: 'error' }> | RpcFailure): RpcFailure {
  if (answer.kind === 'failure') return answer
  return { kind: 'failure', reason: `${method}: ${answer.message}`, retryable: true }
}

/** Whether eth_getCode returned code; undefined without an answer. */
export function hasCode(answer: Answer): boolean | undefined {
  if (answer.kind !== 'result' || !isHex(answer.value)) return undefined
  return answer.value !== '0x'
}

const isRedirect = (status: number): boolean => status >= 300 && status < 400

/**
 * Splits a URL into what is fetched and what must not be shown: credentials (not allowed in fetch URLs), path, query,
 * host.
 */
function splitUrl(text: string): { url: string; authorization: string | undefined; clean: (text: string) => string } {
  const url = parseUrl(text)
  const { username, password } = url
  const [user, pass] = [decodePart(username), decodePart(password)]
  const authorization = user || pass ? `Basic ${btoa(`${user}:${pass}`)}` : undefined
  const secretParts = [
    text,
    url.href,
    url.host,
    username,
    password,
    user,
    pass,
    ...url.pathname.split('/'),
    ...url.searchParams.values(),
  ]
  const secrets = secretParts.filter((part) => part.length >= 6).sort((a, b) => b.length - a.length)
  url.username = ''
  url.password = ''
  const clean = (message: string) => {
    let rest = message
    for (const secret of secrets) rest = rest.replaceAll(secret, '…')
    return rest
      .replace(/https?:\/\/\S+/gi, '…')
      .replace(/[^\x20-\x7e…]+/g, ' ')
      .slice(0, 200)
  }
  return { url: url.href, authorization, clean }
}

function decodePart(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}

function parseUrl(text: string): URL {
  try {
    const url = new URL(text)
    if (url.protocol === 'http:' || url.protocol === 'https:') return url
  } catch {
    // The parser's message would quote the URL.
  }
  throw new RangeError('rpcUrl must be an http or https URL')
}

function isJson({ ok, headers }: Response): boolean {
  return ok && /^application\/json\b/i.test(headers.get('content-type') ?? '')
}

/** Reads the body; undefined when longer than allowed. A declared length is trusted only to refuse. */
export async function readText(response: Response, maxBytes: number): Promise<string | undefined> {
  if (Number(response.headers.get('content-length')) > maxBytes) {
    await response.body?.cancel()
    return undefined
  }
  if (!response.body) return ''
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    size += value.length
    if (size > maxBytes) {
      await reader.cancel()
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
}
