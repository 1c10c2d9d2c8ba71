/** Reads bodies of limited size into memory. */

/** Reads a body into memory. Throws, and closes it, past `maxBytes`. */
export async function readAtMost(
  body: AsyncIterable<Uint8Array> | readonly Uint8Array[],
  maxBytes: number,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body) {
    length += chunk.length
    if (length > maxBytes) throw tooLarge(maxBytes)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

/** Reads the text at once when its length is declared, which is faster than chunk by chunk. */
export async function readText(response: Response, maxBytes: number): Promise<string> {
  const declared = declaredLength(response.headers)
  if (declared !== undefined && declared <= maxBytes) return await response.text()
  return new TextDecoder().decode(await readAtMost(response.body ?? [], maxBytes))
}

/** The declared length of a body; undefined without one, or with a transfer or content encoding (RFC 9112, 6.3). */
export function declaredLength(headers: Headers): number | undefined {
  const isPlain = (headers.get('content-encoding') ?? 'identity') === 'identity' && !headers.has('transfer-encoding')
  const declared = isPlain ? Number(headers.get('content-length') ?? Number.NaN) : Number.NaN
  return Number.isSafeInteger(declared) ? declared : undefined
}

export const tooLarge = (maxBytes: number): Error => new Error(`more than ${maxBytes} bytes`)
