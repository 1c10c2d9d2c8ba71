/** Enrolls characters for videos: invented ones and real faces, referenced by id (contract 13.1). */
import { type Static, Type } from '@sinclair/typebox'
import {
  type Context,
  type Made,
  type Offering,
  type Order,
  paid,
  type Price,
  type Showing,
  type Stored,
} from '../../endpoint/mod.ts'
import { CHARACTER, type Character, FACE_CLAIM, FACE_GROUP, FOREVER } from './owned_characters.ts'
import { ofAnother } from '../../endpoint/records.ts'
import { ApiError } from '../../http/errors.ts'
import { clip, isWebUrl, quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { print } from '../../x402/money.ts'
import type { StoredRecord } from '../../ports/mod.ts'
import type { Json } from '../../lib/json.ts'
import type { Enrolling } from '../../ports/vendors/characters.ts'
import { flatPrice } from '../../x402/pricing.ts'
import { idFrom } from '../../lib/ids.ts'
import { isListed } from './request.ts'
import { canEnroll, NAME, vendorIn, withVendorErrors } from './character_vendor.ts'
import { activeGroupId, GROUP_ID, notActive, unknownGroup } from './liveness_check.ts'

/** US dollars for one character, before the fee. */
const PRICE_USD = '0.01'

const IMAGE = Type.String({ minLength: 1, maxLength: 8_192, description: 'A publicly reachable http(s) URL.' })

const settlement = Type.Object({
  success: Type.Boolean({ description: 'False where the character was enrolled and its payment has not settled.' }),
  tx_hash: Type.String(),
  network: Type.String(),
})
const characterFields = {
  asset_id: Type.String({ description: 'ta_<id>: real_face_asset_id of a video request of the same wallet.' }),
  group_id: Type.String(),
  name: Type.String(),
  image_url: Type.String({ description: 'The hosted copy; as it was given where it was not mirrored.' }),
  source_image_url: Type.String(),
  mirrored: Type.Boolean(),
  created_at: Type.String(),
  usage: Type.Object({ compatible_models: Type.Array(Type.String()), how_to_use: Type.String() }),
  price: Type.Object({ amount: Type.String(), currency: Type.Literal('USD') }),
  settlement,
}

const price = (_input: unknown, { prices }: Context): Price => ({
  amount: flatPrice(PRICE_USD, prices),
  maxTimeoutSeconds: 300,
  publicPrice: {},
})

/** Shared by both enrollments. */
const shared = {
  tag: 'video',
  delivery: 'inline',
  failure: 'Enrollment failed',
  price,
  isAvailable: (_input: unknown, offering: Offering) => canEnroll(offering),
} as const

const portraitInput = Type.Object({ name: NAME, image_url: IMAGE })
const portrait = paid({
  ...shared,
  name: 'portrait.enroll',
  path: '/api/v1/portrait/enroll',
  summary: 'Enroll an invented character',
  description:
    'Makes an invented character known to the video models, which then draw it alike in every clip. Charged once it is enrolled.',
  input: portraitInput,
  output: Type.Object({ object: Type.Literal('virtual_portrait'), ...characterFields }),
  example: { name: 'Ada', image_url: 'https://example.com/ada.png' },
  errors: ['INVALID_IMAGE', 'CONTENT_POLICY', 'ENROLLMENT_FAILED', 'UPSTREAM_TIMEOUT'],
  check: checkInput,

  async run(order) {
    const { name, image_url } = order.input as Static<typeof portraitInput>
    const vendor = vendorIn(order)
    const answer = await withVendorErrors(vendor.enroll({ name, image: image_url }, { signal: order.signal }))
    if (answer.kind === 'rejected')
      throw new ApiError('INVALID_IMAGE', { details: `${answer.reason} Nothing was charged.` })
    return characterResult(
      order,
      { name, image: image_url },
      { type: 'portrait', group: idFrom(order.id, 'vp_'), vendorAsset: answer.assetId },
    )
  },

  show: (stored, showing) => ({ object: 'virtual_portrait', ...characterResponse(stored, showing) }),
})

const faceInput = Type.Object({
  ...portraitInput.properties,
  group_id: Type.String({ description: 'From /api/v1/realface/init, of a person who has passed the check.' }),
})
const face = paid({
  ...shared,
  name: 'realface.enroll',
  path: '/api/v1/realface/enroll',
  summary: 'Enroll the face of a real person',
  description:
    'Finalizes an enrollment after its check on the phone: the picture must show the same face. 425 before the check is passed, 422 for another face; neither is charged.',
  input: faceInput,
  output: Type.Object({
    object: Type.Literal('realface'),
    ...characterFields,
    byteplus_asset_id: Type.String({ description: "The vendor's own id." }),
  }),
  example: { name: 'Ada', image_url: 'https://example.com/ada.jpg', group_id: 'rf_0123456789abcdef0123456789abcdef' },
  errors: [
    'NOT_ALLOWED',
    'NOT_FOUND',
    'INVALID_IMAGE',
    'CONTENT_POLICY',
    'FACE_REJECTED',
    'FACE_NOT_ACTIVE',
    'ENROLLMENT_FAILED',
    'UPSTREAM_TIMEOUT',
  ],
  check(given) {
    if (!GROUP_ID.test(given.group_id))
      throw refused('group_id', `must be the group_id of a realface/init, got ${quoted(given.group_id)}`)
    return checkInput(given)
  },

  async run(order) {
    const { name, image_url, group_id } = order.input as Static<typeof faceInput>
    const { signal } = order
    const vendor = vendorIn(order)
    const claim = await FACE_CLAIM.get(order.records, group_id, order.clock.now())
    if (claim && claim.owner !== order.payer) throw ofAnother()
    const known = claim ?? (await FACE_GROUP.get(order.records, group_id, order.clock.now()))
    if (!known) throw unknownGroup()
    const group = await withVendorErrors(activeGroupId(known, vendor, signal))
    if (group === undefined) throw notActive()
    const answer = await withVendorErrors(vendor.face(group, { name, image: image_url }, { signal }))
    if (answer.kind === 'not_active') throw notActive()
    if (answer.kind === 'rejected')
      throw new ApiError('FACE_REJECTED', { details: `${answer.reason} Nothing was charged.` })
    return characterResult(
      order,
      { name, image: image_url },
      { type: 'face', group: group_id, vendorAsset: answer.assetId },
      [
        FACE_CLAIM.stored({
          id: group_id,
          data: { name, tokens: [], link: null, vendorGroup: group },
          expiresAt: FOREVER,
        }),
      ],
    )
  },

  show: (stored, showing) => ({
    object: 'realface',
    ...characterResponse(stored, showing),
    byteplus_asset_id: (stored.made as unknown as StoredCharacter).vendorAsset,
  }),
})

/** Checks the name and the image URL. */
function checkInput<Given extends { readonly name: string; readonly image_url: string }>(given: Given): Given {
  const { name, image_url } = given
  if (name.trim() === '') throw refused('name', 'must not be blank')
  if (!isWebUrl(image_url)) throw refused('image_url', `must be an http(s) URL, got ${clip(image_url)}`)
  return given
}

// ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────

type StoredCharacter = {
  readonly asset: string
  readonly group: string
  readonly name: string
  readonly vendorAsset: string
  readonly models: readonly string[]
}

/** The result, and the records that assign it to its payer. */
function characterResult(
  { id, now, catalog, vendors }: Order<unknown>,
  { name, image }: Enrolling,
  { type, group, vendorAsset }: Pick<Character, 'type' | 'group' | 'vendorAsset'>,
  also: readonly Omit<StoredRecord, 'owner'>[] = [],
): Made {
  const asset = idFrom(id, 'ta_')
  const models = catalog.video.all
    .filter((row) => row.assets && isListed(row) && vendors.video?.(row) !== undefined)
    .map((row) => row.id)
  const stored: StoredCharacter = { asset, group, name, vendorAsset, models }
  return {
    result: stored,
    media: { folder: 'portraits', urls: [image], foreign: true },
    recordsToStore(media) {
      const data: Character = {
        type,
        group,
        name,
        vendorAsset,
        source: image,
        mediaKey: media[0]?.key ?? null,
        createdAt: now,
        call: id,
      }
      return [...also, CHARACTER.stored({ id: asset, data, expiresAt: FOREVER })]
    },
  }
}

function characterResponse(
  { made: characterResult, media, created }: Stored,
  { href, quote, settlement }: Showing,
): Record<string, Json> {
  const { asset, group, name, models } = characterResult as unknown as StoredCharacter
  const [picture] = media
  const key = picture?.key ?? null
  return {
    asset_id: asset,
    group_id: group,
    name,
    image_url: key === null ? (picture?.url ?? '') : href(key),
    source_image_url: picture?.source ?? '',
    mirrored: key !== null,
    created_at: new Date(created * 1000).toISOString(),
    usage: {
      compatible_models: models,
      how_to_use: `Send real_face_asset_id: "${asset}" to /api/v1/videos/generations, without image_url, and pay with the wallet that enrolled it.`,
    },
    price: { amount: print(quote), currency: 'USD' },
    ...(settlement && { settlement }),
  }
}

export const characterEnrollments = [portrait, face]
