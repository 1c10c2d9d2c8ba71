/**
 * Checks the shape of a JSON text without parsing it (decision 107). A parser takes two seconds for a million distinct
 * names, and blocks every other request meanwhile.
 */
import type { Clock } from '../lib/clock.ts'
import { ApiError } from './errors.ts'

/** Limits on the object fields of a body, and on its values of all kinds. */
const MAX_MEMBERS = 50_000
const MAX_VALUES = 200_000
const MAX_DEPTH = 200

/** Characters scanned at once; takes a few milliseconds. */
const SLICE = 4 << 20

/**
 * Refuses a text that would take long to parse or to traverse. Yields to other requests between slices. Throws
 * TOO_LARGE, or INVALID_BODY for depth. Returns a promise only for long texts.
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

/** Continues the scan up to `end`. Whether the text is valid JSON is left to the parser. */
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
      // Adjacent strings without a separator are not valid JSON. They are counted so that a long run of them ends here
      // too.
      if (values > MAX_VALUES || texts > MAX_MEMBERS + MAX_VALUES) throw tooMuch(`${MAX_VALUES} values`, at)
      if (depth > MAX_DEPTH) throw tooDeep(at)
    }
  }
}

/**
 * Short strings are scanned in a loop, long ones with `indexOf`: both many short strings and megabytes of base64 are
 * then fast.
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
    message: `The JSON body may have at most ${allowed}; the limit is exceeded at character ${at + 1}. Nothing was charged.`,
  })
}

function tooDeep(at: number): ApiError {
  const message = `The JSON body may have at most ${MAX_DEPTH} levels of nesting; the limit is exceeded at character ${at + 1}.`
  return new ApiError('INVALID_BODY', { message, details: [{ path: '', message }] })
}
