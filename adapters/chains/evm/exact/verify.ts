/** Verifies a payment by `exact`: the account, its balance and the transfer itself are asked in one round trip. */
import type { Refused, Unavailable, Verdict } from '../../../../core/ports/mod.ts'
import { type Offer, type Payment, usdc } from '../../../../core/x402/mod.ts'
import { flagIn, type Hex, lower, uintIn } from '../../lib/hex.ts'
import { hasCode, type Rpc, type RpcFailure } from '../../lib/json_rpc.ts'
import { type CallOptions, unavailable } from '../../lib/results.ts'
import { CONTRACT_LIMITS, type ContractResult } from '../node/contracts.ts'
import type { Reads } from '../node/reads.ts'
import { type ContractCall } from '../node/multicall.ts'
import { balanceCall, SEPARATOR_CALL, signatureCall, stateCall, transferCall } from '../node/token.ts'
import { recoverSigner } from './eip3009.ts'
import { acceptsSignature, type EvmIdentity, type ParsedPayment, refusedSignature } from './identity.ts'
import { checkExact, refused } from './payload.ts'

/** State of verification. `relayer` is the account that would send the transfer. */
type ExactVerifier = {
  readonly rpc: Rpc
  readonly reads: Reads
  readonly identity: EvmIdentity
  readonly relayer: Hex
  readonly lagSeconds: number
  readonly lookbackSeconds?: number | undefined
}

type SimulationContext = { readonly asset: Hex; readonly time: number; readonly isContract: boolean }

export async function verify(
  verifier: ExactVerifier,
  payment: Payment,
  offer: Offer,
  at: CallOptions,
): Promise<Verdict> {
  const parsed = verifier.identity.parse(payment, offer)
  if ('kind' in parsed) return parsed
  const { exact } = parsed
  const refusal = checkExact(exact, offer, at.now, verifier.lookbackSeconds)
  if (refusal) return refusal
  const asset = lower(offer.asset)
  const hadCode = verifier.identity.hadCode(exact.from)
  const transfer = { to: asset, data: transferCall(exact) }
  const calls = [
    { to: asset, data: balanceCall(exact.from) },
    { to: asset, data: stateCall(exact.from, exact.nonce) },
    ...(hadCode ? [] : [transfer]), // last, so that the payer's code cannot affect earlier answers
  ]
  // Often only these answers tell whether the payer has code. The token may already run it, so the gas is bounded.
  const bounds = { gas: CONTRACT_LIMITS.gas, from: verifier.relayer }
  const payerCall = hadCode ? simulateAsPayer(verifier, parsed, transfer, at.signal) : undefined
  const [code, seen] = await Promise.all([
    verifier.rpc.request('eth_getCode', [exact.from, 'latest'], at.signal),
    verifier.reads.view(calls, { lagSeconds: verifier.lagSeconds, signal: at.signal, ...bounds }),
  ])
  const isContract = hasCode(code)
  if (isContract === undefined) return unavailable(`the code of ${exact.from} cannot be read`)
  if (seen.kind === 'failure') return unavailable(seen.reason)
  if (isContract) verifier.identity.markContract(exact.from)
  const payerResult =
    payerCall || isContract ? await (payerCall ?? simulateAsPayer(verifier, parsed, transfer, at.signal)) : undefined
  if (payerResult && 'kind' in payerResult) return unavailable(payerResult.reason)
  const [balanceOf, state] = seen.results
  const transferResult = payerResult ? payerResult.transferResult : seen.results[2]
  if (isContract && !acceptsSignature(payerResult?.signatureResult)) {
    return refused(
      'PAYMENT_INVALID',
      'signature',
      `the account ${exact.from} has code and does not accept the signature (ERC-1271)`,
    )
  }
  const balance = uintIn(balanceOf)
  if (transferResult?.ok && balance !== undefined)
    return {
      kind: 'valid',
      balance: usdc(balance),
      asOf: at.now,
      ...(seen.block !== undefined && { block: seen.block }),
    }
  if (flagIn(state))
    return refused('PAYMENT_REPLAY', 'nonce_already_used', 'the authorization is used or canceled on chain')
  if (balance !== undefined && balance < exact.value) {
    return refused(
      'PAYMENT_UNFUNDED',
      'insufficient_balance',
      `the payer has ${balance} base units; the price is ${exact.value}`,
    )
  }
  return diagnose(verifier, parsed, { asset, time: seen.time, isContract }, at.signal)
}

/** Runs the payer's own code: whether it accepts the signature, and whether the token would then move the money. */
async function simulateAsPayer(
  verifier: ExactVerifier,
  { exact, digest }: ParsedPayment,
  transfer: ContractCall,
  signal: AbortSignal,
): Promise<{ transferResult: ContractResult; signatureResult: ContractResult } | RpcFailure> {
  const request = (call: ContractCall) =>
    verifier.reads.callContract(exact.from, call, { signal, from: verifier.relayer })
  const [transferResult, signatureResult] = await Promise.all([
    request(transfer),
    request({ to: exact.from, data: signatureCall(digest, exact.signature) }),
  ])
  if (transferResult.kind === 'failure') return transferResult
  return signatureResult.kind === 'failure' ? signatureResult : { transferResult, signatureResult }
}

/** Explains why a funded, unused authorization would revert. One more round trip, on this path only. */
async function diagnose(
  verifier: ExactVerifier,
  parsed: ParsedPayment,
  context: SimulationContext,
  signal: AbortSignal,
): Promise<Refused | Unavailable> {
  const { exact, digest, separator } = parsed
  const { asset, time, isContract } = context
  const signer = isContract ? exact.from : await recoverSigner(digest, exact.signature)
  if (signer !== exact.from) return refusedSignature(exact, signer)
  if (exact.validAfter >= BigInt(time)) {
    const text = `authorization.validAfter is ${exact.validAfter}; it must be before the chain's time, ${time}`
    return refused('PAYMENT_UNFUNDED', 'payload_authorization_valid_after', text)
  }
  const calls = [
    { to: asset, data: SEPARATOR_CALL },
    { to: asset, data: stateCall(exact.from, exact.nonce) },
  ]
  const token = await verifier.reads.view(calls, { lagSeconds: verifier.lagSeconds, signal })
  if (token.kind === 'failure') return unavailable(token.reason)
  const [separatorResult, state] = token.results
  if (flagIn(state) === undefined)
    return refused('PAYMENT_INVALID', 'eip3009_not_supported', `${asset} has no authorizationState()`)
  if (separatorResult?.ok && separatorResult.data !== separator) {
    return refused('PAYMENT_INVALID', 'token_name_mismatch', "the token's EIP-712 domain differs from the offer's")
  }
  return refused('PAYMENT_INVALID', 'transaction_simulation_failed', 'transferWithAuthorization would revert')
}
