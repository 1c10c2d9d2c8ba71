/**
 * Searches of this gateway as blocks of the messages format: `server_tool_use` and `web_search_tool_result` (contract
 * 7.37).
 */
import { fromBase64, toBase64 } from '../../../../lib/base64.ts'
import { type Fields, fieldsOf, isFields, type Json, listOf, objectsOf, textOf } from '../../../../lib/json.ts'
import type { MadeSearch } from '../../web_search/search.ts'
import { SEARCH_NAME } from '../../web_search/tool.ts'
import { tryJson } from '../sse.ts'

/** Clients know the calls of servers by this prefix. */
const serverId = (id: string): string => `srvtoolu_${id.replace(/[^A-Za-z0-9_]/g, '_').slice(0, 64)}`

export const searchBlock = ({ id, query }: Pick<MadeSearch, 'id' | 'query'>): Fields => ({
  type: 'server_tool_use',
  id: serverId(id),
  name: SEARCH_NAME,
  input: { query },
})

export function resultBlock({ id, pages, error }: MadeSearch): Fields {
  const found = pages.map(({ url, title, age, text }) => ({
    type: 'web_search_result',
    url,
    title,
    page_age: age === '' ? null : age,
    encrypted_content: enclosed(text),
  }))
  return {
    type: 'web_search_tool_result',
    tool_use_id: serverId(id),
    content: error === undefined ? found : { type: 'web_search_tool_result_error', error_code: error },
  }
}

/** The text of a page, as clients send it back: encoded, and not a secret. */
const enclosed = (text: string): string => toBase64(new TextEncoder().encode(JSON.stringify({ text })))

function textIn(content: Json | undefined): string {
  try {
    return textOf(tryJson(new TextDecoder().decode(fromBase64(textOf(content))))?.text)
  } catch {
    return ''
  }
}

/**
 * Earlier searches as text, for every model: what another vendor has encrypted is readable to nobody else, and what
 * this gateway has found is unknown to vendors. Returns the same request if it has none.
 */
export function withSearchesAsText(body: Fields): Fields {
  const messages = listOf(body.messages)
  const isSearched = (message: Json) =>
    isFields(message) && message.role === 'assistant' && objectsOf(message.content).some(isSearch)
  if (!messages.some(isSearched)) return body
  return {
    ...body,
    messages: messages.map((message) =>
      isSearched(message)
        ? { ...(message as Fields), content: listOf((message as Fields).content).map(asText) }
        : message,
    ),
  }
}

const isSearch = ({ type, name }: Fields): boolean =>
  type === 'web_search_tool_result' || (type === 'server_tool_use' && name === SEARCH_NAME)

function asText(block: Json): Json {
  if (!isFields(block) || !isSearch(block)) return block
  if (block.type === 'server_tool_use')
    return { type: 'text', text: `I searched the web for ${JSON.stringify(fieldsOf(block.input).query ?? '')}.\n` }
  const found = objectsOf(block.content).map(({ title, url, encrypted_content }) =>
    [textOf(title), textOf(url), textIn(encrypted_content)].filter((line) => line !== '').join('\n'),
  )
  return { type: 'text', text: found.length === 0 ? 'Nothing was found.\n' : `It found:\n${found.join('\n\n')}\n` }
}
