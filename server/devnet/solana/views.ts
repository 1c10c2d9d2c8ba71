/** Serializes accounts, transactions and their outcomes as Solana's nodes do. */
import { type Address, type EncodedAccount, getBase58Decoder } from '@solana/kit'
import { AccountState, type Token, TOKEN_PROGRAM_ADDRESS } from '@solana-program/token'
import { invalidParams, RpcError } from './errors.ts'
import type { Landed } from './ledger.ts'
import { DECIMALS, type Holding, MEMO_PROGRAM, mintOf, tokenOf } from './tokens.ts'
import type { Inner, Instruction, Message, Outcome } from './transaction.ts'

type AccountViewOptions = {
  readonly encoding?: string | undefined
  readonly dataSlice?: { readonly offset: number; readonly length: number } | undefined
}

const base58 = (bytes: Uint8Array): string => getBase58Decoder().decode(bytes)
export const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')

export function accountView(
  account: EncodedAccount | undefined,
  { encoding = 'base58', dataSlice }: AccountViewOptions,
): object | null {
  if (!account) return null
  const { executable, lamports, programAddress } = account
  return {
    data: dataView(),
    executable,
    lamports: Number(lamports),
    owner: programAddress,
    rentEpoch: LAST_EPOCH,
    space: account.data.length,
  }

  function dataView(): unknown {
    const parsed = encoding === 'jsonParsed' && account ? parsedView(account) : undefined
    if (parsed) return parsed
    const bytes =
      account?.data.slice(dataSlice?.offset ?? 0, dataSlice && dataSlice.offset + dataSlice.length) ?? new Uint8Array()
    if (encoding === 'base58' && bytes.length > MAX_BASE58) throw new RpcError(-32600, LONG_BASE58)
    if (encoding === 'base58') return [base58(bytes), 'base58']
    if (encoding === 'base64' || encoding === 'jsonParsed') return [base64(bytes), 'base64']
    throw invalidParams(`Invalid params: this chain writes no ${encoding}.`)
  }
}

const MAX_BASE58 = 128
const LONG_BASE58 = 'Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding.'

/** The largest u64, which no JavaScript number can represent: inserted when the reply is serialized. */
export const LAST_EPOCH = 'u64::MAX'

function parsedView(account: EncodedAccount): object | undefined {
  const [token, mint] = [tokenOf(account), mintOf(account)]
  const space = account.data.length
  if (token) return { program: 'spl-token', parsed: { info: tokenView(token), type: 'account' }, space }
  if (!mint) return undefined
  const info = {
    decimals: mint.decimals,
    freezeAuthority: orNull(mint.freezeAuthority),
    isInitialized: mint.isInitialized,
    mintAuthority: orNull(mint.mintAuthority),
    supply: String(mint.supply),
  }
  return { program: 'spl-token', parsed: { info, type: 'mint' }, space }
}

function tokenView({ mint, owner, state, amount }: Token): object {
  return {
    isNative: false,
    mint,
    owner,
    state: state === AccountState.Frozen ? 'frozen' : 'initialized',
    tokenAmount: amountView(amount),
  }
}

function orNull(
  option: { readonly __option: 'Some'; readonly value: Address } | { readonly __option: 'None' },
): Address | null {
  return option.__option === 'Some' ? option.value : null
}

export function amountView(amount: bigint): {
  amount: string
  decimals: number
  uiAmount: number
  uiAmountString: string
} {
  const digits = String(amount).padStart(DECIMALS + 1, '0')
  const uiAmountString = `${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`.replace(/\.?0+$/, '')
  return { amount: String(amount), decimals: DECIMALS, uiAmount: Number(uiAmountString), uiAmountString }
}

/** The result of `getTransaction`. */
export function transactionView(
  landed: Landed,
  { encoding = 'json', blockTime }: { encoding?: string | undefined; blockTime: number },
): object {
  return {
    slot: landed.slot,
    blockTime,
    meta: metaView(landed),
    transaction: written(),
    version: landed.message.version,
  }

  function written(): unknown {
    if (encoding === 'json') return { signatures: signaturesOf(landed), message: messageView(landed.message) }
    if (encoding === 'base64') return [base64(landed.wire), 'base64']
    if (encoding === 'base58') return [base58(landed.wire), 'base58']
    throw invalidParams(`Invalid params: this chain writes no ${encoding}.`)
  }
}

/** A count byte, then 64 bytes for each signature. */
function signaturesOf({ wire }: Landed): string[] {
  return Array.from({ length: wire[0] ?? 0 }, (_, i) => base58(wire.slice(1 + 64 * i, 65 + 64 * i)))
}

function messageView({ header, keys, instructions, blockhash, version }: Message): object {
  const { numSignerAccounts, numReadonlySignerAccounts, numReadonlyNonSignerAccounts } = header
  return {
    accountKeys: keys,
    header: {
      numRequiredSignatures: numSignerAccounts,
      numReadonlySignedAccounts: numReadonlySignerAccounts,
      numReadonlyUnsignedAccounts: numReadonlyNonSignerAccounts,
    },
    instructions: instructions.map(instructionView),
    recentBlockhash: blockhash,
    ...(version !== 'legacy' && { addressTableLookups: [] }),
  }
}

const instructionView = (instruction: Instruction): object => ({ ...instruction, data: base58(instruction.data) })

function metaView(landed: Landed): object {
  const { err, fee, logs, before, after, unitsConsumed } = landed
  return {
    err,
    status: err === null ? { Ok: null } : { Err: err },
    fee: Number(fee),
    preBalances: before.map(({ lamports }) => Number(lamports)),
    postBalances: after.map(({ lamports }) => Number(lamports)),
    preTokenBalances: tokenBalances(before),
    postTokenBalances: tokenBalances(after),
    innerInstructions: innerView(landed.inner),
    logMessages: logs,
    loadedAddresses: { readonly: [], writable: [] },
    computeUnitsConsumed: unitsConsumed,
    rewards: [],
    ...returnView(landed),
  }
}

function tokenBalances(holdings: readonly Holding[]): object[] {
  return holdings.flatMap(({ tokens }, accountIndex) => {
    if (!tokens) return []
    const { mint, owner, amount } = tokens
    return [{ accountIndex, mint, owner, programId: TOKEN_PROGRAM_ADDRESS, uiTokenAmount: amountView(amount) }]
  })
}

export function innerView(inner: readonly Inner[]): object[] {
  return inner.map(({ index, instructions }) => ({ index, instructions: instructions.map(instructionView) }))
}

export function returnView({ returnData }: Outcome): { returnData?: object } {
  return returnData
    ? { returnData: { programId: base58(returnData.programId), data: [base64(returnData.data), 'base64'] } }
    : {}
}

/** The memos of a transaction in one line, each with its length: `[5] hello`. */
export function memoOf({ message }: Landed): string | null {
  const memos = message.instructions.filter(({ programIdIndex }) => message.keys[programIdIndex] === MEMO_PROGRAM)
  const words = memos.map(({ data }) => `[${data.length}] ${new TextDecoder().decode(data)}`)
  return words.length > 0 ? words.join('; ') : null
}
