/** Moves inline reasoning out of the text of streamed chunks (contract 6.25). */
import { type Fields, isFields, objectsOf } from '../../../lib/json.ts'
import { thinkSplitter } from './think_tags.ts'

/** Splits the text of each choice that has had a tag. */
export function thinkDeltas() {
  const splitters = new Map<number, ReturnType<typeof thinkSplitter>>()
  let isSplitting = false

  function splitChoice(choice: Fields): Fields {
    const delta = isFields(choice.delta) ? choice.delta : {}
    const { content, reasoning_content: reported, ...rest } = delta
    const piece = typeof content === 'string' ? content : ''
    const index = typeof choice.index === 'number' ? choice.index : 0
    const known = splitters.get(index)
    if (!known && !piece.includes('<')) return choice
    const splitter = known ?? thinkSplitter()
    splitters.set(index, splitter)
    const first = splitter.push(piece)
    const last = typeof choice.finish_reason === 'string' ? splitter.end() : { content: '', reasoning: '' }
    const [visibleText, thought] = [first.content + last.content, first.reasoning + last.reasoning]
    if (visibleText === piece && thought === '') return choice
    const reasoningContent = (typeof reported === 'string' ? reported : '') + thought
    return {
      ...choice,
      delta: {
        ...rest,
        ...(visibleText !== '' && { content: visibleText }),
        ...(reasoningContent !== '' && { reasoning_content: reasoningContent }),
      },
    }
  }

  return {
    /** Whether a text may hold a `<think>` tag, or the rest of one. */
    isTagged: (text: string): boolean => text.includes('<') || text.includes('\\u003c') || isSplitting,
    split(chunk: Fields): Fields {
      const choices = objectsOf(chunk.choices)
      const split = choices.map(splitChoice)
      isSplitting = [...splitters.values()].some((splitter) => splitter.isOpen())
      return split.every((choice, index) => choice === choices[index]) ? chunk : { ...chunk, choices: split }
    },
  }
}
