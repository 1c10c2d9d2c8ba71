/** The vendor of characters, and what all routes about characters share. */
import { Type } from '@sinclair/typebox'
import type { Offering } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import type { PortraitVendor } from '../../ports/vendors/characters.ts'

export const NAME = Type.String({
  minLength: 1,
  maxLength: 64,
  description: 'Name of the character, visible only to you.',
})

export const canEnroll = ({ vendors }: Offering): boolean => vendors.characters !== undefined

export function vendorIn({ vendors }: { readonly vendors: Offering['vendors'] }): PortraitVendor {
  if (vendors.characters) return vendors.characters
  throw new ApiError('NOT_CONFIGURED', {
    message: 'characters: the operator has not configured it. Nothing was charged.',
  })
}

/** Maps vendor failures to 502 or 504 (contract 13.5). */
export function withVendorErrors<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    if (error instanceof ApiError && error.code !== 'WORK_FAILED') throw error
    if ((error as Error).name === 'TimeoutError')
      throw new ApiError('UPSTREAM_TIMEOUT', {
        message: 'The character was not enrolled in time. Nothing was charged; try again.',
      })
    throw new ApiError('ENROLLMENT_FAILED', {
      message: 'The enrollment provider is unavailable. Nothing was charged; try again.',
    })
  })
}
