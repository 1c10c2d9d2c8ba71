/** Names are terms of the field, and lines end at 120 columns: what architecture, section 3, asks of the source. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathsIn } from './graph.ts'
import { piecesOf } from './source_text.ts'

const ROOT = join(import.meta.dirname, '..')
/** Where names are checked; a folder is added once its names are in order. */
const ROOTS = ['core', 'adapters', 'server', 'test']
const MAX_COLUMNS = 120

/** Words that do not belong in a name, each with what to write instead. */
const INSTEAD: Readonly<Record<string, string>> = {
  house: 'gateway context',
  hands: 'call context',
  visit: 'request context',
  fault: 'error, ApiError',
  faults: 'errors',
  dialect: 'error format',
  dialects: 'error formats',
  wire: 'chat format',
  wires: 'chat formats',
  held: 'upstream job, leased, balance, stored',
  seal: 'signed poll URL',
  seals: 'signed poll URLs',
  sealed: 'signed',
  tickets: 'ids, hmac',
  passage: 'passthrough path, request',
  packed: 'gzip',
  pulse: 'health status',
  turnstile: 'concurrency limiter',
  twice: 'duplicates',
  strike: 'revert',
  strikes: 'reverts',
  recent: 'LRU cache, newest',
  shelf: 'TTL cache, catalog, market',
  shelves: 'catalogs, markets',
  patience: 'timeouts',
  tend: 'maintain',
  farewell: 'shutdown',
  debt: 'unpaid call',
  debts: 'unpaid calls',
  owe: 'unpaid',
  owed: 'unpaid',
  owes: 'unpaid',
  lie: 'uncollected, fake reply',
  lies: 'fake replies',
  lying: 'uncollected',
  keep: 'store, retain, retention',
  keeps: 'stores, retains',
  kept: 'record, stored',
  rented: 'leased',
  enrolled: 'owned characters',
  serves: 'isAvailable',
  guest: 'allowlist, interpreter',
  guests: 'allowlist',
  switches: 'feature flags',
  span: 'price range',
  shown: 'public, visible, listed',
  said: 'input, request, reply, text',
  says: 'summary, description',
  told: 'reported, logged, fields',
  asked: 'request, requested, args',
  freely: 'free limits',
  bond: 'authorization binding',
  place: 'position, index, address',
  places: 'positions, slots',
  fence: 'claim token',
  look: 'poll, pollUpstream',
  looks: 'polls',
  looked: 'polled',
  parrot: 'echo model',
  sketch: 'demo',
  paywall: 'browser 402, payment',
  rail: 'payment method',
  rails: 'payment methods',
  several: 'multi-chain, multiple',
  joined: 'in-flight, merged',
  begun: 'started',
  heal: 'recover',
  lose: 'drop',
  stall: 'timeout',
  stalls: 'times out',
  purse: 'balance',
  portraits: 'characters',
  intake: 'request body',
  menu: 'router, endpoint registry',
  clerk: 'handler',
  till: 'payment',
  errand: 'task',
  chore: 'maintenance task',
  shop: 'gateway',
  shops: 'gateways',
  stage: 'fixture',
  stages: 'fixtures, steps',
  struck: 'injected',
  books: 'ledger',
  crowd: 'load',
}

/** Words that do not belong in a name of the product; tests still have some. */
const NOT_IN_SOURCE = /^(heard|insisted|unkept)$/

/** Names that have such a word in its usual meaning: a path prefix, the name, and why. */
const EXCEPTIONS: readonly (readonly [under: string, name: RegExp, why: string])[] = [
  ['', /^servesBeforeSettlement$/, 'the term of architecture, section 3, for isServedFirst'],
  ['adapters/providers/', /^serves$/, 'what a provider serves, in its manifest'],
  ['server/config/', /^serves$/, 'the same, as it is read there'],
  ['server/devnet/demo/', /^serves$/, 'the same, of the demo'],
  ['', /^(recentBlockhash|replaceRecentBlockhash|getRecentPrioritizationFees)$/, 'names of the protocol of Solana'],
  ['', /^keepAlive(Ms)?$/, 'TCP, an option of pg, and one of the library of MCP'],
  ['core/products/chat/', /^(fence|CODE_FENCE|withoutCodeFence)$/, 'a code fence of Markdown'],
  ['server/devnet/demo/', /^you_said$/, 'a field of an answer of the echo model'],
  ['server/devnet/solana/', /^wire$/, 'the wire transaction of @solana/kit'],
  ['server/', /^wire$/, 'the composition root puts the parts together'],
  ['test/server/wiring/', /^wire$/, 'the same'],
  ['server/signals/', /span/i, 'the term of OpenTelemetry'],
  ['test/server/signals/', /span/i, 'the same'],
  ['test/shape.ts', /^span$/, "a member of the linter's answer"],
  ['test/', /fault/i, 'fault injection is the term'],
  ['test/adapters/providers/manifests_test.ts', /^serves$/, 'what a provider serves, in its manifest'],
  ['test/server/devnet/demo/', /^you_said$/, 'a field of an answer of the echo model'],
  ['adapters/storage/', /dialect/i, 'a dialect of SQL'],
  ['test/adapters/storage/', /dialect/i, 'the same'],
  ['test/server/devnet/', /^(getBase64EncodedWireTransaction|Base64EncodedWireTransaction)$/, 'names of @solana/kit'],
  ['test/core/products/chat/formats/', /^place$/, 'an argument of a tool of a sample'],
  ['test/core/products/video/', /^portraits$/, 'a path and a field of the contract'],
  ['test/bench/', /^(shop|startShop)$/, 'a contestant: the product before a scripted vendor'],
  ['test/fault/kill_points.ts', /^asked$/, 'a point at which a replica is killed: the payment is being verified'],
]

/** Words of the first version that are no English: they stand in no comment and in no string either. */
const NEVER =
  /\b(isServedFirst|secondHand|turnstile|seeToHeld|windUp|ownWire|own_wire|noteStruck|farewell|Fault)\b|\bMOST_[A-Z]|\bLONGEST_[A-Z]/g

/** This file names what is not to be named. */
const OWN = 'test/words_test.ts'
const paths = pathsIn(ROOTS).filter((path) => path.endsWith('.ts') && path !== OWN)
const sources = paths.map((path) => {
  const text = readFileSync(join(ROOT, path), 'utf8')
  return { path, text, pieces: piecesOf(text) }
})

function isException(path: string, name: string): boolean {
  return EXCEPTIONS.some(([under, pattern]) => path.startsWith(under) && pattern.test(name))
}

/** The words of a name: `pollUpstream`, `POLL_MS` and `poll_urls` begin with `poll`. */
function wordsOf(name: string): readonly string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split('_')
}

/** Names that were checked, each with its bad word: a name is in many files. */
const checked = new Map<string, string | undefined>()

function badWord(name: string): string | undefined {
  if (!checked.has(name))
    checked.set(
      name,
      wordsOf(name).find((word) => Object.hasOwn(INSTEAD, word)),
    )
  return checked.get(name)
}

describe('a name in the source', () => {
  test('is a term of the field', () => {
    const found = new Set<string>()
    for (const { path, text, pieces } of sources)
      for (const { kind, start, end } of pieces) {
        if (kind !== 'code') continue
        for (const [name] of text.slice(start, end).matchAll(/(?<![\w$])[A-Za-z_$][\w$]*/g)) {
          const word = badWord(name)
          if (word && !isException(path, name)) found.add(`${path}: ${name}; write ${INSTEAD[word]}`)
        }
      }
    expect([...found]).toEqual([])
  })

  test('of the product has no word that tests alone still use', () => {
    const found = sources.flatMap(({ path, text, pieces }) =>
      pieces.flatMap(({ kind, start, end }) =>
        kind === 'code' && !path.startsWith('test/')
          ? (text.slice(start, end).match(/[A-Za-z_$][\w$]*/g) ?? [])
              .filter((name) => wordsOf(name).some((word) => NOT_IN_SOURCE.test(word)))
              .map((name) => `${path}: ${name}`)
          : [],
      ),
    )
    expect(found).toEqual([])
  })

  test('of a file is one as well', () => {
    const found = paths.filter((path) => badWord(basename(path, '.ts')) && !isException(path, basename(path, '.ts')))
    expect(found).toEqual([])
  })

  test('of the first version is in no comment and no string', () => {
    const found = sources.flatMap(({ path, text }) => (text.match(NEVER) ?? []).map((word) => `${path}: ${word}`))
    expect(found).toEqual([])
  })

  test('that is excepted is still there', () => {
    const unused = EXCEPTIONS.filter(
      ([under, pattern]) =>
        !sources.some(
          ({ path, text }) =>
            path.startsWith(under) && (text.match(/[A-Za-z_$][\w$]*/g) ?? []).some((name) => pattern.test(name)),
        ),
    )
    expect(unused).toEqual([])
  })
})

/** An opening without a noun, and a negation that reads like a riddle: "no amount" after "is". */
const RIDDLES = [
  /^\/[*/]\*?[\s*]*What\b/,
  /(?<!\b(?:[Tt]here|so) )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|larger\b|later\b)(?=[a-z])/,
]

test('a comment says what the code is or does, in plain words', () => {
  const found = pathsIn(ROOTS).flatMap((path) => {
    if (!/\.tsx?$/.test(path)) return []
    const text = readFileSync(join(ROOT, path), 'utf8')
    return piecesOf(text).flatMap(({ kind, start, end }) => {
      const comment = text.slice(start, end)
      const isRiddle = kind === 'comment' && RIDDLES.some((riddle) => riddle.test(comment))
      return isRiddle ? [`${path}: ${comment.slice(0, 100)}`] : []
    })
  })
  expect(found).toEqual([])
})

test('a line of source ends at 120 columns, texts in quotes aside', () => {
  const found = sources.flatMap(({ path, text, pieces }) =>
    pieces
      .map(({ kind, start, end }) => {
        const part = text.slice(start, end)
        return kind === 'text' ? part.replace(/[^\n]/g, '') : part
      })
      .join('')
      .split('\n')
      .flatMap((line, index) => (line.length > MAX_COLUMNS ? [`${path}:${index + 1}`] : [])),
  )
  expect(found).toEqual([])
})
