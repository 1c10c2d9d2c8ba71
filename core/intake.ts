/** From request bytes to a plain, checked value. Everything a caller can get wrong is named here. */
import { fromBase64 } from './base64.ts'
import { joined } from './bytes.ts'
import type { TObject } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import type { Deadlines } from './deadlines.ts'
import { Fault } from './faults.ts'
import type { Json } from './ports.ts'

/**
 * Reads a body of at most `maxBytes`; refuses a larger one before reading it where its length is declared. What arrives of a large one, or of
 * one that does not say how large it is, counts against the budget while it is held, and has to arrive in time. Throws TOO_LARGE, BUSY or TOO_SLOW.
 */
export async function readBody(request: Request, maxBytes: number, budget?: Budget): Promise<string> {
  if (request.body === null) return ''
  const declared = Number(request.headers.get('content-length') ?? Number.NaN)
  if (declared > maxBytes) throw tooLarge(maxBytes)
  if (!(declared <= SMALL)) return new TextDecoder().decode(await readBytes(request.body, maxBytes, budget))
  const text = await request.text().catch(endedEarly)
  if (text.length > maxBytes) throw tooLarge(maxBytes)
  return text
}

/** What needs no place in the budget, in bytes. */
const SMALL = 1 << 20

/** Whether a content type is that of a multipart form. */
export function isForm(contentType: string | null): contentType is string {
  return contentType !== null && /^multipart\/form-data\s*(?:;|$)/i.test(contentType)
}

/** Reads the bytes of a body of at most `maxBytes`, like `readBody`. Throws TOO_LARGE. */
export async function readRaw(request: Request, maxBytes: number, budget?: Budget): Promise<Uint8Array> {
  const declared = Number(request.headers.get('content-length'))
  if (declared > maxBytes) throw tooLarge(maxBytes)
  return request.body === null ? new Uint8Array() : await readBytes(request.body, maxBytes, budget)
}

/** Parses a multipart form. Throws INVALID_FORM. */
export async function parseForm(bytes: Uint8Array, contentType: string): Promise<FormData> {
  try {
    return await new Response(bytes as BodyInit, { headers: { 'content-type': contentType } }).formData()
  } catch {
    throw new Fault('INVALID_FORM', { message: 'The request body is not a well-formed multipart form.' })
  }
}

async function readBytes(body: ReadableStream<Uint8Array>, maxBytes: number, budget: Budget | undefined): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = body.getReader()
  const late = budget?.deadline(() => void reader.cancel(new Error('too slow')).catch(() => {}))
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(endedEarly)
      if (late?.isOver()) throw new Fault('TOO_SLOW', { message: 'The request body did not arrive in time. Nothing was charged.' })
      if (done) break
      length += value.length
      if (length > maxBytes) throw tooLarge(maxBytes)
      budget?.take(value.length)
      chunks.push(value)
    }
  } catch (error) {
    reader.cancel(error).catch(() => {})
    throw error
  } finally {
    late?.end()
    budget?.give(Math.min(length, chunks.reduce((sum, chunk) => sum + chunk.length, 0)))
  }
  return joined(chunks, length)
}

/** The caller has hung up, or the connection broke: nobody here is to be alerted, and hardly anybody reads the reply. */
function endedEarly(): never {
  throw new Fault('INCOMPLETE_BODY', { message: 'The connection ended before the whole request body had arrived. Nothing was charged.' })
}

function tooLarge(maxBytes: number): Fault {
  return new Fault('TOO_LARGE', { message: `The request body may be at most ${maxBytes} bytes.`, fields: { max_bytes: maxBytes } })
}

export type Budget = {
  /** Counts bytes that have arrived. Throws BUSY where too many are held already. */
  take(bytes: number): void
  give(bytes: number): void
  /** How long a body may take to arrive. */
  deadline(late: () => void): { isOver(): boolean; end(): void }
}

/** Long enough for the largest body on a slow line. */
const ARRIVAL_MS = 120_000

/** Lets so many bytes of bodies be held at a time, by what has arrived and not by what is promised: idle connections take nothing from others. */
export function budget(bytes: number, deadlines: Deadlines): Budget {
  let held = 0
  return {
    take(count) {
      if (held + count > bytes) {
        throw new Fault('BUSY', { message: 'Too many uploads are under way. Nothing was charged; send the same request again.', headers: { 'retry-after': '2' } })
      }
      held += count
    },
    give(count) {
      held -= count
    },
    deadline(late) {
      let isOver = false
      const end = deadlines.after(ARRIVAL_MS, () => {
        isOver = true
        late()
      })
      return { isOver: () => isOver, end }
    },
  }
}

const MOST_MEMBERS = 1_000_000
const [COMMA, BRACE, BRACKET] = [0x2c, 0x7b, 0x5b]

/** Whether a text may hold more values than can be walked while others wait: ten million empty objects parse into gigabytes. */
function isDense(text: string): boolean {
  let members = 0
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === COMMA || char === BRACE || char === BRACKET) members += 1
  }
  return members > MOST_MEMBERS
}

/** Parses JSON. Throws INVALID_CONTENT_TYPE for a type that says something else, INVALID_JSON for text that is not. */
export function parseJson(text: string, contentType: string | null): unknown {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase()
  if (type && type !== 'application/json' && !type.endsWith('+json')) {
    throw new Fault('INVALID_CONTENT_TYPE', { message: `The content type must be application/json, got ${clip(type)}.` })
  }
  if (text.length > SMALL && isDense(text)) throw new Fault('TOO_LARGE', { message: `A large body may hold at most ${MOST_MEMBERS} values.` })
  try {
    return JSON.parse(text)
  } catch {
    const message = text.trim() === '' ? 'The request body is empty; a JSON object is expected.' : 'The request body is not valid JSON.'
    throw new Fault('INVALID_JSON', { message })
  }
}

export type Intake = (value: unknown) => Record<string, unknown>

const checks = new WeakMap<TObject, TypeCheck<TObject>>()

/** Each schema is compiled once in a process, when something is first said under it: a menu has hundreds, and a request needs one. */
function checkOf(schema: TObject): TypeCheck<TObject> {
  const known = checks.get(schema)
  if (known) return known
  const compiled = TypeCompiler.Compile(schema)
  checks.set(schema, compiled)
  return compiled
}

export type UnknownFields = 'dropped' | 'kept' | 'refused'

/**
 * Makes of a schema a check that drops unknown fields, keeps them, or refuses them, and reads an optional null as absent.
 * The check throws INVALID_BODY with `details: [{path, message}]`, one per field.
 */
export function intake(schema: TObject, unknownFields: UnknownFields = 'dropped'): Intake {
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
      const all = Object.entries(value)
      if (all.length > MOST_FIELDS) throw invalidBody([{ path: '', message: `More than ${MOST_FIELDS} fields` }])
      // Assigned, this name would be no field but what all fields are inherited from: read for the price, and never sent.
      for (const [field, given] of all) if (field !== '__proto__' && !fields.includes(field)) known[field] = given
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

/** The members of a JSON object as a query would have them: numbers and booleans as text. Throws INVALID_BODY for what is no object. */
export function textFields(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidBody([{ path: '', message: `Expected a JSON object, got ${quoted(value)}` }])
  }
  const isScalar = (member: unknown) => typeof member === 'number' || typeof member === 'boolean'
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, isScalar(member) ? String(member) : member]))
}

/** Fields that are not known, at most ten of them, with those that are. */
function strangeNames(value: object, fields: readonly string[]): readonly Problem[] {
  const known = fields.length === 0 ? 'there are none' : `the fields are ${fields.join(', ')}`
  const strange = Object.keys(value).filter((name) => !fields.includes(name)).slice(0, 10)
  return strange.map((name) => ({ path: clip(name), message: `${clip(name)}: is not known here; ${known}` }))
}

/** Of an object whose unknown fields go on: it is copied whenever a rule changes it, and a million fields take a second of everybody's. */
const MOST_FIELDS = 1_000

const DEEPEST = 200

/** What is written out again must not be deep: JSON.stringify takes half a second for 50,000 levels, and throws for more. */
function checkDepth(value: object): void {
  if (isDeeper(value, DEEPEST)) throw invalidBody([{ path: '', message: `Nested deeper than ${DEEPEST} levels` }])
}

/** Whether it has more than `levels` below it; goes no deeper than that itself. */
function isDeeper(value: object, levels: number): boolean {
  if (levels < 0) return true
  for (const inner of Array.isArray(value) ? value : Object.values(value)) if (typeof inner === 'object' && inner !== null && isDeeper(inner, levels - 1)) return true
  return false
}

/** Saying what is wrong with an item takes far longer than seeing that something is. */
const MOST_LOOKED_AT = 10_000

type Problem = { path: string; message: string }

function problems(compiled: TypeCheck<TObject>, value: unknown): readonly Problem[] {
  const [long] = Object.entries(value as object).filter((field): field is [string, unknown[]] => Array.isArray(field[1]) && field[1].length > MOST_LOOKED_AT)
  if (long) return [{ path: long[0], message: `${long[0]}: something in it is wrong, and it has ${long[1].length} items; of at most ${MOST_LOOKED_AT} we say what` }]
  const byPath = new Map<string, Problem>()
  for (const error of compiled.Errors(value)) {
    const path = error.path.slice(1).replaceAll('/', '.')
    if (byPath.has(path)) continue
    const got = error.value === undefined ? 'it is missing' : `got ${quoted(error.value)}`
    byPath.set(path, { path, message: `${path}: ${error.message}; ${got}` })
    if (byPath.size === 10) break
  }
  return [...byPath.values()]
}

function invalidBody(details: readonly Problem[]): Fault {
  return new Fault('INVALID_BODY', { message: details.map((detail) => detail.message).join('. '), details })
}

/** 400 about one place of a caller's request: which, and what is allowed there. `fields` join the body (ruling 12). */
export function refused(path: string, message: string, fields?: Readonly<Record<string, Json>>): Fault {
  return new Fault('INVALID_BODY', { message: `${path}: ${message}.`, details: [{ path, message }], ...(fields && { fields }) })
}

/** Shortens a caller's own value for an error text. */
export function clip(value: unknown): string {
  const text = String(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** A caller's own value for an error text. Never its whole depth or length: both are the caller's to choose. */
export function quoted(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  return clip(typeof value === 'string' ? JSON.stringify(value.slice(0, 60)) : value)
}

/** The longest authority that a web address is read with, in characters; a host name has 253 at most. */
const AUTHORITY = /^https?:\/\/[^\s/?#\\][^/?#\\]{0,299}(?:[/?#\\]|$)/i

/** Whether a text is an http(s) URL. Reading a host takes time by the square of its length: minutes, for a megabyte of combining marks. */
export const isWebUrl = (text: string): boolean => AUTHORITY.test(text) && URL.canParse(text)

const DATA_URI = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)((?:;[a-z0-9=.+-]+)*?)(;base64)?,/i

/** Decodes `data:<type>[;base64],…`. Undefined when it is not one, or its base64 is broken. */
export function decodeDataUri(uri: string): { type: string; bytes: Uint8Array } | undefined {
  const match = DATA_URI.exec(uri.slice(0, 200))
  if (!match?.[1]) return undefined
  const type = match[1].toLowerCase()
  const rest = uri.slice(match[0].length)
  try {
    if (!match[3]) return { type, bytes: new TextEncoder().encode(decodeURIComponent(rest)) }
    return { type, bytes: fromBase64(rest) }
  } catch {
    return undefined
  }
}
