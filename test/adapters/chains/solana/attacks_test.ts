/**
 * Transactions that break one rule of the protocol each: refused under the protocol's own word, and not one lamport of
 * the fee payer's spent.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { AccountRole, type Address, address, getAddressDecoder, type Instruction } from '@solana/kit'
import { tokenAccount } from '../../../../adapters/chains/solana/exact/payload.ts'
import { TOKEN, TOKEN_2022 } from '../../../../adapters/chains/solana/node/reads.ts'
import type { Offer, Payment } from '../../../../core/x402/protocol.ts'
import type { SolanaNode } from '../../../../server/devnet/solana/node.ts'
import { MINT } from '../../../../server/devnet/solana/tokens.ts'
import {
  ANYBODYS,
  base64,
  COMPUTE_BUDGET,
  type Draft,
  draftOf,
  highS,
  type Key,
  LIGHTHOUSE,
  memo,
  newKey,
  NOBODY,
  ORDER,
  paymentOf,
  readonly,
  signing,
  type SolanaHarness,
  solanaHarness,
  solanaWorld,
  transfer,
  unitLimit,
  unitPrice,
  chatFormatOf,
  writable,
} from './solana_kit.ts'

const SYSTEM = address('11111111111111111111111111111111')
const CREATE_ACCOUNT = address('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL')
const OLD_MEMO = address('Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo')
const U64 = 2n ** 64n - 1n

type World = {
  readonly node: SolanaNode
  readonly h: SolanaHarness
  readonly payer: Key
  readonly thief: Key
  readonly second: Key
  readonly offer: Offer
}
type Attack = {
  readonly does: string
  readonly reason: string
  readonly code?: string
  /** Changes a good payment's transaction before it is signed. */
  readonly draft?: (draft: Draft, w: World) => Draft | Promise<Draft>
  /** Bends the bytes after that. */
  readonly bytes?: (transaction: Uint8Array, w: World) => Uint8Array | Promise<Uint8Array>
  /** Bends the payment after that. */
  readonly payment?: (payment: Payment, w: World) => Payment
  readonly offer?: (offer: Offer) => Offer
  /** Events on chain before it is judged. */
  readonly first?: (payment: Payment, w: World) => void | Promise<unknown>
}

let w: World
beforeAll(async () => {
  const node = await solanaWorld()
  const [payer, thief, second, own] = [await newKey(), await newKey(), await newKey(), await newKey()]
  for (const each of [second, own]) node.airdropSol(each.address)
  const h = await solanaHarness(node, { feePayerKeys: [own.secret, second.secret] })
  for (const each of [payer, thief]) await node.fund(each.address, 1_000_000n)
  w = { node, h, payer, thief, second, offer: h.offer }
})
afterAll(async () => {
  w.h.chain.close()
  await w.node.stop()
})

// ── what attacks are made of ────────────────────────────────────────────────────────────────────────────────────────

/** One instruction put in the place of another. */
const put =
  (at: number, made: Instruction | ((w: World) => Instruction | Promise<Instruction>)) =>
  async (draft: Draft, given: World): Promise<Draft> => {
    const instruction = typeof made === 'function' ? await made(given) : made
    return { ...draft, instructions: draft.instructions.with(at, instruction) }
  }
const paying = (changed: (w: World) => Partial<Parameters<typeof transfer>[0]>) =>
  put(2, (given) => transfer({ from: given.payer.address, to: given.offer.payTo, amount: 10_000n, ...changed(given) }))
const rest =
  (...instructions: readonly Instruction[]) =>
  (draft: Draft): Draft => ({ ...draft, instructions: [...draft.instructions.slice(0, 3), ...instructions] })
const changed =
  (at: number, change: (instruction: Instruction, w: World) => Partial<Instruction>) =>
  (draft: Draft, given: World): Draft => {
    const before = draft.instructions[at] as Instruction
    return { ...draft, instructions: draft.instructions.with(at, { ...before, ...change(before, given) }) }
  }
const also = (instruction: Instruction, ...accounts: NonNullable<Instruction['accounts']>) => ({
  accounts: [...(instruction.accounts ?? []), ...accounts],
})

const MESSAGE = 1 + 64 * 2
/** Signs a message again that was changed after it was built. */
const resigned =
  (change: (message: Buffer) => Uint8Array) =>
  async (transaction: Uint8Array, { payer }: World): Promise<Uint8Array> => {
    const message = change(Buffer.from(transaction.slice(MESSAGE)))
    const signature = await crypto.subtle.sign('Ed25519', payer.keyPair.privateKey, Uint8Array.from(message))
    return Uint8Array.from([2, ...new Uint8Array(64), ...new Uint8Array(signature), ...message])
  }
const ACCOUNTS = 4
const accountAt = (index: number) => ACCOUNTS + 1 + 32 * index
const count = (message: Uint8Array) => message[ACCOUNTS] as number
const spliced = (message: Uint8Array, at: number, length: number, ...bytes: readonly number[]) =>
  Uint8Array.from([...message.slice(0, at), ...bytes, ...message.slice(at + length)])

/**
 * A signature that WebCrypto takes and no validator does: its R is the point at infinity, which only the owner of the
 * key can make fit.
 */
async function smallR(transaction: Uint8Array, { payer }: World): Promise<Uint8Array> {
  const number = (bytes: Uint8Array) => bytes.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n)
  const half = createHash('sha512').update(payer.bytes.subarray(0, 32)).digest().subarray(0, 32)
  half[0] = (half[0] ?? 0) & 248
  half[31] = ((half[31] ?? 0) & 127) | 64
  const r = Uint8Array.from({ length: 32 }, (_, i) => (i === 0 ? 1 : 0))
  const hash = createHash('sha512')
    .update(r)
    .update(payer.bytes.subarray(32))
    .update(transaction.subarray(MESSAGE))
    .digest()
  const s = (number(hash) * number(half)) % ORDER
  const signature = Uint8Array.from([
    ...r,
    ...Array.from({ length: 32 }, (_, i) => Number((s >> BigInt(8 * i)) & 255n)),
  ])
  expect(
    await crypto.subtle.verify(
      'Ed25519',
      payer.keyPair.publicKey,
      signature,
      Uint8Array.from(transaction.subarray(MESSAGE)),
    ),
  ).toBe(true)
  return Uint8Array.from([...transaction.subarray(0, 65), ...signature, ...transaction.subarray(MESSAGE)])
}

// ── the attacks ─────────────────────────────────────────────────────────────────────────────────────────────────────

const UNREADABLE = 'payload_transaction_could_not_be_decoded'
const UNSIGNED = 'payload_signature_invalid'
const COMPUTE = 'payload_transaction_instructions_compute'
const DRAINS = 'payload_transaction_fee_payer_transferring_funds'
const NO_TRANSFER = 'payload_no_transfer_instruction'
const FAILS = 'transaction_simulation_failed'
const accepted =
  (change: Partial<Offer>) =>
  (payment: Payment): Payment => ({ ...payment, accepted: { ...payment.accepted, ...change } })

const protocol: readonly Attack[] = [
  { does: 'names another scheme', reason: 'unsupported_scheme', payment: accepted({ scheme: 'upto' }) },
  {
    does: 'names mainnet',
    reason: 'network_mismatch',
    payment: accepted({ network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp' }),
  },
  {
    does: 'answers an offer on another chain',
    reason: 'network_mismatch',
    offer: (offer) => ({ ...offer, network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp' }),
  },
  { does: 'names another asset', reason: 'payload_mint_mismatch', payment: accepted({ asset: SYSTEM }) },
  {
    does: 'answers an offer without a fee payer',
    reason: 'payload_missing_fee_payer',
    offer: (offer) => ({ ...offer, extra: {} }),
  },
  {
    does: "answers an offer of somebody else's fee payer",
    reason: 'fee_payer_not_managed_by_facilitator',
    offer: (offer) => ({ ...offer, extra: { feePayer: NOBODY } }),
  },
]

const forms: readonly Attack[] = (
  [
    { does: 'is followed by a byte', bytes: (transaction) => Uint8Array.from([...transaction, 0]) },
    { does: 'lacks its last byte', bytes: (transaction) => transaction.slice(0, -1) },
    { does: 'is signatures and nothing else', bytes: (transaction) => transaction.slice(0, MESSAGE) },
    {
      does: 'counts its signatures in two bytes',
      bytes: (transaction) => Uint8Array.from([0x82, 0, ...transaction.slice(1)]),
    },
    {
      does: 'counts its instructions in two bytes',
      bytes: resigned((message) => spliced(message, accountAt(count(message)) + 32, 1, 0x84, 0)),
    },
    {
      does: 'claims 4 million instructions',
      bytes: resigned((message) => spliced(message, accountAt(count(message)) + 32, 1, 0xff, 0xff, 0xff)),
    },
    {
      does: 'takes accounts from a lookup table',
      bytes: resigned((message) => spliced(message, message.length - 1, 1, 1, ...new Uint8Array(32).fill(9), 1, 0, 0)),
    },
    { does: 'is of version 1', bytes: resigned((message) => spliced(message, 0, 1, 0x81)) },
    {
      does: 'names an account twice',
      bytes: resigned(
        (message) => (message.copy(message, accountAt(count(message) - 1), accountAt(2), accountAt(3)), message),
      ),
    },
    {
      does: 'calls a program that is not among its accounts',
      bytes: resigned((message) => spliced(message, accountAt(count(message)) + 33, 1, 200)),
    },
    {
      does: 'calls the fee payer',
      bytes: resigned((message) => spliced(message, accountAt(count(message)) + 33, 1, 0)),
    },
    {
      does: 'has fewer signatures than its message wants',
      bytes: (transaction) => Uint8Array.from([1, ...transaction.slice(65)]),
    },
    {
      does: 'has more signatures than its message wants',
      bytes: (transaction) => Uint8Array.from([3, ...transaction.slice(1, 65), ...transaction.slice(1)]),
    },
    { does: 'only reads its fee payer', bytes: resigned((message) => spliced(message, 2, 1, 2)) },
    { does: 'has more read-only accounts than accounts', bytes: resigned((message) => spliced(message, 3, 1, 99)) },
    {
      does: 'is longer than a packet',
      bytes: (transaction) => Uint8Array.from([...transaction, ...new Uint8Array(1233 - transaction.length)]),
    },
    { does: 'is empty', bytes: () => new Uint8Array() },
    {
      does: 'is base64 with line breaks',
      payment: (payment) => paymentOf(payment.accepted, `${payment.payload.transaction}\n`),
    },
    {
      does: 'is bytes, and not text',
      payment: (payment) => paymentOf(payment.accepted, { type: 'Buffer', data: [1, 2, 3] }),
    },
  ] satisfies readonly Omit<Attack, 'reason'>[]
).map((attack) => ({ reason: UNREADABLE, ...attack }))

const signatures: readonly Attack[] = [
  {
    does: 'is paid for by the payer',
    reason: 'fee_payer_mismatch',
    draft: (draft, { payer }) => ({ ...draft, feePayer: payer.address }),
  },
  {
    does: 'lets a stranger pay the fee',
    reason: 'fee_payer_mismatch',
    draft: (draft, { thief }) => ({ ...draft, feePayer: thief.address }),
  },
  { does: 'is not signed', reason: UNSIGNED, draft: (draft) => ({ ...draft, signers: [] }) },
  {
    does: 'is signed by somebody else',
    reason: UNSIGNED,
    bytes: async (transaction, { thief }) =>
      Uint8Array.from([
        ...transaction.slice(0, 65),
        ...new Uint8Array(
          await crypto.subtle.sign('Ed25519', thief.keyPair.privateKey, Uint8Array.from(transaction.slice(MESSAGE))),
        ),
        ...transaction.slice(MESSAGE),
      ]),
  },
  {
    does: 'was changed after it was signed',
    reason: UNSIGNED,
    bytes: (transaction) => transaction.with(transaction.length - 3, 0x21),
  },
  {
    does: 'is signed with the high twin of S',
    reason: UNSIGNED,
    bytes: (transaction) =>
      Uint8Array.from([
        ...transaction.slice(0, 97),
        ...highS(transaction.subarray(97, 129)),
        ...transaction.slice(MESSAGE),
      ]),
  },
  { does: 'is signed with an R that validators refuse', reason: UNSIGNED, bytes: smallR },
  {
    does: 'moves the money of the key that everybody has',
    reason: UNSIGNED,
    draft: paying(() => ({ from: NOBODY })),
    bytes: (transaction) => Uint8Array.from([...transaction.slice(0, 65), ...ANYBODYS, ...transaction.slice(MESSAGE)]),
  },
  {
    does: "moves another wallet's money without its signature",
    reason: UNSIGNED,
    draft: async (draft, given) =>
      changed(2, (instruction) => ({
        accounts: [...(instruction.accounts ?? []).slice(0, 3), readonly(given.thief.address)],
      }))(await changed(3, (instruction) => also(instruction, signing(given.payer.address)))(draft, given), given),
  },
  {
    does: 'wants a third signature',
    reason: 'payload_excessive_signers',
    draft: (draft, given) => ({
      ...changed(3, (instruction) => also(instruction, signing(given.thief.address)))(draft, given),
      signers: [given.payer, given.thief],
    }),
  },
  {
    does: 'wants nine signatures',
    reason: 'payload_excessive_signers',
    draft: (draft) =>
      changed(3, (instruction) =>
        also(
          instruction,
          ...Array.from({ length: 7 }, (_, i) => signing(getAddressDecoder().decode(new Uint8Array(32).fill(i + 40)))),
        ),
      )(draft, w),
  },
]

const structure: readonly Attack[] = [
  {
    does: 'has two instructions',
    reason: 'payload_transaction_instructions_length',
    draft: (draft) => ({ ...draft, instructions: draft.instructions.slice(0, 2) }),
  },
  {
    does: 'has eight instructions',
    reason: 'payload_transaction_instructions_length',
    draft: rest(...Array.from({ length: 5 }, (_, i) => memo(`${i}`))),
  },
  { does: 'limits nothing', reason: `${COMPUTE}_limit_instruction`, draft: put(0, memo('no limit')) },
  {
    does: 'has its price before its limit',
    reason: `${COMPUTE}_limit_instruction`,
    draft: ({ instructions: [a, b, ...more], ...draft }) => ({
      ...draft,
      instructions: [b, a, ...more] as Instruction[],
    }),
  },
  {
    does: 'asks for a larger heap where its limit should be',
    reason: `${COMPUTE}_limit_instruction`,
    draft: put(0, { programAddress: COMPUTE_BUDGET, data: Uint8Array.from([1, 0, 0, 4, 0]) }),
  },
  {
    does: 'has a limit of six bytes',
    reason: `${COMPUTE}_limit_instruction`,
    draft: put(0, { programAddress: COMPUTE_BUDGET, data: Uint8Array.from([2, 0, 0, 0, 0, 0]) }),
  },
  {
    does: 'lives for ever, by a durable nonce',
    reason: `${COMPUTE}_limit_instruction`,
    draft: put(0, ({ payer, thief }) => ({
      programAddress: SYSTEM,
      data: Uint8Array.from([4, 0, 0, 0]),
      accounts: [writable(thief.address), readonly(SYSTEM), signing(payer.address)],
    })),
  },
  {
    does: 'asks for a unit more than is paid for',
    reason: `${COMPUTE}_limit_instruction_too_high`,
    draft: put(0, unitLimit(200_001)),
  },
  {
    does: 'asks for all units there are',
    reason: `${COMPUTE}_limit_instruction_too_high`,
    draft: put(0, unitLimit(2 ** 32 - 1)),
  },
  { does: 'has no price', reason: `${COMPUTE}_price_instruction`, draft: put(1, unitLimit(20_000)) },
  {
    does: 'has a price of eight bytes',
    reason: `${COMPUTE}_price_instruction`,
    draft: put(1, { programAddress: COMPUTE_BUDGET, data: Uint8Array.from([3, 1, 0, 0, 0, 0, 0, 0]) }),
  },
  {
    does: 'bids a microlamport more than is paid',
    reason: `${COMPUTE}_price_instruction_too_high`,
    draft: put(1, unitPrice(5_000_001n)),
  },
  {
    does: 'bids all the money there is',
    reason: `${COMPUTE}_price_instruction_too_high`,
    draft: put(1, unitPrice(U64)),
  },
  {
    does: 'bids a lamport more than is paid for all its units together',
    reason: `${COMPUTE}_price_instruction_too_high`,
    draft: async (draft, given) => put(1, unitPrice(450_001n))(await put(0, unitLimit(200_000))(draft, given), given),
  },
  {
    does: 'bids a lamport more than is paid for all its units together at this price',
    reason: `${COMPUTE}_price_instruction_too_high`,
    draft: async (draft, given) => put(1, unitPrice(25_001n))(await put(0, unitLimit(200_000))(draft, given), given),
  },
  {
    does: 'transfers SOL',
    reason: NO_TRANSFER,
    draft: put(2, ({ payer, offer }) => ({
      programAddress: SYSTEM,
      data: Uint8Array.from([2, 0, 0, 0, 16, 39, 0, 0, 0, 0, 0, 0]),
      accounts: [{ address: payer.address, role: AccountRole.WRITABLE_SIGNER }, writable(offer.payTo as Address)],
    })),
  },
  {
    does: 'transfers without a check',
    reason: NO_TRANSFER,
    draft: changed(2, ({ data }) => ({ data: Uint8Array.from([3, ...(data ?? []).slice(1, 9)]) })),
  },
  {
    does: 'approves, and does not transfer',
    reason: NO_TRANSFER,
    draft: changed(2, ({ data }) => ({ data: Uint8Array.from([13, ...(data ?? []).slice(1)]) })),
  },
  {
    does: 'transfers with a byte too much',
    reason: NO_TRANSFER,
    draft: changed(2, ({ data }) => ({ data: Uint8Array.from([...(data ?? []), 0]) })),
  },
  {
    does: 'transfers by a program that looks like Token',
    reason: NO_TRANSFER,
    draft: changed(2, (_, { thief }) => ({ programAddress: thief.address })),
  },
  {
    does: 'transfers for a multisig',
    reason: NO_TRANSFER,
    draft: changed(2, (instruction) => also(instruction, readonly(SYSTEM))),
  },
  {
    does: 'transfers in its fourth instruction',
    reason: NO_TRANSFER,
    draft: ({ instructions: [a, b, c, d], ...draft }) => ({ ...draft, instructions: [a, b, d, c] as Instruction[] }),
  },
]

const money: readonly Attack[] = [
  {
    does: "moves the fee payer's own tokens",
    reason: DRAINS,
    draft: paying(({ h }) => ({ from: h.chain.terms(h.now())[0]?.extra.feePayer as Address })),
  },
  {
    does: 'moves the tokens of another fee payer of ours',
    reason: DRAINS,
    draft: paying(({ second }) => ({ from: second.address })),
    bytes: async (transaction, { second }) =>
      Uint8Array.from([
        ...transaction.slice(0, 65),
        ...new Uint8Array(
          await crypto.subtle.sign('Ed25519', second.keyPair.privateKey, Uint8Array.from(transaction.slice(MESSAGE))),
        ),
        ...transaction.slice(MESSAGE),
      ]),
  },
  {
    does: 'lets the fee payer sign a memo',
    reason: DRAINS,
    draft: changed(3, (instruction, { offer }) => also(instruction, signing(offer.extra?.feePayer as Address))),
  },
  {
    does: 'hands the fee payer to a guard',
    reason: DRAINS,
    draft: (draft, { offer }) =>
      rest({
        programAddress: LIGHTHOUSE,
        data: Uint8Array.of(0),
        accounts: [writable(offer.extra?.feePayer as Address)],
      })(draft),
  },
  {
    does: 'hands the fee payer to its limit',
    reason: DRAINS,
    draft: changed(0, (instruction, { offer }) => also(instruction, readonly(offer.extra?.feePayer as Address))),
  },
  {
    does: 'hands another fee payer of ours to its price',
    reason: DRAINS,
    draft: changed(1, (instruction, { second }) => also(instruction, writable(second.address))),
  },
  {
    does: 'pays in another token',
    reason: 'payload_mint_mismatch',
    draft: paying(({ thief }) => ({ mint: thief.address })),
  },
  {
    does: 'pays somebody else',
    reason: 'payload_recipient_mismatch',
    draft: paying(({ thief }) => ({ to: thief.address })),
  },
  {
    does: 'pays to the wallet, and not to its token account',
    reason: 'payload_recipient_mismatch',
    draft: paying(({ offer }) => ({ destination: offer.payTo as Address })),
  },
  {
    does: 'pays to the account under the other token program',
    reason: 'payload_recipient_mismatch',
    draft: put(2, async ({ payer, offer }) =>
      transfer({
        from: payer.address,
        to: offer.payTo,
        amount: 10_000n,
        destination: await tokenAccount(offer.payTo, MINT, TOKEN_2022),
      }),
    ),
  },
  { does: 'pays a unit less', reason: 'payload_amount_mismatch', draft: paying(() => ({ amount: 9_999n })) },
  { does: 'pays a unit more', reason: 'payload_amount_mismatch', draft: paying(() => ({ amount: 10_001n })) },
  { does: 'pays nothing', reason: 'payload_amount_mismatch', draft: paying(() => ({ amount: 0n })) },
  { does: 'pays all there is', reason: 'payload_amount_mismatch', draft: paying(() => ({ amount: U64 })) },
  {
    does: "pays from another wallet's account",
    reason: 'payload_source_mismatch',
    draft: put(2, async ({ payer, thief, offer }) =>
      transfer({
        from: payer.address,
        to: offer.payTo,
        amount: 10_000n,
        source: await tokenAccount(thief.address, MINT, TOKEN),
      }),
    ),
  },
  {
    does: 'pays the seller with his own money',
    reason: 'payload_recipient_mismatch',
    offer: (offer) => ({ ...offer, payTo: w.payer.address }),
  },
]

const guards: readonly Attack[] = [
  ...['fourth', 'fifth', 'sixth', 'seventh'].map((nth, i) => ({
    does: `transfers once more, in its ${nth} instruction`,
    reason: `payload_unknown_${nth}_instruction`,
    draft: async (draft: Draft, { payer, thief }: World) =>
      rest(
        ...Array.from({ length: i }, () => memo('a memo')),
        await transfer({ from: payer.address, to: thief.address, amount: 1n }),
      )(draft),
  })),
  {
    does: 'opens an account',
    reason: 'payload_unknown_fourth_instruction',
    draft: rest({ programAddress: CREATE_ACCOUNT, data: Uint8Array.of(1) }),
  },
  {
    does: 'sets a second limit',
    reason: 'payload_unknown_fifth_instruction',
    draft: rest(memo('a memo'), unitLimit(1_000_000)),
  },
  {
    does: 'writes a memo by the old program',
    reason: 'payload_unknown_fourth_instruction',
    draft: rest({ ...memo('a memo'), programAddress: OLD_MEMO }),
  },
  {
    does: 'leaves out the memo that is wanted',
    reason: 'payload_memo_count',
    offer: (offer) => ({ ...offer, extra: { ...offer.extra, memo: 'order 7' } }),
    draft: rest(),
  },
  {
    does: 'adds a memo to the one that is wanted',
    reason: 'payload_memo_count',
    offer: (offer) => ({ ...offer, extra: { ...offer.extra, memo: 'order 7' } }),
    draft: rest(memo('order 7'), memo('order 7')),
  },
  {
    does: 'has another memo than is wanted',
    reason: 'payload_memo_mismatch',
    offer: (offer) => ({ ...offer, extra: { ...offer.extra, memo: 'order 7' } }),
    draft: rest(memo('order 8')),
  },
]

const rehearsals: readonly Attack[] = [
  {
    does: 'has too little money',
    reason: 'insufficient_balance',
    code: 'PAYMENT_UNFUNDED',
    first: (_, { node, payer }) => node.fund(payer.address, 9_999n),
  },
  {
    does: 'has no account at all',
    reason: 'insufficient_balance',
    code: 'PAYMENT_UNFUNDED',
    first: (_, { node, payer }) => node.closeAccount(payer.address),
  },
  { does: 'is frozen by the issuer', reason: FAILS, first: (_, { node, payer }) => node.freeze(payer.address) },
  {
    does: 'says another number of decimals',
    reason: FAILS,
    draft: changed(2, ({ data }) => ({ data: Uint8Array.from(data ?? []).with(9, 9) })),
  },
  { does: 'does not ask for units enough', reason: FAILS, draft: put(0, unitLimit(1)) },
  { does: 'has a memo that is no text', reason: FAILS, draft: rest({ ...memo(''), data: Uint8Array.of(0xff) }) },
  {
    does: 'guards itself with a program that is not there',
    reason: FAILS,
    draft: rest({ programAddress: LIGHTHOUSE, data: Uint8Array.of(0) }),
  },
  {
    does: 'moves the token by the program that is not its own',
    reason: 'insufficient_balance',
    draft: async (draft, { payer, offer }) => {
      const [source, destination] = [
        await tokenAccount(payer.address, MINT, TOKEN_2022),
        await tokenAccount(offer.payTo, MINT, TOKEN_2022),
      ]
      const built = await transfer({ from: payer.address, to: offer.payTo, amount: 10_000n, source, destination })
      return put(2, { ...built, programAddress: TOKEN_2022 })(draft, w)
    },
    code: 'PAYMENT_UNFUNDED',
  },
  {
    does: 'has a blockhash that there never was',
    reason: FAILS,
    code: 'PAYMENT_BLOCKHASH_STALE',
    draft: (draft) => ({ ...draft, blockhash: NOBODY }),
  },
  {
    does: 'has a blockhash that has run out',
    reason: FAILS,
    code: 'PAYMENT_BLOCKHASH_STALE',
    first: (_, { node }) => node.advance(151),
  },
]

const attacks = { protocol, forms, signatures, structure, money, guards, rehearsals }

for (const [about, list] of Object.entries(attacks)) {
  describe(`what breaks a rule of ${about} is refused, and costs nothing:`, () => {
    for (const attack of list) test(`it ${attack.does}`, () => refuses(attack, about === 'rehearsals'))
  })
}

async function refuses(
  { reason, code = 'PAYMENT_INVALID', draft, bytes, payment: bend, offer: turn, first }: Attack,
  isRequested: boolean,
): Promise<void> {
  const { node, h, payer, second } = w
  const offer = turn?.(w.offer) ?? w.offer
  const good = await draftOf(node, payer, { ...w.offer, payTo: offer.payTo })
  const built = await chatFormatOf(draft ? await draft(good, w) : good)
  const given = paymentOf(offer, base64(bytes ? await bytes(built, w) : built))
  const payment = bend ? bend(given, w) : given
  await first?.(payment, w)
  const fundedBy = () => [second.address, String(w.offer.extra?.feePayer)].map((each) => node.lamportsOf(each))
  const [before, sent, requestCount] = [fundedBy(), node.reads('sendTransaction'), node.reads()]

  const verdict = await h.chain.verify(payment, offer, at())
  const settlement = await h.chain.settle(payment, offer, at())
  await node.fund(payer.address, 1_000_000n)

  expect(verdict).toMatchObject({ kind: 'refused', code })
  if (verdict.kind === 'refused') expect(verdict.reason.split(':')[0]).toBe(`invalid_exact_svm_${reason}`)
  expect(settlement.kind).toBe('refused')
  expect([fundedBy(), node.reads('sendTransaction'), node.reads() > requestCount]).toEqual([before, sent, isRequested])
}

const at = () => ({ now: w.node.now(), signal: AbortSignal.timeout(5_000) })

test('the payment that all of these are bent from is good, and good once', async () => {
  const { node, h, payer, offer } = w
  const payment = paymentOf(offer, base64(await chatFormatOf(await draftOf(node, payer, offer))))
  expect(await h.chain.verify(payment, offer, at())).toMatchObject({ kind: 'valid' })
  const before = node.lamportsOf(String(offer.extra?.feePayer))
  expect(await h.chain.settle(payment, offer, at())).toMatchObject({ kind: 'settled' })
  const cost = before - node.lamportsOf(String(offer.extra?.feePayer))
  expect(cost).toBe(10_001n)
  expect(await h.chain.verify(payment, offer, at())).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  expect(await h.chain.settle(payment, offer, at())).toMatchObject({ kind: 'settled' })
  expect(before - node.lamportsOf(String(offer.extra?.feePayer))).toBe(cost)
})

test('a buyer sets the priority fee as high as the price allows, and never above a ten-thousandth of a SOL (contract 21.16)', async () => {
  const { node, h, payer } = w
  // Of 200,000 units: 0.2 lamports for each microlamport.
  for (const [amount, bid, cost] of [
    ['1500', 5_000n, 11_000n],
    ['1500', 5_001n, undefined],
    ['10000', 25_000n, 15_000n],
    ['200000', 450_000n, 100_000n],
    ['200000', 450_001n, undefined],
  ] as const) {
    const offer = { ...w.offer, amount }
    const draft = await draftOf(node, payer, offer)
    const dear = { ...draft, instructions: [unitLimit(200_000), unitPrice(bid), ...draft.instructions.slice(2)] }
    const before = node.lamportsOf(String(offer.extra?.feePayer))
    const settled = await h.chain.settle(paymentOf(offer, base64(await chatFormatOf(dear))), offer, at())
    expect([amount, bid, settled.kind]).toEqual([amount, bid, cost === undefined ? 'refused' : 'settled'])
    expect(before - node.lamportsOf(String(offer.extra?.feePayer))).toBe(cost ?? 0n)
  }
})
