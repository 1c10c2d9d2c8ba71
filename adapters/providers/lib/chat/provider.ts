/** Shared by the chat protocols: the operator's configuration, request bodies, and calls to the upstream. */
import type { Clock, Fields, Log } from '../../../../core/mod.ts'
import { chatErrorFor } from './error_replies.ts'
import { type Fetch, type VendorHttp, vendorHttp } from '../../../http/fetch.ts'
import { writeOrder } from '../image_provider.ts'

export type ChatStyle = 'openai' | 'compatible'

export type ChatVendorConfig = {
  /** Root of the API, before the protocol's own paths, for example `https://api.openai.com/v1`. */
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Maker of the model, named to the caller as the source of a rate limit. */
  readonly maker: string
  /**
   * Longest wait for a whole answer, or for the first bytes of a stream, in milliseconds. The contract says 120 seconds
   * (6.52).
   */
  readonly timeoutMs: number
  /** Merged into every request, below what the caller sent. */
  readonly parameters?: Fields | undefined
  /** Merged into every request above everything else. A null removes a field. */
  readonly overrides?: Fields | undefined
  /**
   * How the openai-chat protocol spells the output cap and reasoning, where the server is different from what the
   * family of the model asks for. `openai`: `max_completion_tokens`, no `thinking` and no `reasoning_content`.
   * `compatible`: `max_tokens`, with both.
   */
  readonly style?: ChatStyle | undefined
  /** Added to the headers of every request, such as `openai-organization`. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
  /** Largest whole answer in bytes. */
  readonly maxBytes?: number | undefined
}

/** Short, because a person waits for the first word. */
const RETRY_PAUSE_MS = 200

/** A client of one chat vendor. It throws only ApiErrors; details that callers must not see are logged. */
export function chatHttp(config: ChatVendorConfig, name: string): VendorHttp {
  const { maker, log } = config
  return vendorHttp({
    ...config,
    name,
    retryPauseMs: RETRY_PAUSE_MS,
    errorFor(kind, about) {
      if (kind === 'failed' || kind === 'timeout')
        log.warn('a chat vendor did not answer', { vendor: name, maker, why: about.what })
      return chatErrorFor(kind, about)
    },
  })
}

/**
 * Merges the body of a request: defaults, the operator's parameters, the request, the operator's overrides. Nulls
 * remove fields, lists replace.
 */
export function writeChat(config: ChatVendorConfig, { usual = {}, order }: { usual?: Fields; order: Fields }): Fields {
  return writeOrder(config, { usual, order })
}
