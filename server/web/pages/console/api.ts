/** The operator's API as the console reads it: below /console/api, with the session's cookie. */

export type Figures = {
  readonly completed: number
  readonly failed: number
  readonly settled: number
  readonly refused: number
  readonly unresolved: number
  readonly charged_usdc: string
  readonly p50_ms: number | null
  readonly p95_ms: number | null
}
export type NamedFigures = Figures & { readonly name: string | null }
export type Point = NamedFigures & { readonly at: string }
export type Series = {
  readonly unit: 'hour' | 'day'
  readonly since: string
  readonly until: string
  readonly totals: Figures
  readonly points: readonly Point[]
  readonly names: readonly NamedFigures[]
  readonly buyers: readonly { readonly at: string; readonly buyers: number }[]
}

export type PaymentRow = {
  readonly id: string
  readonly status: string
  readonly charged: boolean | null
  readonly gateway: string
  readonly endpoint: string
  readonly model: string | null
  readonly payer: string
  readonly network: string
  readonly quoted_usdc: string
  readonly charged_usdc: string | null
  readonly transaction: string | null
  readonly block: number | null
  readonly created_at: string
  readonly error: string | null
  readonly vendor_error: string | null
  readonly payment_error: string | null
}
export type Payment = PaymentRow & {
  readonly answer: string
  readonly timeline: readonly { readonly at: string; readonly event: string; readonly text: string }[]
  readonly authorizations: readonly { readonly key: string; readonly status: string; readonly expires_at: string }[]
  readonly tokens: { readonly input: number; readonly output: number } | null
  readonly pay_to: string
  readonly asset: string
}
export type OpenCall = PaymentRow & { readonly age_seconds: number; readonly advice: string }

export type Account = {
  readonly gateway: string
  readonly address: string
  readonly unit: 'wei' | 'lamports'
  readonly coins: number | null
  readonly low: string | null
  readonly observed_since: string | null
  readonly lasts_hours: number | null
}
export type Status = {
  readonly version: string
  readonly started_at: string
  readonly storage: string
  readonly clock: string
  readonly gateways: readonly {
    readonly name: string
    readonly label: string
    readonly networks: readonly string[]
    readonly status: string
    readonly reason: string | null
    readonly detail: string | null
  }[]
  readonly accounts: readonly Account[]
  readonly models: readonly {
    readonly id: string
    readonly status: string
    readonly last_success_at: string | null
    readonly last_failure_at: string | null
    readonly failures_in_a_row: number
  }[]
}

export type Entries = Readonly<Record<string, Readonly<Record<string, unknown>>>>
export type Controls = {
  readonly maintenance: { readonly on: boolean; readonly message?: string; readonly retry_after_seconds?: number }
  readonly blocked: Entries
  readonly allowed: Entries
  readonly wallet_limits: Entries
  readonly gateway_limits: Entries
  readonly margins: Entries
}
/** A channel of an API key. Amounts in USDC. */
export type KeyRow = {
  readonly address: string
  readonly network: string
  readonly channel_id: string
  readonly payer: string
  readonly balance: string
  readonly charged: string
  readonly unclaimed: string
  readonly reserved: string
  readonly available: string
  readonly gas_paid: string
  readonly last_used_at: string | null
  readonly is_blocked: boolean
  /** The key, or its payer. */
  readonly blocked_address: string | null
}
export type KeyPage = { readonly keys: readonly KeyRow[]; readonly next: string | null }
export type Sections = {
  readonly sections: readonly {
    readonly title: string
    readonly settings: readonly { readonly name: string; readonly value: string }[]
  }[]
}

const API = '/console/api/'

/** The session has ended: the page asks for the token again. */
export class SignedOut extends Error {}

async function request<T>(path: string, init: RequestInit): Promise<T> {
  const reply = await fetch(path, init).catch(() => {
    throw new Error('The gateway does not answer.')
  })
  if (reply.ok) return (reply.status === 204 ? undefined : await reply.json()) as T
  const body = (await reply.json().catch(() => ({}))) as { error?: string; message?: string }
  const message = body.message ?? body.error ?? `The gateway answered ${reply.status}.`
  if (reply.status === 401 && path.startsWith(API)) throw new SignedOut(message)
  throw new Error(message)
}

/** Rejects with a sentence for people; with SignedOut where there is no session. */
export const readApi = <T>(path: string): Promise<T> => request<T>(API + path, {})

/** Sets a control, or removes it if there is no body. */
export const changeControl = (path: string, body?: object): Promise<unknown> =>
  request(`${API}controls/${path}`, body ? { method: 'PUT', body: JSON.stringify(body) } : { method: 'DELETE' })

export const isSignedIn = async (): Promise<boolean> =>
  (await request<{ signed_in: boolean }>('/console/session', {})).signed_in
export const signIn = (token: string): Promise<unknown> =>
  request('/console/session', { method: 'POST', body: JSON.stringify({ token }) })
export const signOut = (): Promise<unknown> => request('/console/session', { method: 'DELETE' })
