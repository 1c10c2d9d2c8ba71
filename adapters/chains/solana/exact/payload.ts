/**
 * Scheme `exact` on Solana: which transactions pay an offer, decided by their bytes alone, in the order of decision 68.
 */
import { findAssociatedTokenPda } from '@solana-program/token'
import { type Address, address } from '@solana/kit'
import { type Offer, parseAtomic, type Payment } from '../../../../core/x402/mod.ts'
import type { PaymentCode, Refused } from '../../../../core/ports/mod.ts'
import { boundedMap } from '../../../../core/lib/mod.ts'
import { isSignedBy } from '../node/keys.ts'
import { TOKEN, TOKEN_2022 } from '../node/reads.ts'
import { parseAddress, type Instruction, parseTransaction, type SolanaTransaction } from '../node/transaction.ts'

const COMPUTE_BUDGET = address('ComputeBudget111111111111111111111111111111')
const MEMO = address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
const LIGHTHOUSE = address('L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95')

/** Limits of what one payment may cost its fee payer. */
export type FeeLimits = {
  readonly maxComputeUnits: number
  /** In microlamports per compute unit. */
  readonly maxComputeUnitPrice: number
  readonly maxSignatures: number
  /** The whole fee in lamports: 5,000 per signature plus the compute units at their price. */
  readonly maxFeeLamports: number
  /** The most that the compute units may cost for each whole unit of the price, in lamports. */
  readonly priorityLamportsPerToken: number
}

/** The limit on the priority fee of a payment is at least this, in lamports. Public clients offer one. */
const LEAST_PRIORITY = 1_000n

/**
 * Wallets that add guard instructions ask for about 100,000 units, and some clients vary the unit price to make each
 * payment unique; nobody needs both at once. 100,000 lamports are 0.0001 SOL.
 */
export const DEFAULT_FEE_LIMITS: FeeLimits = {
  maxComputeUnits: 200_000,
  maxComputeUnitPrice: 5_000_000,
  maxSignatures: 2,
  maxFeeLamports: 100_000,
  priorityLamportsPerToken: 500_000,
}

/** One TransferChecked and the transaction that contains it. */
export type SolanaExact = {
  readonly kind: 'exact'
  readonly tx: SolanaTransaction
  /** Unique on its chain. */
  readonly key: string
  readonly feePayer: Address
  /** The authority of the transfer, which signed it. */
  readonly payer: Address
  readonly program: Address
  readonly source: Address
  readonly mint: Address
  readonly destination: Address
  readonly amount: bigint
  /** Memos that it writes on chain, by which it can be found there. */
  readonly memos: readonly Uint8Array[]
}

type CheckPaymentOptions = {
  readonly network: string
  /** Accounts that may pay the fee, and may appear nowhere else. */
  readonly feePayers: readonly Address[]
  /** Without caps, only signer, recipient and asset are checked: neither the amount nor the fee. */
  readonly limits?: FeeLimits
}

/** Returns the transfer in a payment, or the first rule it breaks. Makes no calls and never rejects. */
export async function checkPayment(
  payment: Payment,
  offer: Offer,
  { network, feePayers, limits }: CheckPaymentOptions,
): Promise<SolanaExact | Refused> {
  const { accepted, payload } = payment
  if (accepted.scheme !== offer.scheme)
    return mismatch('unsupported_scheme', 'accepted.scheme', accepted.scheme, offer.scheme)
  if (accepted.network !== offer.network)
    return mismatch('network_mismatch', 'accepted.network', accepted.network, offer.network)
  if (offer.network !== network)
    return invalid('network_mismatch', `the offer is for ${offer.network}, this chain is ${network}`)
  if (accepted.asset !== offer.asset)
    return mismatch('payload_mint_mismatch', 'accepted.asset', accepted.asset, offer.asset)
  const { feePayer: offered } = offer.extra ?? {}
  const isCharge = typeof accepted.extra?.memo === 'string'
  if (typeof offered !== 'string') return invalid('payload_missing_fee_payer', 'the offer has no extra.feePayer')
  if (!isOneOf(feePayers, offered))
    return invalid('fee_payer_not_managed_by_facilitator', `the fee payer ${offered} is no longer used here`)

  const tx = parseTransaction(payload.transaction)
  if (typeof tx === 'string') return invalid('payload_transaction_could_not_be_decoded', tx)
  const { signatures, accounts, instructions, message, id } = tx
  if (limits && signatures.length > limits.maxSignatures) {
    return invalid(
      'payload_excessive_signers',
      `it needs ${signatures.length} signatures; at most ${limits.maxSignatures} are allowed`,
    )
  }
  const [feePayer, ...signers] = accounts.slice(0, signatures.length) as [Address, ...Address[]]
  if (!isOneOf(feePayers, feePayer)) return mismatch('fee_payer_mismatch', 'its fee payer', feePayer, offered)
  const signed = await Promise.all(
    signers.map((signer, i) => isSignedBy(signer, signatures[i + 1] as Uint8Array, message)),
  )
  const missing = signers[signed.indexOf(false)]
  if (missing) return invalid('payload_signature_invalid', `the signature of ${missing} is not valid for this message`)

  const refusal =
    limits &&
    (checkCount(instructions) ??
      checkCompute(isCharge ? computeBudget(instructions) : instructions, {
        signatures: signatures.length,
        limits,
        offer,
      }))
  if (refusal) return refusal
  const transfer = parseTransfer(instructions[2])
  if (!transfer)
    return invalid(
      'payload_no_transfer_instruction',
      'its third instruction must be a TransferChecked by Token or Token-2022 with a single owner',
    )
  const { payer, program, source, mint, destination, amount } = transfer
  if (isOneOf(feePayers, payer)) return feePayerMisused('it is the authority of the transfer')
  if (!signers.includes(payer))
    return invalid('payload_signature_invalid', `the authority ${payer} of the transfer has not signed`)
  const misuseIndex =
    limits &&
    instructions.findIndex((instruction) => instruction.accounts.some((account) => isOneOf(feePayers, account)))
  if (misuseIndex !== undefined && misuseIndex >= 0) return feePayerMisused(`instruction ${misuseIndex + 1} uses it`)
  if (mint !== offer.asset) return mismatch('payload_mint_mismatch', 'the mint of the transfer', mint, offer.asset)
  const payTo = parseAddress(offer.payTo) && (await tokenAccount(offer.payTo, mint, program))
  if (destination !== payTo)
    return mismatch(
      'payload_recipient_mismatch',
      'the destination of the transfer',
      destination,
      `${payTo}, the token account of ${offer.payTo}`,
    )
  const exact: SolanaExact = {
    kind: 'exact',
    tx,
    key: `${network}/${id}`,
    feePayer,
    payer,
    program,
    source,
    mint,
    destination,
    amount,
    memos: memosOf(instructions),
  }
  // A credential of MPP answers its challenge by this memo alone, whatever it is sent for.
  const isOther = checkMemo(instructions, accepted.extra?.memo)
  if (isOther) return isOther
  if (!limits) return exact

  if (amount !== parseAtomic(offer.amount))
    return invalid(
      'payload_amount_mismatch',
      `the transfer is of ${amount} base units; the price is exactly ${offer.amount}`,
    )
  if (source !== (await tokenAccount(payer, mint, program)))
    return invalid(
      'payload_source_mismatch',
      `the source of the transfer is ${source}; it must be the associated token account of ${payer}`,
    )
  if (source === destination) return invalid('payload_recipient_mismatch', 'the payer is the recipient')
  return checkRest(instructions.slice(3)) ?? checkMemo(instructions, offer.extra?.memo) ?? exact
}

function checkCount({ length }: readonly Instruction[]): Refused | undefined {
  if (length >= 3 && length <= 7) return undefined
  return invalid('payload_transaction_instructions_length', `it has ${length} instructions; it must have 3 to 7`)
}

/** Compute limit and price must come first, which excludes a durable nonce: with one the payment would never expire. */
function checkCompute(
  [limit, price]: readonly (Instruction | undefined)[],
  { signatures, limits, offer }: { readonly signatures: number; readonly limits: FeeLimits; readonly offer: Offer },
): Refused | undefined {
  const errorCode = 'payload_transaction_instructions_compute'
  const units = computeBudgetValue(limit, 0x02, 4)
  if (units === undefined)
    return invalid(`${errorCode}_limit_instruction`, 'its first instruction must be SetComputeUnitLimit')
  if (units > limits.maxComputeUnits)
    return invalid(
      `${errorCode}_limit_instruction_too_high`,
      `it requests ${units} compute units; at most ${limits.maxComputeUnits} are allowed`,
    )
  const unitPrice = computeBudgetValue(price, 0x03, 8)
  if (unitPrice === undefined)
    return invalid(`${errorCode}_price_instruction`, 'its second instruction must be SetComputeUnitPrice')
  const tooHigh = `${errorCode}_price_instruction_too_high`
  if (unitPrice > limits.maxComputeUnitPrice)
    return invalid(
      tooHigh,
      `it offers ${unitPrice} microlamports for a compute unit; at most ${limits.maxComputeUnitPrice} are allowed`,
    )
  const fee = computeFee({ units, unitPrice, signatures })
  if (fee > limits.maxFeeLamports)
    return invalid(tooHigh, `it would cost its fee payer ${fee} lamports; at most ${limits.maxFeeLamports} are allowed`)
  const [priority, most] = [fee - computeFee({ units, unitPrice: 0n, signatures }), priorityFor(offer, limits)]
  if (priority <= most) return undefined
  const text = `its compute units would cost ${priority} lamports; for a price of ${offer.amount} base units at most ${most} are allowed`
  return invalid(tooHigh, text)
}

/** The buyer sets the priority fee and the seller pays it, so it is tied to the price. */
function priorityFor({ amount }: Offer, { priorityLamportsPerToken }: FeeLimits): bigint {
  const most = ((parseAtomic(amount) ?? 0n) * BigInt(priorityLamportsPerToken)) / 1_000_000n
  return most > LEAST_PRIORITY ? most : LEAST_PRIORITY
}

/** The instructions for limit and price, in this order: clients of MPP write the price first. */
const computeBudget = ([first, second]: readonly Instruction[]): readonly (Instruction | undefined)[] =>
  computeBudgetValue(first, 0x03, 8) === undefined ? [first, second] : [second, first]

/** The fee of a payment in lamports: 5,000 per signature plus the compute units at their price. */
export function feeOf({ instructions, signatures }: SolanaTransaction): number {
  const [limit, price] = computeBudget(instructions)
  return Number(
    computeFee({
      units: computeBudgetValue(limit, 0x02, 4) ?? 0n,
      unitPrice: computeBudgetValue(price, 0x03, 8) ?? 0n,
      signatures: signatures.length,
    }),
  )
}

function computeFee({
  units,
  unitPrice,
  signatures,
}: {
  units: bigint
  unitPrice: bigint
  signatures: number
}): bigint {
  return 5_000n * BigInt(signatures) + (units * unitPrice + 999_999n) / 1_000_000n
}

/** The number after the byte that selects a ComputeBudget instruction; undefined for any other instruction. */
function computeBudgetValue(instruction: Instruction | undefined, which: number, bytes: number): bigint | undefined {
  if (instruction?.program !== COMPUTE_BUDGET) return undefined
  const { data } = instruction
  return data.length === 1 + bytes && data[0] === which ? littleEndian(data.subarray(1)) : undefined
}

type Transfer = Pick<SolanaExact, 'payer' | 'program' | 'source' | 'mint' | 'destination' | 'amount'>

/** Parses a plain transfer. More than four accounts mean a multisig or a transfer hook, which are not accepted. */
function parseTransfer(instruction: Instruction | undefined): Transfer | undefined {
  if (!instruction || !isOneOf([TOKEN, TOKEN_2022], instruction.program)) return undefined
  const { program, data, accounts } = instruction
  const [source, mint, destination, payer, ...others] = accounts
  if (!source || !mint || !destination || !payer || others.length > 0 || data.length !== 10 || data[0] !== 12)
    return undefined
  return { program, source, mint, destination, payer, amount: littleEndian(data.subarray(1, 9)) }
}

const memosOf = (instructions: readonly Instruction[]) =>
  instructions.filter(({ program }) => program === MEMO).map(({ data }) => data)

/** A memo as the chain has it: a byte order mark is part of it. */
export const memoText = (memo: Uint8Array): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(memo)

const NTH = ['fourth', 'fifth', 'sixth', 'seventh']

/** After the transfer only Lighthouse guards and memos may follow. */
function checkRest(rest: readonly Instruction[]): Refused | undefined {
  const unknownIndex = rest.findIndex(({ program }) => program !== LIGHTHOUSE && program !== MEMO)
  if (unknownIndex < 0) return undefined
  return invalid(
    `payload_unknown_${NTH[unknownIndex]}_instruction`,
    `it calls ${rest[unknownIndex]?.program}; only Lighthouse and Memo may follow the transfer`,
  )
}

/** Where a memo is prescribed, exactly that one. */
function checkMemo(instructions: readonly Instruction[], memo: unknown): Refused | undefined {
  if (typeof memo !== 'string' || memo === '') return undefined
  const [first, ...more] = memosOf(instructions)
  if (!first || more.length > 0)
    return invalid('payload_memo_count', `it has ${first ? 1 + more.length : 0} memos; the offer requires one`)
  if (memoText(first) === memo) return undefined
  return invalid('payload_memo_mismatch', 'its memo differs from the one that is prescribed')
}

// ── shared steps ────────────────────────────────────────────────────────────────────────────────────────────────────

const tokenAccounts = boundedMap<Promise<Address>>(10_000)

/** The associated token account of a wallet, whether or not it exists. */
export function tokenAccount(owner: string, mint: Address, tokenProgram: Address): Promise<Address> {
  const name = `${owner}/${mint}/${tokenProgram}`
  const known = tokenAccounts.get(name)
  if (known) return known
  const found = findAssociatedTokenPda({ owner: owner as Address, mint, tokenProgram }).then(([account]) => account)
  tokenAccounts.set(name, found)
  return found
}

function littleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n)
}

function isOneOf(addresses: readonly Address[], one: string): boolean {
  return (addresses as readonly string[]).includes(one)
}

/** A refusal whose reason starts with the protocol's error code (decision 68). */
export function refused(code: PaymentCode, errorCode: string, detail: string): Refused {
  return { kind: 'refused', code, reason: `invalid_exact_svm_${errorCode}: ${detail}` }
}

const invalid = (errorCode: string, detail: string): Refused => refused('PAYMENT_INVALID', errorCode, detail)

function mismatch(errorCode: string, what: string, actual: string, expected: string): Refused {
  return invalid(errorCode, `${what} is ${JSON.stringify(actual.slice(0, 80))}; it must be ${expected}`)
}

function feePayerMisused(how: string): Refused {
  return invalid('payload_transaction_fee_payer_transferring_funds', `the fee payer may only pay the fee, but ${how}`)
}
