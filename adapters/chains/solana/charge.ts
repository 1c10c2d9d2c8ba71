/**
 * The method `solana` of MPP (`draft-solana-charge-00`), pulled and with a fee payer of ours: the transaction of an
 * `exact` offer, with the memo that the challenge prescribes (decision 158). Without it two equal charges under one
 * blockhash would be one transaction, and a credential would answer any challenge of its price.
 */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex } from '@noble/hashes/utils'
import { fieldsOf, fromBase64 } from '../../../core/lib/mod.ts'
import {
  canonicalJson,
  type Challenge,
  type ChargeMethod,
  type Credential,
  decodeUrl,
  encodeUrl,
} from '../../../core/mpp/mod.ts'
import type { Offer } from '../../../core/x402/mod.ts'
import { SOLANA_NETWORKS } from './networks.ts'

/** Names of networks in challenges. Any other network is `localnet`, and `opaque` has its id. */
const CLUSTERS: Readonly<Record<string, string>> = {
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'mainnet-beta',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': 'devnet',
}
const LOCAL = 'localnet'
const USDC_DECIMALS = 6
/** The program of Circle's USDC. For another mint, clients ask their node. */
const TOKEN = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
/** Longest transaction in base64: 1,232 bytes. */
const TRANSACTION = /^[A-Za-z0-9+/]{1,1642}={0,2}$/

export const solanaCharge: ChargeMethod = {
  name: 'solana',
  isFor: ({ scheme, network, extra }) =>
    scheme === 'exact' && network.startsWith('solana:') && typeof extra?.feePayer === 'string',
  write(offer, unique) {
    const { before, after, opaque } = requestOf(offer)
    // `unique` is base64url, which JSON does not escape.
    return { request: encodeUrl(`${before}${unique}${after}`), ...opaque }
  },
  read({ challenge, payload: { type, transaction } }) {
    if (type !== 'transaction') return `/type: expected "transaction", which this gateway sends; got ${quoted(type)}`
    if (typeof transaction !== 'string' || !TRANSACTION.test(transaction))
      return '/transaction: expected a signed transaction in base64, of 1,232 bytes at most'
    const { externalId } = fieldsOf(decodeUrl(challenge.request))
    // The memo of the challenge, which the transaction has to write. Never empty: a challenge of ours has one.
    return { network: networkOf(challenge), extra: { memo: String(externalId) }, payload: { transaction } }
  },
  problem: () => undefined,
  isKey: (credential, key) => key.endsWith(`/${idOf(credential)}`),
  receipt: () => ({}),
}

type Written = { readonly before: string; readonly after: string; readonly opaque: { readonly opaque?: string } }
const requests = new WeakMap<Offer, Written>()

/** The common parts of the challenges of an offer: `opaque`, and the request around `externalId`. */
function requestOf(offer: Offer): Written {
  const known = requests.get(offer)
  if (known) return known
  const { network, amount, asset, payTo, extra: { feePayer, recentBlockhash } = {} } = offer
  const isUsdc = SOLANA_NETWORKS[network]?.usdc?.address === asset
  const methodDetails = {
    decimals: USDC_DECIMALS,
    feePayer: true,
    feePayerKey: feePayer,
    network: CLUSTERS[network] ?? LOCAL,
    ...(recentBlockhash !== undefined && { recentBlockhash }),
    ...(isUsdc && { tokenProgram: TOKEN }),
  }
  const request = canonicalJson({ amount, currency: asset, externalId: '', methodDetails, recipient: payTo })
  const at = request.indexOf(EXTERNAL_ID) + EXTERNAL_ID.length
  const opaque = network in CLUSTERS ? {} : { opaque: encodeUrl(canonicalJson({ network })) }
  const made = { before: request.slice(0, at), after: request.slice(at), opaque }
  requests.set(offer, made)
  return made
}
const EXTERNAL_ID = '"externalId":"'

function networkOf({ request, opaque = '' }: Challenge): string {
  const { network } = fieldsOf(fieldsOf(decodeUrl(request)).methodDetails)
  const known = Object.keys(CLUSTERS).find((name) => CLUSTERS[name] === network)
  return known ?? String(fieldsOf(decodeUrl(opaque)).network)
}

/** SHA-256 of the message of a transaction, after its signatures; '' for one that cannot be read. */
function idOf({ payload }: Credential): string {
  try {
    const bytes = fromBase64(String(payload.transaction))
    return bytesToHex(sha256(bytes.subarray(1 + 64 * (bytes[0] ?? 0))))
  } catch {
    return ''
  }
}

const quoted = (value: unknown): string => (JSON.stringify(value) ?? 'nothing').slice(0, 60)
