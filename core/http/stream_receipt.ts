/** How a stream tells its receipt: its headers were sent before it was settled. */
import { isFields, type Json } from '../lib/json.ts'
import type { ErrorFormat } from './error_formats.ts'

type Telling = {
  /** Headers by name, such as `payment-response`. */
  readonly receipt: Readonly<Record<string, string>>
  readonly errorFormat: ErrorFormat
}

/**
 * The closing events with the receipt: as comments before them, which clients ignore, or in the format of
 * generate_content, whose older clients cannot read comments, as the member `payment` of the last event.
 */
export function withReceipt(closing: string, { receipt, errorFormat }: Telling): string {
  if (errorFormat !== 'generate_content') {
    const comments = Object.entries(receipt).map(([name, value]) => `: ${name} ${value}`)
    return `${comments.join('\n')}\n\n${closing}`
  }
  const events = closing.split(EVENT_END)
  const last = events.pop() ?? ''
  return `${events.join('')}data: ${JSON.stringify({ ...fieldsOf(last), payment: receipt })}\n\n`
}

const EVENT_END = /(?<=\n\n)(?!$)/

/** The object of an event with one line of data; empty if there is none. */
function fieldsOf(event: string): Readonly<Record<string, Json>> {
  const line = /^data: (.*)$/m.exec(event)?.[1]
  const value: unknown = line === undefined ? {} : JSON.parse(line)
  return isFields(value) ? value : {}
}
