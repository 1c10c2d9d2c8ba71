/** The JSON-RPC methods of a Solana node over a ledger, with the results, codes and messages of public nodes. */
import type { Address } from '@solana/kit'
import { TOKEN_PROGRAM_ADDRESS } from '@solana-program/token'
import { invalidParams, RpcError, messageOf } from './errors.ts'
import { BLOCKHASH_LIFE, type Commitment, type Landed, SLOTS_PER_EPOCH, type SolanaLedger } from './ledger.ts'
import { addressOf, bytesOf, configOf, encodingOf, listOf, parsedFrom, signatureOf, unsigned } from './params.ts'
import { mintOf, tokenOf } from './tokens.ts'
import type { Outcome, Parsed } from './transaction.ts'
import { accountView, amountView, innerView, memoOf, returnView, transactionView } from './views.ts'

/** The genesis hash of Solana's devnet, which clients check. */
const GENESIS_HASH = 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG'
const VERSION = { 'solana-core': '3.0.10', 'feature-set': 3_604_001_754 }
/** Slots after which a status is found only with `searchTransactionHistory`. */
const STATUS_CACHE_SLOTS = 300
const HEALTHY_DISTANCE = 128
const FEE_PER_SIGNATURE = 5_000n
const COMPUTE_BUDGET = 'ComputeBudget111111111111111111111111111111'

type RpcActions = {
  /** Receives an accepted transaction. */
  submit(parsed: Parsed): void
  /** Transfers lamports and resolves with the signature. */
  airdrop(to: Address, lamports: bigint): Promise<string>
}

type Params = readonly unknown[]
export type SolanaRpc = (method: string, params: Params) => Promise<unknown>

type RpcState = { readonly ledger: SolanaLedger; readonly actions: RpcActions }

const METHODS: Readonly<Record<string, (rpc: RpcState, params: Params) => unknown>> = {
  getHealth({ ledger }) {
    const distance = behind(ledger)
    if (distance > HEALTHY_DISTANCE)
      throw new RpcError(-32005, `Node is behind by ${distance} slots`, { numSlotsBehind: distance })
    return 'ok'
  },
  getVersion: () => VERSION,
  getGenesisHash: () => GENESIS_HASH,
  getSlot: ({ ledger }, [config]) => slotOf(ledger, config),
  getBlockHeight: ({ ledger }, [config]) => ledger.heightOf(slotOf(ledger, config)),
  getBlockTime({ ledger }, [slot]) {
    if (Number(slot) > ledger.slotOf('processed')) throw new RpcError(-32004, `Block not available for slot ${slot}`)
    return secondsOf(ledger, Number(slot))
  },
  getEpochInfo({ ledger }, [config]) {
    const slot = slotOf(ledger, config)
    const [epoch, slotIndex] = [Math.floor(slot / SLOTS_PER_EPOCH), slot % SLOTS_PER_EPOCH]
    return {
      absoluteSlot: slot,
      blockHeight: ledger.heightOf(slot),
      epoch,
      slotIndex,
      slotsInEpoch: SLOTS_PER_EPOCH,
      transactionCount: ledger.history().length,
    }
  },
  getLatestBlockhash({ ledger }, [config]) {
    const slot = slotOf(ledger, config)
    return inContext(slot, lifetimeAt(ledger, slot))
  },
  isBlockhashValid({ ledger }, [blockhash, config]) {
    const slot = slotOf(ledger, config)
    // as long as an address, and spelled alike
    return inContext(slot, ledger.slotOfBlockhash(addressOf(blockhash), slot) !== undefined)
  },
  getMinimumBalanceForRentExemption: ({ ledger }, [bytes]) => Number(ledger.rentFor(Number(bytes))),
  getRecentPrioritizationFees({ ledger }) {
    const slot = ledger.slotOf('processed')
    return Array.from({ length: BLOCKHASH_LIFE }, (_, i) => ({
      slot: slot - BLOCKHASH_LIFE + 1 + i,
      prioritizationFee: 0,
    }))
  },
  getFeeForMessage({ ledger }, [message, config]) {
    const slot = slotOf(ledger, config)
    const parsed = parsedFrom(unsigned(bytesOf(message, 'base64')), 'VersionedMessage')
    const isAlive = ledger.slotOfBlockhash(parsed.message.blockhash, slot) !== undefined
    return inContext(slot, isAlive ? Number(feeOf(parsed)) : null)
  },

  getAccountInfo({ ledger }, [address, config]) {
    const slot = slotOf(ledger, config)
    return inContext(slot, accountView(ledger.account(addressOf(address), slot), configOf(config)))
  },
  getMultipleAccounts({ ledger }, [addresses, config]) {
    const slot = slotOf(ledger, config)
    const found = listOf(addresses, 100).map((address) => ledger.account(addressOf(address), slot))
    return inContext(
      slot,
      found.map((account) => accountView(account, configOf(config))),
    )
  },
  getBalance({ ledger }, [address, config]) {
    const slot = slotOf(ledger, config)
    return inContext(slot, Number(ledger.account(addressOf(address), slot)?.lamports ?? 0n))
  },
  getTokenAccountBalance({ ledger }, [address, config]) {
    const slot = slotOf(ledger, config)
    const account = ledger.account(addressOf(address), slot)
    if (!account) throw invalidParams('Invalid param: could not find account')
    const token = tokenOf(account)
    if (!token) throw invalidParams('Invalid param: not a Token account')
    return inContext(slot, amountView(token.amount))
  },
  getTokenSupply({ ledger }, [address, config]) {
    const slot = slotOf(ledger, config)
    const mint = mintOf(ledger.account(addressOf(address), slot))
    if (!mint) throw invalidParams('Invalid param: could not find mint')
    return inContext(slot, amountView(mint.supply))
  },
  getTokenAccountsByOwner({ ledger }, [owner, filter, config]) {
    const slot = slotOf(ledger, config)
    const { mint, programId } = (filter ?? {}) as { mint?: string; programId?: string }
    const [whose, program] = [addressOf(owner), addressOf(programId ?? TOKEN_PROGRAM_ADDRESS)]
    const all = ledger.accountsOf(program, slot).filter((account) => {
      const token = tokenOf(account)
      return token?.owner === whose && (mint === undefined || token.mint === mint)
    })
    return inContext(
      slot,
      all.map((account) => ({ pubkey: account.address, account: accountView(account, configOf(config)) })),
    )
  },

  getSignatureStatuses({ ledger }, [signatures, config]) {
    const slot = ledger.slotOf('processed')
    const isSearching = configOf(config)['searchTransactionHistory'] === true
    const isKnown = (landed: Landed) => isSearching || landed.slot > slot - STATUS_CACHE_SLOTS
    const found = listOf(signatures, 256).map((signature) => ledger.find(signatureOf(signature)))
    return inContext(
      slot,
      found.map((landed) => (landed && isKnown(landed) ? statusView(ledger, landed) : null)),
    )
  },
  getSignaturesForAddress({ ledger }, [address, config]) {
    const slot = blockSlotOf(ledger, config)
    const { limit = 1000, before, until } = configOf(config) as { limit?: number; before?: string; until?: string }
    const all = ledger
      .history()
      .filter((landed) => landed.slot <= slot && landed.message.keys.includes(addressOf(address)))
    const from = before === undefined ? 0 : all.findIndex(({ signature }) => signature === before) + 1
    const to = until === undefined ? -1 : all.findIndex(({ signature }) => signature === until)
    return all
      .slice(from, to < 0 ? undefined : to)
      .slice(0, limit)
      .map((each) => signatureView(ledger, each))
  },
  getTransaction({ ledger }, [signature, config]) {
    const slot = blockSlotOf(ledger, config)
    const landed = ledger.find(signatureOf(signature))
    if (!landed || landed.slot > slot) return null
    const { maxSupportedTransactionVersion } = configOf(config)
    if (landed.message.version !== 'legacy' && maxSupportedTransactionVersion === undefined)
      throw new RpcError(-32015, OLD_CLIENT)
    return transactionView(landed, { encoding: encodingOf(config, 'json'), blockTime: secondsOf(ledger, landed.slot) })
  },

  simulateTransaction({ ledger }, [wire, config]) {
    const slot = slotOf(ledger, config)
    const {
      sigVerify = false,
      replaceRecentBlockhash: isRenewed = false,
      innerInstructions = false,
      accounts,
    } = configOf(config) as Simulation
    if (sigVerify && isRenewed) throw invalidParams('sigVerify may not be used with replaceRecentBlockhash')
    const outcome = ledger.simulate(parsedFrom(bytesOf(wire, encodingOf(config, 'base58'))), {
      slot,
      sigVerify,
      isRenewed,
    })
    if (outcome.err === 'SignatureFailure') throw badSignature()
    const wanted =
      accounts && outcome.err === null
        ? accounts.addresses.map((address) => outcome.accounts.find((account) => account.address === address))
        : undefined
    return inContext(slot, {
      ...simulationView(outcome),
      accounts: wanted?.map((account) => accountView(account, { encoding: accounts?.encoding ?? 'base64' })) ?? null,
      innerInstructions: innerInstructions ? innerView(outcome.inner) : null,
      replacementBlockhash: isRenewed ? lifetimeAt(ledger, slot) : null,
    })
  },
  sendTransaction({ ledger, actions }, [wire, config]) {
    const { skipPreflight = false, preflightCommitment: commitment = 'finalized' } = configOf(config) as {
      skipPreflight?: boolean
      preflightCommitment?: Commitment
    }
    const parsed = parsedFrom(bytesOf(wire, encodingOf(config, 'base58')))
    if (!skipPreflight) preflight(ledger, parsed, slotOf(ledger, { ...configOf(config), commitment }))
    actions.submit(parsed)
    return parsed.signature
  },
  requestAirdrop: ({ actions }, [to, lamports]) => actions.airdrop(addressOf(to), BigInt(Number(lamports))),
}

/** Answers one call, or throws an RpcError. */
export function solanaRpc(ledger: SolanaLedger, actions: RpcActions): SolanaRpc {
  const rpc: RpcState = { ledger, actions }
  return async (method, params) => {
    const answer = Object.hasOwn(METHODS, method) ? METHODS[method] : undefined
    if (!answer) throw new RpcError(-32601, 'Method not found')
    return await answer(rpc, params)
  }
}

/** The slot for the caller's commitment; by default finalized, as everywhere on Solana. */
function slotOf(ledger: SolanaLedger, config: unknown): number {
  const { commitment = 'finalized', minContextSlot = 0 } = configOf(config)
  if (!COMMITMENTS.includes(commitment))
    throw invalidParams(`Invalid params: unknown variant \`${commitment}\`, expected one of ${COMMITMENTS.join(', ')}.`)
  const slot = ledger.slotOf(commitment)
  if (slot < minContextSlot)
    throw new RpcError(-32016, 'Minimum context slot has not been reached', { contextSlot: slot })
  return slot
}

function blockSlotOf(ledger: SolanaLedger, config: unknown): number {
  if (configOf(config).commitment === 'processed')
    throw invalidParams('Method does not support commitment below `confirmed`')
  return slotOf(ledger, config)
}

function behind(ledger: SolanaLedger): number {
  return ledger.tip() - ledger.slotOf('processed')
}

function secondsOf(ledger: SolanaLedger, slot: number): number {
  return Math.floor(ledger.timeOf(slot) / 1000)
}

function lifetimeAt(ledger: SolanaLedger, slot: number) {
  return { blockhash: ledger.blockhashOf(slot), lastValidBlockHeight: ledger.heightOf(slot) + BLOCKHASH_LIFE }
}

function preflight(ledger: SolanaLedger, parsed: Parsed, slot: number): void {
  const outcome = ledger.simulate(parsed, { slot, sigVerify: true })
  if (outcome.err === null) return
  if (outcome.err === 'SignatureFailure') throw badSignature()
  const data = { ...simulationView(outcome), accounts: null, innerInstructions: null, replacementBlockhash: null }
  throw new RpcError(-32002, `Transaction simulation failed: ${messageOf(outcome.err)}`, data)
}

function commitmentOf(ledger: SolanaLedger, { slot }: Landed): Commitment {
  if (slot <= ledger.slotOf('finalized')) return 'finalized'
  return slot <= ledger.slotOf('confirmed') ? 'confirmed' : 'processed'
}

function statusView(ledger: SolanaLedger, landed: Landed): object {
  const { err, slot } = landed
  const confirmationStatus = commitmentOf(ledger, landed)
  const confirmations = confirmationStatus === 'finalized' ? null : ledger.slotOf('processed') - slot
  return { slot, confirmations, err, status: err === null ? { Ok: null } : { Err: err }, confirmationStatus }
}

function signatureView(ledger: SolanaLedger, landed: Landed): object {
  const { signature, slot, err } = landed
  return {
    signature,
    slot,
    err,
    memo: memoOf(landed),
    blockTime: secondsOf(ledger, slot),
    confirmationStatus: commitmentOf(ledger, landed),
  }
}

type Simulation = {
  readonly sigVerify?: boolean
  readonly replaceRecentBlockhash?: boolean
  readonly innerInstructions?: boolean
  readonly accounts?: { readonly addresses: readonly string[]; readonly encoding?: string }
}

const COMMITMENTS: readonly unknown[] = ['processed', 'confirmed', 'finalized']
const OLD_CLIENT =
  'Transaction version (0) is not supported by the requesting client. Please try the request again with the following configuration parameter: "maxSupportedTransactionVersion": 0'

const badSignature = (): RpcError => new RpcError(-32003, 'Transaction signature verification failure')

function inContext(slot: number, value: unknown) {
  return { context: { slot, apiVersion: VERSION['solana-core'] }, value }
}

function simulationView(outcome: Outcome): object {
  const { err, logs, unitsConsumed } = outcome
  return { err, logs, unitsConsumed, returnData: returnView(outcome).returnData ?? null }
}

/**
 * 5,000 lamports per signature, plus the bid for the requested compute units: by default 3,000 per budget instruction
 * and 200,000 per other instruction.
 */
function feeOf({ message }: Parsed): bigint {
  let limit: bigint | undefined
  let [assumed, price] = [0n, 0n]
  for (const { programIdIndex, data } of message.instructions) {
    const isBudget = message.keys[programIdIndex] === COMPUTE_BUDGET
    assumed += isBudget ? 3_000n : 200_000n
    const view = Buffer.from(data)
    if (isBudget && view[0] === 2) limit = BigInt(view.readUInt32LE(1))
    if (isBudget && view[0] === 3) price = view.readBigUInt64LE(1)
  }
  const bid = ((limit ?? assumed) * price + 999_999n) / 1_000_000n
  return FEE_PER_SIGNATURE * BigInt(message.header.numSignerAccounts) + bid
}
