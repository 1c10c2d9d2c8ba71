/**
 * Tools that a vendor runs, at a price that was not quoted. Coding agents offer them in every request: they are left
 * out where the model may choose, and refused where one is demanded (contract 7.29).
 */
import { type Fields, fieldsOf, isFields, type Json, listOf, objectsOf, textOf } from '../../lib/json.ts'
import { invalidParameter } from './request.ts'

type VendorTools = {
  /** Whether a type names a tool that may be left out. */
  isOptional(type: string): boolean
  /** Whether `tool_choice` demands some tool, whichever the model chooses. */
  isAnyDemanded(choice: Json | undefined): boolean
}

/** A request without the tools that were left out, and their types. */
export type WithoutVendorTools = { readonly body: Fields; readonly dropped: readonly string[] }

/** Throws INVALID_PARAMETER where `tool_choice` demands a tool. */
export function withoutVendorTools(body: Fields, { isOptional, isAnyDemanded }: VendorTools): WithoutVendorTools {
  const { tools, tool_choice: choice, ...rest } = body
  const isDropped = (tool: Json) => isFields(tool) && isOptional(textOf(tool.type))
  const found = objectsOf(tools).filter(isDropped)
  const [first] = found
  if (first === undefined) return { body, dropped: [] }
  const { type, name } = fieldsOf(choice)
  const demanded = isAnyDemanded(choice) ? first : found.find((tool) => tool.type === type || isNamed(tool, name))
  if (demanded)
    throw invalidParameter(
      'tool_choice',
      `demands ${textOf(demanded.type)}, which is run by the vendor at an extra charge and is not supported; choose auto, or declare your own tools.`,
    )
  const left = listOf(tools).filter((tool) => !isDropped(tool))
  const dropped = [...new Set(found.map((tool) => textOf(tool.type)))]
  // A choice among no tools is refused by vendors.
  return left.length === 0
    ? { body: rest, dropped }
    : { body: { ...rest, tools: left, ...(choice !== undefined && { tool_choice: choice }) }, dropped }
}

const isNamed = (tool: Fields, name: Json | undefined): boolean => typeof name === 'string' && tool.name === name

/** Names the tools that the model was not offered. */
export const droppedHeader = (dropped: readonly string[]): Readonly<Record<string, string>> =>
  dropped.length > 0 ? { 'x-tools-dropped': dropped.join(', ') } : {}
