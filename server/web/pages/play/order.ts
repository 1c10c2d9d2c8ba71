/** Orders of a person: a form for each kind of model, and any other route by its own example. */
import type { Model } from '../lib/api.ts'
import { type Kind, kindOf } from '../lib/prices.ts'

/** A request of this gateway. `path` includes the query. */
export type Order = {
  readonly title: string
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
}

/** A field of the form beside the text. */
type Field = {
  readonly name: string
  readonly label: string
  readonly value: string
  readonly min: number
  readonly max: number
}

type Form = {
  readonly path: string
  /** The field of the request that has the text, and what it asks for. */
  readonly text: { readonly name: string; readonly label: string; readonly value: string }
  readonly fields: readonly Field[]
}

export const FORMS: Readonly<Record<Kind, Form>> = {
  chat: {
    path: '/api/v1/chat/completions',
    text: { name: 'messages', label: 'Your message', value: 'Why is the sky blue?' },
    fields: [{ name: 'max_tokens', label: 'Longest answer, in tokens', value: '256', min: 1, max: 65_536 }],
  },
  image: {
    path: '/api/v1/images/generations',
    text: { name: 'prompt', label: 'What should be in the picture?', value: 'a red fox in the snow' },
    fields: [{ name: 'n', label: 'How many', value: '1', min: 1, max: 4 }],
  },
  video: {
    path: '/api/v1/videos/generations',
    text: { name: 'prompt', label: 'What should happen in the clip?', value: 'waves on a beach' },
    fields: [{ name: 'duration_seconds', label: 'Length, in seconds', value: '5', min: 1, max: 60 }],
  },
  speech: {
    path: '/api/v1/audio/speech',
    text: { name: 'input', label: 'What should be said?', value: 'Good morning. It is a fine day.' },
    fields: [],
  },
  'sound-effects': {
    path: '/api/v1/audio/sound-effects',
    text: { name: 'text', label: 'What should it sound like?', value: 'rain on a tin roof' },
    fields: [],
  },
  music: {
    path: '/api/v1/audio/generations',
    text: { name: 'prompt', label: 'What should it sound like?', value: 'a slow waltz for piano' },
    fields: [],
  },
}

/** The order of a filled form. Empty numbers are left to the gateway's defaults. */
export function orderOf(
  model: Model,
  filled: { readonly text: string; readonly fields: Readonly<Record<string, string>> },
): Order {
  const kind = kindOf(model) ?? 'chat'
  const { path, text, fields } = FORMS[kind]
  const written =
    kind === 'chat'
      ? { messages: [{ role: 'user', content: filled.text }], stream: true }
      : { [text.name]: filled.text }
  const numbers = fields.flatMap(({ name }) => {
    const value = filled.fields[name]?.trim() ?? ''
    return value === '' ? [] : [[name, Number(value)] as const]
  })
  return {
    title: `${model.name}: ${filled.text.slice(0, 60)}`,
    method: 'POST',
    path,
    body: { model: model.id, ...written, ...Object.fromEntries(numbers) },
  }
}

/** Sends an order, with a payment or without. */
export function send({ method, path, body }: Order, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch(path, {
    method,
    headers: {
      accept: 'application/json, text/event-stream',
      ...(body && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body && { body: JSON.stringify(body) }),
  })
}
