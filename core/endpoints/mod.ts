/** The menu: one line per product. Routes, quotes, OpenAPI and discovery follow from it. */
import type { Endpoint } from '../endpoint.ts'
import { calls } from './calls.ts'
import { discovery } from './discovery.ts'
import { edits } from './edits.ts'
import { health } from './health.ts'
import { images } from './images.ts'
import { media } from './media.ts'

export const endpoints: readonly Endpoint[] = [
  ...images,
  ...edits,
  ...calls,
  ...media,
  ...health,
  ...discovery,
]
