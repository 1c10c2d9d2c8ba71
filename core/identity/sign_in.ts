/**
 * Sign-ins: challenges without state, each of which proves a wallet for one request of one path (contract 2.32). The
 * nonce is a keyed hash of everything else in the challenge, so only ours can be signed; used ones are stored until
 * they expire, so that one replica wins.
 */
import { bytesToHex } from '@noble/hashes/utils'
import { Type } from '@sinclair/typebox'
import { recordKind } from '../endpoint/record_kind.ts'
import { familyOf } from '../ports/chain_family.ts'
import type { Chain, RecordStorage } from '../ports/mod.ts'
import type { Clock } from '../lib/clock.ts'
import { within } from '../lib/timers.ts'
import {
  decodeSignIn,
  SIGN_IN,
  SIGN_IN_MS,
  type SignedInAs,
  signInChallenge,
  type SignInFor,
  type SignInInfo,
  type SignIns,
  signInText,
} from '../x402/sign_in.ts'
import type { Timeouts } from '../payment/timeouts.ts'

/** Keyed hashes under the secrets that the replicas share. */
type KeyedHashes = {
  keyOf(text: string): Promise<string>
  isKey(text: string, given: string): Promise<boolean>
}

type SignInContext = {
  readonly storage: Pick<RecordStorage, 'putRecord'>
  readonly chain: Pick<Chain, 'families' | 'terms' | 'hasSigned'>
  readonly clock: Clock
  readonly random: (bytes: number) => Uint8Array
  readonly hashes: KeyedHashes
  readonly timeouts: Pick<Timeouts, 'verifyMs'>
}

const STATEMENT = 'Show which wallet you are. This pays nothing and allows no payment.'
const NO_ORIGIN = 'this gateway has no public origin of its own, so nobody can sign in to it'
/** Clocks of replicas differ a little. */
const SKEW_MS = 10_000

const USED = recordKind({ kind: 'sign_in', version: 1, schema: Type.Object({}) })

export function signIns({ storage, chain, clock, random, hashes, timeouts }: SignInContext): SignIns {
  const infoOf = async (
    { origin, path }: Pick<SignInFor, 'origin' | 'path'>,
    { issuedAt, requestId }: Pick<SignInInfo, 'issuedAt' | 'requestId'>,
  ): Promise<SignInInfo> => {
    const uri = origin + path
    const nonce = await hashes.keyOf(nonceText(uri, { issuedAt, requestId }))
    return { domain: new URL(origin).host, uri, statement: STATEMENT, version: '1', nonce, issuedAt, requestId }
  }

  return {
    async challenge(resource) {
      const now = clock.now()
      const terms = chain.terms(now)
      if (terms.length === 0 || !chain.hasSigned || !resource.isHostTrusted) return undefined
      const issued = { issuedAt: new Date(now).toISOString(), requestId: bytesToHex(random(8)) }
      const proofTypes = terms.flatMap(({ network }) => {
        const family = familyOf(chain.families, network)
        return family ? [[network, family.proofType] as const] : []
      })
      return signInChallenge(await infoOf(resource, issued), new Map(proofTypes))
    },

    async wallet(headers, resource) {
      const header = headers.get(SIGN_IN)
      if (header === null) return { kind: 'none' }
      if (!resource.isHostTrusted) return refused(NO_ORIGIN)
      const signed = decodeSignIn(header)
      if (!signed) return refused(`the ${SIGN_IN} header is not base64 of a signed challenge`)
      const now = clock.now()
      const { issuedAt, requestId, nonce, chainId, address, signature } = signed
      const issued = Date.parse(issuedAt)
      if (!(issued <= now + SKEW_MS && now - issued <= SIGN_IN_MS))
        return refused(
          `the challenge was issued at ${issuedAt.slice(0, 30)}, and lives for five minutes; ask for another`,
        )
      const uri = resource.origin + resource.path
      if (signed.uri !== uri || signed.domain !== new URL(resource.origin).host)
        return refused(
          `the challenge is for ${signed.uri.slice(0, 200)} of ${signed.domain.slice(0, 100)}; it must be for ${uri} of ${new URL(resource.origin).host}`,
        )
      if (!(await hashes.isKey(nonceText(uri, { issuedAt, requestId }), nonce)))
        return refused('the nonce of the challenge was not issued here; ask for another')
      const family = familyOf(chain.families, chainId)
      if (!family || !chain.terms(now).some(({ network }) => network === chainId))
        return refused(`this gateway is not paid on ${chainId.slice(0, 80)}`)
      const info: SignInInfo = {
        domain: signed.domain,
        uri,
        statement: STATEMENT,
        version: '1',
        nonce,
        issuedAt,
        requestId,
      }
      const message = signInText(info, { address, chainId, accountName: family.accountName })
      const proof = { wallet: address, network: chainId, message, signature }
      const wallet = await within(
        clock,
        timeouts.verifyMs,
        async (signal) => await chain.hasSigned?.(proof, { signal }),
      )
      if (wallet === undefined) return refused(`${address} has not signed the challenge`)
      const used = { id: nonce, owner: wallet, data: {}, expiresAt: issued + SIGN_IN_MS + SKEW_MS }
      const isFirst = (await USED.put(storage, used, now)) !== undefined
      return isFirst ? { kind: 'wallet', wallet } : refused('the challenge was used before; ask for another')
    },
  }
}

const nonceText = (uri: string, { issuedAt, requestId }: Pick<SignInInfo, 'issuedAt' | 'requestId'>): string =>
  `${SIGN_IN} ${issuedAt} ${requestId} ${uri}`

const refused = (reason: string): SignedInAs => ({ kind: 'refused', reason })
