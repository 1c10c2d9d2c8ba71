/** Errors of an S3 store, without secrets. */

/**
 * Contains the store's error code only. The SDK's messages may contain the endpoint, the key id or the signed request.
 */
export class StoreError extends Error {
  override readonly name = 'StoreError'

  constructor(what: string) {
    super(`the object store ${what}`)
  }
}

export function toStoreError(error: unknown, verb: string): StoreError {
  if (error instanceof StoreError) return error
  const { code } = error as { code?: unknown }
  const reasons = [typeof code === 'string' ? code : nameOf(error), statusOf(error)].filter(
    (reason) => reason !== undefined,
  )
  return new StoreError(`could not ${verb} (${reasons.join(', ')})`)
}

export function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } } | null)?.$metadata?.httpStatusCode
}

export function nameOf(error: unknown): string {
  const { name } = error as { name?: unknown }
  return typeof name === 'string' && /^\w{1,60}$/.test(name) ? name : 'Error'
}
