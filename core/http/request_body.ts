/** From the text of a request to a plain, validated value, with a specific error for every mistake. */
import type { TObject, TSchema } from '@sinclair/typebox'
import type { Clock } from '../lib/clock.ts'
import { ApiError } from './errors.ts'
import { checkShape } from './json_shape.ts'
import { type SchemaCheck, schemaCheck } from './schema_check.ts'
import type { Json } from '../lib/json.ts'
import { clip, quoted } from '../lib/text.ts'

/**
 * Parses JSON. Throws INVALID_CONTENT_TYPE for another type, TOO_LARGE for more values than can be processed without
 * blocking other requests, INVALID_JSON for text that is not JSON. Returns a promise only for long texts.
 */
export function parseJson(text: string, contentType: string | null, clock: Clock): unknown {
  const type = contentType === JSON_TYPE ? JSON_TYPE : contentType?.split(';', 1)[0]?.trim().toLowerCase()
  if (type && type !== JSON_TYPE && !type.endsWith('+json')) {
    throw new ApiError('INVALID_CONTENT_TYPE', {
      message: `The content type must be application/json, got ${clip(type)}.`,
    })
  }
  const checking = checkShape(text, clock)
  return checking ? checking.then(() => parsed(text)) : parsed(text)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    const message =
      text.trim() === ''
        ? 'The request body is empty; a JSON object is expected.'
        : 'The request body is not valid JSON.'
    throw new ApiError('INVALID_JSON', { message })
  }
}

const JSON_TYPE = 'application/json'

export type InputParser = (value: unknown) => Record<string, unknown>

const checks = new WeakMap<TObject, SchemaCheck<TObject>>()

/** Compiles each schema once per process, on first use: there are hundreds of endpoints, and a request needs one. */
function checkOf(schema: TObject): SchemaCheck<TObject> {
  const known = checks.get(schema)
  if (known) return known
  const compiled = schemaCheck(schema)
  checks.set(schema, compiled)
  return compiled
}

export type UnknownFields = 'dropped' | 'kept' | 'refused'

/**
 * Compiles a schema into a parser that drops, keeps or refuses unknown fields, and reads an optional null as absent.
 * The parser throws INVALID_BODY with `details: [{path, message}]`, one per field.
 */
export function inputParser(schema: TObject, unknownFields: UnknownFields = 'dropped'): InputParser {
  const fields = Object.keys(schema.properties)
  const required = new Set(schema.required ?? [])
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw invalidBody([{ path: '', message: `Expected a JSON object, got ${quoted(value)}` }])
    }
    const known: Record<string, unknown> = {}
    const strange = unknownFields === 'refused' ? strangeNames(value, fields) : []
    if (unknownFields === 'kept') {
      checkDepth(value)
      const all = Object.keys(value)
      if (all.length > MAX_FIELDS)
        throw invalidBody([
          {
            path: '',
            message: `The body may have at most ${MAX_FIELDS} top-level fields; it has ${all.length}, and the first over the limit is ${clip(all[MAX_FIELDS])}`,
          },
        ])
      // Assigning `__proto__` would set the prototype: the price would be computed from fields that are never sent.
      for (const field of all)
        if (field !== '__proto__' && !fields.includes(field)) known[field] = (value as Record<string, unknown>)[field]
    }
    for (const field of fields) {
      const given = Object.hasOwn(value, field) ? (value as Record<string, unknown>)[field] : undefined
      if (given === undefined || (given === null && !required.has(field))) continue
      known[field] = given
    }
    const compiled = checkOf(schema)
    const isSound = compiled.Check(known)
    if (isSound && strange.length === 0) return known
    throw invalidBody([...strange, ...(isSound ? [] : problems(compiled, known))])
  }
}

/**
 * The fields of a JSON object as a query would carry them: numbers and booleans as text. Throws INVALID_BODY when it is
 * no object.
 */
export function textFields(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidBody([{ path: '', message: `Expected a JSON object, got ${quoted(value)}` }])
  }
  const isScalar = (member: unknown) => typeof member === 'number' || typeof member === 'boolean'
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, isScalar(member) ? String(member) : member]),
  )
}

/** Unknown fields, at most ten, with the list of known ones. */
function strangeNames(value: object, fields: readonly string[]): readonly Problem[] {
  const known = fields.length === 0 ? 'there are none' : `the fields are ${fields.join(', ')}`
  const strange = Object.keys(value)
    .filter((name) => !fields.includes(name))
    .slice(0, 10)
  return strange.map((name) => ({ path: clip(name), message: `${clip(name)}: unknown field; ${known}` }))
}

/**
 * For an object whose unknown fields are forwarded: every rule that changes it copies it, and copying a million fields
 * blocks the process for a second.
 */
const MAX_FIELDS = 1_000

const DEEPEST = 200

/** Limits the depth of forwarded values: JSON.stringify takes half a second for 50,000 levels, and throws for more. */
function checkDepth(value: object): void {
  const names = tooDeepPath(value, DEEPEST)
  if (!names) return
  const path = clip(names.slice(0, MAX_PATH_NAMES).join('.'))
  throw invalidBody([{ path, message: `${path}: nested deeper than ${DEEPEST} levels` }])
}

const MAX_PATH_NAMES = 6

/** The path to the first value nested deeper than `levels`. Descends no further than that. */
function tooDeepPath(value: object, levels: number): readonly string[] | undefined {
  if (levels < 0) return []
  // Every body passes here, so no entries are allocated.
  const names = Array.isArray(value) ? undefined : Object.keys(value)
  const length = names ? names.length : (value as readonly unknown[]).length
  for (let at = 0; at < length; at++) {
    const name = names ? (names[at] ?? '') : at
    const inner = (value as Record<string | number, unknown>)[name]
    if (typeof inner !== 'object' || inner === null) continue
    const path = tooDeepPath(inner, levels - 1)
    if (path) return [String(name), ...path]
  }
  return undefined
}

/** Describing the errors in a list takes far longer than finding that there are any. */
const MAX_SCANNED = 10_000

type Problem = { path: string; message: string }

function problems(compiled: SchemaCheck<TObject>, value: unknown): readonly Problem[] {
  const [long] = Object.entries(value as object).filter(
    (field): field is [string, unknown[]] => Array.isArray(field[1]) && field[1].length > MAX_SCANNED,
  )
  if (long)
    return [
      {
        path: long[0],
        message: `${long[0]}: an item is invalid; with ${long[1].length} items the list is too long to say which (at most ${MAX_SCANNED})`,
      },
    ]
  const byPath = new Map<string, Problem>()
  for (const error of compiled.Errors(value)) {
    const path = error.path.slice(1).replaceAll('/', '.')
    if (byPath.has(path)) continue
    const got = error.value === undefined ? 'it is missing' : `got ${quoted(error.value)}`
    byPath.set(path, { path, message: `${path}: ${expectation(error)}; ${got}` })
    if (byPath.size === 10) break
  }
  return [...byPath.values()]
}

/** Describes the expected value of a field, for unions too, where the library does not. */
function expectation({ message, schema }: { readonly message: string; readonly schema: TSchema }): string {
  const forms: unknown = schema.anyOf
  return Array.isArray(forms) && message === 'Expected union value'
    ? `Expected ${[...new Set(forms.map(formOf))].join(' or ')}`
    : message
}

function formOf({ const: only, type, items, minItems }: TSchema): string {
  if (only !== undefined) return JSON.stringify(only)
  if (type !== 'array' || typeof items?.type !== 'string') return typeof type === 'string' ? type : 'another form'
  return `array of ${minItems === undefined ? '' : `at least ${minItems} `}${items.type}`
}

function invalidBody(details: readonly Problem[]): ApiError {
  return new ApiError('INVALID_BODY', { message: details.map((detail) => detail.message).join('. '), details })
}

/** 400 about one field of the request: its path, and what is allowed. `fields` are added to the body (contract 3.3). */
export function refused(path: string, message: string, fields?: Readonly<Record<string, Json>>): ApiError {
  return new ApiError('INVALID_BODY', {
    message: `${path}: ${message}.`,
    details: [{ path, message }],
    ...(fields && { fields }),
  })
}
