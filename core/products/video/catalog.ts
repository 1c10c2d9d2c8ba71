import { dollars } from '../../x402/money.ts'
import type { VideoBilling, VideoRow } from '../../ports/vendors/video.ts'

type Own = Pick<VideoRow, 'id' | 'aliases' | 'name' | 'upstream' | 'resolutions' | 'billing'> & Partial<VideoRow>

/** Defaults of the rows of a family. */
export const videoFamilies = {
  f: {
    maker: 'vendor-f',
    vendor: 'vendor-f',
    family: 'f',
    seconds: { min: 4, max: 12, only: [4, 8, 12], usual: 4 },
    resolutions: ['720p'],
    usualResolution: '720p',
    ratios: [],
    audio: true,
    lastFrame: false,
    references: false,
    assets: false,
  },
  c: {
    maker: 'vendor-c',
    vendor: 'vendor-c',
    family: 'c',
    seconds: { min: 1, max: 15, usual: 8 },
    resolutions: ['480p', '720p'],
    usualResolution: '480p',
    ratios: ['16:9', '9:16', '1:1', '4:3', '3:4', '3:2', '2:3'],
    audio: false,
    lastFrame: false,
    references: false,
    assets: false,
  },
  e: {
    maker: 'vendor-e',
    vendor: 'vendor-e',
    family: 'e',
    seconds: { min: 4, max: 15, usual: 5 },
    resolutions: ['480p', '720p'],
    usualResolution: '720p',
    ratios: ['adaptive', '16:9', '9:16', '1:1', '4:3', '3:4', '21:9'],
    audio: true,
    lastFrame: false,
    references: false,
    assets: false,
  },
} as const satisfies Record<VideoRow['family'], Partial<VideoRow>>

const perToken = (rate: string): VideoBilling => ({ mode: 'per_token', rate: dollars(rate) })

function byTier(tiers: Readonly<Record<string, string>>, perGeneration: string): VideoBilling {
  const rates = Object.entries(tiers).map(([resolution, rate]) => [resolution, dollars(rate)] as const)
  return { mode: 'per_second_by_tier', tiers: Object.fromEntries(rates), perGeneration: dollars(perGeneration) }
}

const rowOf = (family: VideoRow['family'], own: Own): VideoRow => ({ ...videoFamilies[family], ...own })

/** The 2.0 models of family E support frames, references and enrolled characters. */
const EVERYTHING = { lastFrame: true, references: true, assets: true } as const

/**
 * The eight models of contract 12.9. Upstream ids change over time (decision 21).
 *
 * @example
 * const ids = videoRows.map(({ id }) => id)
 */
export const videoRows: readonly VideoRow[] = [
  rowOf('f', {
    id: 'vendor-f/video-1',
    aliases: ['openai/sora-2', 'azure/sora-2'],
    name: 'Video 1',
    upstream: 'sora-2',
    resolutions: ['720p'],
    billing: { mode: 'per_second_with_margin', rate: dollars('0.10') },
  }),
  rowOf('c', {
    id: 'vendor-c/video-1',
    aliases: ['xai/grok-imagine-video'],
    name: 'Video 1',
    upstream: 'grok-imagine-video',
    resolutions: ['480p', '720p'],
    billing: byTier({ '480p': '0.05', '720p': '0.07' }, '0.001'),
  }),
  rowOf('c', {
    id: 'vendor-c/video-1.5',
    aliases: ['xai/grok-imagine-video-1.5', 'xai/grok-imagine-video-1-5'],
    name: 'Video 1.5',
    upstream: 'grok-imagine-video-1.5',
    resolutions: ['480p', '720p', '1080p'],
    audio: true,
    billing: byTier({ '480p': '0.08', '720p': '0.14', '1080p': '0.25' }, '0.001'),
  }),
  rowOf('e', {
    id: 'vendor-e/video-1.5-pro',
    aliases: ['bytedance/seedance-1.5-pro', 'bytedance/seedance-1-5-pro'],
    name: 'Video 1.5 Pro',
    upstream: 'seedance-1-5-pro-251215',
    seconds: { min: 4, max: 12, usual: 5 },
    resolutions: ['480p', '720p', '1080p'],
    lastFrame: true,
    billing: perToken('3.108'),
  }),
  rowOf('e', {
    id: 'vendor-e/video-2.0-mini',
    aliases: ['bytedance/seedance-2.0-mini', 'bytedance/seedance-2-0-mini'],
    name: 'Video 2.0 Mini',
    upstream: 'dreamina-seedance-2-0-mini-260615',
    resolutions: ['480p', '720p'],
    capsResolution: true,
    ...EVERYTHING,
    billing: perToken('3.5'),
  }),
  rowOf('e', {
    id: 'vendor-e/video-2.0-fast',
    aliases: ['bytedance/seedance-2.0-fast', 'bytedance/seedance-2-0-fast'],
    name: 'Video 2.0 Fast',
    upstream: 'dreamina-seedance-2-0-fast-260128',
    resolutions: ['480p', '720p'],
    ...EVERYTHING,
    billing: perToken('7.252'),
  }),
  rowOf('e', {
    id: 'vendor-e/video-2.0',
    aliases: ['bytedance/seedance-2.0', 'bytedance/seedance-2-0'],
    name: 'Video 2.0',
    upstream: 'dreamina-seedance-2-0-260128',
    resolutions: ['480p', '720p', '1080p', '4K'],
    ...EVERYTHING,
    billing: perToken('9.9715'),
  }),
  rowOf('e', {
    id: 'vendor-e/video-2.5',
    aliases: ['bytedance/seedance-2.5', 'bytedance/seedance-2-5'],
    name: 'Video 2.5',
    upstream: 'dreamina-seedance-2-5-260628',
    seconds: { min: 4, max: 30, usual: 5 },
    resolutions: ['480p', '720p'],
    billing: perToken('13.8565'),
  }),
]
