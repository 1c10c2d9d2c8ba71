/** Schemas that several parts of the configuration share. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { isFields } from '../../core/lib/mod.ts'

/** The port without a setting, and a gateway of this machine that listens there. */
export const DEFAULT_PORT = 4020

export const LOCAL_URL = `http://127.0.0.1:${DEFAULT_PORT}`

/** US dollars, as text, because prices are exact decimals. */
export const Rate = Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,9})?$' })

/** The path of a file of the operator's own: TypeScript or JavaScript. */
export const FilePath = Type.String({
  pattern: '^(\\.{0,2}/|[A-Za-z]:).+\\.(ts|js|mjs)$',
  words: 'a file such as ./mine.ts',
})

/** Whether a name is such a path: names of protocols and products have no slash at the front. */
export const isFile = (name: string): boolean => /^(\.{0,2}\/|[A-Za-z]:)/.test(name)

export type Environment = Readonly<Record<string, string | undefined>>

/**
 * A table with the defaults of what it does not say, in its lists too. A value that is not a table is left to the
 * check.
 */
export function filled({ properties, required = [] }: TObject, given: Readonly<Record<string, unknown>>) {
  const values: Record<string, unknown> = { ...given }
  for (const name of new Set([...required, ...Object.keys(values)])) {
    const schema = properties[name]
    if (schema) values[name] = filledValue(schema, values[name] ?? structuredClone(schema.default))
    if (values[name] === undefined) delete values[name]
  }
  return values
}

function filledValue(schema: TSchema, value: unknown): unknown {
  const items = schema.items as TSchema | undefined
  if (schema.properties && isFields(value)) return filled(schema as TObject, value)
  return items?.properties && Array.isArray(value) ? value.map((item) => filledValue(items, item)) : value
}

/** Members without those that are undefined. */
export function defined<Each extends object>(
  members: Each,
): {
  readonly [Name in keyof Each as undefined extends Each[Name] ? never : Name]: Each[Name]
} & { readonly [Name in keyof Each as undefined extends Each[Name] ? Name : never]?: Exclude<Each[Name], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never
}

/** The members of a table without those of these names. */
export function without<Table extends object, Names extends string>(
  table: Table,
  names: Readonly<Record<Names, unknown>>,
): Omit<Table, Names> {
  return Object.fromEntries(Object.entries(table).filter(([name]) => !Object.hasOwn(names, name))) as Omit<Table, Names>
}

/** The known name that is closest to a misspelled one; undefined when none is close. */
export function nearestName(given: string, names: readonly string[]): string | undefined {
  const ranked = names.map((name) => ({ name, edits: editsBetween(given.toLowerCase(), name) }))
  const [first] = ranked.toSorted((a, b) => a.edits - b.edits)
  return first && first.edits <= Math.max(2, Math.floor(first.name.length / 3)) && first.edits < first.name.length - 1
    ? first.name
    : undefined
}

/** Number of letters to insert, delete, replace or swap with the next one (restricted Damerau-Levenshtein distance). */
function editsBetween(one: string, other: string): number {
  let before: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, column) => column)
  for (let row = 1; row <= one.length; row++) {
    const next = [row]
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1]
      const isSwapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      next[column] = Math.min(
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
        isSwapped ? (before[column - 2] ?? Number.POSITIVE_INFINITY) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    ;[before, last] = [last, next]
  }
  return last[other.length] ?? 0
}

/** Variables that hold secrets, by the end of their names; settings are known by name. */
const SECRET = /(?:_KEY|_KEYS|_TOKEN|_SECRET|_PASSWORD|_SID|_ACCESS_KEY_ID)$/

/** Files of the AWS SDK, which reads them itself, again and again. */
const OF_OTHERS = ['AWS_WEB_IDENTITY_TOKEN_FILE', 'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE']

const MAX_SECRET = 65_536

/**
 * The environment, with `NAME` read from the file that `NAME_FILE` names: for secrets of Docker, Kubernetes and
 * systemd. A line break at the end is dropped. Mistakes show no contents.
 */
export function secretsFromFiles(
  env: Environment,
  settings: readonly string[],
  read: (path: string) => string,
): { readonly env: Environment; readonly mistakes: readonly string[] } {
  const mistakes: string[] = []
  const found: Record<string, string> = {}
  for (const [variable, path] of Object.entries(env)) {
    const name = variable.endsWith('_FILE') ? variable.slice(0, -'_FILE'.length) : ''
    const isSecret = settings.includes(name) || (/^[A-Z]/.test(name) && SECRET.test(name))
    if (!path || !isSecret || OF_OTHERS.includes(variable)) continue
    if (env[name]) mistakes.push(`${variable}: ${name} is set as well; set one of them`)
    else {
      try {
        const text = read(path).replace(/\r?\n$/, '')
        if (text === '') mistakes.push(`${variable}: the file at ${path} is empty`)
        else if (text.length > MAX_SECRET)
          mistakes.push(`${variable}: the file at ${path} has more than ${MAX_SECRET} characters`)
        else found[name] = text
      } catch (error) {
        mistakes.push(`${variable}: the file at ${path} cannot be read (${(error as { code?: string }).code})`)
      }
    }
  }
  return { env: { ...env, ...found }, mistakes }
}
