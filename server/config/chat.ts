/** The part of the configuration that says who converses: changes to the catalog's chat rows, and how each row is served. */
import { type Static, Type } from '@sinclair/typebox'
import { type ChatRow, chatRows, type Json, overrideChat } from '../../core/mod.ts'
import { addressOf } from './makers.ts'
import {
  above,
  type ChatProtocol,
  ChatProtocolName,
  type Environment,
  keyOf,
  serving,
  type Shelf,
  type VendorTable,
} from './vendors.ts'

const strict = { additionalProperties: false }
const Name = Type.String({ minLength: 1, maxLength: 200 })
const Names = Type.Array(Name, { maxItems: 100 })
const Tokens = Type.Integer({ minimum: 1 })
/** US dollars. */
const Rate = Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,9})?$' })
const oneOf = <const Words extends readonly string[]>(...words: Words) =>
  Type.Union(words.map((word: Words[number]) => Type.Literal(word)))

export const ChatSetting = Type.Object(
  {
    id: Type.String({ pattern: '^[\\w./:-]{1,100}$' }),
    aliases: Type.Optional(Names),
    name: Type.Optional(Name),
    description: Type.Optional(Type.String()),
    maker: Type.Optional(Name),
    vendor: Type.Optional(Name),
    upstream: Type.Optional(Name),
    created: Type.Optional(Type.Integer({ minimum: 0 })),
    context_window: Type.Optional(Tokens),
    max_output: Type.Optional(Tokens),
    categories: Type.Optional(Type.Array(oneOf('chat', 'reasoning', 'coding', 'vision'))),
    input: Type.Optional(Rate),
    output: Type.Optional(Rate),
    cache_read: Type.Optional(Rate),
    cache_write: Type.Optional(Rate),
    long: Type.Optional(Type.Object({ from: Tokens, input: Rate, output: Rate }, strict)),
    flat: Type.Optional(Rate),
    free: Type.Optional(Type.Boolean()),
    structured: Type.Optional(oneOf('forwarded', 'emulated')),
    images: Type.Optional(oneOf('tiles_512', 'area_750', 'tiles_768', 'tiles_448')),
    strips: Type.Optional(Names),
    refuses: Type.Optional(Names),
    no_forced_tools: Type.Optional(Type.Boolean()),
    tools_by_responses: Type.Optional(Type.Boolean()),
    live_search: Type.Optional(Rate),
    prompt_cache: Type.Optional(Type.Boolean()),
    surfaces: Type.Optional(Type.Array(oneOf('responses', 'generate_content'))),
    fallbacks: Type.Optional(Names),
    hidden: Type.Optional(Type.Boolean()),
    redirect: Type.Optional(Name),
    protocol: Type.Optional(ChatProtocolName),
    ...serving,
  },
  strict,
)
export type ChatSetting = Static<typeof ChatSetting>

/** How one row is served: a protocol with its settings, the key read from the environment. */
export type ChatServing = {
  readonly protocol: ChatProtocol
  /** The maker's own unless told. */
  readonly baseUrl: string | undefined
  readonly key: string | undefined
  readonly timeoutMs: number
  readonly parameters: Readonly<Record<string, Json>> | undefined
  readonly overrides: Readonly<Record<string, Json>> | undefined
}
export type ChatShelf = Shelf<ChatRow, ChatServing>

/** 120 s: a whole answer, or the first bytes of a stream (contract 6.52). */
const TIMEOUT_S = 120

type Resolving = { readonly env: Environment; readonly added: readonly ChatSetting[]; readonly mistakes: string[] }

/** `added` are rows beside the catalog's, which settings may change too. Mistakes are added by name; keys are looked up, never shown. */
export function resolveChat(
  vendors: VendorTable,
  settings: readonly ChatSetting[],
  { env, added, mistakes }: Resolving,
): ChatShelf {
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
    const merged = above(table, own.get(row.servedBy ?? row.id) ?? {})
    if (!merged.protocol) continue
    const isNowhere = merged.protocol === 'openai-chat' && table?.protocol !== 'openai-chat' && !merged.base_url
    if (isNowhere && !row.servedBy)
      mistakes.push(`chat ${row.id}.base_url: missing; ${merged.protocol} alone does not say whose server that is`)
    servings.set(row.id, {
      protocol: merged.protocol,
      baseUrl: merged.base_url,
      key: keyOf(merged, env, mistakes),
      timeoutMs: (merged.timeout_seconds ?? TIMEOUT_S) * 1000,
      parameters: merged.parameters as ChatServing['parameters'],
      overrides: merged.overrides as ChatServing['overrides'],
    })
  }
  return { rows: overridden.rows, servings }
}

type Fields = Partial<Pick<ChatSetting, 'protocol' | keyof typeof serving>>

/** What a vendor's table says of chat. Without an address it is the maker's; a key of one maker is never sent to another. */
function tableOf(
  name: string,
  {
    chat,
    base_url,
    key_env,
    chat_base_url,
    chat_timeout_seconds,
    chat_parameters,
    chat_overrides,
  }: VendorTable[string],
  mistakes: string[],
): Fields {
  const address = chat_base_url ?? base_url ?? (chat && addressOf(name, chat))
  if (address === 'unknown')
    mistakes.push(`vendors.${name}.base_url: missing; ${chat} alone does not say whose server that is`)
  const fields = {
    protocol: chat,
    base_url: address === 'own' ? undefined : address,
    key_env,
    timeout_seconds: chat_timeout_seconds,
    parameters: chat_parameters,
    overrides: chat_overrides,
  }
  return given(fields)
}

function servingFields({ protocol, base_url, key_env, timeout_seconds, parameters, overrides }: ChatSetting): Fields {
  return given({ protocol, base_url, key_env, timeout_seconds, parameters, overrides })
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
    parameters: _parameters,
    overrides: _overrides,
    ...fields
  } = setting
  return fields
}
