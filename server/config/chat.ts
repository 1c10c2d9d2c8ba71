/** Changes to the catalog's chat rows, and how each row is served. */
import { type Static, Type } from '@sinclair/typebox'
import { type ChatRow, chatRows, overrideChat } from '../../core/mod.ts'
import { oneOf, setting } from '../../adapters/settings.ts'
import { type Environment, Rate, without } from './settings.ts'
import {
  type ServedCatalog,
  type Serving,
  servingSettings,
  servingsOf,
  tablesFor,
  type VendorTable,
} from './vendors.ts'

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
    multiple_answers: setting(
      'Its server makes the `n` answers that a chat request asks for. Without it, more than one is answered with 400.',
      Type.Boolean(),
    ),
    live_search: setting('Accepts `search_parameters`, at this surcharge per call in US dollars.', Rate),
    prompt_cache: setting('Caches prompts at the vendor when a request enables it.', Type.Boolean()),
    surfaces: setting(
      'Further APIs that serve it: `generate_content`, for wallets on the allowlist. The responses API serves every model.',
      Type.Array(oneOf('responses', 'generate_content')),
    ),
    fallbacks: setting('Ids of models to try in order while this one is unavailable. None may cost more.', Names),
    hidden: setting('Sells the model without listing it.', Type.Boolean()),
    redirect: setting('The id of the model that serves requests instead.', Name),
    ...servingSettings.chat,
  },
  strict,
)
export type ChatSetting = Static<typeof ChatSetting>

export type ServedChat = ServedCatalog<ChatRow, Serving<'chat'>>

type Resolving = { readonly env: Environment; readonly added: readonly ChatSetting[]; readonly mistakes: string[] }

/**
 * `added` are rows beside the catalog's, which settings may change too. Adds mistakes by name; keys are looked up,
 * never shown.
 */
export function resolveChat(
  vendors: VendorTable,
  settings: readonly ChatSetting[],
  { added, ...reading }: Resolving,
): ServedChat {
  const { rows, mistakes } = overrideChat(
    overrideChat(chatRows, added).rows,
    settings.map((setting) => without(setting, servingSettings.chat)),
  )
  reading.mistakes.push(...mistakes)
  const tables = tablesFor('chat', vendors, { prefix: 'chat', address: 'base_url' }, reading.mistakes)
  return { rows, servings: servingsOf('chat', rows, { settings, tables, ...reading }) }
}
