/** Checks before anything is sold on Solana, the contents of offers, and payers proven by their signatures. */
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { getBase58Decoder } from '@solana/kit'
import { solanaChain, type SolanaConfig } from '../../../../adapters/chains/solana/mod.ts'
import { parseFeePayer, isValidProof } from '../../../../adapters/chains/solana/node/keys.ts'
import { DEFAULT_FEE_LIMITS, checkPayment, tokenAccount } from '../../../../adapters/chains/solana/exact/payload.ts'
import { TOKEN, TOKEN_2022 } from '../../../../adapters/chains/solana/node/reads.ts'
import { MINT } from '../../../../server/devnet/solana/tokens.ts'
import {
  ANYBODYS,
  base64,
  draftOf,
  type Key,
  LIGHTHOUSE,
  memo,
  NETWORK,
  newKey,
  NOBODY,
  paymentOf,
  readonly,
  solanaHarness,
  solanaWorld,
  chatFormatOf,
} from './solana_kit.ts'

const node = await solanaWorld()
const [feePayer, second, seller, poor] = [await newKey(), await newKey(), await newKey(), await newKey()]
for (const each of [feePayer, second]) node.airdropSol(each.address)
await node.openAccount(seller.address)
await node.openAccount(second.address)
const stored = await tokenAccount(seller.address, MINT, TOKEN)
afterAll(() => node.stop())

const METHODS = ['getGenesisHash', 'getMultipleAccounts', 'getTransaction', 'getLatestBlockhash']
afterEach(() => {
  node.outage(false)
  node.rewind(false)
  for (const method of METHODS) node.fakeReply(method)
})

const SOUND: SolanaConfig = {
  network: NETWORK,
  rpcUrl: node.url,
  mint: MINT,
  payTo: seller.address,
  feePayerKeys: [feePayer.secret, second.secret],
}
const check = async (change: Partial<SolanaConfig> = {}) => {
  const chain = solanaChain({ ...SOUND, ...change })
  const checked = await chain.check({ now: node.now() })
  const terms = chain.terms(node.now())
  chain.close()
  expect(terms.length > 0).toBe(checked.kind === 'ready')
  return checked
}

describe('check()', () => {
  test('is ready, warns of what runs dry, and moves nothing', async () => {
    const before = node.lamportsOf(feePayer.address)
    expect(await check()).toEqual({ kind: 'ready', warnings: [] })
    const warned = await check({ minFeePayerLamports: 2_000_000_000 })
    expect(warned).toMatchObject({
      warnings: [expect.stringContaining('fee_payer_keys.0: '), expect.stringContaining('fee_payer_keys.1: ')],
    })
    const former = await check({ feePayerKeys: [feePayer.secret, poor.secret] })
    expect(former).toEqual({ kind: 'ready', warnings: [expect.stringContaining('fee_payer_keys.1: ')] })
    expect([node.lamportsOf(feePayer.address), node.reads('sendTransaction')]).toEqual([before, 0])
  })

  const mended = {
    halves: getBase58Decoder().decode(
      Uint8Array.from([...feePayer.bytes.subarray(0, 32), ...second.bytes.subarray(32)]),
    ),
  }
  const wrong: readonly (readonly [string, Partial<SolanaConfig>, readonly string[]])[] = [
    ['a mint and a recipient that are no addresses', { mint: '0x12', payTo: 'alice' }, ['mint: ', 'pay_to: ']],
    ['another cluster', { network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp' }, ['network: ']],
    ['a mint that is a wallet', { mint: seller.address }, ['mint: ']],
    ['a mint that is not there', { mint: poor.address }, ['mint: ']],
    ['a recipient without an account', { payTo: poor.address }, ['pay_to: ']],
    ['a recipient that is a token account', { payTo: stored }, ['pay_to: ', 'pay_to: ']],
    ['a recipient that pays fees', { payTo: second.address }, ['pay_to: ']],
    ['a fee payer without SOL, where it is the only one', { feePayerKeys: [poor.secret] }, ['fee_payer_keys.0: ']],
    ['a fee payer whose halves are of two keys', { feePayerKeys: [mended.halves] }, ['fee_payer_keys.0: ']],
  ]
  test.each(wrong)('names %s', async (_, change, settings) => {
    const checked = await check(change)
    expect(checked.kind).toBe('wrong')
    if (checked.kind !== 'wrong') return
    expect(checked.problems.map((problem) => problem.replace(/ .*/, ' '))).toEqual([...settings])
    for (const key of change.feePayerKeys ?? []) expect(checked.problems.join()).not.toContain(key.slice(4, 40))
  })

  /** Bytes of the accounts that a check reads: the mint, the recipient, his two token accounts, then the fee payers. */
  const bent = (index: number, change: (data: Buffer) => Uint8Array | void, owner?: string) => (truth: unknown) => {
    const { context, value } = structuredClone(truth) as {
      context: object
      value: ({ data: string[]; owner: string } | null)[]
    }
    const account = value[index]
    if (!account) return truth
    const data = Buffer.from(account.data[0] ?? '', 'base64')
    value[index] = { ...account, data: [base64(change(data) ?? data), 'base64'], owner: owner ?? account.owner }
    return { context, value }
  }
  const extended = (type: number, length: number, set: Readonly<Record<number, number>>) => (data: Buffer) => {
    const head = Buffer.concat([data, Buffer.alloc(83), Buffer.from([1, type, 0, length, 0])])
    return Buffer.concat([head, Uint8Array.from({ length }, (_, i) => set[i] ?? 0)])
  }
  const accounts: readonly (readonly [string, ReturnType<typeof bent>, string])[] = [
    ['a mint of nine decimals', bent(0, (data) => void (data[44] = 9)), 'mint: '],
    ['a mint that was never initialized', bent(0, (data) => void (data[45] = 0)), 'mint: '],
    ['a mint whose transfers cost a fee', bent(0, extended(1, 108, { 106: 1 }), TOKEN_2022), 'mint: '],
    ['a mint that cannot be transferred', bent(0, extended(9, 0, {}), TOKEN_2022), 'mint: '],
    ['a mint whose transfers run a hook', bent(0, extended(14, 64, { 40: 1 }), TOKEN_2022), 'mint: '],
    ['a frozen account of the recipient', bent(2, (data) => void (data[108] = 2)), 'pay_to: '],
    ['an account that was given away', bent(2, (data) => void (data[40] = 255 - (data[40] ?? 0))), 'pay_to: '],
    ['a fee payer that holds data', bent(4, () => new Uint8Array(80)), 'fee_payer_keys.0: '],
  ]
  test.each(accounts)('names %s', async (_, fakeReply, setting) => {
    node.fakeReply('getMultipleAccounts', fakeReply)
    const checked = await check()
    expect(checked).toMatchObject({ kind: 'wrong' })
    if (checked.kind === 'wrong') expect(checked.problems.some((problem) => problem.startsWith(setting))).toBe(true)
  })

  const once = (answer: (truth: unknown) => unknown) => {
    let rounds = 0
    return (truth: unknown) => (rounds++ === 0 ? answer(truth) : truth)
  }
  test.each<readonly [string, string, (truth: unknown) => unknown]>([
    ['another cluster', 'getGenesisHash', () => '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'.padEnd(44, '1')],
    ['a mint of nine decimals', 'getMultipleAccounts', bent(0, (data) => void (data[44] = 9))],
    ['a frozen account of the recipient', 'getMultipleAccounts', bent(2, (data) => void (data[108] = 2))],
  ])('a node that reports %s once is not taken for a wrong configuration', async (_, method, answer) => {
    node.fakeReply(method, answer)
    expect((await check()).kind).toBe('wrong')
    node.fakeReply(method, once(answer))
    expect(await check()).toEqual({ kind: 'ready', warnings: [] })
  })

  test('waits for a node that reports another problem each time', async () => {
    const rounds = [bent(0, (data) => void (data[44] = 9)), bent(2, (data) => void (data[108] = 2))]
    node.fakeReply('getMultipleAccounts', (truth) => rounds.shift()?.(truth) ?? truth)
    expect(await check()).toMatchObject({ kind: 'unavailable', reason: expect.stringContaining('does not repeat') })
  })

  test('waits for a node that is away, behind, keeps no history, or is none of Solana', async () => {
    node.outage(true)
    expect(await check()).toMatchObject({ kind: 'unavailable' })
    node.outage(false)
    for (const [method, value] of [
      ['getGenesisHash', 7],
      ['getTransaction', undefined],
      ['getMultipleAccounts', {}],
    ] as const) {
      node.fakeReply(method, () => value)
      expect([method, (await check()).kind]).toEqual([method, 'unavailable'])
      node.fakeReply(method)
    }
    node.mark()
    node.advance(80)
    node.rewind(true)
    expect(await check()).toMatchObject({ kind: 'unavailable', reason: expect.stringContaining('behind') })
  })
})

describe('terms()', () => {
  test('hint at a blockhash for fifteen seconds, and ask nobody', async () => {
    const { chain } = await solanaHarness(node)
    const extra = () => chain.terms(node.now())[0]?.extra
    const [whenAnswerStarts, reads] = [node.now(), node.reads()]
    expect(extra()).toEqual({
      feePayer: expect.any(String),
      recentBlockhash: expect.any(String),
      lastValidBlockHeight: expect.stringMatching(/^\d+$/),
    })
    node.setTime(whenAnswerStarts + 15_000)
    expect(Object.keys(extra() ?? {})).toHaveLength(3)
    node.setTime(whenAnswerStarts + 15_400)
    expect(Object.keys(extra() ?? {})).toEqual(['feePayer'])
    expect(node.reads()).toBe(reads)
    const before = extra()
    node.fakeReply('getLatestBlockhash', () => null)
    await chain.refresh({ now: node.now() })
    expect(extra()).toEqual(before)
    node.fakeReply('getLatestBlockhash')
    await chain.refresh({ now: node.now() })
    expect(Object.keys(extra() ?? {})).toHaveLength(3)
    chain.close()
  })

  test('never hint at an older blockhash than before', async () => {
    const { chain } = await solanaHarness(node)
    node.mark()
    node.advance(4)
    await chain.refresh({ now: node.now() })
    const newest = chain.terms(node.now())
    node.rewind(true)
    await chain.refresh({ now: node.now() })
    expect(chain.terms(node.now())).toEqual(newest)
    chain.close()
  })
})

describe('solanaChain()', () => {
  const secret = Array.from(feePayer.bytes)
  test('reads a key as base58 and as JSON', () => {
    expect([parseFeePayer(feePayer.secret).address, parseFeePayer(JSON.stringify(secret)).address]).toEqual([
      feePayer.address,
      feePayer.address,
    ])
  })

  test.each([
    ['a network of another kind', { network: 'eip155:1' }, 'network'],
    ['no key', { feePayerKeys: [] }, 'fee_payer_keys'],
    ['a key of 63 bytes', { feePayerKeys: [feePayer.secret, JSON.stringify(secret.slice(1))] }, 'fee_payer_keys.1'],
    [
      'a key that is a seed',
      { feePayerKeys: [getBase58Decoder().decode(feePayer.bytes.subarray(0, 32))] },
      'fee_payer_keys.0',
    ],
    ['a key of numbers that are no bytes', { feePayerKeys: [JSON.stringify(secret.with(0, 256))] }, 'fee_payer_keys.0'],
    ['a URL that is none', { rpcUrl: 'wss://node.example' }, 'rpcUrl'],
  ] as const)('throws, and does not quote, %s', (_, change, setting) => {
    const make = () => solanaChain({ ...SOUND, ...change } as SolanaConfig)
    expect(make).toThrow(setting)
    try {
      make()
    } catch (error) {
      for (const key of (change as Partial<SolanaConfig>).feePayerKeys ?? [])
        expect((error as Error).message).not.toContain(key.slice(4, 40))
    }
  })
})

describe('proves()', () => {
  const message = 'poll:v1:video:job:1'
  const sign = async (key: Key, text = message) =>
    new Uint8Array(await crypto.subtle.sign('Ed25519', key.keyPair.privateKey, new TextEncoder().encode(text)))

  test('takes a signature in base58, and in base64 of either alphabet', async () => {
    const bytes = await sign(seller)
    const url = base64(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
    for (const signature of [getBase58Decoder().decode(bytes), base64(bytes), url])
      expect(await isValidProof({ wallet: seller.address, message, signature })).toBe(true)
  })

  test("refuses another wallet's, another text's, and everybody's", async () => {
    const signature = base64(await sign(seller))
    expect(await isValidProof({ wallet: poor.address, message, signature })).toBe(false)
    expect(await isValidProof({ wallet: seller.address, message: `${message}2`, signature })).toBe(false)
    const nobody = await crypto.subtle.importKey(
      'raw',
      Uint8Array.from({ length: 32 }, (_, i) => (i === 0 ? 1 : 0)),
      'Ed25519',
      false,
      ['verify'],
    )
    expect(await crypto.subtle.verify('Ed25519', nobody, ANYBODYS, new TextEncoder().encode(message))).toBe(true)
    expect(await isValidProof({ wallet: NOBODY, message, signature: base64(ANYBODYS) })).toBe(false)
  })

  test('never rejects', async () => {
    const signature = base64(await sign(seller))
    for (const odd of ['', '0x00', '1'.repeat(200), 'é'.repeat(40), undefined, null, 7, {}]) {
      for (const proof of [
        { wallet: odd, message, signature },
        { wallet: seller.address, message, signature: odd },
        { wallet: seller.address, message: odd, signature },
      ]) {
        expect(await isValidProof(proof as never)).toBe(false)
      }
    }
    expect(await isValidProof({ wallet: seller.address, message: 'x'.repeat(5_000), signature })).toBe(false)
  })
})

test("the guards of wallets and memos may follow a transfer, up to seven instructions, and the seller's memo may be wanted", async () => {
  const { chain, offer } = await solanaHarness(node)
  const buyer = await newKey()
  const draft = await draftOf(node, buyer, offer)
  const guard = { programAddress: LIGHTHOUSE, data: Uint8Array.of(0), accounts: [readonly(buyer.address)] }
  const judging = { network: NETWORK, feePayers: [String(offer.extra?.feePayer)] as never, caps: DEFAULT_FEE_LIMITS }
  const judged = async (rest: readonly (typeof guard | ReturnType<typeof memo>)[], wanted?: string) => {
    const terms = wanted === undefined ? offer : { ...offer, extra: { ...offer.extra, memo: wanted } }
    const transaction = await chatFormatOf({ ...draft, instructions: [...draft.instructions.slice(0, 3), ...rest] })
    return (await checkPayment(paymentOf(terms, base64(transaction)), terms, judging)).kind
  }
  expect(await judged([])).toBe('exact')
  expect(await judged([guard, guard, guard, memo('thanks')])).toBe('exact')
  expect(await judged([memo('order 7'), guard], 'order 7')).toBe('exact')
  chain.close()
})
