import type { Model } from '../lib/api.ts'
import { type Kind, kindOf } from '../lib/prices.ts'
import type { Example } from '../lib/snippets.ts'

/** A request of each kind. The model is added. */
const EXAMPLES: Readonly<Record<Kind, Example & { readonly body: object }>> = {
  chat: {
    path: '/api/v1/chat/completions',
    body: { messages: [{ role: 'user', content: 'Why is the sky blue?' }], max_tokens: 256 },
  },
  image: { path: '/api/v1/images/generations', body: { prompt: 'a red fox in the snow' } },
  video: { path: '/api/v1/videos/generations', body: { prompt: 'waves on a beach' } },
  speech: { path: '/api/v1/audio/speech', body: { input: 'Good morning.' } },
  'sound-effects': { path: '/api/v1/audio/sound-effects', body: { text: 'rain on a tin roof' } },
  music: { path: '/api/v1/audio/generations', body: { prompt: 'a slow waltz for piano' } },
}

/** A request that buys something small from the model. */
export function exampleOf(model: Model): Example {
  const { path, body } = EXAMPLES[kindOf(model) ?? 'chat']
  return { path, body: { model: model.id, ...body } }
}
