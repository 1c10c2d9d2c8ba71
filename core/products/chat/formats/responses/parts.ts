/**
 * How the responses format reads JSON that may be anything: a member of another type reads as absent, never as an
 * error.
 */
import { type Json, type Fields, fieldsOf, isFields, objectsOf, textOf } from '../../../../lib/json.ts'

/** Without the members that are undefined or null: neither format tells null from absent in what is translated. */
export function given(members: Readonly<Record<string, Json | undefined>>): Fields {
  return Object.fromEntries(
    Object.entries(members).filter((entry): entry is [string, Json] => entry[1] !== undefined && entry[1] !== null),
  )
}

export function without(body: Fields, dropped: ReadonlySet<string>): Fields {
  return Object.fromEntries(Object.entries(body).filter(([name]) => !dropped.has(name)))
}

/** The text of a content: a string, or the text parts of a list one after another. */
export function plainText(content: Json | undefined): string {
  if (typeof content === 'string') return content
  return objectsOf(content)
    .map(({ text }) => textOf(text))
    .join('')
}

/** Reasoning that may be read: its summary, or else its full text, parts apart by an empty line. */
export function reasoningText({ summary, content }: Fields): string {
  const read = (parts: Json | undefined) =>
    objectsOf(parts).flatMap(({ text }) => (typeof text === 'string' && text !== '' ? [text] : []))
  const summaries = read(summary)
  return (summaries.length > 0 ? summaries : read(content)).join('\n\n')
}

/** `{name}` of a choice that names a function, in either format. */
export function chosenFunction({ name, function: named }: Fields): string | undefined {
  const found = name ?? fieldsOf(named).name
  return typeof found === 'string' ? found : undefined
}

/** A tool that the caller runs; a built-in tool is run by the vendor, at the operator's expense. */
export const isFunctionTool = (tool: Json): tool is Fields => isFields(tool) && tool.type === 'function'
