/**
 * Everything that may prove to a poll that its caller is the wallet of the call, in one closed list: a new kind of
 * evidence does not compile before it has its judge (decision 97).
 */
import { judgeProof, type Judged } from './proofs.ts'
import type { SettleContext } from '../payment/settlement/context.ts'
import type { Authorization, Call, Identity } from '../ports/mod.ts'
import type { PollUrls } from './poll_urls.ts'
import { isTimely, type PollProof } from '../endpoint/request_context.ts'

type Signers = Pick<Extract<Identity, { kind: 'known' }>, 'payer'>

type PollEvidence = {
  /** The key of the poll URL; '' without one. */
  readonly pollKey: string
  /** A signature in the `x-poll-*` headers. */
  readonly signature: PollProof
  /** The wallet that has signed in. */
  readonly signIn: string
  /** A payment authorization, with who has signed it. */
  readonly authorization: Authorization & Signers
}

/** `stranger`: the evidence proves nobody, or somebody else. */
export type PollJudged = Judged | { readonly kind: 'stranger' }

type PollProofs = {
  readonly [Kind in keyof PollEvidence]: (call: Call, evidence: PollEvidence[Kind]) => Promise<PollJudged>
}

export function pollProofs(money: SettleContext, pollUrls: Pick<PollUrls, 'isKey'>): PollProofs {
  const { chain, clock } = money
  return {
    pollKey: async (call, key) => judged(await pollUrls.isKey(call.id, key)),
    signature: async (call, proof) =>
      judged(isTimely(proof, clock.now()) && proof.wallet === call.payer && (await chain.proves?.(proof)) === true),
    signIn: async (call, wallet) => judged(wallet === call.payer),
    authorization: async (call, authorization) =>
      isSignedFor(call, authorization) ? await judgeProof(money, call, authorization) : STRANGER,
  }
}

/** Whether the wallet of the call has signed the payload. */
export const isSignedFor = (call: Pick<Call, 'payer'>, { payer }: Signers): boolean => payer === call.payer

const STRANGER = { kind: 'stranger' } as const
const judged = (isProven: boolean): PollJudged => (isProven ? { kind: 'proof' } : STRANGER)
