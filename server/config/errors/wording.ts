/** Describes the allowed values of a setting, from its schema. */
import type { TSchema } from '@sinclair/typebox'
import { STORAGE_URL_PATTERN, STORAGE_URLS } from '../../../adapters/storage/manifests.ts'
import { PATTERN_WORDS } from '../../../adapters/chains/families.ts'

const MODEL = 'a model id of at most 100 letters, digits and . _ / : -'

/** Patterns in words, after "must be". A test finds a pattern that is missing here. */
const PATTERNS: Readonly<Record<string, string>> = {
  '^https?://': 'a URL that begins with http:// or https://',
  '^https?://\\S+$': 'a URL that begins with http:// or https://',
  '^https?://[^/]+$': 'an origin such as https://ai.example.com, without a path or a slash at its end',
  '^(https?://\\S+|[^\\s@:/]+@[^\\s@:/]+)$': 'an http or https URL, or an e-mail address',
  '^(https?://.+|[A-Z][A-Z0-9_]*)$': 'an http or https URL, or the name of the environment variable that holds it',
  [STORAGE_URL_PATTERN]: STORAGE_URLS,
  '^(memory:|file:.+|s3://.+)$': 'memory:, file:FOLDER or s3://BUCKET/PREFIX',
  '^(file:.+|s3://.+)$': 'file:FOLDER or s3://BUCKET/PREFIX',
  '^[!-~]{16,}$': 'text of at least 16 printable ASCII characters, without spaces',
  '^([0-9a-fA-F]{2}){16,64}$': '32 to 128 hex digits, an even number of them',
  '^[A-Z_][A-Z0-9_]{0,49}$':
    'the name of an environment variable: capital letters, digits and _ (not the value itself)',
  '^[0-9]{1,6}(\\.[0-9]{1,9})?$': 'an amount in US dollars as text, such as "0.02"',
  '^[0-9]{1,6}(\\.[0-9]{1,6})?$': 'an amount in USDC as text, such as "0.05"',
  '^[0-9]{1,30}$': 'a whole number as text',
  ...PATTERN_WORDS,
  '^0x[0-9a-fA-F]{40}$': 'an address: 0x and 40 hex digits',
  '^[a-z0-9-]{1,40}$': 'at most 40 lower-case letters, digits and dashes',
  '^[a-z0-9-]{1,41}$': 'at most 41 lower-case letters, digits and dashes',
  '^[a-z0-9-]{2,40}$': '2 to 40 lower-case letters, digits and dashes',
  '^[\\w./:-]{1,100}$': MODEL,
  '^[\\w.+/:-]{1,100}$': MODEL,
  '^[\\w.+:/-]{1,90}$': 'a model name of at most 90 letters, digits and . _ + : / -',
  '^[0-9]{2,4}x[0-9]{2,4}$': 'a size such as 1024x1024',
  '^[^/ ]+$': 'a host and its port, such as gpu.lan:7860',
  '^AC[0-9a-fA-F]{32}$': 'AC and 32 hex digits',
  '^[A-Z]{2}(,[A-Z]{2})*$': 'countries of two capital letters, separated by commas',
  '^[a-z_]+(,[a-z_]+)*$': 'lower-case names, separated by commas',
  '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$': 'at most 64 letters, digits and . _ -',
  '^[A-Za-z0-9][A-Za-z0-9._/:-]{0,99}$': 'at most 100 letters, digits and . _ / : -',
}

type Found = { readonly message: string; readonly value: unknown }

/** Text of what is allowed, beginning with "must". `message` is used if the schema has no other words. */
export function allowedText(schema: TSchema, { message, value }: Found): string {
  if (message === 'Expected required property') return 'missing'
  if (schema.type === 'string' && typeof value === 'number') return 'must be text: write it in quotes'
  const words = schema.words ?? PATTERNS[schema.pattern as string]
  if (typeof words === 'string') return `must be ${words}`
  if (Array.isArray(schema.anyOf)) return `must be ${optionsText(schema.anyOf)}`
  if (schema.const !== undefined) return `must be ${JSON.stringify(schema.const)}`
  if (schema.type === 'integer') return `must be a whole number${rangeText(schema)}`
  if (schema.type === 'number') return `must be a number${rangeText(schema)}`
  if (schema.type === 'boolean') return 'must be true or false, without quotes'
  if (schema.type === 'array') return `must be a list${countText(schema, 'entries')}, in square brackets`
  if (schema.type === 'object') return 'must be a table of settings'
  if (schema.type === 'string') return `must be text in quotes${countText(schema, 'characters')}`
  return message.charAt(0).toLowerCase() + message.slice(1)
}

/** Whether a pattern can be said in words; for tests. */
export const hasWords = (schema: TSchema): boolean =>
  typeof schema.words === 'string' || Object.hasOwn(PATTERNS, String(schema.pattern))

/** Values first, then what is described: `one of full, small, or a list`. */
function optionsText(options: readonly TSchema[]): string {
  const values = options.flatMap((option) => (option.const === undefined ? [] : [String(option.const)]))
  const described = options
    .filter((option) => option.const === undefined)
    .map((option) => allowedText(option, { message: '', value: undefined }).replace(/^must be /, ''))
  return [...(values.length > 0 ? [`one of ${values.join(', ')}`] : []), ...described].join(', or ')
}

function rangeText({ minimum, maximum }: TSchema): string {
  if (minimum !== undefined && maximum !== undefined) return ` from ${minimum} to ${maximum}`
  if (minimum !== undefined) return ` of at least ${minimum}`
  return maximum === undefined ? '' : ` of at most ${maximum}`
}

function countText({ minItems, maxItems, minLength, maxLength }: TSchema, unit: string): string {
  const [least, most] = [(minItems ?? minLength) as number | undefined, (maxItems ?? maxLength) as number | undefined]
  if (least === undefined && most === undefined) return ''
  if (most === undefined) return least === 1 ? ', not empty' : ` of at least ${least} ${unit}`
  return least === undefined ? ` of at most ${most} ${unit}` : ` of ${least} to ${most} ${unit}`
}
