/** The wallet that a request to a free route signs in as, or the challenge that it has to sign first. */
import type { FreeContext, FreeRequest } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import type { Reply } from '../../http/reply.ts'
import { challenge as challengeOf } from '../../x402/challenge.ts'
import type { SignInChallenge } from '../../x402/sign_in.ts'

type SignInText = {
  /** Of the endpoint, for the error where nobody can sign in. */
  readonly name: string
  readonly description: string
  /** Says why to sign the challenge. */
  readonly message: string
}

/** The wallet; otherwise a 402 without anything to pay. Throws ApiError where nobody can sign in. */
export async function signedIn(
  { origin, isHostTrusted, path, header }: Pick<FreeRequest, 'origin' | 'isHostTrusted' | 'path' | 'header'>,
  { signIns }: Pick<FreeContext, 'signIns'>,
  text: SignInText,
): Promise<{ readonly wallet: string } | { readonly reply: Reply }> {
  const resource = { origin, path, isHostTrusted }
  const signed = await signIns.wallet({ get: header }, resource)
  if (signed.kind === 'wallet') return { wallet: signed.wallet }
  const challenge = await signIns.challenge(resource)
  if (!challenge)
    throw new ApiError('NOT_CONFIGURED', {
      message: `${text.name}: nobody can sign in here: the gateway has no public origin of its own, or its chain is not ready.`,
    })
  const reason = signed.kind === 'refused' ? signed.reason : undefined
  return { reply: signInFirst(challenge, { ...text, url: origin + path, reason }) }
}

/** A 402 that asks for no payment: official clients sign in and ask again. */
function signInFirst(
  signIn: SignInChallenge,
  { url, description, message, reason }: SignInText & { readonly url: string; readonly reason: string | undefined },
): Reply {
  const resource = { url, description, mimeType: 'application/json', signIn }
  const why = { error: 'Sign in', message, ...(reason !== undefined && { details: reason }) }
  const { headers, body } = challengeOf([], resource, why)
  return { status: 402, headers, body }
}
