/** The OpenAPI document of the operator's API. It is not part of what buyers see. */
import { WALLET_FORM } from '../../adapters/chains/families.ts'
import type { TObject } from '@sinclair/typebox'
import { Limit, ListedWallet, MaintenanceSwitch, Margin } from '../../core/payment/mod.ts'
import { FILTERS, MAX_LIMIT } from './payments.ts'
import { SERIES_FILTERS } from './series.ts'
import { STATUS_WORDS, STATUSES } from './payment.ts'

const FILTER_WORDS: Readonly<Record<string, string>> = {
  since: 'Opened at or after: a date, a time, or a span before now such as 24h or 7d.',
  until: 'Opened before.',
  payer: 'Wallet that signed.',
  model: 'Model id, exactly.',
  endpoint: 'Name of the endpoint, for example images.generations.',
  gateway: 'Name of the gateway.',
  status: STATUSES.map((status) => `${status}: ${STATUS_WORDS[status]}`).join('; '),
  limit: `Payments on one page, from 1 to ${MAX_LIMIT}; 50 by default.`,
  next: 'The `next` of the page before. A page may be short, or empty, while there is a next one.',
  format: 'csv or json; without it, `Accept: text/csv` asks for CSV.',
}

const text = { type: 'string' }
const textOrNull = { type: ['string', 'null'] }

const row = {
  type: 'object',
  required: ['id', 'status', 'charged', 'gateway', 'endpoint', 'payer', 'network', 'quoted_usdc', 'created_at'],
  properties: {
    id: { ...text, description: 'The call id.' },
    status: { enum: [...STATUSES] },
    charged: { type: ['boolean', 'null'], description: 'Null while it is not known.' },
    gateway: text,
    endpoint: text,
    model: textOrNull,
    payer: text,
    network: text,
    quoted_usdc: text,
    charged_usdc: textOrNull,
    transaction: textOrNull,
    block: { type: ['integer', 'null'] },
    created_at: { ...text, format: 'date-time' },
    settled_at: { ...textOrNull, format: 'date-time' },
    error: { ...textOrNull, description: 'Why the work failed, as the buyer read it.' },
    vendor_error: { ...textOrNull, description: 'What the vendor said, for the operator.' },
    payment_error: { ...textOrNull, description: 'Why the last attempt to settle moved no money.' },
  },
}

const payment = {
  allOf: [
    { $ref: '#/components/schemas/PaymentRow' },
    {
      type: 'object',
      required: ['answer', 'timeline', 'authorizations'],
      properties: {
        answer: { ...text, description: 'Was this wallet charged?' },
        timeline: {
          type: 'array',
          items: {
            type: 'object',
            required: ['at', 'event', 'text'],
            properties: { at: { ...text, format: 'date-time' }, event: text, text },
          },
        },
        authorizations: {
          type: 'array',
          items: { type: 'object', properties: { key: text, status: text, expires_at: text } },
        },
        tokens: { type: ['object', 'null'], properties: { input: { type: 'integer' }, output: { type: 'integer' } } },
        pay_to: text,
        asset: text,
        expires_at: { ...text, format: 'date-time' },
      },
    },
  ],
}

const rows = { type: 'array', items: { $ref: '#/components/schemas/PaymentRow' } }

const wallet = {
  type: 'object',
  required: ['wallet', 'answer', 'charged_usdc', 'charged_calls', 'by_model', 'uncollected', 'in_doubt', 'last_calls'],
  properties: {
    wallet: text,
    answer: { ...text, description: 'Was this wallet charged?' },
    charged_usdc: text,
    charged_calls: { type: 'integer' },
    last_charged_at: { ...textOrNull, format: 'date-time' },
    by_model: { type: 'array', items: { type: 'object' } },
    uncollected: rows,
    in_doubt: rows,
    last_calls: rows,
  },
}

const openCalls = {
  type: 'array',
  items: {
    allOf: [
      { $ref: '#/components/schemas/PaymentRow' },
      { type: 'object', properties: { age_seconds: { type: 'integer' }, advice: text } },
    ],
  },
}

const SERIES_WORDS: Readonly<Record<(typeof SERIES_FILTERS)[number], string>> = {
  since: 'From the hour or day of this date, time or span before now; a week by default.',
  until: 'Before; now by default.',
  unit: 'hour, for at most 14 days of the last 60, or day. By default hours up to three days, else days. In UTC.',
  by: 'gateway, endpoint or model: a sum for each.',
  gateway: 'Only of this gateway.',
  endpoint: 'Only of this endpoint.',
  model: 'Only of this model.',
}

const count = { type: 'integer' }
const millisecondsOrNull = { type: ['integer', 'null'], description: 'Estimated; null where nothing was completed.' }
const figures = {
  completed: count,
  failed: { ...count, description: 'Calls whose work failed; nobody was charged.' },
  settled: count,
  refused: { ...count, description: 'Payments that were refused after the work.' },
  unresolved: { ...count, description: 'Payments whose outcome could not be found out in time.' },
  charged_usdc: text,
  p50_ms: millisecondsOrNull,
  p95_ms: millisecondsOrNull,
}
const list = (properties: object) => ({ type: 'array', items: { type: 'object', properties } })
const dateTime = { ...text, format: 'date-time' }
const series = {
  type: 'object',
  required: ['unit', 'since', 'until', 'totals', 'points', 'names', 'buyers'],
  properties: {
    unit: { enum: ['hour', 'day'] },
    since: dateTime,
    until: dateTime,
    by: textOrNull,
    totals: { type: 'object', properties: figures },
    points: list({ at: dateTime, name: textOrNull, ...figures }),
    names: list({ name: textOrNull, ...figures }),
    buyers: list({ at: dateTime, buyers: count }),
  },
}

const error = {
  type: 'object',
  required: ['error', 'message'],
  properties: { error: text, message: text, details: { type: 'array', items: { type: 'object' } } },
}

const answers = (description: string, schema: object) => ({
  description,
  content: { 'application/json': { schema } },
})
const NOT_THERE = answers('Not found.', { $ref: '#/components/schemas/Error' })
const WRONG = answers('A field cannot be read; each is named.', { $ref: '#/components/schemas/Error' })

const inPath = (name: string, description: string) => ({
  name,
  in: 'path',
  required: true,
  description,
  schema: text,
})

type ControlWords = { readonly summary: string; readonly parameter?: string; readonly body: TObject }

const CONTROLS: Readonly<Record<string, ControlWords>> = {
  maintenance: { summary: 'The maintenance switch: PUT turns it on, DELETE off', body: MaintenanceSwitch },
  blocked: { summary: 'Blocked wallets', parameter: 'wallet', body: ListedWallet },
  allowed: {
    summary: 'Allowed wallets; no other one buys while there are any',
    parameter: 'wallet',
    body: ListedWallet,
  },
  wallet_limits: { summary: 'Limits of a wallet; * for each without its own', parameter: 'wallet', body: Limit },
  gateway_limits: { summary: 'Limits of a gateway; * for each without its own', parameter: 'gateway', body: Limit },
  margins: {
    summary: 'Margin of a product, in force ten seconds after its change',
    parameter: 'product',
    body: Margin,
  },
}

function controlPaths() {
  const each = Object.entries(CONTROLS).map(([name, { summary, parameter, body }]) => {
    const schema = JSON.parse(JSON.stringify(body)) as object
    const parameters = parameter === undefined ? [] : [inPath(parameter, summary)]
    const operation = (verb: string, more: object) => ({ operationId: `${verb}_${name}`, summary, parameters, ...more })
    const put = {
      requestBody: { required: true, content: { 'application/json': { schema } } },
      responses: { 200: answers('As it is set now.', schema), 400: WRONG },
    }
    const removed = { 200: answers('Off.', { type: 'object' }), 204: { description: 'Not set any more.' } }
    const methods = {
      get: operation('read', { responses: { 200: answers('As it is set.', schema), 404: NOT_THERE } }),
      put: operation('set', put),
      delete: operation('delete', { responses: removed }),
    }
    return [`/operator/controls/${name}${parameter === undefined ? '' : `/{${parameter}}`}`, methods] as const
  })
  const all = { operationId: 'read_controls', summary: 'All controls' }
  const whole = { get: { ...all, responses: { 200: answers('All controls.', { type: 'object' }) } } }
  return { '/operator/controls': whole, ...Object.fromEntries(each) }
}

const PROCESS_PATHS = {
  '/operator/status': {
    get: {
      operationId: 'readStatus',
      summary: 'Whether each gateway sells, accounts that pay for settlements, and models by their last calls',
      responses: { 200: answers('Of this process.', { type: 'object' }) },
    },
  },
  '/operator/configuration': {
    get: {
      operationId: 'readConfiguration',
      summary: 'The configuration in force; secrets are hidden',
      responses: { 200: answers('By section.', { type: 'object' }) },
    },
  },
}

const KEY_PATHS = {
  '/operator/keys': {
    get: {
      operationId: 'listKeys',
      summary:
        'API keys: balance, charges, what is not claimed yet, gas and last use. Block one by PUT /operator/controls/blocked/ and its address.',
      parameters: [
        { name: 'after', in: 'query', description: 'The `next` of the page before; null on the last.', schema: text },
      ],
      responses: {
        200: answers('A hundred keys at most, by address. Amounts are in USDC.', {
          type: 'object',
          required: ['keys', 'next'],
          properties: { keys: { type: 'array', items: { type: 'object' } }, next: textOrNull },
        }),
        400: WRONG,
      },
    },
  },
}

export function operatorDocument(version: string, { hasControls = false, hasProcess = false, hasKeys = false } = {}) {
  const listed = {
    type: 'object',
    required: ['payments', 'next'],
    properties: { payments: rows, next: { ...textOrNull, description: 'Null on the last page.' } },
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Farebox operator API', version, description: 'Served to the operator token only.' },
    security: [{ operator: [] }],
    paths: {
      '/operator/payments': {
        get: {
          operationId: 'listPayments',
          summary: 'Payments, newest first',
          parameters: FILTERS.map((name) => ({ name, in: 'query', description: FILTER_WORDS[name], schema: text })),
          responses: {
            200: {
              description: 'One page. Of CSV, the header X-Next has `next`.',
              content: { 'application/json': { schema: listed }, 'text/csv': { schema: text } },
            },
            400: WRONG,
          },
        },
      },
      '/operator/payments/{name}': {
        get: {
          operationId: 'findPayments',
          summary: 'What happened to a payment',
          parameters: [inPath('name', 'A call id, a transaction, a nonce, or the key of an authorization.')],
          responses: {
            200: answers('Every payment of this name, newest first.', {
              type: 'object',
              required: ['payments'],
              properties: { payments: { type: 'array', items: { $ref: '#/components/schemas/Payment' } } },
            }),
            404: NOT_THERE,
          },
        },
      },
      '/operator/wallets/{address}': {
        get: {
          operationId: 'readWallet',
          summary: 'Was this wallet charged?',
          parameters: [inPath('address', `${WALLET_FORM.replace('a', 'A')}.`)],
          responses: {
            200: answers('What it paid, and what is open.', { $ref: '#/components/schemas/Wallet' }),
            400: WRONG,
          },
        },
      },
      '/operator/series': {
        get: {
          operationId: 'readSeries',
          summary: 'Revenue, calls, buyers, durations and failures over time',
          parameters: SERIES_FILTERS.map((name) => ({
            name,
            in: 'query',
            description: SERIES_WORDS[name],
            schema: text,
          })),
          responses: { 200: answers('Sums by hour or day.', series), 400: WRONG },
        },
      },
      '/operator/open': {
        get: {
          operationId: 'listOpenCalls',
          summary: 'Unfinished work and payments in doubt, oldest first, with what can be done',
          responses: { 200: answers('At most 200 of each.', { type: 'object', properties: { calls: openCalls } }) },
        },
      },
      ...(hasProcess && PROCESS_PATHS),
      ...(hasKeys && KEY_PATHS),
      ...(hasControls && controlPaths()),
    },
    components: {
      securitySchemes: { operator: { type: 'http', scheme: 'bearer' } },
      schemas: { PaymentRow: row, Payment: payment, Wallet: wallet, Error: error },
    },
  }
}
