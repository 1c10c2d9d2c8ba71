/**
 * Characters at BytePlus ModelArk or Volcano Engine, over their control plane: access and secret key, not the key of
 * the models. Actions, states and the envelope in the sources of decision 75; the signature in signature.ts.
 */
import {
  type Clock,
  type Enrolling,
  type Enrollment,
  ApiError,
  type FaceState,
  type Fields,
  type Log,
  type PortraitVendor,
} from '../../../core/mod.ts'
import { type ArkKeys, signedHeaders } from './signature.ts'
import { type Fetch, vendorHttp } from '../../http/fetch.ts'
import { type ErrorClassifier, record, type ErrorReply, type FailureKind } from '../../http/error_replies.ts'

export type ArkAssetsConfig = {
  readonly accessKey: string
  readonly secretKey: string
  /**
   * By default `https://open.ap-southeast-1.byteplusapi.com` and its region; in China `https://open.volcengineapi.com`
   * and `cn-beijing`.
   */
  readonly baseUrl?: string | undefined
  readonly region?: string | undefined
  /** The project of the assets; by default that of the account. */
  readonly project?: string | undefined
  /** Where the person's phone is redirected after the check; by default nowhere. */
  readonly callbackUrl?: string | undefined
  /** The name given as the source of a rate limit. */
  readonly maker: string
  /** Timeout of one upstream call in milliseconds; by default 20 seconds. */
  readonly timeoutMs?: number | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

const ARK_ASSETS = { baseUrl: 'https://open.ap-southeast-1.byteplusapi.com', region: 'ap-southeast-1' } as const

const NAME = 'ark-assets'
const VERSION = '2024-01-01'
const POLL_EVERY_MS = 3_000
/**
 * A picture that is still being checked after this many polls is given up. The vendor may accept it later; nobody pays
 * for it.
 */
const MAX_POLLS = 20
/** "valid about 120 s" (decision 75). */
const LINK_SECONDS = 120
const MAX_REPLY_BYTES = 1024 * 1024

/** An invented character gets its own group; a real person has one since the check. */
export function arkAssets(config: ArkAssetsConfig): PortraitVendor {
  const { clock, baseUrl = ARK_ASSETS.baseUrl, project, callbackUrl } = config
  const keys: ArkKeys = {
    accessKey: config.accessKey,
    secretKey: config.secretKey,
    region: config.region ?? ARK_ASSETS.region,
    service: 'ark',
  }
  const http = vendorHttp({ ...config, name: NAME, timeoutMs: config.timeoutMs ?? 20_000, maxBytes: MAX_REPLY_BYTES })
  const ours: Fields = project === undefined ? {} : { ProjectName: project }

  return {
    async enroll(character, { signal }) {
      const group = await ask(
        'CreateAssetGroup',
        { Name: character.name, Description: character.name, GroupType: 'AIGC', ...ours },
        { signal },
      )
      return await add(idIn(http, group, 'CreateAssetGroup'), character, signal)
    },

    async session(_name, { signal }) {
      const { BytedToken, H5Link } = await ask(
        'CreateVisualValidateSession',
        { ...(callbackUrl !== undefined && { CallbackURL: callbackUrl }), ...ours },
        { signal },
      )
      if (typeof BytedToken !== 'string' || typeof H5Link !== 'string' || !/^https:\/\//i.test(H5Link))
        throw unclear(http, 'CreateVisualValidateSession')
      return { token: BytedToken, link: H5Link, expiresInSeconds: LINK_SECONDS }
    },

    async status(token, { signal }): Promise<FaceState> {
      const found = await ask('GetVisualValidateResult', { BytedToken: token, ...ours }, { signal, absent: true })
      const { GroupId } = found
      return typeof GroupId === 'string' && GroupId !== '' ? { kind: 'active', groupId: GroupId } : { kind: 'pending' }
    },

    face: (group, character, { signal }) => add(group, character, signal),
  }

  async function add(group: string, { name, image }: Enrolling, signal: AbortSignal): Promise<Enrollment> {
    const asset = { GroupId: group, URL: image, Name: name, AssetType: 'Image', ...ours }
    const made = await ask('CreateAsset', asset, { signal, classify: classifyPictureError }).catch(unlessFace)
    if (!made) return { kind: 'rejected', reason: NOT_THE_FACE }
    const id = idIn(http, made, 'CreateAsset')
    for (let poll = 0; poll < MAX_POLLS; poll++) {
      const found = await ask('GetAsset', { Id: id, ...ours }, { signal })
      const state = String(found.Status).toLowerCase()
      if (state === 'active') return { kind: 'enrolled', assetId: id }
      if (state === 'failed' || state === 'rejected') return { kind: 'rejected', reason: reasonOf(found) }
      await clock.wait(POLL_EVERY_MS, signal)
      signal.throwIfAborted()
    }
    throw http.failure('timeout', `${NAME} did not take a picture within ${(MAX_POLLS * POLL_EVERY_MS) / 1000} s`)
  }

  /** The `Result` of an action. With `absent`, a missing resource gives an empty result. */
  async function ask(
    action: string,
    body: Fields,
    {
      signal,
      absent = false,
      classify = classifyAssetError,
    }: { signal: AbortSignal; absent?: boolean; classify?: ErrorClassifier },
  ): Promise<Fields> {
    const url = `${baseUrl.replace(/\/+$/, '')}/?Action=${action}&Version=${VERSION}`
    const headers = signedHeaders({ url, body: JSON.stringify(body) }, keys, clock.now())
    const isAbsent = (refusal: ErrorReply) =>
      absent &&
      (/NotFound|NotExist|NotReady/i.test(codeIn(refusal.body)) ||
        (refusal.status === 404 && codeIn(refusal.body) === ''))
    const judged: ErrorClassifier = (refusal) => {
      if (isAbsent(refusal)) return new ApiError('NOT_FOUND')
      config.log.info('an action on characters was refused', {
        vendor: NAME,
        action,
        status: refusal.status,
        code: safely(codeIn(refusal.body)),
      })
      return classify(refusal)
    }
    try {
      const reply = await http.postJson(url, body, { headers, signal, classify: judged })
      // Errors may arrive with status 200.
      if (codeIn(reply) !== '') throw http.errorFrom({ status: 400, headers: new Headers(), body: reply }, judged)
      return record(record(reply).Result) as Fields
    } catch (error) {
      if (absent && error instanceof ApiError && error.code === 'NOT_FOUND') return {}
      throw error
    }
  }
}

type Http = ReturnType<typeof vendorHttp>

function idIn(http: Http, { Id }: Fields, action: string): string {
  if (typeof Id === 'string' && Id !== '') return Id
  throw unclear(http, action)
}

function unclear(http: Http, action: string): Error {
  return http.failure('failed', `${NAME} answered ${action} in another shape`)
}

// ── refusals: {ResponseMetadata: {Error: {Code, Message}}} ──────────────────────────────────────────────────────────

const errorIn = (body: unknown) => record(record(record(body).ResponseMetadata).Error)
const codeIn = (body: unknown): string => {
  const { Code } = errorIn(body)
  return typeof Code === 'string' ? Code : ''
}
const safely = (code: string): string => (/^[\w.-]{1,64}$/.test(code) ? code : '')

const RATE = /Throttl|RateLimit|FlowLimit|TooManyRequests|QpsLimit/i
const OURS =
  /Signature|AccessDenied|Unauthorized|InvalidAccessKey|InvalidCredential|Forbidden|OverDue|Quota|LimitExceeded|ServiceNotOpen/i
const POLICY = /Sensitive|RiskControl|Moderation|PolicyViolation/i
const FACE = /Face|Similarity|NotSamePerson|Liveness/i
const PICTURE = /(Image|URL|Download|Asset(Type|Content|Format|Size)|Media)/i
const INVALID = /^(InvalidParameter|InvalidArgument|MissingParameter)/

const classifyAssetError: ErrorClassifier = ({ body }) => kindOf(codeIn(body))

/** A problem with the picture is the buyer's error. */
const classifyPictureError: ErrorClassifier = ({ body }) => {
  const code = codeIn(body)
  const trouble = kindOf(code)
  if (trouble !== undefined && trouble !== 'operator') return trouble
  if (FACE.test(code) && !OURS.test(code)) return new ApiError('FACE_REJECTED', { details: NOT_THE_FACE })
  return PICTURE.test(code) || (INVALID.test(code) && PICTURE.test(messageIn(body))) ? 'image' : trouble
}

function kindOf(code: string): FailureKind | undefined {
  if (RATE.test(code)) return 'rate_limited'
  if (POLICY.test(code)) return 'policy'
  if (OURS.test(code) || INVALID.test(code)) return 'operator'
  return undefined
}

const messageIn = (body: unknown): string => String(errorIn(body).Message ?? '').slice(0, 500)

const NOT_THE_FACE = 'The picture does not show the face of the person who passed the check.'
const NOT_TAKEN = 'The vendor does not take this picture.'

/** A rejected face is a result, not an error. */
function unlessFace(error: unknown): undefined {
  if (error instanceof ApiError && error.code === 'FACE_REJECTED') return undefined
  throw error
}

/** The reason why an asset failed, from its error code. */
function reasonOf(asset: Fields): string {
  const { Code } = record(asset.Error)
  const code = typeof Code === 'string' ? Code : ''
  if (POLICY.test(code)) return 'The safety system of the vendor refused this picture.'
  if (FACE.test(code)) return NOT_THE_FACE
  return NOT_TAKEN
}
