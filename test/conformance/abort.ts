/** Work at a vendor that is never aborted, or aborted while it runs. */
export type At = { readonly signal: AbortSignal }

export const never = (): At => ({ signal: new AbortController().signal })

/** One turn of the event loop, for whatever waits for I/O. */
export const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Outcome of work that was aborted while it ran: the reason it rejected with, `running` if it did not stop quickly,
 * or `made`, for a vendor may have been faster than the abort.
 */
export async function stopped(begin: (at: At) => Promise<unknown>, reason: Error): Promise<unknown> {
  const controller = new AbortController()
  const work = begin(controller).then(
    () => 'made',
    (error: unknown) => error,
  )
  await turn()
  controller.abort(reason)
  const timeouts = async () => {
    for (let turns = 0; turns < 20; turns++) await turn()
    return 'running'
  }
  return await Promise.race([work, timeouts()])
}
