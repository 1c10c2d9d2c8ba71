/** The 402 of x402: its three headers and its body. */
import { Type } from '@sinclair/typebox'
import { encodeText, IDENTIFIER, Identifier, isAscii, type Offer, VERSION, withoutHint } from './protocol.ts'
import { SIGN_IN, type SignInChallenge } from './sign_in.ts'

/** The `bazaar` extension as JSON: as the body has it, and as headers have it. */
export type Bazaar = { readonly whole: string; readonly brief: string }

/**
 * `bazaar` is the extension of that name (reference 6.1), and `error` a code of a scheme for the headers, whatever the
 * body says. No extension is part of the resource.
 */
export type Resource = {
  url: string
  description: string
  mimeType: string
  bazaar?: Bazaar | undefined
  error?: string
  /** The extension `sign-in-with-x`, where a wallet may show who it is instead of paying. */
  signIn?: SignInChallenge | undefined
}

export type Challenge = { headers: Record<string, string>; body: string }

/**
 * Declared in the body of every challenge. Official clients echo the declaration of the header, with or without an id.
 */
const DECLARED = JSON.stringify({
  [IDENTIFIER]: {
    info: { required: false },
    schema: Type.Object(
      { required: Type.Boolean(), id: Type.Optional(Identifier) },
      { $schema: 'https://json-schema.org/draft/2020-12/schema' },
    ),
  },
}).slice(1, -1)
/** The same for a header without room for the schema. Official clients read only `info`. */
const DECLARED_BRIEFLY = JSON.stringify({ [IDENTIFIER]: { info: { required: false }, schema: {} } }).slice(1, -1)

/**
 * Beside an offer of the scheme `upto`: a wallet without an allowance for Permit2 may send an ERC-2612 permit. Official
 * clients read only its name.
 */
const SPONSORED = ',"eip2612GasSponsoring":{"info":{"version":"1"},"schema":{}}'

/**
 * Maximum size of a 402's headers in bytes, status line included: nginx forwards 4,096 by default (contract 1.5). The
 * second constant is what each challenge carries beside its values at most: status line, names, type, caching, a
 * request id of 64, date and length.
 */
export const MAX_HEADERS = 3_500
const MAX_BESIDE = 400
/** Longest `resource.url`, in characters, when room is short; nothing depends on it. */
const SHORT_URL = 96

/**
 * The three challenge headers and the mirrored body of a 402 (contract 1.3). With one offer the headers are equal; with
 * several, `payment-required` lists all, and the others carry the first `exact` one (contract 1.4). `beside` is the
 * size of the other headers of the 402.
 */
export function challenge(
  offers: readonly Offer[],
  { bazaar, error: code, signIn, ...resource }: Resource,
  body: Record<string, unknown>,
  beside = 0,
): Challenge {
  const error = code ?? (typeof body.error === 'string' ? body.error : 'Payment Required')
  // The hottest path: each part is serialized once, and constant parts never again.
  const accepts = JSON.stringify(offers)
  const begin = `{"x402Version":${VERSION},"error":${JSON.stringify(error)},"resource":`
  const signInBriefly = signIn && signInJson({ ...signIn, schema: {} })
  const telling = { begin, resource, offers, accepts, bazaar: bazaar?.brief, signIn: signInBriefly }
  const parts = fitting(MAX_HEADERS - MAX_BESIDE - beside, telling)
  const all = encodeText(parts.all)
  const one = parts.one === parts.all ? all : encodeText(parts.one)
  const also = signIn === undefined ? '' : `,${signInJson(signIn)}`
  const declared = DECLARED + sponsoredIn(offers)
  const extensions = (bazaar === undefined ? declared : `${declared},"bazaar":${bazaar.whole}`) + also
  return {
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-store, no-cache, must-revalidate, max-age=0',
      'payment-required': all,
      'x-payment-required': one,
      'www-authenticate': `X402 requirements=${one}`,
    },
    body: `{"x402Version":${VERSION},"accepts":${accepts},"extensions":{${extensions}},${JSON.stringify(body).slice(1)}`,
  }
}

const signInJson = (challenge: SignInChallenge): string => JSON.stringify({ [SIGN_IN]: challenge }).slice(1, -1)

/** The content of `payment-required`, and of the other two headers. */
type HeaderParts = { readonly all: string; readonly one: string }
type Telling = {
  readonly begin: string
  readonly resource: Omit<Resource, 'bazaar' | 'error' | 'signIn'>
  readonly offers: readonly Offer[]
  readonly accepts: string
  readonly bazaar: string | undefined
  readonly signIn: string | undefined
}

/**
 * The most complete challenge whose three headers fit into this many bytes. Indexers read only the header, so `bazaar`
 * is kept longer than the identifier's schema, which no client reads, and the description. Then that schema, the
 * description, the end of a long URL and the hints of an offer are dropped, none of which a signature needs; finally
 * offers, from the last one down to one.
 */
function fitting(room: number, { begin, resource, offers, accepts, bazaar, signIn }: Telling): HeaderParts {
  const { description: _, ...bare } = resource
  const short = { ...bare, url: bare.url.slice(0, SHORT_URL) }
  const sponsored = sponsoredIn(offers)
  const partsOf = (
    resourceFields: Partial<Resource>,
    declared: string,
    list = accepts,
    listed = offers,
  ): HeaderParts => {
    const frame = (some: string, extensions: string) =>
      `${begin}${JSON.stringify(resourceFields)},"accepts":${some},"extensions":{${extensions}}}`
    const more = declared === '' ? '' : sponsored + (signIn === undefined ? '' : `,${signIn}`)
    const all = frame(list, declared + more)
    if (listed.length > 1) return { all, one: frame(JSON.stringify([firstOf(listed)]), declared) }
    return { all, one: more === '' ? all : frame(list, declared) }
  }
  const isRoom = ({ all, one }: HeaderParts) => encodedSize(all) + 2 * encodedSize(one) <= room
  const indexed = `${DECLARED_BRIEFLY},"bazaar":${bazaar}`
  for (const [resourceFields, declared] of [
    ...(bazaar === undefined ? [] : [[resource, indexed] as const, [bare, indexed] as const]),
    [resource, DECLARED],
    [resource, DECLARED_BRIEFLY],
    [bare, DECLARED_BRIEFLY],
    [short, DECLARED_BRIEFLY],
  ] as const) {
    const parts = partsOf(resourceFields, declared)
    if (isRoom(parts)) return parts
  }
  // A wallet that signs in needs no offer but the first, should the result not be paid for.
  for (let count = offers.length - 1; signIn !== undefined && count > 0; count--) {
    const listed = offers.slice(0, count).map(withoutHint)
    const parts = partsOf({ url: short.url }, DECLARED_BRIEFLY, JSON.stringify(listed), listed)
    if (isRoom(parts)) return parts
  }
  for (let listed = offers.map(withoutHint); ; listed = listed.slice(0, -1)) {
    const parts = partsOf({ url: short.url }, '', JSON.stringify(listed), listed)
    if (isRoom(parts) || listed.length < 2) return parts
  }
}

const sponsoredIn = (offers: readonly Offer[]): string =>
  offers.some(({ scheme }) => scheme === 'upto') ? SPONSORED : ''

/** The offer that clients of the contract sign: they know only one scheme. */
const firstOf = (offers: readonly Offer[]): Offer | undefined =>
  offers.find(({ scheme }) => scheme === 'exact') ?? offers[0]

/** Length of the result of `encodeText`. */
const encodedSize = (text: string): number =>
  4 * Math.ceil((isAscii(text) ? text.length : new TextEncoder().encode(text).length) / 3)
