/**
 * Phone numbers at Twilio, with the account's SID and token. Sources: decision 75 (Lookup v2, AvailablePhoneNumbers and
 * IncomingPhoneNumbers of twilio-oai d50069b and twilio@6.2.0). A number is bought under the name of its order, which
 * finds it again, because Twilio has no idempotency keys.
 */
import { type Clock, ApiError, type Line, type Log, type PhoneVendor } from '../../../core/mod.ts'
import { type Fetch, type VendorHttp, vendorHttp } from '../../http/fetch.ts'
import { serviceErrorFor, withoutSecrets } from '../lib/passthrough.ts'
import { envelope, type ErrorClassifier, record } from '../../http/error_replies.ts'

export type TwilioConfig = {
  readonly accountSid: string
  readonly authToken: string
  readonly baseUrl?: string | undefined
  readonly lookupsUrl?: string | undefined
  /** Countries of rented numbers; by default the US and Canada. */
  readonly countries?: readonly string[] | undefined
  /** The fields of a fraud lookup; packages beyond the first two need Twilio's approval. */
  readonly fraudFields?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

const TWILIO_URL = 'https://api.twilio.com'
const TWILIO_LOOKUPS_URL = 'https://lookups.twilio.com'

const FIELDS = {
  carrier: 'line_type_intelligence,caller_name',
  fraud: 'line_type_intelligence,sms_pumping_risk',
} as const
const COUNTRIES = ['US', 'CA']
const TIMEOUT_MS = 20_000
/** Prefix of the order in the name of a number. */
const OURS = 'farebox '
const PAGE = 1_000
const MAX_PAGES = 50
/** How many offered numbers are tried, because others may buy one first. */
const TRIES = 5
/**
 * Errors for numbers that we cannot buy: sold meanwhile, or requiring an address or documents that the operator has not
 * filed.
 */
const NOT_TO_BE_HAD = new Set(['21421', '21422', '21615', '21631', '21649', '21651'])

const gone = () => new ApiError('NOT_FOUND', { message: 'There is no such number.' })

/** The account and how it is reached. */
type Account = {
  readonly config: TwilioConfig
  readonly http: VendorHttp
  readonly headers: Readonly<Record<string, string>>
  /** Base of the URLs of the API and of this account. */
  readonly baseUrl: string
  readonly url: string
}
type BuyOrder = Parameters<PhoneVendor['buy']>[0]

export function twilio(config: TwilioConfig): PhoneVendor {
  const { accountSid, authToken, countries = COUNTRIES } = config
  const http = vendorHttp({
    ...config,
    name: 'twilio',
    maker: 'Twilio',
    timeoutMs: TIMEOUT_MS,
    maxBytes: 8 * 1024 * 1024,
    errorFor: serviceErrorFor({ source: 'Twilio', timeoutMs: TIMEOUT_MS }),
  })
  const headers = { authorization: `Basic ${btoa(`${accountSid}:${authToken}`)}` }
  const baseUrl = root(config.baseUrl ?? TWILIO_URL)
  const account: Account = { config, http, headers, baseUrl, url: `${baseUrl}/2010-04-01/Accounts/${accountSid}` }
  return {
    countries,
    lookup: (number, about, { signal }) => lookup(account, { number, about }, signal),
    buy: (order, { signal }) => buy(account, order, signal),
    async has(id, { signal }) {
      return await http
        .getJson(numberUrl(account, id), { signal, headers, classify: orGone })
        .then(() => true, isGone(false))
    },
    async release(id, { signal }) {
      await http.remove(numberUrl(account, id), { signal, headers, classify: orGone }).catch(isGone(undefined))
    },
    lines: ({ signal }) => linesOf(account, signal),
  }
}

const orGone: ErrorClassifier = ({ status }) => (status === 404 ? gone() : undefined)

async function lookup(
  { config, http, headers }: Account,
  { number, about }: { number: string; about: Parameters<PhoneVendor['lookup']>[1] },
  signal: AbortSignal,
): Promise<string> {
  const { accountSid, authToken, lookupsUrl = TWILIO_LOOKUPS_URL, fraudFields = FIELDS.fraud } = config
  const classify: ErrorClassifier = ({ status, body }) => {
    if (status !== 400 && status !== 404) return undefined
    return new ApiError('PASSED_ON', {
      status,
      message: `Twilio ${status}: ${withoutSecrets(envelope(body).message, [authToken, accountSid]).slice(0, 200) || 'unknown number'} (payment NOT charged)`,
      fields: { status },
    })
  }
  const fields = about === 'fraud' ? fraudFields : FIELDS.carrier
  return await http.requestText(
    `${root(lookupsUrl)}/v2/PhoneNumbers/${e164(number)}?Fields=${encodeURIComponent(fields)}`,
    { signal, headers, classify },
  )
}

async function buy(account: Account, wanted: BuyOrder, signal: AbortSignal): Promise<Line | undefined> {
  const bought = await boughtUnder(account, wanted.order, signal)
  if (bought) return bought
  for (const number of await onOffer(account, wanted, signal)) {
    const line = await purchase(account, { number, order: wanted.order }, signal)
    if (line) return line
  }
  return undefined
}

async function linesOf({ http, headers, baseUrl, url: accountUrl }: Account, signal: AbortSignal): Promise<Line[]> {
  const all: Line[] = []
  let url: string | undefined = `${accountUrl}/IncomingPhoneNumbers.json?PageSize=${PAGE}`
  for (let page = 0; url !== undefined && page < MAX_PAGES; page++) {
    const { body } = await http.getJson(url, { signal, headers })
    all.push(...linesIn(body))
    const next = record(body).next_page_uri
    url = typeof next === 'string' && next.startsWith('/2010-04-01/') ? baseUrl + next : undefined
  }
  return all.filter(({ order }) => order !== '')
}

const numberUrl = ({ url }: Account, id: string): string => `${url}/IncomingPhoneNumbers/${sidOf(id)}.json`

async function boughtUnder(
  { http, headers, url }: Account,
  order: string,
  signal: AbortSignal,
): Promise<Line | undefined> {
  const { body } = await http.getJson(
    `${url}/IncomingPhoneNumbers.json?FriendlyName=${encodeURIComponent(OURS + order)}&PageSize=20`,
    { signal, headers },
  )
  return linesIn(body).find((line) => line.order === order)
}

async function onOffer(
  { http, headers, url }: Account,
  { country, areaCode }: BuyOrder,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const query = new URLSearchParams({
    VoiceEnabled: 'true',
    ExcludeAllAddressRequired: 'true',
    PageSize: String(TRIES),
    ...(areaCode && { AreaCode: areaCode }),
  })
  const offers = `${url}/AvailablePhoneNumbers/${encodeURIComponent(country)}/Local.json?${query}`
  const body = await http
    .getJson(offers, { signal, headers, classify: orGone })
    .then((answer) => answer.body, isGone(undefined))
  const listed = record(body).available_phone_numbers
  return (Array.isArray(listed) ? listed : []).flatMap((each) => numberIn(each) ?? []).slice(0, TRIES)
}

/** Undefined when this number cannot be bought. When the outcome is unknown, the account is checked. */
async function purchase(
  account: Account,
  { number, order }: { number: string; order: string },
  signal: AbortSignal,
): Promise<Line | undefined> {
  const { http, headers, url } = account
  const classify: ErrorClassifier = ({ status, body }) =>
    status < 500 && NOT_TO_BE_HAD.has(envelope(body).code) ? gone() : undefined
  const form = new URLSearchParams({ PhoneNumber: number, FriendlyName: OURS + order })
  try {
    const body = await http.postForm(`${url}/IncomingPhoneNumbers.json`, form, {
      signal,
      headers,
      classify,
      once: true,
    })
    const line = lineIn(body)
    if (line) return { ...line, order }
    throw http.failure('failed', 'twilio sold a number without saying which')
  } catch (error) {
    if (isNone(error)) return undefined
    const bought = await boughtUnder(account, order, signal).catch(() => undefined)
    if (bought) return bought
    throw error
  }
}

const isNone = (error: unknown): boolean => error instanceof ApiError && error.code === 'NOT_FOUND'

const isGone =
  <T>(answer: T) =>
  (error: unknown): T => {
    if (isNone(error)) return answer
    throw error
  }

const root = (url: string): string => url.replace(/\/+$/, '')

/** Validates a path segment, wherever it came from. */
function e164(number: string): string {
  if (/^\+[1-9]\d{1,14}$/.test(number)) return number
  throw new RangeError('not a number in E.164')
}

function sidOf(id: string): string {
  if (/^PN[0-9a-fA-F]{32}$/.test(id)) return id
  throw new RangeError('not the SID of a number')
}

function numberIn(value: unknown): string | undefined {
  const { phone_number: number } = record(value)
  return typeof number === 'string' && /^\+[1-9]\d{1,14}$/.test(number) ? number : undefined
}

function lineIn(value: unknown): Line | undefined {
  const { sid, friendly_name: name } = record(value)
  const number = numberIn(value)
  if (number === undefined || typeof sid !== 'string') return undefined
  return { number, id: sid, order: typeof name === 'string' && name.startsWith(OURS) ? name.slice(OURS.length) : '' }
}

function linesIn(body: unknown): readonly Line[] {
  const listed = record(body).incoming_phone_numbers
  return (Array.isArray(listed) ? listed : []).flatMap((each) => lineIn(each) ?? [])
}
