import { isHex } from './hex.ts'

/**
 * A node's answer. `failure` means no usable answer: no connection, a timeout, or no JSON-RPC. Nothing here rejects.
 */
export type Answer = { kind: 'result'; value: unknown } | { kind: 'error'; code: number; message: string } | Trouble
/** `retryable`: the node did answer, with an error. `isTooLarge`: it answered in JSON with more bytes than allowed. */
export type Trouble = { kind: 'trouble'; reason: string; stumbled?: true; isTooLong?: true }

export type Rpc = {
  /** Sends the call in one HTTP request with other calls made at the same time. */
  ask(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<Answer>
  /**
   * Sends the call in its own HTTP request: for calls that a node may hold open, or whose answer must not delay others.
   */
  alone(method: string, params: readonly unknown[], limits: AloneLimits): Promise<Answer>
  /** Ends every pending call with a failure. */
  close(): void
}

/** Limits of one HTTP request. `maxBytes` defaults to the client's. */
export type AloneLimits = { readonly timeoutMs: number; readonly maxBytes?: number; readonly signal?: AbortSignal }

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

type Asked = {
  readonly id: number
  readonly method: string
  readonly params: readonly unknown[]
  readonly done: (answer: Answer) => void
  over: boolean
}

/**
 * A JSON-RPC client over HTTP that batches concurrent calls. Throws RangeError for an invalid URL; its calls never
 * reject.
 */
export function evmRpc(config: RpcConfig): Rpc {
  const { url, authorization, clean } = target(config.url)
  const call = config.fetch ?? globalThis.fetch
  const timeoutMs = config.timeoutMs ?? 10_000
  const maxBatch = config.maxBatch ?? 50
  const maxRequests = config.maxRequests ?? 8
  const maxBytes = config.maxBytes ?? 8 * 1024 * 1024
  const headers = { 'content-type': 'application/json', ...(authorization ? { authorization } : {}) }

  const waiting: Asked[] = []
  const closing = new AbortController()
  let flying = 0
  let ids = 0
  let scheduled = false

  function enqueue(method: string, params: readonly unknown[]): { asked: Asked; answer: Promise<Answer> } {
    let resolve: (answer: Answer) => void = () => {}
    const answer = new Promise<Answer>((done) => (resolve = done))
    const asked: Asked = {
      id: ++ids,
      method,
      params,
      over: false,
      done(given) {
        if (asked.over) return
        asked.over = true
        resolve(given)
      },
    }
    return { asked, answer }
  }

  function ask(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<Answer> {
    if (closing.signal.aborted) return Promise.resolve(trouble('the client is closed'))
    if (signal?.aborted) return Promise.resolve(trouble('no time left to call the node'))
    const { asked, answer } = enqueue(method, params)
    waiting.push(asked)
    endWith(signal, asked, answer)
    if (!scheduled) {
      scheduled = true
      queueMicrotask(pump)
    }
    return answer
  }

  async function alone(
    method: string,
    params: readonly unknown[],
    { timeoutMs: limitMs, maxBytes: most = maxBytes, signal }: AloneLimits,
  ): Promise<Answer> {
    if (signal?.aborted) return trouble('no time left to call the node')
    const { asked, answer } = enqueue(method, params)
    endWith(signal, asked, answer)
    await Promise.race([post([asked], { limitMs, maxBytes: most, signal }), answer])
    return answer
  }

  function endWith(signal: AbortSignal | undefined, asked: Asked, answer: Promise<Answer>): void {
    if (!signal) return
    const stop = () => asked.done(trouble(`${asked.method}: the caller's time ran out`))
    signal.addEventListener('abort', stop, { once: true })
    void answer.then(() => signal.removeEventListener('abort', stop))
  }

  function pump(): void {
    scheduled = false
    while (waiting.length > 0 && flying < maxRequests) {
      const group = waiting.splice(0, maxBatch).filter((asked) => !asked.over)
      if (group.length === 0) continue
      flying++
      void post(group, { limitMs: timeoutMs, maxBytes }).finally(() => {
        flying--
        pump()
      })
    }
  }

  async function post(
    group: readonly Asked[],
    { limitMs, maxBytes: most, signal }: { limitMs: number; maxBytes: number; signal?: AbortSignal | undefined },
  ): Promise<void> {
    const stop = new AbortController()
    const onClose = () => stop.abort()
    const timer = setTimeout(onClose, limitMs)
    closing.signal.addEventListener('abort', onClose, { once: true })
    signal?.addEventListener('abort', onClose, { once: true })
    if (closing.signal.aborted) stop.abort()
    const tooLate = trouble(`no answer in ${limitMs} ms`)
    const late = new Promise<Trouble>((done) =>
      stop.signal.addEventListener('abort', () => done(tooLate), { once: true }),
    )
    const read = exchange(group, { signal: stop.signal, maxBytes: most }).catch(() =>
      stop.signal.aborted ? tooLate : trouble('the connection failed'),
    )
    const given = await Promise.race([read, late])
    clearTimeout(timer)
    closing.signal.removeEventListener('abort', onClose)
    signal?.removeEventListener('abort', onClose)
    for (const asked of group) asked.done(answerTo(asked, given))
  }

  /** The parsed body as a list. Throws when the connection fails; every other defect is a failure. */
  async function exchange(
    group: readonly Asked[],
    { signal, maxBytes: most }: { signal: AbortSignal; maxBytes: number },
  ): Promise<readonly unknown[] | Trouble> {
    const messages = group.map(({ id, method, params }) => ({ jsonrpc: '2.0', id, method, params }))
    const body = JSON.stringify(messages.length === 1 ? messages[0] : messages)
    const response = await call(url, { method: 'POST', headers, body, signal, redirect: 'error' })
    const text = await readText(response, most)
    if (text === undefined)
      return { ...trouble(`the answer was longer than ${most} bytes`), ...(isJson(response) && { isTooLong: true }) }
    try {
      const value: unknown = JSON.parse(text)
      if (Array.isArray(value)) return value
      if (response.ok || (group.length === 1 && typeof value === 'object')) return [value]
    } catch {
      if (response.ok) return trouble('the answer was not JSON')
    }
    return trouble(`HTTP status ${response.status}`)
  }

  function answerTo(asked: Asked, given: readonly unknown[] | Trouble): Answer {
    if ('kind' in given) return { ...given, reason: `${asked.method}: ${given.reason}` }
    const message = given.find((each) => (each as { id?: unknown } | null)?.id === asked.id) as
      | { result?: unknown; error?: unknown }
      | undefined
    const error = message?.error as { code?: unknown; message?: unknown } | undefined | null
    if (error && typeof error === 'object') {
      return { kind: 'error', code: Number(error.code) || 0, message: clean(String(error.message)) }
    }
    if (message && message.result !== undefined) return { kind: 'result', value: message.result }
    return trouble(`${asked.method}: the answer was not JSON-RPC`)
  }

  return {
    ask,
    alone,
    close() {
      closing.abort()
      for (const asked of waiting.splice(0)) asked.done(trouble('the client is closed'))
    },
  }
}

export function trouble(reason: string): Trouble {
  return { kind: 'trouble', reason }
}

/** Treats any answer other than a result as a failure. */
export function troubleIn(method: string, answer: Extract<Answer, { kind: 'error' }> | Trouble): Trouble {
  if (answer.kind === 'trouble') return answer
  return { kind: 'trouble', reason: `${method}: ${answer.message}`, stumbled: true }
}

/** Whether eth_getCode returned code; undefined without an answer. */
export function hasCode(answer: Answer): boolean | undefined {
  if (answer.kind !== 'result' || !isHex(answer.value)) return undefined
  return answer.value !== '0x'
}

/**
 * Splits a URL into what is fetched and what must not be shown: credentials (not allowed in fetch URLs), path, query,
 * host.
 */
function target(text: string): { url: string; authorization: string | undefined; clean: (text: string) => string } {
  const url = parsed(text)
  const { username, password } = url
  const [user, pass] = [plain(username), plain(password)]
  const authorization = user || pass ? `Basic ${btoa(`${user}:${pass}`)}` : undefined
  const parts = [
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
  const secrets = parts.filter((part) => part.length >= 6).sort((a, b) => b.length - a.length)
  url.username = ''
  url.password = ''
  const clean = (said: string) => {
    let rest = said
    for (const secret of secrets) rest = rest.replaceAll(secret, '…')
    return rest
      .replace(/https?:\/\/\S+/gi, '…')
      .replace(/[^\x20-\x7e…]+/g, ' ')
      .slice(0, 200)
  }
  return { url: url.href, authorization, clean }
}

function plain(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}

function parsed(text: string): URL {
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
