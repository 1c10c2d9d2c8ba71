/** A reply that any host can send. */

export type Reply = {
  readonly status: number
  /** Frozen when replies share them, so that a host may cache what it derives from them. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | ReadableStream<Uint8Array> | null
}

/**
 * A JSON reply.
 *
 * @example
 * const reply = json(200, { hello: 'world' }, { 'cache-control': 'no-store' })
 */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }
}
