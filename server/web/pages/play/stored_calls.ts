/**
 * The calls that this browser has paid for. A signed payment is kept until its result is here: a page that was closed
 * sends the same payment again, never a new one, so nothing is paid for twice.
 */
import type { Receipt } from '../lib/x402.ts'
import type { Order } from './order.ts'

export type StoredCall = {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly order: Order
  /** In millionths of a USDC. */
  readonly amount: string
  readonly network: string
  /**
   * `signed`: sent, and no answer is known. `waiting`: a job. `done`: its result was here. `failed`: not charged.
   * `spent`: the payment was used before, and this call is not known.
   */
  readonly status: 'signed' | 'waiting' | 'done' | 'failed' | 'spent'
  /** The PAYMENT-SIGNATURE that was sent; deleted with the answer. */
  readonly payment?: string
  /** Milliseconds since 1970; `at` where it was never signed again. */
  readonly signedAt?: number
  readonly pollUrl?: string
  readonly receipt?: Receipt
  readonly problem?: string
}

const KEY = 'farebox.calls'
const MOST = 100

/** Newest first. */
export function storedCalls(): readonly StoredCall[] {
  try {
    const read: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]')
    return Array.isArray(read) ? read.filter(isCall) : []
  } catch {
    return []
  }
}

function isCall(value: unknown): value is StoredCall {
  const { id, at, order, amount } = (value ?? {}) as { [field in keyof StoredCall]?: unknown }
  const hasTexts = typeof id === 'string' && typeof amount === 'string'
  return hasTexts && typeof at === 'number' && typeof (order as { path?: unknown } | null)?.path === 'string'
}

/** Characters that a signed payment and its order may take. */
const ROOM = 32_768

/** Throws where the browser keeps nothing: a payment that is lost with the page could not be gone on with. */
export function requireRoom(): void {
  try {
    localStorage.setItem(`${KEY}.room`, 'x'.repeat(ROOM))
    localStorage.removeItem(`${KEY}.room`)
  } catch {
    throw new Error(
      'Nothing was signed: this browser keeps nothing for this page, because its storage is blocked or full, so a payment could be lost with the page. Allow it or make room, or use the code below.',
    )
  }
}

/** Adds a call, or replaces it by its id. Finished calls are the first to make room. */
export function storeCall(call: StoredCall): void {
  const others = storedCalls().filter(({ id }) => id !== call.id)
  const all = [call, ...others].toSorted((a, b) => b.at - a.at)
  const open = all.filter(({ status }) => status === 'signed' || status === 'waiting')
  const ended = all.filter((each) => !open.includes(each)).slice(0, Math.max(0, MOST - open.length))
  localStorage.setItem(KEY, JSON.stringify([...open, ...ended].toSorted((a, b) => b.at - a.at)))
}
