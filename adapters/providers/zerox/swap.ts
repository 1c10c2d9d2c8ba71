/**
 * The 0x swap API v2. Sources: @0x/swap-ts-sdk@2.1.1 `__generated__/routers.d.ts` (names of errors, shapes), the route
 * table of the sources of decision 75. Key and version are sent as headers; none of the caller's headers are.
 */
import { outages } from '../../../core/lib/mod.ts'
import {
  ApiError,
  type Clock,
  type Json,
  type Log,
  type SwapAnswer,
  type SwapCall,
  type SwapVendor,
} from '../../../core/mod.ts'
import type { Fetch } from '../../http/fetch.ts'
import { orAbort } from '../../http/or_abort.ts'
import { record, safeCode } from '../../http/error_replies.ts'

export type ZeroxConfig = {
  readonly baseUrl?: string | undefined
  readonly key: string
  /** Recipient of the affiliate fee: an EVM address. */
  readonly feeRecipient: string
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
  /** Largest reply, in bytes. */
  readonly maxBytes?: number | undefined
}

const ZEROX_URL = 'https://api.0x.org'

const PATHS: Readonly<Record<string, string>> = {
  'GET /price': '/swap/permit2/price',
  'GET /quote': '/swap/permit2/quote',
  'GET /gasless/price': '/gasless/price',
  'GET /gasless/quote': '/gasless/quote',
  'POST /gasless/submit': '/gasless/submit',
  'GET /gasless/approval-tokens': '/gasless/gasless-approval-tokens',
  'GET /gasless/chains': '/gasless/chains',
  'GET /swap/chains': '/swap/chains',
  'GET /trade-analytics/swap': '/trade-analytics/swap',
  'GET /trade-analytics/gasless': '/trade-analytics/gasless',
}

const STATUS = /^\/gasless\/status\/[\w-]+$/

/** Seconds, or an HTTP date (RFC 9110 10.2.3). */
const RETRY_AFTER = /^(?:\d{1,9}|[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)$/

const MAX_REPLY_BYTES = 8 * 1024 * 1024

/** 403s that concern the trade or the request itself; any other concerns our key. */
const ABOUT_THE_CALL = /_NOT_AUTHORIZED_FOR_TRADE$|^NO_ACCESS_TO_TRADES_ENDPOINT$/

/**
 * Throws a RangeError when `feeRecipient` is not an address: every trade would lose its fee, or fail. Unlisted paths
 * are never called.
 *
 * @example
 * const swaps = zerox({ key, feeRecipient, clock, log })
 */
export function zerox(config: ZeroxConfig): SwapVendor {
  const {
    baseUrl = ZEROX_URL,
    key,
    feeRecipient,
    clock,
    log,
    fetch = globalThis.fetch,
    maxBytes = MAX_REPLY_BYTES,
  } = config
  if (!/^0x[0-9a-fA-F]{40}$/.test(feeRecipient) || /^0x0+$/.test(feeRecipient))
    throw new RangeError('the recipient of swap fees must be an address: 0x and 40 hex digits')
  const refusing = outages({ log, clock, over: 'the swap aggregator serves this gateway again' })
  const headers = { accept: 'application/json', '0x-api-key': key, '0x-version': 'v2' }

  return {
    feeRecipient,
    async call(call, { signal }) {
      signal.throwIfAborted()
      const answer = await orAbort(ask(call, signal), signal)
      if (isAboutUs(answer)) {
        const fields = { status: answer.status, code: nameOf(answer.body) }
        refusing.failed('zerox', {
          reason: Object.values(fields).join(' ').trim(),
          message: 'the swap aggregator refuses this gateway: check its key, plan and balance',
          fields,
        })
        throw new ApiError('NOT_CONFIGURED', {
          message: 'The swap aggregator does not accept this gateway at the moment; the operator has been alerted.',
        })
      }
      if (answer.status < 400) refusing.worked('zerox')
      return answer
    },
  }

  async function ask({ method, path, query, body }: SwapCall, signal: AbortSignal): Promise<SwapAnswer> {
    const url = baseUrl.replace(/\/+$/, '') + upstreamPath(method, path) + query.replaceAll('#', '%23')
    const sent =
      method === 'POST'
        ? { body: (body ?? '') as BodyInit, headers: { ...headers, 'content-type': 'application/json' } }
        : { headers }
    const response = await fetch(url, { method, ...sent, redirect: 'manual', signal }).catch(() => {
      throw away('could not be reached')
    })
    const came = await readText(response).catch(() => {
      throw away(`answered ${response.status} with a body that broke off, or of more than ${maxBytes} bytes`)
    })
    const { status, ok } = response
    const text = ok ? came : withoutKey(came)
    const json = parsed(text)
    if (json === undefined && ok) throw away('answered with something that is not JSON')
    const wait = response.headers.get('retry-after')?.trim() ?? ''
    return { status, text, body: json ?? null, ...(RETRY_AFTER.test(wait) && { retryAfter: wait }) }
  }

  /** Removes our key from replies that echo the request, so that no caller can read it. */
  function withoutKey(text: string): string {
    const written = [key, JSON.stringify(key).slice(1, -1), encodeURIComponent(key)]
    return written.reduce((rest, each) => (each === '' ? rest : rest.replaceAll(each, '***')), text)
  }

  async function readText(response: Response): Promise<string> {
    const chunks: Uint8Array[] = []
    let length = 0
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      length += chunk.length
      if (length > maxBytes) throw new RangeError('too large')
      chunks.push(chunk)
    }
    return Buffer.concat(chunks, length).toString('utf8')
  }
}

function upstreamPath(method: SwapCall['method'], path: string): string {
  const known = PATHS[`${method} ${path}`]
  if (known !== undefined) return known
  if (method === 'GET' && STATUS.test(path)) return path
  throw new RangeError('no such route of the swap aggregator')
}

/** 401 concerns our key and 402 our account. The caller can fix neither, and must not be asked to pay by mistake. */
function isAboutUs({ status, body }: SwapAnswer): boolean {
  return status === 401 || status === 402 || (status === 403 && !ABOUT_THE_CALL.test(nameOf(body)))
}

function nameOf(body: Json): string {
  const { name } = record(body)
  return typeof name === 'string' && /^[\w.-]{1,64}$/.test(name) ? name : safeCode(body)
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}

const away = (what: string): ApiError => new ApiError('MODEL_UNAVAILABLE', { message: `The swap aggregator ${what}.` })
