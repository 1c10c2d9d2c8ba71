/** Requests about keys. A key goes to this gateway in a header, and nowhere else. */
import { refusal } from '../lib/refusal.ts'
import { usdc } from '../lib/x402.ts'
import { askAs, type SignedIn } from '../wallets/sign_in.ts'

/** In USD. `payer` gets the rest back. */
export type Balance = {
  readonly payer: string
  readonly deposited: number
  readonly charged: number
  readonly left: number
}

/** `reserved`: what open calls may still cost. */
export type Refund = {
  readonly amount: string
  readonly payer: string
  readonly transaction: string
  readonly reserved: string
}

/** Amounts in USDC, six decimals. `charged` is null once the child has ended. */
export type Child = {
  readonly address: string
  readonly name: string
  readonly status: 'active' | 'revoked' | 'expired'
  readonly cap: string
  readonly charged: string | null
  readonly models: readonly string[]
  readonly per_minute: number | null
  readonly expires_at: number
}

export function refundText({ amount, payer, reserved }: Refund): string {
  const back = `${usdc(amount.replace('.', ''))} USDC went back to ${payer}.`
  if (Number(reserved) === 0) return back
  return `${back} Open calls may cost ${usdc(reserved.replace('.', ''))} USDC; what they leave goes back when they have ended.`
}

type NewChild = {
  readonly name: string
  readonly cap: string
  readonly expires_at?: number
  readonly models?: readonly string[]
  readonly per_minute?: number
}

/** Outcome of a deposit. `unknown`: it may be under way, and the same payment may be sent again. */
type Outcome = { readonly kind: 'deposited' } | { readonly kind: 'unknown'; readonly reason: string }

const TRIES = 4
const PAUSE_MS = 5_000
const MAX_PAUSE_MS = 60_000

/**
 * Sends a deposit until its outcome is known; it deposits once. Rejects with the reason where nothing moved: the
 * gateway has refused it, and no answer before was lost.
 */
export async function sendDeposit(payment: string): Promise<Outcome> {
  const body = JSON.stringify({ payment })
  let isInDoubt = false
  for (let tries = 1; ; tries++) {
    const reply = await fetch('/api/v1/keys/deposit', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    }).catch(() => undefined)
    if (reply?.ok) {
      await reply.text()
      return { kind: 'deposited' }
    }
    const isRefused = reply !== undefined && (await isFromGateway(reply)) && reply.status < 500
    if (isRefused && reply.status !== 429 && !isInDoubt) throw await refusal(reply)
    isInDoubt ||= !isRefused
    const reason = reply ? (await refusal(reply)).message : 'The gateway did not answer.'
    if (tries === TRIES) return { kind: 'unknown', reason }
    const seconds = Number(reply?.headers.get('retry-after'))
    await new Promise((resolve) => setTimeout(resolve, Math.min(seconds * 1000 || PAUSE_MS, MAX_PAUSE_MS)))
  }
}

/** Something on the way may answer in place of the gateway, which may have worked all the same. */
async function isFromGateway(reply: Response): Promise<boolean> {
  const body: unknown = await reply
    .clone()
    .json()
    .catch(() => undefined)
  return typeof body === 'object' && body !== null && 'error' in body
}

async function ask<T>(path: string, { key, ...init }: RequestInit & { readonly key: string }): Promise<T> {
  const headers = {
    ...(init.body !== undefined && { 'content-type': 'application/json' }),
    authorization: `Bearer ${key}`,
  }
  const reply = await fetch(path, { ...init, headers, redirect: 'error' }).catch(() => {
    throw new Error('The gateway did not answer. Try again.')
  })
  if (!reply.ok) throw await refusal(reply)
  return (await reply.json()) as T
}

export async function readBalance(key: string): Promise<Balance> {
  const [{ info }, { data }] = await Promise.all([
    ask<{ info: { user_id: string } }>('/key/info', { key }),
    ask<{ data: { limit: number; limit_remaining: number; usage: number } }>('/api/v1/key', { key }),
  ])
  return { payer: info.user_id, deposited: data.limit, charged: data.usage, left: data.limit_remaining }
}

/** Charges by day or model, with `charged` in USDC, six decimals. */
export type Charged = { readonly calls: number; readonly charged: string }
export type KeyCharges = Charged & {
  readonly by_day: readonly (Charged & { readonly day: string })[]
  readonly by_model: readonly (Charged & { readonly model: string })[]
  readonly is_complete: boolean
}

export const readCharges = (key: string): Promise<KeyCharges> =>
  ask<KeyCharges>('/api/v1/keys/charges?days=90', { key })

export const closeKey = (key: string): Promise<Refund> => ask<Refund>('/api/v1/keys/close', { key, method: 'POST' })

/** For a key that is lost: its wallet signs in for this key. */
export async function closeByWallet(signedIn: SignedIn, address: string): Promise<Refund> {
  const reply = await askAs(signedIn, { method: 'POST', path: `/api/v1/keys/${encodeURIComponent(address)}/close` })
  if (!reply.ok) throw await refusal(reply)
  return (await reply.json()) as Refund
}

export const listChildren = async (key: string): Promise<readonly Child[]> =>
  (await ask<{ data: readonly Child[] }>('/api/v1/keys', { key })).data

/** The text of the new key is in this answer alone. */
export const makeChild = (key: string, child: NewChild): Promise<Child & { readonly key: string }> =>
  ask('/api/v1/keys', { key, method: 'POST', body: JSON.stringify(child) })

export const revokeChild = (key: string, address: string): Promise<unknown> =>
  ask(`/api/v1/keys/${address}/revoke`, { key, method: 'POST' })
