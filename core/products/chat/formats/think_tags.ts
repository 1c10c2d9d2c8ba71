/** Reasoning that a model writes into its text, between `<think>` and `</think>` (contract 6.25). */

type Split = { readonly content: string; readonly reasoning: string }

const OPEN = '<think>'
const CLOSE = '</think>'

/**
 * Splits a text that arrives in pieces. A possible start of a tag is buffered until the next piece; `end` returns the
 * rest.
 */
export function thinkSplitter() {
  let isInside = false
  let buffered = ''
  /** White space between the end of a block and the text after it. */
  let isAfterBlock = false

  function push(piece: string, isLast = false): Split {
    let rest = buffered + piece
    buffered = ''
    let content = ''
    let reasoning = ''
    const take = (text: string): void => {
      if (isInside) return void (reasoning += text)
      const visible = isAfterBlock ? text.trimStart() : text
      if (visible !== '') isAfterBlock = false
      content += visible
    }
    for (;;) {
      const tag = isInside ? CLOSE : OPEN
      const at = rest.indexOf(tag)
      if (at < 0) break
      take(rest.slice(0, at))
      rest = rest.slice(at + tag.length)
      isInside = !isInside
      isAfterBlock = !isInside
    }
    const length = isLast ? 0 : partial(rest, isInside ? CLOSE : OPEN)
    buffered = length > 0 ? rest.slice(-length) : ''
    take(length > 0 ? rest.slice(0, -length) : rest)
    return { content, reasoning }
  }

  return {
    push: (piece: string): Split => push(piece),
    end: (): Split => push('', true),
    /** Whether the next piece must be passed to this splitter even without a tag in it. */
    isOpen: (): boolean => isInside || buffered !== '' || isAfterBlock,
  }
}

/** Number of characters at the end of a text that may be the start of a tag. */
function partial(text: string, tag: string): number {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length--)
    if (tag.startsWith(text.slice(-length))) return length
  return 0
}

/** Splits a whole text. */
export function splitThinking(text: string): Split {
  if (!text.includes(OPEN)) return { content: text, reasoning: '' }
  const splitter = thinkSplitter()
  const [first, last] = [splitter.push(text), splitter.end()]
  return { content: first.content + last.content, reasoning: first.reasoning + last.reasoning }
}
