/** Lenient readers of the responses format: a member of an unexpected type is treated as absent. */
import { type Json, type Fields, fieldsOf, isFields, objectsOf, textOf } from '../../../../lib/json.ts'

/** Drops undefined and null members. Neither format distinguishes null from absent in the translated members. */
export function given(members: Readonly<Record<string, Json | undefined>>): Fields {
  return Object.fromEntries(
    Object.entries(members).filter((entry): entry is [string, Json] => entry[1] !== undefined && entry[1] !== null),
  )
}

export function without(body: Fields, dropped: ReadonlySet<string>): Fields {
  return Object.fromEntries(Object.entries(body).filter(([name]) => !dropped.has(name)))
}

/** The text of a content: a string, or the joined text parts of a list. */
export function plainText(content: Json | undefined): string {
  if (typeof content === 'string') return content
  return objectsOf(content)
    .map(({ text }) => textOf(text))
    .join('')
}

/** Readable reasoning: its summary, or else its full text. Parts are separated by an empty line. */
export function reasoningText({ summary, content }: Fields): string {
  const read = (parts: Json | undefined) =>
    objectsOf(parts).flatMap(({ text }) => (typeof text === 'string' && text !== '' ? [text] : []))
  const summaries = read(summary)
  return (summaries.length > 0 ? summaries : read(content)).join('\n\n')
}

/** The function that a tool choice names, in either format. */
export function chosenFunction({ name, function: named }: Fields): string | undefined {
  const found = name ?? fieldsOf(named).name
  return typeof found === 'string' ? found : undefined
}

/** Whether the caller runs a tool. Built-in tools are run by the vendor, at the operator's expense. */
export const isFunctionTool = (tool: Json): tool is Fields => isFields(tool) && tool.type === 'function'
