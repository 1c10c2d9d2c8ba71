/** What the chat protocols have in common: how the operator configures one, how an order is written, how an upstream is called. */
import type { Clock, Fields, Log } from '../../../../core/mod.ts'
import { chatErrorFor } from './refusals.ts'
import { type Fetch, type VendorHttp, vendorHttp } from '../../../http/fetch.ts'
import { writeOrder } from '../image_provider.ts'

export type ChatVendorConfig = {
  /** Root of the API, up to where the protocol's own paths begin, for example `https://api.openai.com/v1`. */
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Who made the model: the source of a rate limit in the caller's eyes. */
  readonly maker: string
  /** Longest that a whole answer may take, or the first bytes of a stream, in milliseconds; `CHAT_TIMEOUT_MS` is what the contract says. */
  readonly timeoutMs: number
  /** Joins every request, below what the caller sent. */
  readonly parameters?: Fields | undefined
  /** Joins every request above all else. A null leaves a field out. */
  readonly overrides?: Fields | undefined
  /** Joins the headers of every request, such as `openai-organization`. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
  /** Largest whole answer, in bytes. */
  readonly maxBytes?: number | undefined
}

/** Contract 6.52: non-streaming, and time to the first byte. */
export const CHAT_TIMEOUT_MS = 120_000
/** Somebody waits for the first word. */
const RETRY_PAUSE_MS = 200

/** Calls one chat vendor; everything that it throws is a `Fault`. What the caller is not told, the log is. */
export function chatHttp(config: ChatVendorConfig, name: string): VendorHttp {
  const { maker, log } = config
  return vendorHttp({
    ...config,
    name,
    retryPauseMs: RETRY_PAUSE_MS,
    errorFor(trouble, about) {
      if (trouble === 'failed' || trouble === 'timeout')
        log.warn('a chat vendor gave no answer', { vendor: name, maker, why: about.what })
      return chatErrorFor(trouble, about)
    },
  })
}

/** The body of a request: usual settings, the operator's, the order, the operator's overrides. Objects merge, nulls leave out, lists replace. */
export function writeChat(config: ChatVendorConfig, { usual = {}, order }: { usual?: Fields; order: Fields }): Fields {
  return writeOrder(config, { usual, order })
}
