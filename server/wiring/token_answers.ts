/** The thread of `token_thread.ts`: answers the questions of a message with counts, or says why it cannot. */
import { countTokens } from '../../adapters/token_counter.ts'
import type { TokenAnswer, TokenQuestion } from './token_thread.ts'

const answerTo = ({ id, text, limit }: TokenQuestion): Promise<TokenAnswer> =>
  countTokens(text, { limit }).then(
    (tokens) => ({ id, tokens }),
    (error: Error) => ({ id, error: error.message }),
  )

addEventListener('message', async ({ data }: MessageEvent<readonly TokenQuestion[]>) => {
  postMessage(await Promise.all(data.map(answerTo)))
})
