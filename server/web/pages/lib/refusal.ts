/** Why the gateway said no, in its words. */
export async function refusal(reply: Response): Promise<Error> {
  const text = await reply.text()
  try {
    const { details, message, error } = JSON.parse(text) as { details?: unknown; message?: unknown; error?: unknown }
    const inner = typeof error === 'object' && error !== null ? (error as { message?: unknown }).message : error
    const words = [details, message, inner].find((each): each is string => typeof each === 'string')
    return new Error(words ?? `The gateway answered ${reply.status}.`)
  } catch {
    return new Error(`The gateway answered ${reply.status}.`)
  }
}
