/** Characters for videos: invented ones and real faces, enrolled once and referenced by id (contract 13.1). */
import type { ReadRecord as CharacterRecord } from '../../endpoint/record_kind.ts'
import { type Static, type TObject, Type } from '@sinclair/typebox'
import { within } from '../../lib/timers.ts'
import {
  free,
  type FreeContext,
  type Made,
  type Offering,
  type Order,
  paid,
  type Price,
  type Showing,
  type Stored,
} from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import {
  CHARACTER,
  type Character,
  FACE_CLAIM,
  FACE_GROUP,
  FOREVER,
  type Group,
  isDelivered,
} from './owned_characters.ts'
import { ofAnother } from '../../endpoint/records.ts'
import { ApiError } from '../../http/errors.ts'
import { clip, isWebUrl, quoted } from '../../lib/text.ts'
import { inputParser, refused } from '../../http/request_body.ts'
import { print } from '../../x402/money.ts'
import type { Call, StoredRecord } from '../../ports/mod.ts'
import type { Json } from '../../lib/json.ts'
import type { Enrolling, PortraitVendor } from '../../ports/vendors/characters.ts'
import { flatPrice } from '../../x402/pricing.ts'
import { newSecret, idFrom } from '../../lib/ids.ts'
import { isListed } from './request.ts'
import { sampleWallet, WALLET_LISTS, walletOf } from '../lib/wallet_lists.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** US dollars for one character, before the fee. */
const PRICE_USD = '0.01'
/** How long a check can be resumed, or its face enrolled. */
const GROUP_MS = 30 * DAY_MS
/** Timeout of vendor calls in free requests. */
const VENDOR_TIMEOUT_MS = 10_000
const MAX_LISTED = 200
const MAX_READ = 10_000

const NAME = Type.String({ minLength: 1, maxLength: 64, description: 'Name of the character, visible only to you.' })
const IMAGE = Type.String({ minLength: 1, maxLength: 8_192, description: 'A publicly reachable http(s) URL.' })
const GROUP_ID = /^rf_[0-9a-f]{32}$/

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

const price = (): Price => ({ amount: flatPrice(PRICE_USD), maxTimeoutSeconds: 300, publicPrice: {} })

const canEnroll = ({ vendors }: Offering): boolean => vendors.characters !== undefined

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

function vendorIn({ vendors }: { readonly vendors: Offering['vendors'] }): PortraitVendor {
  if (vendors.characters) return vendors.characters
  throw new ApiError('NOT_CONFIGURED', {
    message: 'characters: the operator has not configured it. Nothing was charged.',
  })
}

/** Maps vendor failures to 502 or 504 (contract 13.5). */
function withVendorErrors<T>(work: Promise<T>): Promise<T> {
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

const unknownGroup = (): ApiError =>
  new ApiError('NOT_FOUND', {
    message: 'No such group: it never existed or has expired. Start with POST /api/v1/realface/init.',
  })

function notActive(): ApiError {
  const hint =
    'Open h5_link on a phone and pass the check; GET /api/v1/realface/status says when it is done. Send name and groupId to /api/v1/realface/init for a new link.'
  return new ApiError('FACE_NOT_ACTIVE', {
    message: 'The check of this person has not been passed. Nothing was charged.',
    fields: { group_status: PENDING, hint },
    headers: { 'retry-after': '5' },
  })
}

// ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────

type StoredCharacter = {
  readonly asset: string
  readonly group: string
  readonly name: string
  readonly vendorAsset: string
  readonly models: readonly string[]
  readonly price: string
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
  const stored: StoredCharacter = { asset, group, name, vendorAsset, models, price: print(price().amount) }
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
  { href, settlement }: Showing,
): Record<string, Json> {
  const { asset, group, name, models, price } = characterResult as unknown as StoredCharacter
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
    price: { amount: price, currency: 'USD' },
    ...(settlement && { settlement }),
  }
}

// ── the check of a real person ──────────────────────────────────────────────────────────────────────────────────────

const PENDING = 'pending_validation'
const ACTIVE = 'active'

/** A group, or the claim that outlives it. */
type GroupRecord = CharacterRecord<Group> & { readonly isClaimed: boolean }
const kindOf = ({ isClaimed }: GroupRecord) => (isClaimed ? FACE_CLAIM : FACE_GROUP)

/** The vendor's id of the group, once the person has passed the check. */
async function activeGroupId(
  record: CharacterRecord<Group>,
  vendor: PortraitVendor,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { vendorGroup, tokens } = record.data
  if (vendorGroup !== null) return vendorGroup
  for (const token of tokens) {
    const state = await vendor.status(token, { signal })
    if (state.kind === 'active') return state.groupId
  }
  return undefined
}

/** Whether the check has been passed; stores the vendor's id. */
async function isActivated(record: GroupRecord, { vendors, clock, records }: FreeContext): Promise<boolean> {
  const group = record.data
  if (group.vendorGroup !== null) return true
  const vendorGroup = await withVendorErrors(
    within(clock, VENDOR_TIMEOUT_MS, (signal) => activeGroupId(record, vendorIn({ vendors }), signal)),
  )
  if (vendorGroup === undefined) return false
  const now = clock.now()
  await kindOf(record).move(records, record, { data: { ...group, vendorGroup }, expiresAt: now + GROUP_MS }, now)
  return true
}

const initInput = Type.Object({
  name: NAME,
  groupId: Type.Optional(Type.String({ description: 'Of an earlier init whose link has run out: makes a new link.' })),
})
const readInit = inputParser(initInput as TObject)

const init = free({
  name: 'realface.init',
  method: 'POST',
  path: '/api/v1/realface/init',
  summary: 'Start the check of a real person',
  description:
    'Answers with a link that the person opens on a phone, for a check of about one minute that a living person is there. No document is asked for. Free.',
  tag: 'video',
  isOffered: canEnroll,
  limit: { requests: 10, windowMs: HOUR_MS },
  input: initInput,
  sample: { body: { name: 'Ada' } },
  errors: ['NOT_CONFIGURED', 'NOT_FOUND', 'ENROLLMENT_FAILED', 'UPSTREAM_TIMEOUT', 'BUSY'],
  output: Type.Object({
    object: Type.Literal('realface.init'),
    group_id: Type.String(),
    h5_link: Type.String(),
    h5Link: Type.String({ description: 'Alias of h5_link.' }),
    status: Type.Union([Type.Literal(PENDING), Type.Literal(ACTIVE)]),
    expires_in_seconds: Type.Integer({ description: 'How long the link is valid.' }),
    refreshed: Type.Optional(Type.Literal(true)),
    next_steps: Type.Array(Type.String()),
  }),
  async answer(request, context) {
    const { clock, records, random } = context
    const vendor = vendorIn(context)
    const { name, groupId } = readInit(await request.json()) as Static<typeof initInput>
    if (name.trim() === '') throw refused('name', 'must not be blank')
    const old =
      groupId === undefined ? undefined : await groupOf(groupId, { path: 'groupId', records, now: clock.now() })
    const linkTo = (link: string | null | undefined) => link ?? `${request.origin}${PAGE}`
    if (old && (await isActivated(old, context)))
      return initReply(old.id, { link: linkTo(old.data.link), seconds: 0, status: ACTIVE, refreshed: true })
    const session = await withVendorErrors(
      within(clock, VENDOR_TIMEOUT_MS, (signal) => vendor.session(name, { signal })),
    )
    const now = clock.now()
    const tokens = [session.token, ...(old ? old.data.tokens : [])].slice(0, 2)
    const data: Group = { name, tokens, link: session.link ?? null, vendorGroup: null }
    const expiresAt = now + GROUP_MS
    const record = old
      ? await kindOf(old).move(records, old, { data, expiresAt }, now)
      : await FACE_GROUP.put(records, { id: `rf_${newSecret(random)}`, owner: 'anybody', data, expiresAt }, now)
    if (!record)
      throw new ApiError('BUSY', {
        message: 'Another request refreshed this group at the same time; send the request again.',
        headers: { 'retry-after': '1' },
      })
    return initReply(record.id, {
      link: linkTo(session.link),
      seconds: session.expiresInSeconds,
      status: PENDING,
      refreshed: old !== undefined,
    })
  },
})

function initReply(
  id: string,
  { link, seconds, status, refreshed }: { link: string; seconds: number; status: string; refreshed: boolean },
) {
  const enroll =
    'POST /api/v1/realface/enroll with name, image_url and group_id: a picture of the same face, 0.011 USD.'
  const steps =
    status === ACTIVE
      ? [enroll]
      : [
          'Open h5_link on a phone and pass the check.',
          `GET /api/v1/realface/status?groupId=${id} until ready_to_finalize.`,
          enroll,
        ]
  const body = {
    object: 'realface.init',
    group_id: id,
    h5_link: link,
    h5Link: link,
    status,
    expires_in_seconds: seconds,
    ...(refreshed && { refreshed: true }),
    next_steps: steps,
  }
  return json(200, body, { 'cache-control': 'no-store' })
}

/** A group, or the claim that outlives it. Throws 400 for an invalid id, 404 for an unknown one. */
async function groupOf(
  id: string,
  { path, records, now }: { path: string; records: FreeContext['records']; now: number },
): Promise<GroupRecord> {
  if (!GROUP_ID.test(id)) throw refused(path, `must be the group_id of a realface/init, got ${quoted(id)}`)
  const claim = await FACE_CLAIM.get(records, id, now)
  if (claim) return { ...claim, isClaimed: true }
  const found = await FACE_GROUP.get(records, id, now)
  if (!found) throw unknownGroup()
  return { ...found, isClaimed: false }
}

const status = free({
  name: 'realface.status',
  path: '/api/v1/realface/status',
  summary: 'Whether a person has passed the check',
  tag: 'video',
  isOffered: canEnroll,
  limit: { requests: 300, windowMs: HOUR_MS },
  input: Type.Object({ groupId: Type.String({ description: 'The group_id of an init.' }) }),
  follows: true,
  errors: ['NOT_CONFIGURED', 'NOT_FOUND', 'ENROLLMENT_FAILED', 'UPSTREAM_TIMEOUT'],
  output: Type.Object({
    object: Type.Literal('realface.status'),
    group_id: Type.String(),
    status: Type.Union([Type.Literal(PENDING), Type.Literal(ACTIVE)]),
    asset_count: Type.Integer({ description: 'Number of enrolled faces.' }),
    ready_to_finalize: Type.Boolean(),
  }),
  async answer({ query }, context) {
    vendorIn(context)
    const { records, clock } = context
    const group = await groupOf(query.get('groupId') ?? '', { path: 'groupId', records, now: clock.now() })
    const isActive = await isActivated(group, context)
    const faces = group.isClaimed
      ? (await charactersOf(group.owner, 'face', context)).filter(({ data }) => data.group === group.id)
      : []
    const body = {
      object: 'realface.status',
      group_id: group.id,
      status: isActive ? ACTIVE : PENDING,
      asset_count: faces.length,
      ready_to_finalize: isActive,
    }
    return json(200, body, { 'cache-control': 'no-store' })
  },
})

/** Target of `h5_link` when the vendor has no page of its own. */
const PAGE = '/api/v1/realface/page'
const page = free({
  name: 'realface.page',
  path: PAGE,
  summary: 'The page of the embedded check',
  tag: 'video',
  hidden: true,
  produces: 'text/html',
  answer(_request, { vendors }) {
    const html = vendors.characters?.page
    if (html === undefined)
      throw new ApiError('NOT_FOUND', { message: 'This gateway uses the page of its provider; open h5_link.' })
    const headers = {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    }
    return { status: 200, headers, body: html }
  },
})

// ── characters of a wallet ──────────────────────────────────────────────────────────────────────────────────────────

type PaidCharacter = { readonly id: string; readonly data: Character; readonly call: Call }

/** Newest first, without unpaid ones. */
async function charactersOf(
  wallet: string,
  type: Character['type'],
  { records, clock }: FreeContext,
): Promise<readonly PaidCharacter[]> {
  const stored = await CHARACTER.list(records, wallet, { now: clock.now(), limit: MAX_READ })
  const ofType = stored.filter(({ data }) => data.type === type)
  const found: PaidCharacter[] = []
  for (const each of ofType) {
    const call = await records.getCall(each.data.call)
    if (isDelivered(call)) found.push({ ...each, call })
  }
  return found.toSorted((one, other) => other.data.createdAt - one.data.createdAt || (one.id < other.id ? -1 : 1))
}

function list(field: 'portraits' | 'realfaces', { type, summary }: { type: Character['type']; summary: string }) {
  return free({
    name: `wallet.${field}`,
    path: `/api/v1/wallet/{address}/${field}`,
    summary,
    description: `Newest first, ${MAX_LISTED} at most; count is the number of all.`,
    tag: 'wallet',
    isOffered: canEnroll,
    limit: WALLET_LISTS,
    sample: (offering) => ({ path: { address: sampleWallet(offering) } }),
    errors: ['INVALID_BODY'],
    output: Type.Object({
      wallet: Type.String(),
      [field]: Type.Array(
        Type.Object({
          assetId: Type.String(),
          groupId: Type.String(),
          name: Type.String(),
          imageUrl: Type.String(),
          createdAt: Type.String(),
          enrollmentTxHash: Type.Union([Type.String(), Type.Null()], {
            description: 'Null where its payment has not settled.',
          }),
        }),
      ),
      count: Type.Integer(),
    }),
    async answer({ params, origin }, context) {
      const { gateway, objects } = context
      const wallet = walletOf(params.address ?? '', gateway)
      const all = await charactersOf(wallet, type, context)
      const href = (key: string) => objects.url?.(key) ?? `${origin}/api/media/${key}`
      const listed = all
        .slice(0, MAX_LISTED)
        .map(({ id, data: { group, name, source, mediaKey, createdAt }, call }) => ({
          assetId: id,
          groupId: group,
          name,
          imageUrl: mediaKey === null ? source : href(mediaKey),
          createdAt: new Date(createdAt).toISOString(),
          enrollmentTxHash: call.receipt?.transaction ?? null,
        }))
      return json(200, { wallet, [field]: listed, count: all.length }, { 'cache-control': 'private, max-age=30' })
    },
  })
}

const ofWallet = [
  list('portraits', { type: 'portrait', summary: 'The invented characters that a wallet has enrolled' }),
  list('realfaces', { type: 'face', summary: 'The real faces that a wallet has enrolled' }),
]

export const characters = [portrait, init, status, face, page, ...ofWallet]
