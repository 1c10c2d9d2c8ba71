/** Makes a value that a JSON schema allows, for tool calls and structured output of the echo model. */
import type { Json } from '../../../core/mod.ts'
import { record } from '../../../adapters/http/error_replies.ts'

/** Values, items and characters that one schema may produce, so that a recursive schema ends. */
const [MAX_VALUES, MAX_ITEMS, MAX_CHARACTERS] = [500, 100, 100_000]
const [MAX_TEXT, MAX_SEARCHED] = [200, 10_000]

type Schema = Readonly<Record<string, unknown>>

const FORMATS = new Map([
  ['date', '2026-01-01'],
  ['date-time', '2026-01-01T00:00:00Z'],
  ['email', 'echo@example.com'],
])

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const fieldOf = (value: unknown, name: string): unknown =>
  Object.hasOwn(record(value), name) ? record(value)[name] : undefined
const numberOr = (value: unknown, otherwise: number): number => (typeof value === 'number' ? value : otherwise)

/**
 * Required fields only, the first of several choices, and the user's words and numbers elsewhere. Ignores `pattern`,
 * `allOf` and `multipleOf`. Past the limits values are null.
 */
export function fillSchema(root: unknown, words: string): Json {
  const numbers = words.slice(0, MAX_SEARCHED).match(/(?<![\w.-])-?\d{1,15}(?:\.\d{1,6})?/g) ?? []
  let [values, characters, used] = [MAX_VALUES, MAX_CHARACTERS, 0]

  function resolve(pointer: string): unknown {
    const steps = pointer.split('/').slice(1)
    return steps.reduce<unknown>((at, step) => fieldOf(at, step.replaceAll('~1', '/').replaceAll('~0', '~')), root)
  }

  function fill(node: unknown): Json {
    if (values-- <= 0 || characters <= 0) return null
    const schema = record(node)
    if (typeof schema.$ref === 'string') return fill(resolve(schema.$ref))
    const given = schema.const ?? list(schema.enum)[0]
    if (given !== undefined) return spend(given as Json)
    const choices = [...list(schema.anyOf), ...list(schema.oneOf)]
    if (choices.length > 0) return fill(choices.find((choice) => record(choice).type !== 'null') ?? choices[0])
    const type = typeOf(schema)
    if (type === 'boolean') return true
    if (type === 'null') return null
    if (type === 'integer' || type === 'number') return bounded(schema, Number(numbers[used++ % numbers.length] ?? 1))
    if (type === 'object') {
      const names = list(schema.required).map(String)
      const entries = names.map((name) =>
        characters > 0 ? [[spend(name), fill(fieldOf(schema.properties, name))]] : [],
      )
      return Object.fromEntries(entries.flat())
    }
    if (type === 'array') {
      const wanted = Math.min(numberOr(schema.minItems, 1) || 1, numberOr(schema.maxItems, MAX_ITEMS), MAX_ITEMS)
      return Array.from({ length: wanted }, () => fill(schema.items))
    }
    const text = FORMATS.get(String(schema.format)) ?? (Array.from(words.trim()).slice(0, MAX_TEXT).join('') || 'echo')
    const long = text.padEnd(Math.min(numberOr(schema.minLength, 0), MAX_SEARCHED), '.')
    return spend(long.slice(0, numberOr(schema.maxLength, MAX_SEARCHED)))
  }

  const spend = <T extends Json>(value: T): T => {
    characters -= JSON.stringify(value).length
    return value
  }
  return fill(root)
}

function typeOf({ type, properties, required, items }: Schema): unknown {
  if (type !== undefined) return [type].flat().find((each) => each !== 'null') ?? 'null'
  if (properties !== undefined || required !== undefined) return 'object'
  return items === undefined ? 'string' : 'array'
}

function bounded({ type, minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Schema, wanted: number): number {
  const low = Math.max(numberOr(minimum, -Infinity), numberOr(exclusiveMinimum, -Infinity) + 1)
  const high = Math.min(numberOr(maximum, Infinity), numberOr(exclusiveMaximum, Infinity) - 1)
  const within = low > high ? (low + high) / 2 : Math.min(Math.max(wanted, low), high)
  return type === 'integer' ? Math.floor(within) : within
}
