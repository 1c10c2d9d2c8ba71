import type { Identity, Refused, Unavailable } from '../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import {
  checksummed,
  digestOf,
  type Domain,
  domainSeparator,
  MAGIC,
  malformed,
  signatureCall,
  signerOf,
} from './payload.ts'
import type { Reads } from './reads.ts'
import { hasCode, type Rpc } from './rpc.ts'
import { type Exact, readExact, refused } from '../exact.ts'
import { type Hex, lower } from './hex.ts'
import { lruCache } from '../lru_cache.ts'

/** A payment that matches an offer, with the EIP-712 digest its payer had to sign. */
export type Read = { readonly exact: Exact; readonly digest: Hex; readonly separator: Hex }

export type EvmIdentity = {
  read(payment: Payment, offer: Offer): Read | Refused
  identify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Identity>
  /** Whether this address is known to have had code. Contracts keep it; an EIP-7702 delegation can be revoked. */
  hadCode(address: Hex): boolean
  foundCode(address: Hex): void
}

export type IdentityConfig = {
  readonly network: string
  readonly lagSeconds: number
  /** Runs `act` after this many milliseconds. Default: an unreferenced timer. */
  readonly later?: (act: () => void, ms: number) => void
}

const PLAIN_MS = 60_000
const ADDRESSES = 10_000

/** Identifies payers on one EVM chain. Asks the node only when the signature is not the account's own (ERC-1271). */
export function evmIdentity({ rpc, reads }: { rpc: Rpc; reads: Reads }, config: IdentityConfig): EvmIdentity {
  const { network, lagSeconds, later = soon } = config
  const chainId = chainIdOf(network)
  const separators = new Map<string, Hex>()
  /** Whether an address has code, as answered less than a minute ago or being asked now. */
  const plain = lruCache<Promise<boolean | undefined>>(ADDRESSES)
  const coded = lruCache<true>(ADDRESSES)
  let isForgetting = false

  function read(payment: Payment, offer: Offer): Read | Refused {
    const { extra } = offer
    if (offer.network !== network) {
      return refused(
        'PAYMENT_INVALID',
        'network_mismatch',
        `the offer is for ${offer.network}, this chain is ${network}`,
      )
    }
    if (typeof extra?.name !== 'string' || typeof extra.version !== 'string') {
      return refused('PAYMENT_INVALID', 'missing_eip712_domain', 'the offer has no extra.name and extra.version')
    }
    const exact = readExact(payment, offer)
    if (exact.kind === 'refused') return exact
    const separator = separatorOf({ name: extra.name, version: extra.version }, lower(offer.asset))
    return { exact, separator, digest: digestOf(exact, separator) }
  }

  /** Offers are our own, so there is one domain, or a few after configuration changes. */
  function separatorOf(domain: Domain, asset: Hex): Hex {
    const id = JSON.stringify([domain.name, domain.version, asset])
    const known = separators.get(id)
    if (known) return known
    const made = domainSeparator(domain, chainId, asset)
    if (separators.size < 100) separators.set(id, made)
    return made
  }

  async function identify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Identity> {
    const given = read(payment, offer)
    if ('kind' in given) return given
    const { exact, digest } = given
    const signer = await signerOf(digest, exact.signature)
    if (signer === exact.from) return known(exact)
    const asked = plain.get(exact.from)
    if (asked && (await inTime(asked, at.signal)) === false) return refusedSignature(exact, signer)
    const [isContract, seen] = await Promise.all([
      inTime(askCode(exact.from), at.signal),
      reads.view([], { lagSeconds, signal: at.signal }), // detects a node that is behind
    ])
    if (isContract === undefined) return unavailable(`the code of ${exact.from} cannot be read`)
    if (!isContract) return refusedSignature(exact, signer)
    if (seen.kind === 'trouble') return unavailable(seen.reason)
    const said = await reads.askContract(
      exact.from,
      { to: exact.from, data: signatureCall(digest, exact.signature) },
      { signal: at.signal },
    )
    if (said.kind === 'trouble') return unavailable(said.reason)
    if (isMagic(said)) return known(exact)
    return refused(
      'PAYMENT_INVALID',
      'signature',
      `the contract wallet ${exact.from} does not recognize the signature (ERC-1271)`,
    )
  }

  /**
   * Reads whether an address has code. Bad signatures are free to make, so a flood of them for one plain account costs
   * one question a minute. An account may gain code (EIP-7702) at any time, so only a refusal relies on this cache;
   * `verify` and `settle` ask for themselves.
   */
  async function askCode(address: Hex): Promise<boolean | undefined> {
    const asked = rpc.ask('eth_getCode', [address, 'latest']).then(hasCode)
    plain.set(address, asked)
    const isContract = await asked
    if (isContract !== false && plain.get(address) === asked) plain.delete(address)
    if (isContract) coded.set(address, true)
    if (isContract === false && !isForgetting) {
      isForgetting = true
      later(forget, PLAIN_MS)
    }
    return isContract
  }

  function forget(): void {
    isForgetting = false
    plain.clear()
  }

  return {
    read,
    identify,
    hadCode: (address) => coded.get(address) === true,
    foundCode: (address) => coded.set(address, true),
  }
}

export function unavailable(reason: string): Unavailable {
  return { kind: 'unavailable', reason }
}

/** Whether an ERC-1271 wallet accepted the signature. */
export function isMagic(result: { ok: boolean; data: Hex } | undefined): boolean {
  return result?.ok === true && result.data === `0x${MAGIC}`
}

/** Refuses a bad signature. ERC-6492 signatures end here too: counterfactual wallets have no code yet. */
export function refusedSignature(exact: Exact, signer: Hex | undefined): Refused {
  const { signature, from } = exact
  if (signature.endsWith('6492'.repeat(16))) {
    return refused(
      'PAYMENT_INVALID',
      'signature',
      'counterfactual wallets (ERC-6492) are not accepted; deploy the wallet first',
    )
  }
  const form = malformed(signature)
  if (form)
    return refused(
      'PAYMENT_INVALID',
      'signature',
      `${form}, and ${from} is not a deployed contract wallet; counterfactual wallets are not accepted`,
    )
  return refused(
    'PAYMENT_INVALID',
    'signature',
    `in the offered EIP-712 domain it was signed by ${signer ?? 'an unknown key'}, not by ${from}`,
  )
}

/** A timer that does not keep the process alive. */
function soon(act: () => void, ms: number): void {
  setTimeout(act, ms).unref?.()
}

/** Resolves with the answer, or with undefined when the signal aborts first. Other callers may share the answer. */
function inTime(answer: Promise<boolean | undefined>, signal: AbortSignal): Promise<boolean | undefined> {
  return new Promise((resolve) => {
    const stop = () => resolve(undefined)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    void answer.then((said) => {
      signal.removeEventListener('abort', stop)
      resolve(said)
    })
  })
}

/** Returns the chain id of a CAIP-2 network. Throws RangeError for anything else. */
export function chainIdOf(network: string): number {
  const digits = /^eip155:([1-9]\d{0,14})$/.exec(network)?.[1]
  if (!digits) throw new RangeError(`network must be eip155:<chain id>, got ${JSON.stringify(network.slice(0, 40))}`)
  return Number(digits)
}

function known(exact: Exact): Identity {
  return { kind: 'known', payer: checksummed(exact.from), key: exact.key, expiresAt: exact.expiresAt }
}
