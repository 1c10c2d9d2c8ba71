/**
 * How a JSON text is built, seen without parsing it: a parser takes two seconds for a million distinct names, and
 * nobody else is answered meanwhile.
 */
import type { Clock } from '../lib/clock.ts'
import { ApiError } from './errors.ts'

/** What the objects of a body may have together, and what it may hold of values of all kinds. */
export const MAX_MEMBERS = 50_000
export const MAX_VALUES = 200_000
export const MAX_DEPTH = 200

/** Characters that are scanned at once: a few milliseconds' worth. */
const SLICE = 4 << 20

/**
 * Refuses a text that would take long to parse or to walk, whatever it means. Others are answered between two slices.
 * Throws TOO_LARGE, or INVALID_BODY for depth. Returns a promise where the text is long.
 */
export function checkShape(text: string, clock: Clock): Promise<void> | undefined {
  const scan = scanner(text)
  if (text.length > SLICE) return inSlices(text, scan, clock)
  scan(text.length)
  return undefined
}

async function inSlices(text: string, scan: (end: number) => void, clock: Clock): Promise<void> {
  for (let end = SLICE; end < text.length; end += SLICE) {
    scan(end)
    await clock.wait(0)
  }
  scan(text.length)
}

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [BRACE, BRACKET, BRACE_END, BRACKET_END] = [0x7b, 0x5b, 0x7d, 0x5d]

/** Goes on to `end` from where it was. Whether the text is JSON at all is the parser's to say. */
function scanner(text: string): (end: number) => void {
  let [at, members, values, texts, depth] = [0, 0, 0, 0, 0]
  return (end) => {
    for (; at < end; at++) {
      const char = text.charCodeAt(at)
      if (char === QUOTE) {
        at = closingQuote(text, at + 1)
        texts++
      } else if (char === COLON) members++
      else if (char === COMMA) values++
      else if (char === BRACE || char === BRACKET) {
        values++
        depth++
      } else if (char === BRACE_END || char === BRACKET_END) depth--
      else continue
      if (members > MAX_MEMBERS) throw tooMuch(`${MAX_MEMBERS} object fields`, at)
      // Texts that nothing separates are no JSON; they are counted so that a long row of them ends here as well.
      if (values > MAX_VALUES || texts > MAX_MEMBERS + MAX_VALUES) throw tooMuch(`${MAX_VALUES} values`, at)
      if (depth > MAX_DEPTH) throw tooDeep(at)
    }
  }
}

/**
 * Looked for by hand at first, and by the runtime in what is long: texts of quotes and pictures of megabytes are both
 * seen through at once.
 */
const BY_HAND = 64

function closingQuote(text: string, start: number): number {
  let at = start
  for (;;) {
    const stop = Math.min(at + BY_HAND, text.length)
    while (at < stop) {
      const char = text.charCodeAt(at)
      if (char === QUOTE) return at
      at += char === BACKSLASH ? 2 : 1
    }
    if (at >= text.length) return text.length
    const quote = text.indexOf('"', at)
    if (quote === -1) return text.length
    let before = quote
    while (before > at && text.charCodeAt(before - 1) === BACKSLASH) before--
    if ((quote - before) % 2 === 0) return quote
    at = quote + 1
  }
}

function tooMuch(allowed: string, at: number): ApiError {
  return new ApiError('TOO_LARGE', {
    message: `The JSON body may have at most ${allowed}; the one after that is at character ${at + 1}. Nothing was charged.`,
  })
}

function tooDeep(at: number): ApiError {
  const message = `The JSON body may have at most ${MAX_DEPTH} levels of nesting; it goes deeper at character ${at + 1}.`
  return new ApiError('INVALID_BODY', { message, details: [{ path: '', message }] })
}
