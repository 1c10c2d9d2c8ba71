/** The endpoint registry: one line per product. Routes, quotes, OpenAPI and discovery are derived from it. */
import { type Endpoint, isSold, type RowKind } from '../endpoint/mod.ts'
import { calls } from './site/call_poll.ts'
import { changelog } from './site/changelog.ts'
import { chat } from './chat/completions.ts'
import { defidata } from './defi/defi.ts'
import { discovery } from './site/discovery.ts'
import { docs } from './site/docs.ts'
import { edits } from './images/edits.ts'
import { funding } from './wallet/funding.ts'
import { generateContent } from './chat/generate_content.ts'
import { health } from './site/health.ts'
import { images } from './images/generations.ts'
import { marketData } from './market/prices.ts'
import { media } from './site/media.ts'
import { messages } from './chat/messages.ts'
import { models } from './site/models.ts'
import { music } from './audio/music.ts'
import { onramp } from './wallet/onramp.ts'
import { phone } from './phone/numbers.ts'
import { characterEnrollments } from './video/character_enrollment.ts'
import { childKeys } from './keys/children.ts'
import { keyCharges } from './keys/charges.ts'
import { keyBalances } from './keys/balances.ts'
import { keyDeposits } from './keys/deposits.ts'
import { keyStatements } from './keys/statement.ts'
import { livenessCheck } from './video/liveness_check.ts'
import { walletCharacters } from './video/wallet_characters.ts'
import { prediction } from './prediction/prediction.ts'
import { pricing } from './site/price_list.ts'
import { responses } from './chat/responses.ts'
import { rpc } from './rpc/rpc.ts'
import { sandbox } from './sandbox/sandbox.ts'
import { search } from './search/search.ts'
import { soundEffects } from './audio/sound_effects.ts'
import { speech } from './audio/speech.ts'
import { textCompletions } from './chat/text_completions.ts'
import { swap } from './swap/swap.ts'
import { video } from './video/generations.ts'
import { voice } from './phone/calls.ts'
import { walletCalls } from './wallet/calls.ts'
import { wallet } from './wallet/wallet.ts'
import { websearch } from './search/websearch.ts'

/**
 * Every endpoint of the built-in products.
 *
 * @example
 * const names = endpoints.map(({ name }) => name)
 */
export const endpoints: readonly Endpoint[] = [
  ...images,
  ...edits,
  ...video,
  ...characterEnrollments,
  ...livenessCheck,
  ...walletCharacters,
  ...speech,
  ...soundEffects,
  ...music,
  ...chat,
  ...textCompletions,
  ...messages,
  ...responses,
  ...generateContent,
  ...sandbox,
  ...search,
  ...websearch,
  ...swap,
  ...marketData,
  ...prediction,
  ...defidata,
  ...rpc,
  ...voice,
  ...phone,
  ...onramp,
  ...funding,
  ...calls,
  ...media,
  ...models,
  ...keyDeposits,
  ...keyBalances,
  ...keyStatements,
  ...keyCharges,
  ...childKeys,
  ...wallet,
  ...walletCalls,
  ...health,
  ...pricing,
  ...changelog,
  ...discovery,
  ...docs,
]

/**
 * The kinds of models that products declare, each once.
 *
 * @example
 * const kinds = rowKinds.map(({ kind }) => kind)
 */
export const rowKinds: readonly RowKind[] = [
  ...new Set(endpoints.flatMap((endpoint) => (isSold(endpoint) && endpoint.rows ? [endpoint.rows] : []))),
]

/** Each product by itself, for gateways that sell only some. */
export {
  calls,
  changelog,
  characterEnrollments,
  chat,
  defidata,
  discovery,
  docs,
  edits,
  funding,
  generateContent,
  health,
  images,
  livenessCheck,
  marketData,
  media,
  messages,
  models,
  music,
  onramp,
  phone,
  prediction,
  pricing,
  responses,
  rpc,
  sandbox,
  search,
  soundEffects,
  speech,
  swap,
  video,
  voice,
  wallet,
  walletCalls,
  walletCharacters,
  websearch,
}
