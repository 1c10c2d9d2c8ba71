/** Replies of image generation and editing. */
import { Type } from '@sinclair/typebox'
import type { MadeImage } from '../../ports/vendors/images.ts'
import type { JobDescription, Made, Showing, Stored } from '../../endpoint/mod.ts'
import type { Json } from '../../lib/json.ts'

/** Poll path of generations and edits. */
export const POLL_PATH = '/api/v1/images/generations/{id}'

const image = Type.Object({
  url: Type.String({ description: 'Hosted URL, or the upstream URL if the image was not mirrored.' }),
  source_url: Type.Optional(Type.String({ description: 'Upstream URL; only the type for inline data.' })),
  backed_up: Type.Optional(Type.Boolean({ description: 'Whether the image was mirrored to durable storage.' })),
  revised_prompt: Type.Optional(Type.String()),
  b64_json: Type.Optional(
    Type.String({ description: 'The image in base64, beside its URL, where response_format is b64_json.' }),
  ),
})

export const imageResult = Type.Object({
  id: Type.String(),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  data: Type.Array(image),
  price: Type.Object({ amount: Type.String(), currency: Type.Literal('USD') }),
  payment: Type.Object({
    status: Type.Union([Type.Literal('settled'), Type.Literal('already_settled')]),
    tx_hash: Type.String(),
    network: Type.String(),
  }),
})

export const imageJob = (object: string): JobDescription => ({
  object,
  poll: POLL_PATH,
  instructions:
    'GET poll_url, as it is, every 2 to 5 seconds with a payment header of the same wallet; its key is for you alone. You are charged once, by the first poll that finds the images ready.',
  running: 'Still working. Nothing has been charged. Poll again in 2 to 5 seconds.',
})

/** Converts a vendor's images to a result with prompts, and media to mirror. */
export function madeOf(images: readonly MadeImage[]): Made {
  if (images.length === 0) throw new Error('the vendor returned no image')
  return {
    result: images.map(promptOf),
    media: { folder: 'images', urls: images.map(({ url }) => url), kinds: images.map(() => 'image' as const) },
  }
}

const promptOf = ({ revisedPrompt }: MadeImage) =>
  revisedPrompt === undefined ? {} : { revised_prompt: revisedPrompt }

/**
 * The `created` and `data` of a response. With `raw`, the vendor's URLs instead of mirrored ones, as a fast edit
 * returns them (contract 5.42).
 */
export function imageResponse(
  { made: available, media, created, embedded = [] }: Stored,
  { href }: Showing,
  raw?: readonly string[],
): Record<string, Json> {
  const prompts = available as readonly ReturnType<typeof promptOf>[]
  const more = (index: number) => ({
    ...prompts[index],
    ...(embedded[index] !== undefined && { b64_json: embedded[index] }),
  })
  if (raw) return { created, data: raw.map((url, index) => ({ url, ...more(index) })) }
  const hosted = ({ key, url, source }: Stored['media'][number]) => ({
    url: key === null ? (url ?? '') : href(key),
    source_url: source,
    backed_up: key !== null,
  })
  return { created, data: media.map((piece, index) => ({ ...hosted(piece), ...more(index) })) }
}
