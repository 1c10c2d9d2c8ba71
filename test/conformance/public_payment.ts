/**
 * A stranger who has read a settlement on the chain (contract 1.41): the whole authorization is public
 * there, and its signature with it. What the chain does not publish is missing from the payment that he makes of it:
 * the extensions, and our own poll URLs.
 */
import { expect } from 'bun:test'
import type { Gateway, Payment } from '../../core/mod.ts'
import { encodePayment, ORIGIN } from '../kit.ts'

/** Nobody's address in the kits. */
export const STRANGER = '198.51.100.66'

type Heard = { readonly what: string; readonly status: number; readonly text: string; readonly headers: Headers }

/** A payment as anybody builds it from calldata and a challenge: nothing of the buyer's own but what is signed. */
const rebuilt = ({ x402Version, accepted, payload }: Payment): Payment =>
  structuredClone({ x402Version, accepted, payload })

type Robbery = {
  readonly payment: Payment
  /** Orders that the stranger tries it on; the victim's own is the best guess that he can make. */
  readonly orders: readonly { readonly method: string; readonly path: string; readonly body?: unknown }[]
  /** Where the victim polls, as far as a stranger may know it: without the key. */
  readonly polls?: readonly string[]
}

/** All that a stranger hears who tries a public payment on everything there is. */
export async function strangerHears(
  gateway: Pick<Gateway, 'fetch'>,
  { payment, orders, polls = [] }: Robbery,
): Promise<readonly Heard[]> {
  const header = encodePayment(rebuilt(payment))
  const heard: Heard[] = []
  const urls = new Set(polls)
  const ids = new Set<string>()
  for (const name of ['payment-signature', 'x-payment']) {
    for (const { method, path, body } of orders) {
      const response = await ask(
        method,
        path,
        { [name]: header, ...(body !== undefined && { 'content-type': 'application/json' }) },
        body,
      )
      const reported = found(response.text)
      if (reported.poll_url !== undefined) urls.add(reported.poll_url)
      if (reported.job_id !== undefined) ids.add(reported.job_id)
    }
  }
  for (const id of ids) {
    urls.add(`/api/v1/calls/${id}`)
    for (const key of ['', '0', '0'.repeat(32), '0'.repeat(64), id]) urls.add(`/api/v1/calls/${id}?key=${key}`)
    urls.add(`/api/v1/calls/${id}?key=${'0'.repeat(32)}&key=${'1'.repeat(32)}`)
    await ask('GET', `/api/v1/responses/resp_${id.slice(4)}`, { 'payment-signature': header })
    await ask('GET', `/api/v1/responses/resp_${id.slice(4)}?stream=true`, {})
    await ask('GET', `/api/v1/responses/resp_${id.slice(4)}_${'0'.repeat(32)}`, { 'payment-signature': header })
    await ask('POST', `/api/v1/responses/resp_${id.slice(4)}/cancel`, { 'payment-signature': header })
  }
  for (const url of urls)
    for (const method of ['GET', 'HEAD'])
      for (const paying of [{ 'payment-signature': header }, { 'x-payment': header }, {}])
        await ask(method, url, paying)
  return heard

  async function ask(method: string, path: string, headers: Record<string, string>, body?: unknown): Promise<Heard> {
    const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
    const response = await gateway.fetch(
      new Request(path.startsWith('http') ? path : ORIGIN + path, {
        method,
        headers,
        ...(text !== undefined && method !== 'GET' && { body: text }),
      }),
      { ip: STRANGER },
    )
    const each = {
      what: `${method} ${path}`,
      status: response.status,
      text: await response.text(),
      headers: response.headers,
    }
    heard.push(each)
    return each
  }
}

function found(text: string): { readonly job_id?: string; readonly poll_url?: string } {
  try {
    const body = JSON.parse(text)
    return { ...(body.error?.job_id && { job_id: body.error.job_id }), ...body }
  } catch {
    return {}
  }
}

/** Throws where a stranger was told anything but that he has to pay, or that there is no such thing. */
export function expectNothingRead(heard: readonly Heard[]): void {
  const isRefused = ({ status }: Heard) => [400, 402, 404].includes(status)
  const namesReceipt = ({ headers, text }: Heard) =>
    headers.has('payment-response') || headers.has('x-payment-receipt') || /[?&]key=[0-9a-f]{32}/.test(text)
  expect(
    heard
      .filter((each) => !isRefused(each) || namesReceipt(each))
      .map(({ what, status, text }) => `${what}: ${status} ${text.slice(0, 200)}`),
  ).toEqual([])
  expect(heard.some(({ text }) => text.includes('PAYMENT_REPLAY') || text.includes('already used'))).toBe(true)
}

type Reading = {
  readonly gateway: Pick<Gateway, 'fetch'>
  keyed(id: string): Promise<string>
  fresh(): Payment
  empty(): void
}

/**
 * The rest of contract 2.4, of a call that is paid: its original payment reads at the URL with its key and at no other,
 * and a fresh signature reads without any key, whatever the wallet holds. `found` is where a stranger was sent.
 */
export async function expectOwnerReads(
  { gateway, keyed, fresh, empty }: Reading,
  { id, payment }: { id: string; payment: Payment },
): Promise<void> {
  const status = async (url: string, by: Payment, method = 'GET') =>
    (
      await gateway.fetch(new Request(ORIGIN + url, { method, headers: { 'payment-signature': encodePayment(by) } }), {
        ip: STRANGER,
      })
    ).status
  const reads = async (...args: Parameters<typeof status>) => (await status(...args)) === 200
  const [url, other] = [await keyed(id), (await keyed(`job_${'f'.repeat(32)}`)).split('?')[1]]
  const bare = `/api/v1/calls/${id}`
  expect([
    await reads(url, payment),
    await status(bare, payment),
    await status(`${bare}?${other}`, payment),
    await reads(url, payment, 'HEAD'),
  ]).toEqual([true, 402, 402, false])
  empty()
  const proof = fresh()
  expect([await reads(bare, proof), await reads(bare, proof), await reads(bare, proof, 'HEAD')]).toEqual([
    true,
    true,
    false,
  ])
}

/** A gateway, broken: it knows nobody by his address. */
export const addressBlind = (gateway: Gateway): Pick<Gateway, 'fetch'> => ({
  fetch: (request, caller) => gateway.fetch(request, { ...caller, ip: '192.0.2.1' }),
})
