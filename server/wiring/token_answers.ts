/** The thread of `token_thread.ts`: answers each question with a count, or says why it cannot. */
import { countTokens } from '../../adapters/token_counter.ts'
import type { TokenAnswer, TokenQuestion } from './token_thread.ts'

const answer = (message: TokenAnswer): void => postMessage(message)

addEventListener('message', ({ data }: MessageEvent<TokenQuestion>) => {
  const { id, text, limit } = data
  countTokens(text, { limit }).then(
    (tokens) => answer({ id, tokens }),
    (error: Error) => answer({ id, error: error.message }),
  )
})
