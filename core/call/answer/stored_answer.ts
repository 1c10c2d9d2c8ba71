/** An answer as it is stored for polls and resends. */
import type { Answer, Stored } from '../../endpoint/mod.ts'
import type { StoredAnswer } from '../../endpoint/replies.ts'

export function storedAnswer(
  { headers, usage }: Pick<Answer & { kind: 'whole' }, 'headers' | 'usage'>,
  body: string,
  now: number,
): Stored {
  const made: StoredAnswer = { headers: { 'content-type': 'application/json', ...headers }, body, usage }
  return { made, media: [], created: Math.floor(now / 1000) }
}

export const answerOf = ({ made }: Stored): StoredAnswer => made as unknown as StoredAnswer
