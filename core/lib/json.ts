/** JSON types, and lenient readers for unknown JSON: a field of another type reads as absent, never as an error. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** A JSON object: the body of a request or of a reply. */
export type Fields = { readonly [name: string]: Json }

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {})

export const listOf = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? value : [])

/** The objects of a list; other items are skipped. */
export const objectsOf = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.filter(isFields) : [])

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

export const numberOf = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined)

/** A count from a vendor; 0 when it is not a positive number. */
export const countOf = (value: unknown): number => (typeof value === 'number' && value > 0 ? value : 0)

/** An object of the fields that have a value. */
export function given(members: Readonly<Record<string, Json | undefined>>): Fields {
  return Object.fromEntries(
    Object.entries(members).filter((member): member is [string, Json] => member[1] !== undefined),
  )
}
