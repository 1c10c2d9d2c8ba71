/**
 * The operator's HTTP API, under /operator. Whoever calls it has proven to have the operator's token; to everybody else
 * these paths do not exist. No framework: a Request becomes a Reply.
 */
import { json, type Reply } from '../../core/mod.ts'
import type { LedgerReads } from '../../core/ports/mod.ts'
import { controlApi, type ControlApiOptions } from './control_api.ts'
import type { Section } from './configuration.ts'
import { type KeySources, listKeys } from './keys.ts'
import { listOpenCalls } from './open.ts'
import { operatorDocument } from './openapi.ts'
import { csvOf, findPayments, isWallet, listPayments, readFilter, walletReport } from './payments.ts'
import { failed, invalid, NO_STORE } from './replies.ts'
import { readSeriesQuery, seriesOf } from './series.ts'

export type OperatorApi = (request: Request, url: { readonly path: string; readonly search: string }) => Promise<Reply>

type OperatorOptions = {
  readonly ledger: LedgerReads
  readonly clock: { now(): number }
  readonly version: string
  /** Serves /operator/controls. */
  readonly control?: ControlApiOptions
  /** Serves /operator/status. */
  readonly status?: () => Promise<object>
  /** Serves /operator/configuration. */
  readonly configuration?: readonly Section[]
  /** Serves /operator/keys. */
  readonly keys?: KeySources
}

export const OPERATOR = '/operator/'

export function operatorApi(options: OperatorOptions): OperatorApi {
  const { ledger, clock, version, control, status, configuration, keys } = options
  const change = control && controlApi(control)

  return async function answer(request, url) {
    try {
      return await routed(request, url)
    } catch (error) {
      const message = `The storage could not be reached: ${(error as Error).message}`
      return failed(503, 'Not ready', { message }, { 'retry-after': '5' })
    }
  }

  async function routed(request: Request, { path, search }: Parameters<OperatorApi>[1]): Promise<Reply> {
    const [, , area = '', name = '', ...rest] = path.split('/').map(decoded)
    if (area === 'controls' && change) return await change(request, name === '' ? [] : [name, ...rest])
    if (rest.length > 0) return notFound(path)
    if (request.method !== 'GET') return wrongMethod(request.method, path)
    if (area === 'openapi.json' && name === '')
      return json(
        200,
        operatorDocument(version, {
          hasControls: change !== undefined,
          hasProcess: status !== undefined,
          hasKeys: keys !== undefined,
        }),
        NO_STORE,
      )
    if (area === 'series' && name === '') return await series(new URLSearchParams(search))
    if (area === 'open' && name === '') return json(200, { calls: await listOpenCalls(ledger, clock.now()) }, NO_STORE)
    if (area === 'status' && name === '' && status) return json(200, await status(), NO_STORE)
    if (area === 'configuration' && name === '' && configuration)
      return json(200, { sections: configuration }, NO_STORE)
    if (area === 'keys' && name === '' && keys) return await listed(keys, new URLSearchParams(search))
    if (area === 'payments' && name === '') return await list(request, new URLSearchParams(search))
    if (area === 'payments') return await find(name)
    if (area === 'wallets' && name !== '') return await wallet(name)
    return notFound(path)
  }

  async function list(request: Request, query: URLSearchParams): Promise<Reply> {
    const read = readFilter(Object.fromEntries(query), clock.now())
    if (!read.ok) return invalid('Invalid query', read.mistakes)
    const page = await listPayments(ledger, read.filter)
    const format = query.get('format') ?? (request.headers.get('accept')?.includes('text/csv') ? 'csv' : 'json')
    if (format === 'json') return json(200, page, NO_STORE)
    const next = page.next === null ? {} : { 'x-next': page.next }
    const headers = { 'content-type': 'text/csv; charset=utf-8; header=present', ...NO_STORE, ...next }
    return { status: 200, headers, body: csvOf(page.payments) }
  }

  async function listed(sources: KeySources, query: URLSearchParams): Promise<Reply> {
    const after = query.get('after') ?? ''
    if (after === '' || /^0x[0-9a-fA-F]{40}$/.test(after))
      return json(200, await listKeys(sources, { now: clock.now(), after }), NO_STORE)
    const message = `${JSON.stringify(after.slice(0, 100))} is no address of a key; write the next of the page before`
    return invalid('Invalid query', [{ path: 'after', message }])
  }

  async function series(query: URLSearchParams): Promise<Reply> {
    const read = readSeriesQuery(Object.fromEntries(query), clock.now())
    return read.ok ? json(200, await seriesOf(ledger, read.query), NO_STORE) : invalid('Invalid query', read.mistakes)
  }

  async function find(name: string): Promise<Reply> {
    const payments = await findPayments(ledger, name)
    if (payments.length > 0) return json(200, { payments }, NO_STORE)
    return failed(404, 'Payment not found', {
      message: `The ledger has no payment with the call id, transaction or nonce ${name.slice(0, 200)}. Unpaid calls are deleted when they can no longer be paid.`,
    })
  }

  async function wallet(address: string): Promise<Reply> {
    if (isWallet(address)) return json(200, await walletReport(ledger, address, clock.now()), NO_STORE)
    return invalid('Invalid wallet', [
      {
        path: 'address',
        message: `${JSON.stringify(address.slice(0, 100))} is no wallet; write 0x and 40 hex digits, or a base58 key`,
      },
    ])
  }
}

function notFound(path: string): Reply {
  return failed(404, 'Not found', { message: `There is nothing at ${path}. GET /operator/openapi.json lists what is.` })
}

function wrongMethod(method: string, path: string): Reply {
  return failed(
    405,
    'Method not allowed',
    { message: `${method} is not served at ${path}; allowed: GET.` },
    { allow: 'GET' },
  )
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
