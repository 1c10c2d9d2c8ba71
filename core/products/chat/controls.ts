/**
 * Checks the members that control an answer, before the quote: tools, `tool_choice`, `response_format` and `stop`. What
 * the model's vendor would drop or refuse later is 400 here (contract 6.59).
 */
import type { ChatFormat, ChatRow } from '../../ports/vendors/chat.ts'
import { refused } from '../../http/request_body.ts'
import { quoted } from '../../lib/text.ts'
import { type Fields, fieldsOf, isFields, type Json, objectsOf, textOf } from '../../lib/json.ts'
import { invalidParameter } from './request.ts'
import { usesResponsesApi } from './unsupported_fields.ts'

type Checked = {
  readonly row: ChatRow
  /** The format of the row's vendor. */
  readonly providerFormat: ChatFormat | undefined
  /** Whether the vendor gets the caller's own body, and so judges it by its own rules. */
  readonly isNative: boolean
}

/** Checks a request in chat format. Throws INVALID_BODY or INVALID_PARAMETER. */
export function checkControls(body: Fields, { row, providerFormat, isNative }: Checked): void {
  if (isNative) return
  const isByResponses = usesResponsesApi(row, body)
  checkToolShapes(body, {
    row,
    hasCustom: providerFormat !== 'messages' && providerFormat !== 'generate_content' && !isByResponses,
  })
  checkChoice(body)
  checkFunctionCall(body)
  checkResponseFormat(body.response_format)
  checkStops(body.stop, { row, isByResponses })
}

/** Removes a `tool_choice` without effect if there are no tools: vendors refuse it. */
export function withoutIdleChoice(body: Fields): Fields {
  const { tool_choice, function_call, ...rest } = body
  const isIdle = (tool_choice !== undefined || function_call !== undefined) && namesIn(body).length === 0
  return isIdle ? rest : body
}

// ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Names that some vendor accepts. */
const TOOL_NAME = /^[\w.:-]{1,128}$/

function checkToolShapes(
  { tools, functions }: Fields,
  { row, hasCustom }: { readonly row: ChatRow; readonly hasCustom: boolean },
): void {
  for (const [index, tool] of objectsOf(tools).entries()) {
    const at = `tools.${index}`
    if (tool.type === 'custom') {
      if (!hasCustom) throw invalidParameter(`${at}.type`, `must be function; ${row.id} has no custom tools here.`)
      checkName(fieldsOf(tool.custom).name, `${at}.custom.name`)
      continue
    }
    if (!isFields(tool.function)) throw refused(`${at}.function`, 'is required: an object with a name')
    checkFunction(tool.function, `${at}.function`)
  }
  for (const [index, called] of objectsOf(functions).entries()) checkFunction(called, `functions.${index}`)
}

function checkFunction({ name, description, parameters, strict }: Fields, at: string): void {
  checkName(name, `${at}.name`)
  if (isSet(description) && typeof description !== 'string')
    throw refused(`${at}.description`, `must be a string, got ${quoted(description)}`)
  if (isSet(parameters) && !isFields(parameters))
    throw refused(`${at}.parameters`, `must be a JSON Schema object, got ${quoted(parameters)}`)
  if (isSet(strict) && typeof strict !== 'boolean')
    throw refused(`${at}.strict`, `must be true or false, got ${quoted(strict)}`)
}

function checkName(name: Json | undefined, at: string): void {
  if (typeof name !== 'string' || name === '') throw refused(at, 'is required')
  if (!TOOL_NAME.test(name)) throw refused(at, `may have up to 128 letters, digits, _ . : or -, got ${quoted(name)}`)
}

const isSet = (value: Json | undefined): boolean => value !== undefined && value !== null

/** Names of the tools that a request offers. */
const namesIn = ({ tools, functions }: Fields): readonly string[] => [
  ...objectsOf(tools).map((tool) => textOf(fieldsOf(tool.function ?? tool.custom).name)),
  ...objectsOf(functions).map(({ name }) => textOf(name)),
]

// ── tool_choice ─────────────────────────────────────────────────────────────────────────────────────────────────────

const CHOICES = 'must be auto, none, required, or an object of type function with the name of an offered tool'

function checkChoice(body: Fields): void {
  const { tool_choice: choice } = body
  if (!isSet(choice)) return
  const names = namesIn(body)
  if (choice === 'auto' || choice === 'none') return
  if (choice === 'required') {
    if (names.length === 0) throw invalidParameter('tool_choice', 'is "required", and the request has no tools.')
    return
  }
  if (!isFields(choice)) throw invalidParameter('tool_choice', `${CHOICES}, got ${quoted(choice)}.`)
  if (choice.type === 'allowed_tools') return checkAllowed(fieldsOf(choice.allowed_tools), names)
  if (choice.type !== 'function' && choice.type !== 'custom')
    throw invalidParameter('tool_choice.type', `${CHOICES}, got ${quoted(choice.type)}.`)
  checkOffered(fieldsOf(choice[choice.type]).name, { names, at: `tool_choice.${choice.type}.name` })
}

/** The choice of old clients, of `functions`. */
function checkFunctionCall(body: Fields): void {
  const { function_call: call } = body
  if (!isSet(call) || call === 'auto' || call === 'none') return
  if (!isFields(call))
    throw invalidParameter(
      'function_call',
      `must be auto, none, or an object with the name of an offered function, got ${quoted(call)}.`,
    )
  checkOffered(call.name, { names: namesIn(body), at: 'function_call.name' })
}

function checkAllowed({ mode, tools }: Fields, names: readonly string[]): void {
  const at = 'tool_choice.allowed_tools'
  if (names.length === 0)
    throw invalidParameter('tool_choice', 'is of type allowed_tools, and the request has no tools.')
  if (!Array.isArray(tools))
    throw invalidParameter(`${at}.tools`, `must be a list of offered tools, got ${quoted(tools)}.`)
  if (mode !== 'auto' && mode !== 'required')
    throw invalidParameter(`${at}.mode`, `must be auto or required, got ${quoted(mode)}.`)
  for (const [index, tool] of objectsOf(tools).entries())
    checkOffered(fieldsOf(tool.function).name ?? tool.name, { names, at: `${at}.tools.${index}.function.name` })
}

function checkOffered(name: Json | undefined, { names, at }: { names: readonly string[]; at: string }): void {
  if (typeof name === 'string' && names.includes(name)) return
  const offered = names.length === 0 ? 'the request has no tools' : `the request offers ${names.slice(0, 8).join(', ')}`
  throw invalidParameter(at, `must be the name of an offered tool, got ${quoted(name)}; ${offered}.`)
}

// ── response_format ─────────────────────────────────────────────────────────────────────────────────────────────────

const FORMATS: readonly unknown[] = ['text', 'json_object', 'json_schema']
const SCHEMA_NAME = /^[\w-]{1,64}$/

function checkResponseFormat(format: Json | undefined): void {
  if (!isSet(format)) return
  const { type, json_schema: described } = fieldsOf(format)
  if (!FORMATS.includes(type))
    throw invalidParameter('response_format.type', `must be text, json_object or json_schema, got ${quoted(type)}.`)
  if (type !== 'json_schema') return
  const at = 'response_format.json_schema'
  if (!isFields(described)) throw refused(at, `must be an object with a schema, got ${quoted(described)}`)
  const { name, schema, strict } = described
  if (isSet(name) && !(typeof name === 'string' && SCHEMA_NAME.test(name)))
    throw refused(`${at}.name`, `may have up to 64 letters, digits, _ or -, got ${quoted(name)}`)
  if (isSet(schema) && !isFields(schema))
    throw refused(`${at}.schema`, `must be a JSON Schema object, got ${quoted(schema)}`)
  if (isSet(strict) && typeof strict !== 'boolean')
    throw refused(`${at}.strict`, `must be true or false, got ${quoted(strict)}`)
}

// ── stop ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function checkStops(
  stop: Json | undefined,
  { row, isByResponses }: { readonly row: ChatRow; readonly isByResponses: boolean },
): void {
  const stops = stopsIn(stop)
  if (stops.length === 0) return
  if (isByResponses)
    throw invalidParameter(
      'stop',
      `${row.id} does not accept it together with search_parameters, tools or this effort.`,
    )
  for (const [index, text] of stops.entries()) {
    if (text === '') throw refused(Array.isArray(stop) ? `stop.${index}` : 'stop', 'must not be empty')
  }
  const { maxStops = Number.POSITIVE_INFINITY } = row
  if (stops.length > maxStops)
    throw invalidParameter('stop', `may be at most ${maxStops} strings for ${row.id}, got ${stops.length}.`)
}

/** The stop strings of a request. */
export const stopsIn = (stop: Json | undefined): readonly Json[] => {
  if (Array.isArray(stop)) return stop
  return typeof stop === 'string' ? [stop] : []
}
