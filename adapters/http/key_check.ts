/** Whether a vendor accepts a key: one free request. */
type KeyVerdict =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused'; readonly status: number }
  /** The vendor cannot be reached, or has no such list. */
  | { readonly kind: 'unknown'; readonly reason: string }

/** Asks `url`, which needs the key. Never rejects, and never quotes what the vendor says. */
export async function checkKey(
  url: string,
  { headers, timeoutMs }: { readonly headers: Readonly<Record<string, string>>; readonly timeoutMs: number },
): Promise<KeyVerdict> {
  try {
    const init = { headers: { ...headers }, redirect: 'manual', signal: AbortSignal.timeout(timeoutMs) } as const
    const response = await fetch(url, init)
    await response.body?.cancel()
    if (response.ok) return { kind: 'accepted' }
    // Gemini answers 400 to a key that it does not know.
    if ([400, 401, 403].includes(response.status)) return { kind: 'refused', status: response.status }
    return { kind: 'unknown', reason: `it answers ${response.status} to a list of models` }
  } catch {
    return { kind: 'unknown', reason: 'it cannot be reached' }
  }
}
