/** How MPP writes objects: base64url without padding of canonical JSON (RFC 8785). */
import { fromBase64, toBase64Url } from '../lib/base64.ts'
import { fieldsOf, isFields } from '../lib/json.ts'

/** Canonical JSON of RFC 8785: members in order, no space. For plain JSON values. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (!isFields(value)) return JSON.stringify(value)
  const members = Object.keys(value)
    .toSorted()
    .filter((name) => value[name] !== undefined)
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`)
  return `{${members.join(',')}}`
}

/** UTF-8 text in base64url without padding. */
export const encodeUrl = (text: string): string => toBase64Url(utf8.encode(text))
const utf8 = new TextEncoder()

/** The JSON object in base64url; undefined for anything else. */
export function decodeUrl(text: string): Readonly<Record<string, unknown>> | undefined {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return undefined
  const standard = text.replace(/=+$/, '').replaceAll('-', '+').replaceAll('_', '/')
  try {
    const bytes = fromBase64(standard.padEnd(Math.ceil(standard.length / 4) * 4, '='))
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return isFields(value) ? fieldsOf(value) : undefined
  } catch {
    return undefined
  }
}
