/**
 * Live search over the responses format: `search_parameters` of chat was withdrawn by its vendor (410), and server-side
 * search tools took its place (decision 75).
 */
import { type Json, type Fields, fieldsOf, isFields, listOf, objectsOf, textOf } from '../../../../lib/json.ts'
import { given, isFunctionTool } from './parts.ts'
import { responsesFromChat } from './request.ts'

const MAX_DOMAINS = 5
const MAX_HANDLES = 10

/**
 * Converts a chat request with `search_parameters` for an upstream with search tools. `mode: off` disables search; the
 * default is `auto`. Dates and counts that `web_search` does not accept become instructions. `tool_choice: none`
 * removes the caller's functions, but not the search.
 */
export function liveSearch(body: Fields): Fields {
  const translated = responsesFromChat(body)
  const search = fieldsOf(body.search_parameters)
  if (search.mode === 'off') return translated
  const { web, x, others } = sourcesOf(search.sources)
  const isWeb = web.length > 0 || others.length > 0 || x.length === 0
  const searchInstructions = instructionsFor(search, { web, x, others })
  const isToolsOff = body.tool_choice === 'none'
  const functions = isToolsOff ? [] : objectsOf(translated.tools).filter(isFunctionTool)
  const chosen = isToolsOff ? undefined : translated.tool_choice
  const isForced = search.mode === 'on' && !isFields(chosen)
  return {
    ...translated,
    tools: [...functions, ...(isWeb ? [webTool(web)] : []), ...(x.length > 0 ? [xTool(search, x)] : [])],
    tool_choice: isForced ? 'required' : (chosen ?? 'auto'),
    ...(searchInstructions !== '' && {
      instructions: [textOf(translated.instructions), searchInstructions].filter((text) => text !== '').join('\n\n'),
    }),
    include: [...new Set([...listOf(translated.include), 'web_search_call.action.sources'])],
  }
}

type Sources = { readonly web: readonly Fields[]; readonly x: readonly Fields[]; readonly others: readonly Fields[] }

/** A source is `{type: 'x'}` or 'x'. Sources other than X (news, feeds) are searched by the web search. */
function sourcesOf(sources: Json | undefined): Sources {
  const list: readonly Json[] = Array.isArray(sources) ? sources : []
  const named = list
    .map((source) => (typeof source === 'string' ? { type: source } : fieldsOf(source)))
    .filter(({ type }) => typeof type === 'string')
  return {
    web: named.filter(({ type }) => type === 'web'),
    x: named.filter(({ type }) => type === 'x'),
    others: named.filter(({ type }) => type !== 'web' && type !== 'x'),
  }
}

const textsOf = (sources: readonly Fields[], ...names: readonly string[]) => [
  ...new Set(
    sources.flatMap((source) =>
      names.flatMap((name) => listOf(source[name]).filter((value): value is string => typeof value === 'string')),
    ),
  ),
]

/** Only one of the two lists may be set. The other one and entries over the limit become instructions. */
function splitByLimit(allowed: readonly string[], excluded: readonly string[], limit: number) {
  const isAllowList = allowed.length > 0
  return {
    allowed: allowed.slice(0, limit),
    excluded: isAllowList ? [] : excluded.slice(0, limit),
    alsoAllowed: allowed.slice(limit),
    alsoExcluded: isAllowList ? excluded : excluded.slice(limit),
  }
}

const domainsOf = (web: readonly Fields[]) =>
  splitByLimit(
    textsOf(web, 'allowed_websites', 'allowed_domains'),
    textsOf(web, 'excluded_websites', 'excluded_domains'),
    MAX_DOMAINS,
  )

const handlesOf = (x: readonly Fields[]) =>
  splitByLimit(
    textsOf(x, 'included_x_handles', 'allowed_x_handles', 'x_handles'),
    textsOf(x, 'excluded_x_handles'),
    MAX_HANDLES,
  )

function webTool(web: readonly Fields[]): Fields {
  const { allowed, excluded } = domainsOf(web)
  return given({ type: 'web_search', allowed_domains: nonEmpty(allowed), excluded_domains: nonEmpty(excluded) })
}

function xTool({ from_date, to_date }: Fields, x: readonly Fields[]): Fields {
  const { allowed, excluded } = handlesOf(x)
  return given({
    type: 'x_search',
    from_date,
    to_date,
    allowed_x_handles: nonEmpty(allowed),
    excluded_x_handles: nonEmpty(excluded),
  })
}

const nonEmpty = (list: readonly string[]) => (list.length > 0 ? list : undefined)

function instructionsFor(
  { from_date, to_date, max_search_results: maxResults }: Fields,
  { web, x, others }: Sources,
): string {
  const alsoAllowed = [...domainsOf(web).alsoAllowed, ...handlesOf(x).alsoAllowed]
  const alsoExcluded = [...domainsOf(web).alsoExcluded, ...handlesOf(x).alsoExcluded]
  const kinds = [...new Set(others.map(({ type }) => textOf(type)))]
  const countries = [
    ...new Set([...web, ...others].map(({ country }) => textOf(country)).filter((country) => country !== '')),
  ]
  const links = textsOf(others, 'links')
  const sentence = (isPresent: boolean, text: string) => (isPresent ? [text] : [])
  return [
    ...sentence(textOf(from_date) !== '', `Use only sources published on or after ${textOf(from_date)}.`),
    ...sentence(textOf(to_date) !== '', `Use only sources published on or before ${textOf(to_date)}.`),
    ...sentence(kinds.length > 0, `Search these kinds of sources${web.length > 0 ? ' too' : ''}: ${kinds.join(', ')}.`),
    ...sentence(links.length > 0, `Read these feeds: ${links.join(', ')}.`),
    ...sentence(countries.length > 0, `Prefer sources from: ${countries.join(', ')}.`),
    ...sentence(alsoAllowed.length > 0, `These are allowed as well: ${alsoAllowed.join(', ')}.`),
    ...sentence(alsoExcluded.length > 0, `Use nothing from: ${alsoExcluded.join(', ')}.`),
    ...sentence(typeof maxResults === 'number', `Use at most ${String(maxResults)} sources.`),
  ].join(' ')
}
