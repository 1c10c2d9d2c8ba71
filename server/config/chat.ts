/** Changes to the catalog's chat rows, and how each row is served. */
import { type Static, Type } from '@sinclair/typebox'
import { type ChatRow, chatRows, type Json, overrideChat } from '../../core/mod.ts'
import { addressOf, protocolOf } from './providers.ts'
import { oneOf, setting } from '../../adapters/providers/manifest.ts'
import { type Environment, Rate } from './settings.ts'
import type { ChatStyle } from '../../adapters/providers/manifest.ts'
import { above, ChatProtocolName, chatStyle, keyOf, serving, type ServedCatalog, type VendorTable } from './vendors.ts'

const strict = { additionalProperties: false }
const Name = Type.String({ minLength: 1, maxLength: 200 })
const Names = Type.Array(Name, { maxItems: 100 })
const Tokens = Type.Integer({ minimum: 1 })

export const ChatSetting = Type.Object(
  {
    id: Type.String({ pattern: '^[\\w./:-]{1,100}$', description: 'The model to change or to add.' }),
    aliases: setting('Other names that requests may use.', Names),
    name: setting('The name that lists show.', Name),
    description: setting('The description that lists show.', Type.String()),
    maker: setting('Who made the model, as lists show it.', Name),
    vendor: setting('The vendor that serves it: a table of `[vendors]`.', Name),
    upstream: setting('The name of the model at its vendor.', Name),
    created: setting('Its release date, in unix seconds.', Type.Integer({ minimum: 0 })),
    context_window: setting('Context window: tokens of prompt and answer together.', Tokens),
    max_output: setting('Maximum tokens of an answer.', Tokens),
    categories: setting('Categories that lists show.', Type.Array(oneOf('chat', 'reasoning', 'coding', 'vision'))),
    input: setting('US dollars per million prompt tokens, as text.', Rate),
    output: setting('US dollars per million answer tokens, as text.', Rate),
    cache_read: setting('US dollars per million prompt tokens read from the vendor’s cache.', Rate),
    cache_write: setting('US dollars per million prompt tokens written to that cache.', Rate),
    long: setting(
      'Other rates for long prompts: `{ from, input, output }`, where `from` is a number of prompt tokens.',
      Type.Object({ from: Tokens, input: Rate, output: Rate }, strict),
    ),
    flat: setting('A price in US dollars per request instead of token rates, the fee included.', Rate),
    free: setting('Needs no payment; limited by `free_per_minute` and `free_per_hour`.', Type.Boolean()),
    structured: setting(
      'How `response_format` is served: forwarded, or emulated by an instruction.',
      oneOf('forwarded', 'emulated'),
    ),
    images: setting(
      'Accepts images, and how their tokens are counted.',
      oneOf('tiles_512', 'area_750', 'tiles_768', 'tiles_448'),
    ),
    reads: setting('Inputs that it accepts beside text and images.', Type.Array(oneOf('file', 'audio', 'video'))),
    strips: setting('Parameters that are dropped, so that the request succeeds.', Names),
    refuses: setting('Parameters that are answered with 400.', Names),
    max_stops: setting('Maximum number of `stop` strings; more are answered with 400.', Tokens),
    no_forced_tools: setting('Serves a forced `tool_choice` as `auto`.', Type.Boolean()),
    tools_by_responses: setting('Sends function tools over the vendor’s responses API.', Type.Boolean()),
    live_search: setting('Accepts `search_parameters`, at this surcharge per call in US dollars.', Rate),
    prompt_cache: setting('Caches prompts at the vendor when a request enables it.', Type.Boolean()),
    surfaces: setting(
      'Further APIs that serve it, beside chat completions and messages.',
      Type.Array(oneOf('responses', 'generate_content')),
    ),
    fallbacks: setting('Ids of models to try in order while this one is unavailable. None may cost more.', Names),
    hidden: setting('Sells the model without listing it.', Type.Boolean()),
    redirect: setting('The id of the model that serves requests instead.', Name),
    protocol: setting('The protocol of this model, if it is not its vendor’s.', ChatProtocolName),
    ...serving,
    style: chatStyle,
    timeout_seconds: setting(
      'Longest wait for a whole answer, or for the first event of a stream, in seconds.',
      serving.timeout_seconds,
      { usual: '120' },
    ),
  },
  strict,
)
export type ChatSetting = Static<typeof ChatSetting>

/** How one row is served: a protocol with its settings, and the key from the environment. */
export type ChatServing = {
  readonly protocol: string
  /** By default that of the protocol's maker. */
  readonly baseUrl: string | undefined
  readonly key: string | undefined
  readonly timeoutMs: number
  readonly style?: ChatStyle
  readonly parameters: Readonly<Record<string, Json>> | undefined
  readonly overrides: Readonly<Record<string, Json>> | undefined
}
export type ServedChat = ServedCatalog<ChatRow, ChatServing>

/** 120 s: timeout of a whole answer, or of the first bytes of a stream (contract 6.52). */
const TIMEOUT_S = 120

type Resolving = { readonly env: Environment; readonly added: readonly ChatSetting[]; readonly mistakes: string[] }

/**
 * `added` are rows beside the catalog's, which settings may change too. Adds mistakes by name; keys are looked up,
 * never shown.
 */
export function resolveChat(
  vendors: VendorTable,
  settings: readonly ChatSetting[],
  { env, added, mistakes }: Resolving,
): ServedChat {
  const rows = overrideChat(chatRows, added).rows
  const overridden = overrideChat(rows, settings.map(overrideOf))
  mistakes.push(...overridden.mistakes)
  const tables = new Map(
    Object.entries(vendors).flatMap(([name, row]) => (row.chat ? [[name, tableOf(name, row, mistakes)] as const] : [])),
  )
  const own = new Map(settings.map((setting) => [setting.id, servingFields(setting)]))
  const servings = new Map<string, ChatServing>()
  for (const row of overridden.rows) {
    const table = tables.get(row.vendor)
    const fields = own.get(row.servedBy ?? row.id) ?? {}
    const merged = above(table, fields)
    if (!merged.protocol) continue
    const isNowhere =
      protocolOf('chat', merged.protocol).isCommon && table?.protocol !== merged.protocol && !merged.base_url
    if (isNowhere && !row.servedBy)
      mistakes.push(`chat ${row.id}.base_url: missing; the protocol ${merged.protocol} is served by many servers`)
    servings.set(row.id, {
      protocol: merged.protocol,
      baseUrl: merged.base_url,
      key: keyOf(merged, { at: fields.key_env ? `chat ${row.id}` : `vendors.${row.vendor}`, env, mistakes }),
      timeoutMs: (merged.timeout_seconds ?? TIMEOUT_S) * 1000,
      ...(merged.style && { style: merged.style }),
      parameters: merged.parameters as ChatServing['parameters'],
      overrides: merged.overrides as ChatServing['overrides'],
    })
  }
  return { rows: overridden.rows, servings }
}

type Fields = Partial<Pick<ChatSetting, 'protocol' | 'style' | keyof typeof serving>>

/**
 * The chat settings of a vendor's table. By default the address is the maker's; a key of one maker is never sent to
 * another.
 */
function tableOf(
  name: string,
  {
    chat,
    base_url,
    key_env,
    chat_base_url,
    chat_timeout_seconds,
    chat_style,
    chat_parameters,
    chat_overrides,
  }: VendorTable[string],
  mistakes: string[],
): Fields {
  const address = chat_base_url ?? base_url ?? (chat && addressOf(name, 'chat', chat))
  if (address === 'unknown')
    mistakes.push(`vendors.${name}.base_url: missing; the protocol ${chat} is served by many servers`)
  const fields = {
    protocol: chat,
    base_url: address === 'own' ? undefined : address,
    key_env,
    timeout_seconds: chat_timeout_seconds,
    style: chat_style,
    parameters: chat_parameters,
    overrides: chat_overrides,
  }
  return given(fields)
}

function servingFields(setting: ChatSetting): Fields {
  const { protocol, base_url, key_env, timeout_seconds, style, parameters, overrides } = setting
  return given({ protocol, base_url, key_env, timeout_seconds, style, parameters, overrides })
}

function given(fields: { readonly [Name in keyof Fields]: Fields[Name] | undefined }): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Fields
}

function overrideOf(setting: ChatSetting) {
  const {
    protocol: _protocol,
    base_url: _url,
    key_env: _key,
    timeout_seconds: _time,
    style: _style,
    parameters: _parameters,
    overrides: _overrides,
    ...fields
  } = setting
  return fields
}
