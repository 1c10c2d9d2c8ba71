/** Why the gateway said no, in its words. */
export async function refusal(reply: Response): Promise<Error> {
  const text = await reply.text()
  try {
    const { details, message, error, code } = JSON.parse(text) as Readonly<Record<string, unknown>>
    const inner = typeof error === 'object' && error !== null ? (error as { message?: unknown }).message : error
    // The message of a refused payment begins with what helps; its details are for programs.
    const isPayment = typeof code === 'string' && code.startsWith('PAYMENT_')
    const words = (isPayment ? [message, details, inner] : [details, message, inner]).find(
      (each): each is string => typeof each === 'string',
    )
    return new Error(words ?? `The gateway answered ${reply.status}.`)
  } catch {
    return new Error(`The gateway answered ${reply.status}.`)
  }
}
