import { imageSizes } from './price.ts'
import type { ImageRow } from '../../ports/vendors/images.ts'

const landscapeAndPortrait = (square: string, long: string) =>
  imageSizes({ '1024x1024': square, '1536x1024': long, '1024x1536': long })

/**
 * The ten generation models of contract 5.6. Rates are the billed prices without fee and margin: (billed - 0.001) /
 * 1.05.
 *
 * @example
 * const ids = imageRows.map(({ id }) => id)
 */
export const imageRows: readonly ImageRow[] = [
  {
    id: 'vendor-a/image-1',
    aliases: [],
    name: 'Image 1',
    maker: 'vendor-a',
    vendor: 'vendor-a',
    upstream: 'gpt-image-2.5-flare',
    sizes: landscapeAndPortrait('0.02', '0.04'),
    edits: { maxImages: 4, mask: true },
    slow: false,
  },
  {
    id: 'vendor-a/image-2',
    aliases: [],
    name: 'Image 2',
    maker: 'vendor-a',
    vendor: 'vendor-a',
    upstream: 'gpt-image-2',
    sizes: landscapeAndPortrait('0.06', '0.12'),
    edits: { maxImages: 4, mask: true },
    slow: false,
  },
  {
    id: 'vendor-b/image-flash',
    aliases: [],
    name: 'Image Flash',
    maker: 'vendor-b',
    vendor: 'vendor-b',
    upstream: 'gemini-3.1-flash-image',
    sizes: imageSizes({ '1024x1024': '0.05' }),
    edits: { maxImages: 3, mask: false },
    slow: false,
  },
  {
    id: 'vendor-b/image-flash-2',
    aliases: [],
    name: 'Image Flash 2',
    maker: 'vendor-b',
    vendor: 'vendor-b',
    upstream: 'gemini-3.1-flash-image',
    sizes: imageSizes({ '1024x1024': '0.09' }),
    edits: { maxImages: 3, mask: false },
    slow: false,
  },
  {
    id: 'vendor-b/image-pro',
    aliases: [],
    name: 'Image Pro',
    maker: 'vendor-b',
    vendor: 'vendor-b',
    upstream: 'gemini-3-pro-image',
    sizes: imageSizes({ '1024x1024': '0.1', '2048x2048': '0.1', '4096x4096': '0.15' }),
    edits: { maxImages: 3, mask: false },
    slow: false,
  },
  {
    id: 'vendor-d/image-cv4',
    aliases: [],
    name: 'Image CV4',
    maker: 'vendor-d',
    vendor: 'vendor-d',
    upstream: 'cogview-4-250304',
    sizes: imageSizes({
      '512x512': '0.015',
      '768x768': '0.015',
      '1024x1024': '0.015',
      '768x1344': '0.015',
      '1344x768': '0.015',
      '1440x1440': '0.02',
    }),
    slow: false,
  },
  {
    id: 'vendor-c/image-1',
    aliases: [],
    name: 'Image 1',
    maker: 'vendor-c',
    vendor: 'vendor-c',
    upstream: 'grok-imagine-image',
    sizes: imageSizes({ '1024x1024': '0.02' }),
    slow: false,
  },
  {
    id: 'vendor-c/image-2.0',
    aliases: [],
    name: 'Image 2.0',
    maker: 'vendor-c',
    vendor: 'vendor-c',
    upstream: 'grok-imagine-image-2.0',
    sizes: imageSizes({ '1024x1024': '0.04' }),
    slow: false,
  },
  {
    // Contract 5.13: the quote is 0.0535, not the 0.0745 of an older table.
    id: 'vendor-c/image-pro',
    aliases: [],
    name: 'Image Pro',
    maker: 'vendor-c',
    vendor: 'vendor-c',
    upstream: 'grok-imagine-image-2.0',
    sizes: imageSizes({ '1024x1024': '0.05' }),
    slow: false,
  },
  {
    id: 'vendor-e/image-pro',
    aliases: [],
    name: 'Image Pro',
    maker: 'vendor-e',
    vendor: 'vendor-e',
    upstream: 'dola-seedream-5-0-pro-260628',
    sizes: imageSizes({
      '1024x1024': '0.045',
      '1280x720': '0.045',
      '2048x1024': '0.045',
      '2048x2048': '0.09',
      '2304x1728': '0.09',
      '1728x2304': '0.09',
      '2848x1600': '0.09',
      '1600x2848': '0.09',
    }),
    slow: true,
  },
]
