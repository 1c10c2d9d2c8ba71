/** Sounds as vendors make them, and as replies show them. */
import type { AudioFormat, AudioKind, AudioRow, AudioVendor, MadeAudio } from '../../ports/vendors/audio.ts'
import type { Hosted, Made, Order, Showing, Stored } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import type { Json } from '../../lib/json.ts'
import { rowFor, vendorOf } from './rows.ts'

/** Folder of mirrored audio. */
export const FOLDER = 'audios'

/** The row and the vendor of a validated request. */
export function workOf(
  kind: AudioKind,
  { input, catalog, vendors }: Order<{ readonly model?: string }>,
): { row: AudioRow; vendor: AudioVendor } {
  const row = rowFor({ catalog, vendors }, kind, input.model)
  const vendor = vendorOf(row, { vendors })
  if (!vendor) throw notConfigured(row.id)
  return { row, vendor }
}

export const notConfigured = (id: string): ApiError =>
  new ApiError('NOT_CONFIGURED', {
    message: `${id}: the operator has not configured it. Nothing was charged.`,
  })

/** Maps vendor failures to 504 for a timeout, else 502 (contract 14.13). */
export function withUpstreamErrors(work: Promise<MadeAudio> | undefined): Promise<MadeAudio> {
  if (!work) throw notConfigured('audio')
  return work.catch((error: unknown) => {
    if (error instanceof ApiError) throw error
    if ((error as Error).name === 'TimeoutError')
      throw new ApiError('UPSTREAM_TIMEOUT', {
        message: 'The sound was not made in time. Payment was NOT charged; try again.',
      })
    throw new ApiError('UPSTREAM_FAILED', {
      message: 'The provider of this sound failed. Payment was NOT charged; try again.',
      details: 'The model did not deliver a result.',
    })
  })
}

/**
 * Converts a vendor's audio to a result. If it cannot be hosted the call fails uncharged, since its reply would have no
 * URL (contract 14.10).
 */
export function hosted(
  made: MadeAudio,
  { format, model, ...details }: { readonly format: AudioFormat; readonly model: string; readonly characters?: number },
): Made {
  const { url, seconds, sampleRate, credits, note } = made
  const piece = {
    format,
    ...details,
    ...(credits !== undefined && { credits }),
    ...(seconds !== undefined && { duration_seconds: seconds }),
    ...(format === 'pcm' && sampleRate !== undefined && { sample_rate: sampleRate }),
    ...(note !== undefined && { note }),
  }
  return { result: { model, piece }, media: { folder: FOLDER, urls: [url] }, recordsToStore: requireHosted }
}

function requireHosted(media: readonly Hosted[]): [] {
  if (media.every(({ key }) => key !== null)) return []
  throw new ApiError('WORK_FAILED', {
    error: 'Audio could not be stored',
    details: 'The audio could not be stored. Nothing was charged; try again.',
  })
}

type StoredSound = { readonly model: string; readonly piece: Record<string, Json> }

export function soundResponse({ made, media, created }: Stored, { href }: Pick<Showing, 'href'>): Record<string, Json> {
  const { model, piece } = made as unknown as StoredSound
  const urls = media.map(({ key, url }) => (key === null ? (url ?? '') : href(key)))
  return { created, model, data: urls.map((url) => ({ url, ...piece })) }
}
