/** /operator/controls: reads and changes what the operator may change at run time. */
import { WALLET_FORM } from '../../adapters/chains/families.ts'
import { Value } from '@sinclair/typebox/value'
import type { TObject } from '@sinclair/typebox'
import { json, type Reply } from '../../core/mod.ts'
import {
  changedMargin,
  type Controls,
  Limit,
  ListedWallet,
  MaintenanceSwitch,
  Margin,
  type Rules,
} from '../../core/payment/mod.ts'
import { failed, invalid } from './replies.ts'
import { iso } from './payment.ts'
import { isWallet, type Mistake } from './payments.ts'

export type ControlApiOptions = {
  readonly controls: Controls
  readonly clock: { now(): number }
  /** Tags and names of what is sold, which margins may name, and the gateways, which limits may name. */
  readonly products: () => readonly string[]
  readonly gateways: readonly string[]
}

type Table = Exclude<keyof Rules, 'maintenance'>

/** A control: where it is stored, its schema, and the names that it may have. */
type Control = {
  readonly schema: TObject
  readonly table: Table
  readonly allowed: string
  isName(name: string): boolean
}

/** Lists of wallets end somewhere, because each replica holds them in memory. */
const MAX_ENTRIES = 10_000
const MAX_BODY = 10_000
/** The longest lifetime of a quote, and how long a lost reply may be asked for again. */
const QUOTE_MS = 3_600_000

export function controlApi({ controls, clock, products, gateways }: ControlApiOptions) {
  const wallets = { allowed: WALLET_FORM, isName: isWallet }
  const table: Readonly<Record<string, Control>> = {
    blocked: { schema: ListedWallet, table: 'blocked', ...wallets },
    allowed: { schema: ListedWallet, table: 'allowed', ...wallets },
    wallet_limits: {
      schema: Limit,
      table: 'wallet_limits',
      allowed: `${wallets.allowed}, or * for every wallet without limits of its own`,
      isName: (name) => name === '*' || isWallet(name),
    },
    gateway_limits: {
      schema: Limit,
      table: 'gateway_limits',
      allowed: `one of ${gateways.join(', ')}, or * for each of them`,
      isName: (name) => name === '*' || gateways.includes(name),
    },
    margins: {
      schema: Margin,
      table: 'margins',
      get allowed() {
        return `one of ${products().join(', ')}`
      },
      isName: (name) => products().includes(name),
    },
  }

  return async function answer(request: Request, [kind = '', name = '', ...rest]: readonly string[]): Promise<Reply> {
    const { method } = request
    if (rest.length > 0) return nothing()
    if (kind === '') return method === 'GET' ? ok(shape(controls.rules(), clock.now())) : wrongMethod(method, 'GET')
    if (method !== 'GET' && method !== 'PUT' && method !== 'DELETE') return wrongMethod(method, 'GET, PUT, DELETE')
    if (kind === 'maintenance' && name === '') return await maintenance(request)
    const control = table[kind]
    if (!control || name === '') return nothing()
    // A listed entry can be read and removed by its spelling there, which need not be an address.
    const isListed = method !== 'PUT' && keyOf(kind, name) in controls.rules()[control.table]
    if (!control.isName(name) && !isListed)
      return invalid('Invalid name', [
        { path: kind, message: `${JSON.stringify(name.slice(0, 100))} is not allowed here; write ${control.allowed}` },
      ])
    return await entry(request, { kind, name: keyOf(kind, name), control })
  }

  async function maintenance(request: Request): Promise<Reply> {
    if (request.method === 'GET')
      return ok({ on: controls.rules().maintenance !== undefined, ...controls.rules().maintenance })
    if (request.method === 'DELETE') {
      await controls.change(({ maintenance: _, ...rules }) => rules)
      return ok({ on: false })
    }
    const body = await bodyOf(request, MaintenanceSwitch)
    if (!body.ok) return body.reply
    await controls.change((rules) => ({ ...rules, maintenance: body.value }))
    return ok({ on: true, ...body.value })
  }

  async function entry(
    request: Request,
    { kind, name, control }: { kind: string; name: string; control: Control },
  ): Promise<Reply> {
    const { table: at, schema } = control
    const view = () => (shape(controls.rules(), clock.now())[at] as Record<string, unknown>)[name]
    if (request.method === 'GET') {
      const found = view()
      return found === undefined ? failed(404, 'Not set', { message: `${kind} has no ${name}.` }) : ok(found)
    }
    if (request.method === 'DELETE') {
      await controls.change((rules) => {
        // A margin ends as it began: with a change, so that quotes of before can be paid.
        if (at === 'margins') return rules.margins[name] ? withMarginOf(rules, name, '0') : undefined
        const { [name]: removed, ...others } = rules[at] as Record<string, unknown>
        return removed === undefined ? undefined : { ...rules, [at]: others }
      })
      return { status: 204, headers: { 'cache-control': 'no-store' }, body: null }
    }
    const body = await bodyOf(request, schema)
    if (!body.ok) return body.reply
    let isFull = false
    await controls.change((rules) => {
      isFull = !(name in rules[at]) && Object.keys(rules[at]).length >= MAX_ENTRIES
      if (isFull) return undefined
      if (at === 'margins') return withMarginOf(rules, name, (body.value as { percent: string }).percent)
      return { ...rules, [at]: { ...rules[at], [name]: body.value } }
    })
    if (isFull) return failed(409, 'List is full', { message: `${kind} holds at most ${MAX_ENTRIES} entries.` })
    return ok(view())
  }

  function withMarginOf(rules: Rules, name: string, percent: string): Rules {
    const changes = changedMargin(rules.margins[name] ?? [], percent, { now: clock.now(), quoteMs: QUOTE_MS })
    return { ...rules, margins: { ...rules.margins, [name]: [...changes] } }
  }
}

/** Wallets are stored and looked up in lower case, those of Solana too: no two of them differ in nothing but case. */
function keyOf(kind: string, name: string): string {
  return kind === 'margins' || kind === 'gateway_limits' ? name : name.toLowerCase()
}

/** The rules as they are read: of margins, the one that was set last and when it takes effect. */
function shape(rules: Rules, now: number) {
  const margins = Object.entries(rules.margins).map(([name, changes]) => {
    const last = changes.at(-1)
    const from = last ? iso(last.from) : null
    return [name, { percent: last?.percent ?? '0', from, in_force: (last?.from ?? 0) <= now }]
  })
  return {
    ...rules,
    maintenance: { on: rules.maintenance !== undefined, ...rules.maintenance },
    margins: Object.fromEntries(margins),
  }
}

type Body = { readonly ok: true; readonly value: object } | { readonly ok: false; readonly reply: Reply }

async function bodyOf(request: Request, schema: TObject): Promise<Body> {
  const wrong = (mistakes: readonly Mistake[]) =>
    ({ ok: false, reply: invalid('Invalid request body', mistakes) }) as const
  const text = await request.text()
  if (text.length > MAX_BODY) return wrong([{ path: 'body', message: `at most ${MAX_BODY} characters` }])
  let value: unknown
  try {
    value = text === '' ? {} : JSON.parse(text)
  } catch {
    return wrong([{ path: 'body', message: 'is no JSON' }])
  }
  const mistakes = [...Value.Errors(schema, value)].map(({ path, message, value: given }) => ({
    path: path.slice(1) || 'body',
    message: `${JSON.stringify(given)?.slice(0, 100) ?? 'nothing'} is not allowed here: ${message}; the fields are ${fieldsOf(schema)}`,
  }))
  return mistakes.length > 0 ? wrong(mistakes) : { ok: true, value: value as object }
}

function fieldsOf({ properties }: TObject): string {
  return Object.entries(properties)
    .map(([name, { type, pattern, minimum, maximum }]) => {
      const range = minimum === undefined ? '' : ` from ${minimum} to ${maximum}`
      return `${name} (${pattern ? 'a decimal in quotes' : type}${range})`
    })
    .join(', ')
}

const ok = (value: unknown): Reply => json(200, value, { 'cache-control': 'no-store' })
const nothing = (): Reply =>
  failed(404, 'Not found', {
    message:
      'Controls are maintenance, blocked/{wallet}, allowed/{wallet}, wallet_limits/{wallet}, gateway_limits/{gateway} and margins/{product}.',
  })

function wrongMethod(method: string, allow: string): Reply {
  return failed(405, 'Method not allowed', { message: `${method} is not served here; allowed: ${allow}.` }, { allow })
}
