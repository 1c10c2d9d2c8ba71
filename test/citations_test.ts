/** Each citation of the contract or of a decision resolves, and no comment cites a page outside the repository. */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '..')
const CONTRACT = readFileSync(join(ROOT, 'core/CONTRACT.md'), 'utf8')
const DECISIONS = readFileSync(join(ROOT, 'core/DECISIONS.md'), 'utf8')

/** Numbers of statements and decisions, in the order of their pages. */
const statements = [...CONTRACT.matchAll(/^\*\*(\d+\.\d+)\*\* /gm)].map(([, number = '']) => number)
const areas = [...CONTRACT.matchAll(/^## (\d+)\. /gm)].map(([, number = '']) => number)
const decisions = [...DECISIONS.matchAll(/^## (\d+)\. /gm)].map(([, number = '']) => number)

type Source = { readonly path: string; readonly text: string }
const paths = [...['core', 'adapters', 'server', 'test'].flatMap(below), 'README.md']
const sources: readonly Source[] = paths.map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))

function below(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    if (entry.name === 'node_modules' || entry.name.startsWith('.')) return []
    if (entry.isDirectory()) return below(path)
    return /\.(ts|md|json|mjs)$/.test(entry.name) ? [path] : []
  })
}

/** A space, or the next line of the same comment. */
const GAP = String.raw`(?:[ \t]+|[ \t]*\r?\n[ \t]*(?:\*(?!/)|//)?[ \t]*)`
/** `contract 3.2`, `contract 3.2, 4.1`. */
const OF_CONTRACT = list('contract', String.raw`\d+\.\d+`)
/** `decision 12`, `decisions 12, 14 and 15`. */
const OF_DECISIONS = list('decisions?', String.raw`\d+(?!\.?\d)`)

function list(word: string, number: string): RegExp {
  return new RegExp(String.raw`\b${word}${GAP}(${number}(?:(?:,${GAP}|${GAP}and${GAP})${number})*)`, 'gi')
}

type Citation = { readonly at: string; readonly number: string }

function citations(pattern: RegExp, files: readonly Source[]): Citation[] {
  return files.flatMap(({ path, text }) =>
    [...text.matchAll(pattern)].flatMap(({ 1: numbers = '', index }) =>
      [...numbers.matchAll(/\d+(?:\.\d+)?/g)].map(([number]) => ({ at: position(path, text, index), number })),
    ),
  )
}

function position(path: string, text: string, index: number): string {
  return `${path}:${text.slice(0, index).split('\n').length}`
}

function unknown(cited: readonly Citation[], known: readonly string[]): string[] {
  const names = new Set(known)
  return cited.filter(({ number }) => !names.has(number)).map(({ at, number }) => `${at}: ${number}`)
}

test('statements of the contract are numbered without gaps', () => {
  const expected = areas.flatMap((area) => {
    const own = statements.filter((number) => number.startsWith(`${area}.`))
    return own.map((_, index) => `${area}.${index + 1}`)
  })
  expect(areas).toEqual(areas.map((_, index) => `${index + 1}`))
  expect(statements.length).toBeGreaterThan(300)
  expect(statements).toEqual(expected)
})

test('decisions are numbered upwards, and each number stands for one; those that were removed leave gaps', () => {
  const numbers = decisions.map(Number)
  expect(numbers.length).toBeGreaterThan(80)
  expect(numbers).toEqual([...new Set(numbers)].toSorted((one, other) => one - other))
})

test('a decision is at most six lines of at most 120 columns', () => {
  const [, ...entries] = DECISIONS.split(/^## /m)
  const long = entries.filter((entry) => {
    const [, ...lines] = entry.trimEnd().split('\n')
    return lines.filter((line) => line !== '').length > 6 || lines.some((line) => line.length > 120)
  })
  expect(long.map((entry) => entry.split('\n', 1)[0])).toEqual([])
  expect(entries.length).toBe(decisions.length)
})

test('each file of notes is named by a decision', () => {
  const files = readdirSync(join(ROOT, 'core/notes'))
  const named = new Set([...DECISIONS.matchAll(/`notes\/(\w+\.md)`/g)].map(([, file = '']) => file))
  expect(files.toSorted()).toEqual([...named].toSorted())
})

test('each citation of the contract names a statement', () => {
  const cited = citations(OF_CONTRACT, sources)
  expect(cited.length).toBeGreaterThan(100)
  expect(unknown(cited, statements)).toEqual([])
})

test('each citation of a decision names a decision', () => {
  const cited = citations(OF_DECISIONS, sources)
  expect(cited.length).toBeGreaterThan(50)
  expect(unknown(cited, decisions)).toEqual([])
})

test('each decision is cited by code, or by another page', () => {
  const cited = new Set(
    citations(
      OF_DECISIONS,
      sources.filter(({ path }) => path !== 'core/DECISIONS.md'),
    ).map(({ number }) => number),
  )
  expect(decisions.filter((number) => !cited.has(number))).toEqual([])
})

test('an area, or a decision with a point, is no citation', () => {
  const area = new RegExp(String.raw`\bcontract${GAP}\d+(?![.\d])`, 'gi')
  const point = new RegExp(String.raw`\bdecision${GAP}\d+\.\d`, 'gi')
  const stray = sources.flatMap(({ path, text }) =>
    [area, point].flatMap((pattern) => [...text.matchAll(pattern)].map(({ index }) => position(path, text, index))),
  )
  expect(stray).toEqual([])
})

/**
 * A title that ends with its statements: the first argument of a test, the name of a law, or the first cell of a
 * table's row.
 */
const TITLE = /(?:[([]\s*|\bname:\s*)(['"`])(?:(?!\1)[^\n\\]|\\.)*\(contract (\d+\.\d+(?:, \d+\.\d+)*)\)\1/g

function named(files: readonly Source[]): Set<string> {
  const titles = files
    .filter(({ path }) => path.startsWith('test/') && path.endsWith('.ts'))
    .flatMap(({ text }) => [...text.matchAll(TITLE)])
  return new Set(titles.flatMap(([, , numbers = '']) => numbers.split(', ')))
}

test('each statement is named by the title of a test', () => {
  const withdrawn = new Set(
    [...CONTRACT.matchAll(/^\*\*(\d+\.\d+)\*\* Withdrawn\.$/gm)].map(([, number = '']) => number),
  )
  const proven = named(sources)
  const unproven = statements.filter((number) => !withdrawn.has(number) && !proven.has(number))
  expect(unproven).toEqual([])
})

test('a statement is named at the end of a title, not in a comment or another string', () => {
  const cite = (number: string) => `(${'contract'} ${number})`
  const text = [
    `test('one ${cite('1.1')}', () => {})`,
    `test.each(rows)(\n  'two, three ${cite('1.2, 1.3')}',\n  () => {})`,
    `{ name: "it's four ${cite('1.4')}", check }`,
    `['five ${cite('1.5')}', 400]`,
    `// test('${cite('2.1')} six', () => {})`,
    `const known = { path: 'seven ${cite('2.2')}' } // ${cite('2.3')}`,
  ].join('\n')
  expect([...named([{ path: 'test/x.ts', text }])]).toEqual(['1.1', '1.2', '1.3', '1.4', '1.5'])
  expect([...named([{ path: 'core/x.ts', text }])]).toEqual([])
})

/** Pages that the repository does not have; in pieces, so that this file holds none of their names. */
const ELSEWHERE = [
  ['house', 'decisions?'],
  ['context', String.raw`decisions? \d`],
  ['rulings?', String.raw`\d`],
  ['specs?', String.raw`[1-3]\b`],
  ['(?:the|this)', String.raw`spec\b(?!ification)`],
  ['laws?', String.raw`[1-7]\b`],
  ['reference', String.raw`(?:clients|x402|vendors|operations|metered|agents|more-products)\b`],
  ['reference', String.raw`providers(?:\.md)? \d`],
].map(([first, then]) => new RegExp(String.raw`\b${first}${GAP}${then}`, 'gi'))
const FILES = new RegExp(String.raw`\b(?:${['reference', 'design', 'spec'].join('|')})/[\w-]+\.(?:md|json)\b`, 'gi')
/** A name alone in parentheses, such as "(clients" and a number. */
const BARE = /[(;,]\s*(?:clients|vendors|x402) \d+(?:\.\d+)+\b/gi

test('nothing cites a page that the repository does not have', () => {
  const found = sources.flatMap(({ path, text }) =>
    [...ELSEWHERE, FILES, BARE].flatMap((pattern) =>
      [...text.matchAll(pattern)].map(({ 0: cited, index }) => `${position(path, text, index)}: ${cited}`),
    ),
  )
  expect(found).toEqual([])
})

test('a citation that is wrong is found', () => {
  const [contract, decision] = ['contract', 'decision']
  const text = `/** One (${contract} 1.1, 99.1). Two (${decision} 1), three (${decision}s 1, 900 and\n * 901). */`
  const page: Source = { path: 'x.ts', text }
  expect(unknown(citations(OF_CONTRACT, [page]), statements)).toEqual(['x.ts:1: 99.1'])
  expect(unknown(citations(OF_DECISIONS, [page]), decisions)).toEqual(['x.ts:1: 900', 'x.ts:1: 901'])
})
