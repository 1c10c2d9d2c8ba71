/** The x402 exchange (version 2), as a page speaks it: quotes and receipts are read, payments are written. */

/** One way to pay. `amount` is in millionths of a USDC. */
export type Offer = {
  readonly scheme: string
  readonly network: string
  readonly amount: string
  readonly asset: string
  readonly payTo: string
  readonly maxTimeoutSeconds: number
  readonly extra?: Readonly<Record<string, unknown>>
}

/** Body of a 402. `message` is for people. */
export type Demand = {
  readonly accepts: readonly Offer[]
  readonly message: string
  readonly code?: string
  readonly jobId?: string
  readonly pollUrl?: string
}

/** Content of a PAYMENT-RESPONSE header. */
export type Receipt = {
  readonly success: boolean
  readonly transaction: string
  readonly network: string
  readonly payer?: string
  readonly amount?: string
  readonly errorReason?: string
}

type Body402 = {
  readonly accepts?: readonly Offer[]
  readonly error?: unknown
  readonly message?: string
  readonly details?: string
  readonly code?: string
  readonly job_id?: string
  readonly poll_url?: string
}

/** Reads a 402. Its body has the same offers as its header, and more words. */
export async function readDemand(reply: Response): Promise<Demand> {
  const body = (await reply.json()) as Body402
  const message = body.message ?? body.details ?? (typeof body.error === 'string' ? body.error : 'Payment required')
  return {
    accepts: body.accepts ?? [],
    message,
    ...(body.code !== undefined && { code: body.code }),
    ...(body.job_id !== undefined && { jobId: body.job_id }),
    ...(body.poll_url !== undefined && { pollUrl: body.poll_url }),
  }
}

/**
 * The value of a PAYMENT-SIGNATURE header. By `id` the same payment finds its call from any address (contract 1.40).
 */
export const paymentHeader = (accepted: Offer, payload: unknown, id: string): string =>
  btoa(JSON.stringify({ x402Version: 2, accepted, payload, extensions: { 'payment-identifier': { info: { id } } } }))

/** Decodes a PAYMENT-RESPONSE; undefined for none, or for one that cannot be read. */
export function readReceipt(header: string | null | undefined): Receipt | undefined {
  if (!header) return undefined
  try {
    return JSON.parse(atob(header)) as Receipt
  } catch {
    return undefined
  }
}

/** `22000` is `0.022`. */
export function usdc(amount: string): string {
  const padded = amount.padStart(7, '0')
  return `${padded.slice(0, -6)}.${padded.slice(-6)}`.replace(/\.?0+$/, '')
}

/** `0.022` is 22000n; undefined if the text is not an amount. */
export function atomic(text: string): bigint | undefined {
  const [, whole = '', part = ''] = /^(\d{1,9})(?:\.(\d{0,6}))?$/.exec(text.trim()) ?? []
  return whole === '' ? undefined : BigInt(whole + part.padEnd(6, '0'))
}
