/** The menu: one line per product. Routes, quotes, OpenAPI and discovery follow from it. */
import type { Endpoint } from '../endpoint.ts'
import { calls } from './calls.ts'
import { changelog } from './changelog.ts'
import { chat } from './chat.ts'
import { defidata } from './defidata.ts'
import { discovery } from './discovery.ts'
import { docs } from './docs.ts'
import { edits } from './edits.ts'
import { funding } from './funding.ts'
import { generateContent } from './generate_content.ts'
import { health } from './health.ts'
import { images } from './images.ts'
import { marketData } from './market.ts'
import { media } from './media.ts'
import { messages } from './messages.ts'
import { models } from './models.ts'
import { music } from './music.ts'
import { onramp } from './onramp.ts'
import { phone } from './phone.ts'
import { portraits } from './portraits.ts'
import { prediction } from './prediction.ts'
import { pricing } from './pricing.ts'
import { responses } from './responses.ts'
import { rpc } from './rpc.ts'
import { sandbox } from './sandbox.ts'
import { search } from './search.ts'
import { soundEffects } from './sound_effects.ts'
import { speech } from './speech.ts'
import { swap } from './swap.ts'
import { video } from './video.ts'
import { voice } from './voice.ts'
import { wallet } from './wallet.ts'
import { websearch } from './websearch.ts'

export const endpoints: readonly Endpoint[] = [
  ...images,
  ...edits,
  ...video,
  ...portraits,
  ...speech,
  ...soundEffects,
  ...music,
  ...chat,
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
  ...wallet,
  ...health,
  ...pricing,
  ...changelog,
  ...discovery,
  ...docs,
]
