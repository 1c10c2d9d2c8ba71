/** The liveness check of a real person, which precedes the enrollment of a face (contract 13.1). */
import { type Static, type TObject, Type } from '@sinclair/typebox'
import type { ReadRecord as CharacterRecord } from '../../endpoint/record_kind.ts'
import { free, type FreeContext } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import { inputParser, refused } from '../../http/request_body.ts'
import { newSecret } from '../../lib/ids.ts'
import { quoted } from '../../lib/text.ts'
import { within } from '../../lib/timers.ts'
import type { PortraitVendor } from '../../ports/vendors/characters.ts'
import { canEnroll, NAME, vendorIn, withVendorErrors } from './character_vendor.ts'
import { FACE_CLAIM, FACE_GROUP, type Group } from './owned_characters.ts'
import { charactersOf } from './wallet_characters.ts'

const HOUR_MS = 3_600_000
/** How long a check can be resumed, or its face enrolled. */
const GROUP_MS = 30 * 24 * HOUR_MS
/** Timeout of vendor calls in free requests. */
const VENDOR_TIMEOUT_MS = 10_000
export const GROUP_ID = /^rf_[0-9a-f]{32}$/

const PENDING = 'pending_validation'
const ACTIVE = 'active'

/** A group, or the claim that outlives it. */
type GroupRecord = CharacterRecord<Group> & { readonly isClaimed: boolean }
const kindOf = ({ isClaimed }: GroupRecord) => (isClaimed ? FACE_CLAIM : FACE_GROUP)

/** The vendor's id of the group, once the person has passed the check. */
export async function activeGroupId(
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

export const unknownGroup = (): ApiError =>
  new ApiError('NOT_FOUND', {
    message: 'No such group: it never existed or has expired. Start with POST /api/v1/realface/init.',
  })

export function notActive(): ApiError {
  const hint =
    'Open h5_link on a phone and pass the check; GET /api/v1/realface/status says when it is done. Send name and groupId to /api/v1/realface/init for a new link.'
  return new ApiError('FACE_NOT_ACTIVE', {
    message: 'The check of this person has not been passed. Nothing was charged.',
    fields: { group_status: PENDING, hint },
    headers: { 'retry-after': '5' },
  })
}

export const livenessCheck = [init, status, page]
