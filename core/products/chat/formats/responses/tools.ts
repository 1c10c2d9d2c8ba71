/**
 * Tools of the responses format as functions of chat, and back. Chat has no namespaces and no tools with free text, so
 * each tool gets a name of its own, under which the model calls it (contract 7.30, 7.31).
 */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { type Fields, fieldsOf, isFields, type Json, listOf, objectsOf, textOf } from '../../../../lib/json.ts'
import { given } from './parts.ts'

/** A tool as its caller knows it. `parameters` of a custom tool are one text. */
export type CalledTool = {
  readonly kind: 'function' | 'custom'
  readonly name: string
  readonly namespace?: string
}

export type NamedTool = CalledTool & { readonly chatName: string; readonly tool: Fields }

/** Most characters of the name of a function, in chat. */
const MAX_NAME = 64
const HASH_DIGITS = 8

/** The tools that the caller runs, those of namespaces included, each with its name in chat. */
export function namedTools(tools: Json | undefined): readonly NamedTool[] {
  const names = new Set<string>()
  const named = (called: CalledTool, tool: Fields): NamedTool => {
    const wanted = called.namespace === undefined ? called.name : `${called.namespace}__${called.name}`
    const isTaken = called.namespace !== undefined && names.has(wanted)
    const isShort = called.namespace === undefined || wanted.length <= MAX_NAME
    const chatName = isShort && !isTaken ? wanted : withHash(wanted, called)
    names.add(chatName)
    return { ...called, chatName, tool }
  }
  const list = objectsOf(tools)
  // Tools without a namespace keep their names, so they are named first.
  const plain = list.flatMap((tool) => calledTool(tool).map((called) => named(called, tool)))
  const spaced = list
    .filter(({ type }) => type === 'namespace')
    .flatMap((space) => objectsOf(space.tools).map((tool) => ({ tool, namespace: textOf(space.name) })))
    .flatMap(({ tool, namespace }) => calledTool(tool).map((called) => named({ ...called, namespace }, tool)))
  return [...plain, ...spaced]
}

function calledTool(tool: Fields): readonly CalledTool[] {
  const { type, name } = tool
  return type === 'function' || type === 'custom' ? [{ kind: type, name: textOf(name) }] : []
}

function withHash(name: string, { namespace = '', name: own }: CalledTool): string {
  const hash = bytesToHex(sha256(utf8ToBytes(JSON.stringify([namespace, own])))).slice(0, HASH_DIGITS)
  return `${name.slice(0, MAX_NAME - HASH_DIGITS - 1)}_${hash}`
}

// ── the request ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** A tool as a function of chat. */
export function chatTool({ kind, chatName, tool }: NamedTool): Fields {
  const { description, parameters, strict } = tool
  if (kind === 'function')
    return { type: 'function', function: given({ name: chatName, description, parameters, strict }) }
  return {
    type: 'function',
    function: { name: chatName, description: customDescription(tool), parameters: CUSTOM_PARAMETERS },
  }
}

const CUSTOM_PARAMETERS: Fields = {
  type: 'object',
  properties: { input: { type: 'string', description: 'The whole input of the tool, as text.' } },
  required: ['input'],
  additionalProperties: false,
}

/** A model behind chat is not held to a grammar, so it is told of it. */
function customDescription({ description, format }: Fields): string {
  const { type, syntax, definition } = fieldsOf(format)
  const grammar =
    type === 'grammar' && typeof definition === 'string'
      ? `The input must match this ${textOf(syntax) || 'lark'} grammar:\n${definition}`
      : ''
  return [textOf(description), grammar].filter((text) => text !== '').join('\n\n')
}

/** The name in chat of a tool that the caller names in a call or a choice; its own name if no such tool is offered. */
export function chatNameOf(tools: readonly NamedTool[], { name, namespace }: Fields): string {
  const wanted = textOf(name)
  const space = textOf(namespace) === '' ? undefined : textOf(namespace)
  const found = tools.find((tool) => tool.name === wanted && tool.namespace === space)
  if (found || space === undefined) return found?.chatName ?? wanted
  // A call of an earlier turn, whose tool is not offered any more.
  const called: CalledTool = { kind: 'function', name: wanted, namespace: space }
  const whole = `${space}__${wanted}`
  return whole.length <= MAX_NAME ? whole : withHash(whole, called)
}

/** The arguments in chat of an earlier call of a custom tool. */
export const customArguments = (input: Json | undefined): string => JSON.stringify({ input: textOf(input) })

// ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────────────

export type ToolNames = ReadonlyMap<string, CalledTool>

/** The tools of a request by their names in chat. */
export const toolNames = (tools: Json | undefined): ToolNames =>
  new Map(namedTools(tools).map(({ chatName, tool: _, ...called }) => [chatName, called]))

/** The text that a model has passed to a custom tool. Arguments of another form are passed on as they are. */
export function customInput(argumentText: string): string {
  try {
    const { input } = fieldsOf(JSON.parse(argumentText))
    return typeof input === 'string' ? input : argumentText
  } catch {
    return argumentText
  }
}

// ── tools that vendors run ──────────────────────────────────────────────────────────────────────────────────────────

/** Types of the tools in a list that the caller does not run, without duplicates. */
export function builtInTools({ tools }: Fields): string[] {
  const types = listOf(tools).filter((tool) => !isCallers(tool))
  return [...new Set(types.map((tool) => textOf(fieldsOf(tool).type) || 'unknown'))]
}

const CALLERS: readonly unknown[] = ['function', 'custom', 'namespace']

export const isCallers = (tool: Json): tool is Fields => isFields(tool) && CALLERS.includes(tool.type)
