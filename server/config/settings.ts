/** How a setting of the configuration file describes itself; `docs/configuration.md` is generated from these texts. */
import { type TOptional, type TSchema, Type } from '@sinclair/typebox'

type Usual = {
  /** What applies without the setting, in words. A constant is the `default` of the schema instead. */
  readonly usual?: string
}

/** An optional setting with its description: what it does, its unit and its limits, in plain English. */
export function setting<Schema extends TSchema>(
  description: string,
  schema: Schema,
  { usual }: Usual = {},
): TOptional<Schema> {
  return Type.Optional({
    ...schema,
    description,
    ...(usual !== undefined && { usual }),
  }) as unknown as TOptional<Schema>
}

/** An `http` or `https` URL. */
export const Url = Type.String({ pattern: '^https?://' })
/** The name of an environment variable; too short and too plain to be a key pasted in the wrong place. */
export const Variable = Type.String({ pattern: '^[A-Z_][A-Z0-9_]{0,49}$' })
/** US dollars, as text, because prices are exact decimals. */
export const Rate = Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,9})?$' })

/** One of these words. */
export const oneOf = <const Words extends readonly string[]>(...words: Words) =>
  Type.Union(words.map((word: Words[number]) => Type.Literal(word)))
