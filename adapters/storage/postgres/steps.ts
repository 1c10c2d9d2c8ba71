/** Writes of a step as few statements: each is sent once, and checks what the step was decided on. */
import { createHash } from 'node:crypto'
import type { Kind } from '../sql/schema.ts'
import type { Query, Statement, Values } from '../sql/statement.ts'
import { ask } from './statements.ts'

/** A statement, and its parameters encoded. */
export type Sent = { readonly name: string; readonly text: string; readonly values: readonly unknown[] }

/** A part of a statement of several: `text` counts its parameters from 1. */
type Part = { readonly text: string; readonly values: readonly unknown[] }

const COMBINED: ReadonlySet<string> = new Set(
  Object.entries(ask)
    .filter(([name]) => /^(?:insert|upsert)|^(?:bind|setStatus|unbind|renew)$/.test(name))
    .map(([, { name }]) => name),
)

const isCombined = ({ name }: Statement<unknown>): boolean => name.startsWith('patch_') || COMBINED.has(name)

/** A check that follows statements of their own. */
const CHECK = 'select check_step($1, true)'

/**
 * The writes of a step, in order, as groups that are each one statement with a check at the end. `known` is how many
 * migrations this process knows. A query that cannot share a statement is one by itself.
 */
export function grouped(writes: readonly Query[], known: number): readonly (Sent | Query)[] {
  const made: (Sent | Query)[] = []
  let group: Query[] = []
  let isChecked = true
  const flush = () => {
    if (group.length > 0) made.push(together(group, known))
    group = []
  }
  for (const query of writes) {
    const [statement, values] = query
    if (!isCombined(statement)) {
      flush()
      made.push(query)
      // A read needs no check.
      if (!statement.hasRows || statement.text.startsWith('delete')) isChecked = false
      continue
    }
    // A statement does not see what another part of it has inserted.
    const isOfNew = group.some(([each, of]) => each === ask.insertCall && of.id === values.id)
    if (isOfNew) flush()
    group.push(query)
  }
  flush()
  if (!isChecked) made.push({ name: 'check_step', text: CHECK, values: [known] })
  return made
}

/**
 * One statement for several writes, in order. A binding that changes no row was decided on another call than it has
 * now.
 */
function together(writes: readonly Query[], known: number): Sent {
  const parts = writes.map(([{ text, encode }, values]) => ({ text: `${text} returning 1`, values: encode(values) }))
  // Each part is executed when it is first counted.
  const counts = writes.map(
    ([{ name }], at) => `(select count(*) from w${at}) ${name === ask.bind.name ? '= 1' : '>= 0'}`,
  )
  return merged(parts, (at) => `select check_step(${at}, ${counts.join(' and ')})`, known)
}

/**
 * One statement that writes only if `guard`, of the row that the first write updates, still holds: it returns how many
 * rows the first write changed, 0 or 1. The other parts are written exactly if the first one is.
 */
export function guarded(
  [first, ...others]: readonly [Query, ...Query[]],
  [guard, row]: Query,
  { known, locks }: { readonly known: number; readonly locks: readonly string[] },
): Sent {
  const [{ text, encode }, values] = first
  const update = appended({ text, values: encode(values) }, { text: guard.text, values: guard.encode(row) })
  const rest = others.map(([each, of]) => ({
    text: `${each.text} and exists (select 1 from w0) returning 1`,
    values: each.encode(of),
  }))
  const same = rest.map((_, at) => `(select count(*) from w0) = (select count(*) from w${at + 1})`).join(' and ')
  const isLocked = locks.length > 0 ? ' and exists (select 1 from named)' : ''
  return merged(
    [{ ...update, text: `${update.text}${isLocked} returning 1` }, ...rest],
    (at) => `select (select count(*)::int from w0), check_step(${at}, ${same || 'true'})`,
    known,
    locks,
  )
}

/**
 * Reads of one snapshot as one statement of one row, in which each read is an array of its rows. Null where nothing is
 * read.
 */
export function readTogether(queries: readonly (Query | undefined)[]): Sent {
  const values: unknown[] = []
  const texts = queries.map((query) => {
    if (!query) return 'null'
    const [{ text, fields, encode }, given] = query
    const columns = Object.values(fields).map(({ kind }, at) => inJson(`c${at}`, kind))
    const names = columns.map((_, at) => `c${at}`).join(', ')
    const read = shifted(text, values.length)
    values.push(...encode(given))
    return `(select json_agg(json_build_array(${columns.join(', ')})) from (${read}) as found(${names}))`
  })
  const text = `select ${texts.join(', ')}`
  return { name: nameOf(text), text, values }
}

/** The rows of each of those reads. */
export function rowsOf(
  queries: readonly (Query | undefined)[],
  row: readonly unknown[],
): readonly (readonly unknown[])[] {
  return queries.map((query, at) => ((row[at] ?? []) as unknown[][]).map((each) => query?.[0].decode(each)))
}

/** A number of JSON would lose digits of an amount. */
const inJson = (column: string, kind: Kind): string => (kind === 'amount' ? `${column}::text` : column)

/**
 * The locks of a step, which come before what it reads: a statement that waited for them would not see what was
 * committed meanwhile. Names are locked for replicas of the first release, which lock nothing else.
 */
export function lockingOf(names: readonly string[], payer: Values | undefined): Sent | undefined {
  const locks = locksOf(names)
  if (!payer && names.length === 0) return undefined
  const digests = names.map(digest)
  if (!payer) return { name: `lock_${names.length}`, text: `select ${locks}`, values: digests }
  const { text, encode } = ask.lockPayer
  const row = shifted(text, names.length)
  const values = [...digests, ...encode(payer)]
  if (names.length === 0) return { name: 'lock_payer', text: row, values }
  const gated = row.replace(/values \((.*?)\)/, `select $1 from named`)
  return { name: `lock_payer_${names.length}`, text: `with named as materialized (select ${locks}) ${gated}`, values }
}

const locksOf = (names: readonly string[]) => names.map((_, at) => `pg_advisory_xact_lock($${at + 1})`).join(', ')

/** The first 64 bits of a name's SHA-256, as a signed integer. */
function digest(name: string): string {
  return createHash('sha256').update(name).digest().readBigInt64BE().toString()
}

function merged(
  parts: readonly Part[],
  last: (known: string) => string,
  known: number,
  locks: readonly string[] = [],
): Sent {
  const values: unknown[] = locks.map(digest)
  const named = locks.length > 0 ? [`named as materialized (select ${locksOf(locks)})`] : []
  const texts = parts.map((part, at) => {
    const text = shifted(part.text, values.length)
    values.push(...part.values)
    return `w${at} as (${text})`
  })
  values.push(known)
  const text = `with ${[...named, ...texts].join(', ')} ${last(`$${values.length}`)}`
  return { name: nameOf(text), text, values }
}

/** A condition after the one that the statement ends with. */
function appended(statement: Part, condition: Part): Part {
  return {
    text: `${statement.text} and ${shifted(condition.text, statement.values.length)}`,
    values: [...statement.values, ...condition.values],
  }
}

const shifted = (text: string, by: number): string =>
  by === 0 ? text : text.replaceAll(/\$(\d+)/g, (_, position: string) => `$${Number(position) + by}`)

const names = new Map<string, string>()

/** There are few texts, each of a kind of step. */
function nameOf(text: string): string {
  const name = names.get(text) ?? `step_${names.size}`
  names.set(text, name)
  return name
}
