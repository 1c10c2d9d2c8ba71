/** Schemas of settings, as adapters state their own: the server's configuration is made of them. */
import { type Static, type TObject, type TOptional, type TProperties, type TSchema, Type } from '@sinclair/typebox'

type Usual = {
  /** The default in words. Constants use the `default` of the schema instead. */
  readonly usual?: string
  /** Its environment variable, if that is not its name in capitals; null: only the file sets it. */
  readonly env?: string | null
}

/** An optional setting with its description: what it does, its unit and its limits, in plain English. */
export function setting<Schema extends TSchema>(
  description: string,
  schema: Schema,
  options: Usual = {},
): TOptional<Schema> {
  return Type.Optional(needed(description, schema, options)) as unknown as TOptional<Schema>
}

/**
 * A setting that its product requires. It is optional in the file, because the rest of the gateway works without it.
 */
export function needed<Schema extends TSchema>(description: string, schema: Schema, options: Usual = {}): Schema {
  return { ...schema, description, ...options }
}

/** An `http` or `https` URL. */
export const Url = Type.String({ pattern: '^https?://' })

/** One of these values. */
export const oneOf = <const Words extends readonly string[]>(...words: Words) =>
  Type.Union(words.map((word: Words[number]) => Type.Literal(word)))

/** The name of an environment variable. The pattern rejects keys that were pasted in its place. */
export const Variable = Type.String({ pattern: '^[A-Z_][A-Z0-9_]{0,49}$' })

/** A setting with a default in its schema: the file may leave it out, and what is read has it. */
export function defaulted<Schema extends TSchema>(description: string, schema: Schema): Schema {
  if (schema.default === undefined) throw new Error(`a setting has no default: ${description}`)
  return { ...schema, description }
}

type CamelName<Name> = Name extends `${infer First}_${infer Rest}` ? `${First}${Capitalize<CamelName<Rest>>}` : Name

type Camel<Table> = {
  readonly [Name in keyof Table as Name extends `${string}_env` ? never : CamelName<Name>]: Readonly<Table[Name]>
}

/** Settings as the code has them: `pay_to` is `payTo`. Variables that hold a value (`..._env`) are read elsewhere. */
export type Named<Schemas extends TProperties> = Camel<Static<TObject<Schemas>>>

/**
 * The settings of a table that these schemas have, by their names in code, without those that are not set. In the order
 * of the schemas, so that equal settings are equal as JSON.
 */
export function named<Schemas extends TProperties>(
  schemas: Schemas,
  table: Partial<Static<TObject<Schemas>>>,
): Named<Schemas> {
  const values = table as Readonly<Record<string, unknown>>
  return Object.fromEntries(
    Object.keys(schemas)
      .filter((name) => values[name] !== undefined && !name.endsWith('_env'))
      .map((name) => [name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()), values[name]]),
  ) as Named<Schemas>
}
