/** The x402 extension `sign-in-with-x`: a wallet signs a text (EIP-4361) to show who it is, and pays nothing. */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { fromBase64 } from '../lib/base64.ts'

/** The extension's key, and the name of the header that brings the signature. */
export const SIGN_IN = 'sign-in-with-x'

/** How long a challenge can be signed, in milliseconds: the limit of the specification. */
export const SIGN_IN_MS = 5 * 60_000

/** Message that a challenge asks a wallet to sign. `uri` is the origin and the path that it is for. */
export type SignInInfo = {
  readonly domain: string
  readonly uri: string
  readonly statement: string
  readonly version: '1'
  readonly nonce: string
  /** ISO 8601. */
  readonly issuedAt: string
  readonly requestId: string
}

/** The extension as a 402 declares it. */
export type SignInChallenge = {
  readonly info: SignInInfo
  readonly supportedChains: readonly { readonly chainId: string; readonly type: string }[]
  readonly schema: object
}

/** The resource that is signed for, as the caller addressed it. */
export type SignInFor = { readonly origin: string; readonly path: string; readonly isHostTrusted: boolean }

export type SignIns = {
  /** Returns the challenge for this resource; undefined while sign-in is not available. */
  challenge(resource: SignInFor): Promise<SignInChallenge | undefined>
  /** Returns the wallet that signed in with this request. */
  wallet(headers: { get(name: string): string | null }, resource: SignInFor): Promise<SignedInAs>
}

/** `none`: the request brings no sign-in. */
export type SignedInAs =
  | { readonly kind: 'none' }
  | { readonly kind: 'wallet'; readonly wallet: string }
  | { readonly kind: 'refused'; readonly reason: string }

const Signed = Type.Object({
  domain: Type.String({ maxLength: 300 }),
  address: Type.String({ maxLength: 64 }),
  uri: Type.String({ maxLength: 4_096 }),
  nonce: Type.String({ maxLength: 64 }),
  issuedAt: Type.String({ maxLength: 40 }),
  requestId: Type.String({ maxLength: 64 }),
  chainId: Type.String({ maxLength: 80 }),
  signature: Type.String({ maxLength: 8_192 }),
})
/** A client's answer: the challenge, its address, the network that it chose, and the signature. */
type SignedIn = Static<typeof Signed>

const isSigned = TypeCompiler.Compile(Signed)

/** Clients fill in what the challenge has left open; the schema only tells programs so. */
const SCHEMA = Type.Object({ address: Type.String(), chainId: Type.String(), signature: Type.String() })

/** `proofTypes`: how accounts of each network sign texts, such as `eip191`. */
export const signInChallenge = (info: SignInInfo, proofTypes: ReadonlyMap<string, string>): SignInChallenge => ({
  info,
  supportedChains: [...proofTypes].map(([chainId, type]) => ({ chainId, type })),
  schema: SCHEMA,
})

/** Decodes the header; undefined when it is not base64 of the right shape. */
export function decodeSignIn(header: string): SignedIn | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(fromBase64(header)))
    return isSigned.Check(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** The text that the wallet has signed: the layout of EIP-4361. `accountName`: `Ethereum`, `Solana`. */
export function signInText(
  info: SignInInfo,
  { address, chainId, accountName }: Pick<SignedIn, 'address' | 'chainId'> & { readonly accountName: string },
): string {
  const [, reference] = chainId.split(':')
  return [
    `${info.domain} wants you to sign in with your ${accountName} account:`,
    address,
    '',
    info.statement,
    '',
    `URI: ${info.uri}`,
    `Version: ${info.version}`,
    `Chain ID: ${reference}`,
    `Nonce: ${info.nonce}`,
    `Issued At: ${info.issuedAt}`,
    `Request ID: ${info.requestId}`,
  ].join('\n')
}
