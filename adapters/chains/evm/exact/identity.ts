import { type CallOptions, unavailable } from '../../lib/results.ts'
import { boundedMap, type BoundedMap, checksummed } from '../../../../core/lib/mod.ts'
import {
  chainIdOf,
  digestOf,
  type Domain,
  domainSeparator,
  recoverSigner,
  signatureProblem,
  textDigest,
} from './eip3009.ts'
import type { Chain, Identity, Proof, Refused, Unavailable } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import { ERC1271_MAGIC, signatureCall } from '../node/token.ts'
import type { Reads } from '../node/reads.ts'
import { hasCode, type Rpc } from '../../lib/json_rpc.ts'
import { type Exact, parseExact, refused } from './payload.ts'
import { type Hex, isHex, lower } from '../../lib/hex.ts'
import { turnLimiter } from '../../lib/turn_limiter.ts'

/** A payment that matches an offer, with the EIP-712 digest its payer had to sign. */
export type ParsedPayment = { readonly exact: Exact; readonly digest: Hex; readonly separator: Hex }

export type EvmIdentity = {
  parse(payment: Payment, offer: Offer): ParsedPayment | Refused
  identify(payment: Payment, offer: Offer, at: CallOptions): Promise<Identity>
  checkSignature: CheckSignature
  /** By EIP-191, or by the account's own check where it has code (ERC-1271). */
  hasSigned: NonNullable<Chain['hasSigned']>
  /** Whether this address is known to have had code. Contracts keep it; an EIP-7702 delegation can be revoked. */
  hadCode(address: Hex): boolean
  markContract(address: Hex): void
}

/**
 * Whether the account has signed the digest, with its own key or, where it has code, by ERC-1271. Asks the node only
 * when the signature is not of the account's own key.
 */
export type CheckSignature = (
  signed: { readonly account: Hex; readonly digest: Hex; readonly signature: Hex },
  at: CallOptions,
) => Promise<{ readonly kind: 'signed' } | { readonly kind: 'unsigned'; readonly problem: string } | Unavailable>

type IdentityConfig = {
  readonly network: string
  readonly lagSeconds: number
  /** Runs `act` after this many milliseconds. Default: an unreferenced timer. */
  readonly schedule?: (act: () => void, ms: number) => void
}

/** Signatures checked in one turn of the event loop, over all chains: about 5 ms. */
const signatureTurn = turnLimiter(4)

const PLAIN_TTL_MS = 60_000
const MAX_ADDRESSES = 10_000
/** Characters of a signed text: a challenge has about 600. */
const MAX_TEXT = 8_192

/** State of `evmIdentity`. */
type SignerParts = {
  readonly rpc: Rpc
  readonly reads: Reads
  readonly network: string
  readonly lagSeconds: number
  readonly schedule: (act: () => void, ms: number) => void
  readonly chainId: number
  readonly separators: Map<string, Hex>
  /** Whether an address has code, as answered less than a minute ago or being asked now. */
  readonly plainAccounts: BoundedMap<Promise<boolean | undefined>>
  readonly contractAccounts: BoundedMap<true>
  isClearScheduled: boolean
}

/** Identifies payers on one EVM chain. Asks the node only when the signature is not the account's own (ERC-1271). */
export function evmIdentity({ rpc, reads }: { rpc: Rpc; reads: Reads }, config: IdentityConfig): EvmIdentity {
  const { network, lagSeconds, schedule = unrefTimer } = config

  const plainAccounts = boundedMap<Promise<boolean | undefined>>(MAX_ADDRESSES)
  const contractAccounts = boundedMap<true>(MAX_ADDRESSES)
  const signers: SignerParts = {
    rpc,
    reads,
    network,
    lagSeconds,
    schedule,
    chainId: chainIdOf(network),
    separators: new Map<string, Hex>(),
    plainAccounts,
    contractAccounts,
    isClearScheduled: false,
  }
  return {
    parse: (...args) => parse(signers, ...args),
    identify: (...args) => identify(signers, ...args),
    checkSignature: (...args) => checkSignature(signers, ...args),
    hasSigned: (...args) => hasSigned(signers, ...args),
    hadCode: (address) => contractAccounts.get(address) === true,
    markContract: (address) => contractAccounts.set(address, true),
  }
}

/** Whether the account has signed the digest: by its key or, with code, by ERC-1271. */
async function checkSignature(
  signers: SignerParts,
  { account, digest, signature }: Parameters<CheckSignature>[0],
  { signal }: Parameters<CheckSignature>[1],
): ReturnType<CheckSignature> {
  const signer = await recoverSigner(digest, signature)
  if (signer === account) return { kind: 'signed' }
  const unsigned = { kind: 'unsigned', problem: signatureProblemOf({ signature, from: account }, signer) } as const
  const pending = signers.plainAccounts.get(account)
  if (pending && (await unlessAborted(pending, signal)) === false) return unsigned
  const [isContract, seen] = await Promise.all([
    unlessAborted(readCode(signers, account), signal),
    signers.reads.view([], { lagSeconds: signers.lagSeconds, signal }), // detects a node that is behind
  ])
  if (isContract === undefined) return unavailable(`the code of ${account} cannot be read`)
  if (!isContract) return unsigned
  if (seen.kind === 'failure') return unavailable(seen.reason)
  const call = { to: account, data: signatureCall(digest, signature) }
  const answer = await signers.reads.callContract(account, call, { signal })
  if (answer.kind === 'failure') return unavailable(answer.reason)
  if (acceptsSignature(answer)) return { kind: 'signed' }
  return { kind: 'unsigned', problem: `the contract wallet ${account} does not recognize the signature (ERC-1271)` }
}

function parse(signers: SignerParts, payment: Payment, offer: Offer): ParsedPayment | Refused {
  const { extra } = offer
  if (offer.network !== signers.network) {
    return refused(
      'PAYMENT_INVALID',
      'network_mismatch',
      `the offer is for ${offer.network}, this chain is ${signers.network}`,
    )
  }
  if (typeof extra?.name !== 'string' || typeof extra.version !== 'string') {
    return refused('PAYMENT_INVALID', 'missing_eip712_domain', 'the offer has no extra.name and extra.version')
  }
  const exact = parseExact(payment, offer)
  if (exact.kind === 'refused') return exact
  const separator = separatorOf(signers, { name: extra.name, version: extra.version }, lower(offer.asset))
  return { exact, separator, digest: digestOf(exact, separator) }
}

/** Offers are our own, so there is one domain, or a few after configuration changes. */
function separatorOf(signers: SignerParts, domain: Domain, asset: Hex): Hex {
  const id = JSON.stringify([domain.name, domain.version, asset])
  const cached = signers.separators.get(id)
  if (cached) return cached
  const separator = domainSeparator(domain, signers.chainId, asset)
  if (signers.separators.size < 100) signers.separators.set(id, separator)
  return separator
}

async function identify(signers: SignerParts, payment: Payment, offer: Offer, at: CallOptions): Promise<Identity> {
  await signatureTurn()
  const parsed = parse(signers, payment, offer)
  if ('kind' in parsed) return parsed
  const { exact, digest } = parsed
  const checked = await checkSignature(signers, { account: exact.from, digest, signature: exact.signature }, at)
  if (checked.kind === 'unsigned') return refused('PAYMENT_INVALID', 'signature', checked.problem)
  return checked.kind === 'signed' ? identified(exact) : checked
}

async function hasSigned(
  signers: SignerParts,
  { wallet, network: on, message, signature }: Proof & { readonly network: string },
  { signal }: { signal: AbortSignal },
): Promise<string | undefined> {
  if (on !== signers.network || !/^0x[0-9a-fA-F]{40}$/.test(wallet) || !isHex(signature) || message.length > MAX_TEXT)
    return undefined
  await signatureTurn()
  const address = lower(wallet as Hex)
  const digest = textDigest(message)
  if ((await recoverSigner(digest, lower(signature))) === address) return checksummed(address)
  const known = signers.plainAccounts.get(address)
  if ((await unlessAborted(known ?? readCode(signers, address), signal)) !== true) return undefined
  const call = { to: address, data: signatureCall(digest, lower(signature)) }
  const answer = await signers.reads.callContract(address, call, { signal })
  return answer.kind !== 'failure' && acceptsSignature(answer) ? checksummed(address) : undefined
}

/**
 * Reads whether an address has code. Bad signatures are free to make, so a flood of them for one plain account costs
 * one question a minute. An account may gain code (EIP-7702) at any time, so only a refusal relies on this cache;
 * `verify` and `settle` ask for themselves.
 */
async function readCode(signers: SignerParts, address: Hex): Promise<boolean | undefined> {
  const pending = signers.rpc.request('eth_getCode', [address, 'latest']).then(hasCode)
  signers.plainAccounts.set(address, pending)
  const isContract = await pending
  if (isContract !== false && signers.plainAccounts.get(address) === pending) signers.plainAccounts.delete(address)
  if (isContract) signers.contractAccounts.set(address, true)
  if (isContract === false && !signers.isClearScheduled) {
    signers.isClearScheduled = true
    signers.schedule(() => clearPlainAccounts(signers), PLAIN_TTL_MS)
  }
  return isContract
}

function clearPlainAccounts(signers: SignerParts): void {
  signers.isClearScheduled = false
  signers.plainAccounts.clear()
}

/** Whether an ERC-1271 wallet accepted the signature. */
export function acceptsSignature(result: { ok: boolean; data: Hex } | undefined): boolean {
  return result?.ok === true && result.data === `0x${ERC1271_MAGIC}`
}

/** Refuses a bad signature. ERC-6492 signatures end here too: counterfactual wallets have no code yet. */
export const refusedSignature = (exact: Exact, signer: Hex | undefined): Refused =>
  refused('PAYMENT_INVALID', 'signature', signatureProblemOf(exact, signer))

function signatureProblemOf({ signature, from }: Pick<Exact, 'signature' | 'from'>, signer: Hex | undefined): string {
  if (signature.endsWith('6492'.repeat(16)))
    return 'counterfactual wallets (ERC-6492) are not accepted; deploy the wallet first'
  const problem = signatureProblem(signature)
  if (problem)
    return `${problem}, and ${from} is not a deployed contract wallet; counterfactual wallets are not accepted`
  return `in the offered EIP-712 domain it was signed by ${signer ?? 'an unknown key'}, not by ${from}`
}

/** A timer that does not keep the process alive. */
function unrefTimer(act: () => void, ms: number): void {
  setTimeout(act, ms).unref?.()
}

/** Resolves with the answer, or with undefined when the signal aborts first. Other callers may share the answer. */
function unlessAborted(answer: Promise<boolean | undefined>, signal: AbortSignal): Promise<boolean | undefined> {
  return new Promise((resolve) => {
    const onAbort = () => resolve(undefined)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    void answer.then((value) => {
      signal.removeEventListener('abort', onAbort)
      resolve(value)
    })
  })
}

function identified(exact: Exact): Identity {
  return { kind: 'known', payer: checksummed(exact.from), key: exact.key, expiresAt: exact.expiresAt }
}
