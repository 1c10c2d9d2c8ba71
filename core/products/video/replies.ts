/** Replies of the video endpoints (contract 12.1). */
import { Type } from '@sinclair/typebox'
import type { JobDescription, Showing, Stored } from '../../endpoint/mod.ts'
import type { Json } from '../../lib/json.ts'
import { pollQuery, type StoredVideoRequest } from './stored_request.ts'
import type { StoredVideoResult } from './vendor_jobs.ts'

const clip = Type.Object({
  url: Type.String({ description: 'Hosted URL, or the vendor URL if the clip was not mirrored.' }),
  source_url: Type.Optional(Type.String({ description: 'Vendor URL; only the type for inline data.' })),
  duration_seconds: Type.Integer({ description: 'Actual length; the billed length if the vendor reports none.' }),
  request_id: Type.Optional(Type.String({ description: 'Id of the job at the vendor.' })),
  backed_up: Type.Boolean({ description: 'Whether the clip was mirrored to durable storage.' }),
  last_frame_url: Type.Optional(Type.String({ description: 'The last frame as an image, if requested.' })),
})

export const videoResult = Type.Object({
  id: Type.String(),
  object: Type.Literal('video.generation.job'),
  status: Type.Literal('completed'),
  model: Type.String(),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  data: Type.Array(clip),
  usage: Type.Optional(
    Type.Object({
      total_tokens: Type.Integer({ description: 'vendor-e models only.' }),
      token_source: Type.Union([Type.Literal('upstream'), Type.Literal('estimated')]),
    }),
  ),
  price: Type.Object({ amount: Type.String(), currency: Type.Literal('USD') }),
  payment: Type.Object({
    status: Type.Union([Type.Literal('settled'), Type.Literal('already_settled')]),
    tx_hash: Type.String(),
    network: Type.String(),
  }),
})

/** The job description; each endpoint has its own poll path. */
export const videoJob = (poll: string): JobDescription => ({
  object: 'video.generation.job',
  poll,
  instructions:
    'GET poll_url, as it is, every 5 to 10 seconds with a payment header of the same wallet; its key is for you alone. Wait up to 60 seconds for an answer. You are charged once, by the first poll that finds the video ready.',
  running:
    'Still working; a video takes about 1 to 3 minutes. Nothing has been charged. Poll again in 5 to 10 seconds.',
  query: pollQuery,
})

/** The source of a clip that its vendor hands out without a URL (contract 12.53). */
const INLINE = 'data:video/mp4'

/** The members of the 200 body, except id, price and payment. */
export function videoResponse({ made, media, created }: Stored, { request, href }: Showing): Record<string, Json> {
  const { model, duration_seconds } = request as unknown as StoredVideoRequest
  const { seconds, requestId, hasLastFrame, usage } = made as unknown as StoredVideoResult
  const [video, still] = media
  const urlOf = (piece: Stored['media'][number]) => (piece.key === null ? (piece.url ?? '') : href(piece.key))
  const data = {
    url: video ? urlOf(video) : '',
    ...(video && { source_url: video.source || INLINE }),
    duration_seconds: seconds === undefined ? duration_seconds : Math.round(seconds),
    ...(requestId !== undefined && { request_id: requestId }),
    backed_up: video?.key !== null && video !== undefined,
    ...(hasLastFrame && still && { last_frame_url: urlOf(still) }),
  }
  return { object: 'video.generation.job', status: 'completed', model, created, data: [data], ...(usage && { usage }) }
}
