/** Splits TypeScript source into comments, literals and code without parsing it, for tests that read the source. */

type Piece = { readonly kind: 'code' | 'comment' | 'text'; readonly start: number; readonly end: number }

/** After one of these a slash begins a regular expression; after anything else it divides. */
const BEFORE_REGEXP = /(?:^|[([{,;:=!?&|+\-*%<>~^]|\b(?:return|typeof|case|in|of|await|throw))\s*$/

/**
 * The pieces of a source file, in order and without gaps. `text` is the content of a string, a template or a regular
 * expression with its quotes; what stands in `${}` of a template is code.
 */
export function piecesOf(source: string): readonly Piece[] {
  const pieces: Piece[] = []
  /** For each template that is open, the depth of braces at its `${`. */
  const templates: number[] = []
  let depth = 0
  let at = 0
  let codeFrom = 0

  const add = (kind: Piece['kind'], start: number, end: number) => {
    if (start > codeFrom) pieces.push({ kind: 'code', start: codeFrom, end: start })
    pieces.push({ kind, start, end })
    codeFrom = at = end
  }
  const endOf = (pattern: RegExp, from: number): number => {
    pattern.lastIndex = from
    return pattern.exec(source) ? pattern.lastIndex : source.length
  }
  /** Reads template text from `start` to its backtick or to the next `${`. */
  const template = (start: number) => {
    const end = endOf(/(?:[^`\\$]|\\[^]|\$(?!\{))*(?:`|\$\{)/y, start + 1)
    if (source.startsWith('${', end - 2)) templates.push(depth++)
    add('text', start, end)
  }

  while (at < source.length) {
    const char = source[at] as string
    const next = source[at + 1]
    if (char === '/' && next === '/') add('comment', at, endOf(/[^\n]*/y, at))
    else if (char === '/' && next === '*') add('comment', at, endOf(/[^]*?\*\//y, at + 2))
    else if (char === "'") add('text', at, endOf(/(?:[^'\\\n]|\\[^])*'/y, at + 1))
    else if (char === '"') add('text', at, endOf(/(?:[^"\\\n]|\\[^])*"/y, at + 1))
    else if (char === '`') template(at)
    else if (char === '/' && BEFORE_REGEXP.test(source.slice(Math.max(codeFrom, at - 80), at)))
      add('text', at, endOf(/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y, at + 1))
    else if (char === '}' && templates.at(-1) === depth - 1) {
      depth = templates.pop() as number
      template(at)
    } else {
      if (char === '{') depth++
      if (char === '}') depth--
      at++
    }
  }
  if (codeFrom < source.length) pieces.push({ kind: 'code', start: codeFrom, end: source.length })
  return pieces
}
