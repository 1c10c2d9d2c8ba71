/** The image protocols that an operator can name in the configuration. */
import type { ImageVendor } from '../../core/mod.ts'
import { cogview } from './cogview.ts'
import { geminiImages } from './gemini_images.ts'
import type { ImageVendorConfig } from './image_vendor.ts'
import { openaiImages } from './openai_images.ts'
import { sdapi } from './sdapi.ts'
import { seedream } from './seedream.ts'
import { xaiImages } from './xai_images.ts'

export type { ImageVendorConfig } from './image_vendor.ts'

export type ImageProtocol = 'openai-images' | 'gemini-images' | 'xai-images' | 'cogview' | 'seedream' | 'sdapi'

export const imageProtocols: Readonly<Record<ImageProtocol, (config: ImageVendorConfig) => ImageVendor>> = {
  'openai-images': openaiImages,
  'gemini-images': geminiImages,
  'xai-images': xaiImages,
  cogview,
  seedream,
  sdapi,
}

/** Where the maker of each protocol serves it (reference/vendors.md 2 and 11); `sdapi` has no public address. */
export const imageBaseUrls: Readonly<Record<ImageProtocol, string>> = {
  'openai-images': 'https://api.openai.com/v1',
  'gemini-images': 'https://generativelanguage.googleapis.com',
  'xai-images': 'https://api.x.ai/v1',
  cogview: 'https://api.z.ai/api/paas/v4',
  seedream: 'https://ark.ap-southeast.bytepluses.com/api/v3',
  sdapi: 'http://127.0.0.1:7860',
}
