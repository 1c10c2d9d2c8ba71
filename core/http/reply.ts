/** A reply as any host can send it. */

export type Reply = {
  readonly status: number
  /** Frozen where many replies share them, so that a host may keep what it makes of them. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | ReadableStream<Uint8Array> | null
}

/** A JSON reply. */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }
}
