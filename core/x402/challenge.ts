/** The 402 of x402: its three headers and its body. */
import { Type } from '@sinclair/typebox'
import { encodeText, hasHint, IDENTIFIER, Identifier, isAscii, type Offer, VERSION, withoutHint } from './protocol.ts'
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
const SPONSORED = '"eip2612GasSponsoring":{"info":{"version":"1"},"schema":{}}'

/**
 * The head of a 402 stays below this many bytes, status line included: nginx forwards 4,096 by default (contract 1.5).
 * The second constant is what each challenge carries beside its values at most: status line, names, type, caching, a
 * request id of 64, date and length.
 */
export const MAX_HEADERS = 4_000
const MAX_BESIDE = 400
/** Longest `resource.url`, in characters, when room is short; nothing depends on it. */
const SHORT_URL = 96

/** The head of a 402 beside the challenge of x402. */
type Head = {
  /** Bytes of the other headers of the 402. */
  readonly beside?: number
  /** Bytes that an offer takes in `WWW-Authenticate` in another protocol; 0 without. */
  readonly chargeSize?: (offer: Offer) => number
  /** False: `WWW-Authenticate` leaves the scheme `X402` out. */
  readonly hasX402?: boolean
}

/** `charged`: the offers that `WWW-Authenticate` has room for in another protocol. */
export type Challenge = { headers: Record<string, string>; body: string; charged: readonly Offer[] }

/**
 * The three challenge headers and the mirrored body of a 402 (contract 1.3). With one offer the headers are equal; with
 * several, `payment-required` lists all, and the others carry the first `exact` one (contract 1.4).
 */
export function challenge(
  offers: readonly Offer[],
  { bazaar, error: code, signIn, ...resource }: Resource,
  body: Record<string, unknown>,
  head: Head = {},
): Challenge {
  const error = code ?? (typeof body.error === 'string' ? body.error : 'Payment Required')
  // The hottest path: each part is serialized once, and constant parts never again.
  const accepts = JSON.stringify(offers)
  const begin = `{"x402Version":${VERSION},"error":${JSON.stringify(error)},"resource":`
  const signInBriefly = signIn && signInJson({ ...signIn, schema: {} })
  const parts = fitting(head, { begin, resource, offers, accepts, bazaar: bazaar?.brief, signIn: signInBriefly })
  const all = encodeText(parts.all)
  const one = parts.one === parts.all ? all : encodeText(parts.one)
  const extensions = [DECLARED, sponsoredIn(offers), bazaar && `"bazaar":${bazaar.whole}`, signIn && signInJson(signIn)]
  return {
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-store, no-cache, must-revalidate, max-age=0',
      'payment-required': all,
      'x-payment-required': one,
      ...(parts.hasX402 && { 'www-authenticate': `X402 requirements=${one}` }),
    },
    body: `{"x402Version":${VERSION},"accepts":${accepts},"extensions":{${extensions.filter(Boolean).join(',')}},${JSON.stringify(body).slice(1)}`,
    charged: parts.charged,
  }
}

const signInJson = (challenge: SignInChallenge): string => JSON.stringify({ [SIGN_IN]: challenge }).slice(1, -1)

type Telling = {
  readonly begin: string
  readonly resource: Omit<Resource, 'bazaar' | 'error' | 'signIn'>
  readonly offers: readonly Offer[]
  readonly accepts: string
  readonly bazaar: string | undefined
  readonly signIn: string | undefined
}

/** How much the headers say. `all`: extensions of `payment-required`; `one`: those of the other two. */
type Level = {
  readonly resource: Partial<Resource>
  readonly all: readonly (string | undefined)[]
  readonly one: readonly (string | undefined)[]
  readonly listed: readonly Offer[]
  /** Those of them that have a challenge of another protocol too. */
  readonly charged: readonly Offer[]
  readonly hasX402: boolean
}

/** The content of `payment-required`, and of the other two headers. */
type HeaderParts = { readonly all: string; readonly one: string } & Pick<Level, 'charged' | 'hasX402'>

/** The most complete challenge that fits. The last level is taken as it is: its one offer is never left out. */
function fitting({ beside = 0, chargeSize, hasX402 = true }: Head, telling: Telling): HeaderParts {
  const room = MAX_HEADERS - MAX_BESIDE - beside
  const sizeOf = chargeSize ?? (() => 0)
  const isRoom = ({ charged, ...parts }: HeaderParts) => {
    const charges = charged.reduce((sum, offer) => sum + sizeOf(offer), 0)
    const copies = parts.hasX402 ? 2 : 1
    return encodedSize(parts.all) + copies * encodedSize(parts.one) + charges <= room
  }
  let parts: HeaderParts | undefined
  for (const level of levels({ ...telling, isCharged: (offer) => sizeOf(offer) > 0 }, hasX402)) {
    parts = partsOf(level, telling)
    if (isRoom(parts)) break
  }
  return parts as HeaderParts
}

/**
 * From the most complete level to the shortest. Left out, in this order: the schema of the identifier, which no client
 * reads; the description; the second copy of `bazaar` and the end of a long URL; the hints of an offer; challenges of
 * another protocol after the first; offers after the first `exact` one, from the last; `bazaar`, which indexers read in
 * `payment-required` alone; last the scheme `X402`. A signature needs none of them.
 */
function* levels(
  { resource, offers, bazaar: brief, signIn, isCharged }: Telling & { isCharged(offer: Offer): boolean },
  hasX402: boolean,
): Generator<Level> {
  const { description: _, ...bare } = resource
  const short = { url: bare.url.slice(0, SHORT_URL) }
  const bazaar = brief && `"bazaar":${brief}`
  const rich = [DECLARED_BRIEFLY, bazaar]
  const whole = {
    resource,
    all: [...rich, signIn],
    one: rich,
    listed: offers,
    charged: offers.filter(isCharged),
    hasX402,
  }
  if (!bazaar) yield { ...whole, all: [DECLARED, signIn], one: [DECLARED] }
  yield whole
  yield { ...whole, resource: bare }
  // The headers of one offer are equal as long as they can be.
  const once = { ...whole, resource: bare, one: offers.length > 1 ? [DECLARED_BRIEFLY] : rich }
  if (offers.length > 1) yield once
  yield { ...once, resource: { ...bare, url: short.url } }
  if (offers.length === 1 && offers.some(hasHint)) yield { ...once, resource: short, one: [] }
  let listed = offers.map(withoutHint)
  let charged = listed.filter(isCharged)
  if (offers.length === 1) yield { ...once, resource: short, listed, charged }
  const least = { ...once, resource: short, one: [], listed, charged }
  yield { ...least, all: [bazaar, signIn] }
  while (charged.length > 1) {
    charged = charged.slice(0, -1)
    yield { ...least, all: [bazaar, signIn], charged }
  }
  const first = firstOf(listed)
  while (listed.length > 1) {
    const last = listed.findLastIndex((each) => each !== first)
    listed = listed.filter((_each, at) => at !== last)
    charged = charged.filter((each) => listed.includes(each))
    yield { ...least, all: [bazaar, signIn], listed, charged }
  }
  yield { ...least, all: [signIn], listed, charged }
  yield { ...least, all: [signIn], listed, charged, hasX402: false }
}

function partsOf(
  { resource, all, one, listed, charged, hasX402 }: Level,
  { begin, offers, accepts }: Telling,
): HeaderParts {
  const described = JSON.stringify(resource)
  const frame = (list: string, extensions: Level['all']) =>
    `${begin}${described},"accepts":${list},"extensions":{${extensions.filter(Boolean).join(',')}}}`
  const list = listed === offers ? accepts : JSON.stringify(listed)
  const first = listed.length > 1 ? JSON.stringify([firstOf(listed)]) : list
  return { all: frame(list, [...all, sponsoredIn(listed)]), one: frame(first, one), charged, hasX402 }
}

const sponsoredIn = (offers: readonly Offer[]): string | undefined =>
  offers.some(({ scheme }) => scheme === 'upto') ? SPONSORED : undefined

/** The offer that clients of the contract sign: they know only one scheme. */
const firstOf = (offers: readonly Offer[]): Offer | undefined =>
  offers.find(({ scheme }) => scheme === 'exact') ?? offers[0]

/** Length of the result of `encodeText`. */
const encodedSize = (text: string): number =>
  4 * Math.ceil((isAscii(text) ? text.length : new TextEncoder().encode(text).length) / 3)
