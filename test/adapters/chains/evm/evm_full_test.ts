import { digestOf, domainSeparator, recoverSigner } from '../../../../adapters/chains/evm/exact/eip3009.ts'
import { afterAll, describe, expect, test } from 'bun:test'
import { concatHex, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { evmChain } from '../../../../adapters/chains/evm/mod.ts'
import {
  AUTHORIZATION_CANCELED,
  AUTHORIZATION_USED,
  type ChainLog,
  findPayment,
  parseReceipt,
} from '../../../../adapters/chains/evm/node/token.ts'
import { evmIdentity } from '../../../../adapters/chains/evm/exact/identity.ts'
import { evmReads } from '../../../../adapters/chains/evm/node/reads.ts'
import { jsonRpc } from '../../../../adapters/chains/lib/json_rpc.ts'
import { type Exact, maxLifetimeSeconds, parseExact } from '../../../../adapters/chains/evm/exact/payload.ts'
import { hexOf, lower, word } from '../../../../adapters/chains/lib/hex.ts'
import type { Offer, Payment } from '../../../../core/x402/protocol.ts'
import { everyChainLaw } from '../../../conformance/chain_histories.ts'
import { runLaws } from '../../../conformance/law.ts'
import wallets from './contract_wallet.json' with { type: 'json' }
import {
  ASSET,
  DOMAIN,
  type EvmHarness,
  evmHarness,
  evmSubject,
  instead,
  isSend,
  type Message,
  MULTICALL,
  NETWORK,
  offerTo,
  signPayment,
  type World,
  world,
} from './evm_kit.ts'

/** Code of a wallet that recognizes every signature. */
const YES = `0x7f1626ba7e${'00'.repeat(28)}5f5260205ff3`

const chainWorld: World = await world()
afterAll(() => chainWorld.close())

const timeouts = () => AbortSignal.timeout(10_000)
const at = (h: EvmHarness) => ({ now: h.now(), signal: timeouts() })

runLaws('evm', everyChainLaw, () => evmSubject(chainWorld))

async function withChain(
  work: (h: EvmHarness) => Promise<void>,
  change: Parameters<typeof evmHarness>[1] = {},
): Promise<void> {
  const h = await evmHarness(chainWorld, change)
  try {
    await work(h)
  } finally {
    h.chain.close()
  }
}

describe('EIP-712', () => {
  const base = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
  const gateway = { name: 'GatewayWalletBatched', version: '1' }
  /**
   * EIP-3009, and test signatures of its typed data: domain, its separator, and digest and signature of one
   * authorization in it.
   */
  const golden = [
    {
      domain: { name: 'USD Coin', version: '2' },
      chainId: 8453,
      contract: base,
      separator: '0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f',
      digest: '0xa9ee7fe1a8b4e46a8da0fbbded0866f3010c04dfc66b9b7281a0e0efd61d61ec',
      signature:
        '0x4e0fd9e771e9771a43c84a4bddb1712d683d10cc0021e8f09a137d95bfa41db9336049ad3b4c9f90a01b85ac813c4600703a8d920a4d8ea01face3de3ee6da6d1b',
    },
    {
      domain: DOMAIN,
      chainId: 84532,
      contract: ASSET,
      separator: '0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818',
      digest: '0xa990092936b926baf5c0309d4e66c31b45d547161355fafc16be6becf7ae4d49',
      signature:
        '0x0271527cba2d0e77dcf88bf8e65211faefbc2eae4d33ae0a68532f2a8b94be3c6e21f82b5d4568308576420fa6faa92621d528f7813b31108b4e44e5d8e9ae041c',
    },
    {
      domain: gateway,
      chainId: 8453,
      contract: '0x77777777Dcc4d5A8B6E418Fd04D8997ef11000eE',
      separator: '0xb1040a7853b725267d0fb612de81fc3cf29e39952e2addda68a717d99e97eb10',
      digest: '0x28cadb39fb87621f5a38007056be36aa21c43bc5a79756fb4984ae49c079c229',
      signature:
        '0x2f90a629a69a10248ebee5306d8551f27f4b45b1bf8588a8c046f76764666522516f86a8804840eeb328a1267e14878ed7ad46479379cec47cb24b66a9f1519c1b',
    },
    {
      domain: gateway,
      chainId: 84532,
      contract: '0x0077777d7EBA4688BDeF3E311b846F25870A19B9',
      separator: '0xc3742368491d62d35db4f2606f8715a4814d22826819aa828e2b09d0e1c64f25',
      digest: '0x185ac1e39d752477e0df1d1736bdde5e48f2077702b8dd4c44e84ae57e80af4e',
      signature:
        '0xebbafd51586b4da1c10c9224184db6c13488ef682bca3092d9f892c65f04dfc458965444df72e6627ad83c2a97ad3462117a4c06ad2bfcef6d8c6998820082431c',
    },
  ] as const
  const signer = '0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A'
  const authorization = {
    from: signer,
    to: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
    value: '10000',
    validAfter: '0',
    validBefore: '4102444800',
    nonce: `0x${'ab'.repeat(32)}`,
  }

  for (const { domain, chainId, contract, separator, digest, signature } of golden) {
    test(`the golden vector of ${domain.name} on ${chainId} verifies`, async () => {
      const offer: Offer = {
        ...offerTo(authorization.to),
        network: `eip155:${chainId}`,
        asset: contract,
        extra: domain,
      }
      const exact = parseExact(
        { x402Version: 2, accepted: offer, payload: { signature, authorization } },
        offer,
      ) as Exact
      expect(domainSeparator(domain, chainId, contract)).toBe(separator)
      expect(digestOf(exact, separator)).toBe(digest)
      expect(await recoverSigner(digest, exact.signature)).toBe(lower(signer))
    })
  }
})

test('a signature whose v is 0 or 1 is refused: the token would revert on it', () =>
  withChain(async (h) => {
    const payment = await h.sign(await h.payer(), h.offer)
    const signature = String(payment.payload.signature)
    const bare = {
      ...payment,
      payload: { ...payment.payload, signature: signature.slice(0, -2) + (signature.endsWith('1b') ? '00' : '01') },
    }
    const refusal = { kind: 'refused', code: 'PAYMENT_INVALID', reason: expect.stringContaining('it must be 27 or 28') }
    expect(await h.chain.identify(bare, h.offer, at(h))).toMatchObject(refusal)
    expect(await h.chain.verify(bare, h.offer, at(h))).toMatchObject(refusal)
  }))

describe('a contract wallet (ERC-1271)', () => {
  /** A wallet owned by a key, and what its owner signs for it: one leading byte, then the key's signature. */
  async function deployed(h: EvmHarness, balance = 1_000_000n) {
    const owner = privateKeyToAccount(chainWorld.key())
    const init = wallets.ContractWallet.creation as Hex
    const { contractAddress } = await chainWorld.act(null, concatHex([init, `0x${word(owner.address)}`]))
    const address = contractAddress as Hex
    await chainWorld.setBalance(address, balance)
    const sign = async (offer = h.offer, by = owner) => {
      const payment = await signPayment(by, offer, { now: h.now(), from: address })
      return {
        ...payment,
        payload: { ...payment.payload, signature: `0x00${String(payment.payload.signature).slice(2)}` },
      }
    }
    return { address, sign }
  }

  test('pays through the overload with bytes, alone, beside others that go together', () =>
    withChain(async (h) => {
      const wallet = await deployed(h)
      const payment = await wallet.sign()
      const identity = await h.chain.identify(payment, h.offer, at(h))
      expect(identity.kind === 'known' && lower(identity.payer)).toBe(lower(wallet.address))
      expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject({ kind: 'valid', balance: 1_000_000n })
      const payers = await Promise.all(Array.from({ length: 5 }, () => h.payer()))
      const others = await Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
      const all = await Promise.all(
        [...others.slice(0, 2), payment, ...others.slice(2)].map((each) => h.chain.settle(each, h.offer, at(h))),
      )
      expect(all.map((each) => each.kind)).toEqual(Array(6).fill('settled'))
      const used = all.map((each) => (each.kind === 'settled' ? each.receipt.transaction : ''))
      expect(used.filter((each) => each === used[2])).toHaveLength(1)
      expect(await h.balanceOf(wallet.address)).toBe(990_000n)
      expect(await h.chain.fate(payment, h.offer, at(h))).toMatchObject({ kind: 'paid' })
    }))

  test('is refused with the signature of somebody who is not its owner', () =>
    withChain(async (h) => {
      const wallet = await deployed(h)
      const payment = await wallet.sign(h.offer, privateKeyToAccount(chainWorld.key()))
      const refusal = { kind: 'refused', code: 'PAYMENT_INVALID', reason: expect.stringContaining('ERC-1271') }
      expect(await h.chain.identify(payment, h.offer, at(h))).toMatchObject(refusal)
      expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject(refusal)
    }))

  test('is refused while it is counterfactual (ERC-6492)', () =>
    withChain(async (h) => {
      const from = '0x00000000000000000000000000000000000c0de5'
      const payment = await signPayment(privateKeyToAccount(chainWorld.key()), h.offer, { now: h.now(), from })
      const wrapped = {
        ...payment,
        payload: { ...payment.payload, signature: `${payment.payload.signature}${'6492'.repeat(16)}` },
      }
      for (const each of [payment, wrapped]) {
        expect(await h.chain.identify(each, h.offer, at(h))).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
      }
      expect(await h.chain.identify(wrapped, h.offer, at(h))).toMatchObject({
        reason: expect.stringContaining('ERC-6492'),
      })
    }))

  test('that signs with 65 bytes goes alone all the same', () =>
    withChain(async (h) => {
      const payers = await Promise.all(Array.from({ length: 4 }, () => h.payer()))
      const payments = await Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
      await chainWorld.ask('anvil_setCode', payers[2]?.address, YES)
      const all = await Promise.all(payments.map((payment) => h.chain.settle(payment, h.offer, at(h))))
      const used = all.map((each) => (each.kind === 'settled' ? each.receipt.transaction : each.kind))
      expect(used.map((each) => used.indexOf(each))).toEqual([0, 0, 2, 0])
    }))

  test('an account that delegates to code (EIP-7702) is judged by that code only', () =>
    withChain(async (h) => {
      const payer = await h.payer()
      const payment = await h.sign(payer, h.offer)
      await chainWorld.ask('anvil_setCode', payer.address, concatHex(['0xef0100', MULTICALL]))
      const refusal = { kind: 'refused', code: 'PAYMENT_INVALID', reason: expect.stringContaining('ERC-1271') }
      expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject(refusal)
      expect(await h.chain.settle(payment, h.offer, at(h))).toMatchObject({ kind: 'refused' })
    }))
})

describe('a receipt', () => {
  const from: Hex = `0x${'11'.repeat(20)}`
  const payTo: Hex = `0x${'22'.repeat(20)}`
  const nonce: Hex = `0x${'ab'.repeat(32)}`
  const offer = offerTo(payTo)
  const exact = { kind: 'exact', from, to: payTo, value: 10_000n, nonce } as Exact
  const log = (...topics: Hex[]): ChainLog => ({ address: lower(ASSET), topics, data: '0x', transactionHash: '0x01' })
  const topic = (hex: Hex): Hex => `0x${word(hex)}`
  const used = log(AUTHORIZATION_USED, topic(from), nonce)
  const transfer = (to: Hex, value: bigint): ChainLog => ({
    ...log('0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef', topic(from), topic(to)),
    data: `0x${word(value)}`,
  })
  const paid = (...logs: ChainLog[]) =>
    findPayment({ transactionHash: '0x01', block: 1, success: true, logs }, exact, offer) !== undefined

  test('proves a payment only by our transfer right after our authorization', () => {
    const ours = transfer(payTo, 10_000n)
    const elsewhere = { ...ours, address: lower(MULTICALL) }
    expect(paid(used, ours)).toBe(true)
    expect(paid(elsewhere, used, elsewhere, ours)).toBe(true)
    expect(paid(used)).toBe(false)
    expect(paid(ours)).toBe(false)
    expect(paid(ours, used)).toBe(false)
    expect(paid(used, transfer(payTo, 9_999n), ours)).toBe(false)
    expect(paid(used, transfer(from, 10_000n), ours)).toBe(false)
    expect(paid(used, elsewhere)).toBe(false)
    expect(paid(log(AUTHORIZATION_USED, topic(from), topic('0x01')), ours)).toBe(false)
    expect(paid(log(AUTHORIZATION_CANCELED, topic(from), nonce), ours)).toBe(false)
    expect(
      findPayment({ transactionHash: '0x01', block: 1, success: false, logs: [used, ours] }, exact, offer),
    ).toBeUndefined()
  })

  test('is nothing but a receipt', () => {
    const good = { transactionHash: '0x01', status: '0x1', blockNumber: '0x1', logs: [used] }
    expect(parseReceipt(good)).toMatchObject({ success: true })
    expect(parseReceipt({ ...good, logs: [{ ...used, removed: true }] })).toMatchObject({ logs: [] })
    const spoiled = [{ status: '0x' }, { blockNumber: null }, { logs: 'none' }, { logs: [null] }].map((change) => ({
      ...good,
      ...change,
    }))
    for (const bad of [null, undefined, 7, '0x', {}, ...spoiled]) expect(parseReceipt(bad)).toBeUndefined()
  })
})

describe('check()', () => {
  const problems = async (change: Parameters<typeof evmHarness>[1]) => {
    const h = await evmHarness(chainWorld)
    h.chain.close()
    const { judge, ...rest } = change ?? {}
    h.line.judge = judge
    const chain = evmChain({ ...h.config, ...rest })
    expect(chain.terms(0)).toEqual([])
    const checked = await chain.check()
    if (checked.kind !== 'ready') expect(chain.terms(0)).toEqual([])
    chain.close()
    return checked
  }
  const wrong = [
    ['network', { network: 'eip155:8453' }],
    ['asset', { asset: '0x00000000000000000000000000000000000000AA' }],
    ['asset', { asset: MULTICALL }],
    ['asset', { asset: 'USDC' }],
    ['domain.name', { domain: { name: 'USD Coin', version: '2' } }],
    ['domain.version', { domain: { name: 'USDC', version: '1' } }],
    ['pay_to', { payTo: '0x0000000000000000000000000000000000000000' }],
    ['pay_to', { payTo: ASSET }],
    ['pay_to', { payTo: '0x1234' }],
    ['pay_to', { payTo: '0x209693bc6afc0C5328bA36FaF03C514EF312287C' }],
    ['relayer_key', { relayerKey: `0x${'77'.repeat(32)}` }],
  ] as const
  for (const [setting, change] of wrong) {
    test(`names ${setting} for ${JSON.stringify(change).slice(0, 60)}`, async () => {
      const checked = await problems(change)
      const named = checked.kind === 'wrong' ? checked.problems.map((problem) => problem.split(':')[0]) : [checked.kind]
      expect([...new Set(named)]).toEqual([setting])
    })
  }

  test('says that the node cannot be asked, and opens once it can', () =>
    withChain(async (h) => {
      const chain = evmChain(h.config)
      h.outage(true)
      expect(await chain.check()).toMatchObject({ kind: 'unavailable' })
      expect(chain.terms(0)).toEqual([])
      h.outage(false)
      expect(await chain.check()).toMatchObject({ kind: 'ready', warnings: [] })
      expect(chain.terms(0)).toEqual([
        { scheme: 'exact', network: NETWORK, asset: ASSET, payTo: h.offer.payTo, extra: DOMAIN },
      ])
      chain.close()
    }))

  test('warns of a relayer that runs dry', async () => {
    expect(await problems({ lowGas: 10n ** 30n })).toMatchObject({
      kind: 'ready',
      warnings: [expect.stringContaining('running out of gas')],
    })
  })
})

describe('fate()', () => {
  /** A chain that has not seen the payment made, and so has to search for it. */
  const stranger = (h: EvmHarness, change: object = {}) => evmChain({ ...h.config, ...change })

  async function settledLongAgo(h: EvmHarness, blocks: number): Promise<Payment> {
    const payment = await h.sign(await h.payer(), h.offer)
    await h.submit(payment)
    await chainWorld.ask('anvil_mine', `0x${blocks.toString(16)}`, '0x2')
    await chainWorld.mineAt(Math.ceil(h.now() / 1000) + 2 * blocks)
    return payment
  }

  test('searches backwards in windows', () =>
    withChain(async (h) => {
      const payment = await settledLongAgo(h, 40)
      const chain = stranger(h, { logWindow: 4 })
      expect(await chain.fate(payment, h.offer, at(h))).toMatchObject({ kind: 'paid', receipt: { amount: '10000' } })
      chain.close()
    }))

  test('leaps over the time after the authorization had ended', () =>
    withChain(async (h) => {
      const payment = await settledLongAgo(h, 1_000)
      const chain = stranger(h, { logWindow: 16, lookbackSeconds: 0 })
      const before = h.line.count
      expect(await chain.fate(payment, h.offer, at(h))).toMatchObject({ kind: 'paid' })
      expect(h.line.count - before).toBeLessThan(25)
      chain.close()
    }))

  test('asks for less when the node refuses a wide window', () =>
    withChain(async (h) => {
      const payment = await settledLongAgo(h, 20)
      const chain = stranger(h, { logWindow: 1_000 })
      const isWide = ({ method, params }: Message) => {
        const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock: Hex; toBlock: Hex }
        return method === 'eth_getLogs' && BigInt(toBlock) - BigInt(fromBlock) >= 20n
      }
      h.line.judge = () => instead(isWide, { error: { code: -32005, message: 'block range too large' } })
      expect(await chain.fate(payment, h.offer, at(h))).toMatchObject({ kind: 'paid' })
      chain.close()
    }))

  test('does not search for ever: an event too long ago is unknown', () =>
    withChain(async (h) => {
      const payment = await h.sign(await h.payer(), h.offer, { validBefore: 4_102_444_800n })
      await h.submit(payment)
      await chainWorld.ask('anvil_mine', '0x64', '0x3c')
      await chainWorld.mineAt(Math.ceil(h.now() / 1000) + 6_100)
      const chain = stranger(h, { logWindow: 4, lookbackSeconds: 60 })
      const before = h.line.count
      expect(await chain.fate(payment, h.offer, at(h))).toMatchObject({
        kind: 'unknown',
        reason: expect.stringContaining('not found'),
      })
      expect(h.line.count - before).toBeLessThan(8)
      chain.close()
    }))

  test('of a used authorization whose event is not found is unknown, never dead', () =>
    withChain(async (h) => {
      const payment = await settledLongAgo(h, 8)
      const chain = stranger(h)
      h.line.judge = () => instead(({ method }) => method === 'eth_getLogs', { result: [] })
      const reason = expect.stringContaining('not found')
      expect(await chain.fate(payment, h.offer, at(h))).toMatchObject({ kind: 'unknown', reason })
      chain.close()
    }))

  test('finds what was canceled right after the longest life that verify() allows had begun', () =>
    withChain(async (h) => {
      const now = Math.ceil(h.now() / 1000)
      const payer = await h.payer()
      const end = now + maxLifetimeSeconds(h.offer)
      const payment = await h.sign(payer, h.offer, { validBefore: BigInt(end) })
      expect(await h.chain.verify(payment, h.offer, { now: now * 1000, signal: timeouts() })).toMatchObject({
        kind: 'valid',
      })
      await h.cancel(payer, payment)
      await chainWorld.ask('anvil_mine', hexOf(290n), hexOf(290n))
      await chainWorld.mineAt(end + 700)
      const chain = stranger(h, { logWindow: 16 })
      expect(await chain.fate(payment, h.offer, at(h))).toEqual({ kind: 'dead' })
      chain.close()
    }))

  test('searches on where it has stopped, when one look is not enough', () =>
    withChain(async (h) => {
      const payment = await h.sign(await h.payer(), h.offer, { validBefore: BigInt(Math.ceil(h.now() / 1000) + 2_000) })
      await h.submit(payment)
      await chainWorld.ask('anvil_mine', hexOf(150n), '0x2')
      await chainWorld.mineAt(Math.ceil(h.now() / 1000) + 400)
      const chain = stranger(h, { logWindow: 1 })
      const polls: string[] = []
      for (let i = 0; i < 3; i++) polls.push((await chain.fate(payment, h.offer, at(h))).kind)
      expect(polls).toEqual(['unknown', 'unknown', 'paid'])
      chain.close()
    }))
})

describe('an authorization that is used, nobody knows on what,', () => {
  const hidden = (h: EvmHarness) =>
    void (h.line.judge = () => instead(({ method }) => method === 'eth_getLogs', { result: [] }))

  test('is refused when it was never sent, and settled once its event is found', () =>
    withChain(async (h) => {
      const payment = await h.sign(await h.payer(), h.offer)
      await h.submit(payment)
      hidden(h)
      const refusal = { kind: 'refused', reason: expect.stringContaining('nothing was sent') }
      expect(await h.chain.settle(payment, h.offer, at(h))).toMatchObject(refusal)
      const { expiresAt } = parseExact(payment, h.offer) as Exact
      expect(await h.chain.settle(payment, h.offer, { now: expiresAt, signal: timeouts() })).toMatchObject(refusal)
      expect(await h.chain.fate(payment, h.offer, at(h))).toMatchObject({ kind: 'unknown' })
      h.recover()
      expect(await h.chain.settle(payment, h.offer, at(h))).toMatchObject({ kind: 'settled' })
    }))

  test('is unknown when it may have been our own transaction', () =>
    withChain(async (h) => {
      const payment = await h.sign(await h.payer(), h.offer)
      const isOurs = ({ method }: Message) => method === 'eth_sendRawTransactionSync'
      let isSent = false
      // its receipt is taken back: to us it reads as reverted, while a node that shows no logs says that the
      // authorization is used
      h.line.judge = () => async (messages, forward) => {
        const replies = await forward()
        isSent ||= messages.some(isOurs)
        const textOf = (id: number) => replies.find((each) => each.id === id)
        return messages.map((message) => {
          const reply = textOf(message.id) ?? { id: message.id }
          if (isOurs(message)) return { ...reply, result: { ...(reply.result as object), logs: [] } }
          return message.method === 'eth_getLogs' ? { id: message.id, result: [] } : reply
        })
      }
      for (let i = 0; i < 2; i++)
        expect(await h.chain.settle(payment, h.offer, at(h))).toMatchObject({ kind: 'unknown' })
      expect(isSent).toBe(true)
      h.recover()
      expect(await h.chain.settle(payment, h.offer, at(h))).toMatchObject({ kind: 'settled' })
    }))
})

describe('a bad signature', () => {
  const forged = async (h: EvmHarness, payer = privateKeyToAccount(chainWorld.key())) =>
    signPayment(privateKeyToAccount(chainWorld.key()), h.offer, { now: h.now(), from: payer.address })
  const kinds = async (h: EvmHarness, identify = h.chain.identify, all: readonly Payment[] = []) => [
    ...new Set((await Promise.all(all.map((each) => identify(each, h.offer, at(h))))).map(({ kind }) => kind)),
  ]

  test('costs one question, however many of them name one account', () =>
    withChain(async (h) => {
      const payer = privateKeyToAccount(chainWorld.key())
      const flood = await Promise.all(Array.from({ length: 40 }, () => forged(h, payer)))
      let requestCount = 0
      h.line.judge = (messages) => {
        requestCount += messages.length
        return 'fine'
      }
      expect(await kinds(h, h.chain.identify, flood)).toEqual(['refused'])
      for (const each of flood) expect(await kinds(h, h.chain.identify, [each])).toEqual(['refused'])
      expect(requestCount).toBe(2)
    }))

  test('of an account that has gained code is judged by that code when the account is forgotten', () =>
    withChain(async (h) => {
      const rpc = jsonRpc({ url: chainWorld.url })
      let forget = () => {}
      const { identify } = evmIdentity(
        { rpc, reads: evmReads(rpc, {}) },
        { network: NETWORK, lagSeconds: 4, schedule: (act) => void (forget = act) },
      )
      const payer = privateKeyToAccount(chainWorld.key())
      const payment = await forged(h, payer)
      expect(await kinds(h, identify, [payment])).toEqual(['refused'])
      await chainWorld.ask('anvil_setCode', payer.address, YES)
      expect(await kinds(h, identify, [payment])).toEqual(['refused'])
      forget()
      expect(await kinds(h, identify, [payment])).toEqual(['known'])
      expect(await kinds(h, identify, [payment])).toEqual(['known'])
      rpc.close()
    }))

  test('is not known to be bad when the node did not say so', () =>
    withChain(async (h) => {
      const payment = await forged(h)
      h.outage(true)
      expect(await kinds(h, h.chain.identify, [payment, payment])).toEqual(['unavailable'])
      h.outage(false)
      expect(await kinds(h, h.chain.identify, [payment])).toEqual(['refused'])
    }))
})

describe("the chain's time", () => {
  /** The node's newest block is at `now`; the payment begins five seconds later, the caller asks ten seconds later. */
  async function early(h: EvmHarness): Promise<{ payment: Payment; now: number }> {
    const now = Math.ceil(h.now() / 1000)
    await h.mineAt(now)
    return { payment: await h.sign(await h.payer(), h.offer, { validAfter: BigInt(now + 5) }), now: (now + 10) * 1000 }
  }

  test('decides when an authorization begins', () =>
    withChain(async (h) => {
      const { payment, now } = await early(h)
      const refusal = {
        kind: 'refused',
        code: 'PAYMENT_UNFUNDED',
        reason: expect.stringContaining("the chain's time"),
      }
      expect(await h.chain.verify(payment, h.offer, { now, signal: timeouts() })).toMatchObject(refusal)
    }))

  test('does not wait for a block on a node that mines only on demand', () =>
    withChain(
      async (h) => {
        const now = Math.ceil(h.now() / 1000)
        await h.mineAt(now)
        const payment = await h.sign(await h.payer(), h.offer, { validBefore: BigInt(now + 30) })
        expect(await h.chain.fate(payment, h.offer, at(h))).toEqual({ kind: 'open' })
        await chainWorld.ask('evm_increaseTime', 30)
        expect(await h.chain.fate(payment, h.offer, at(h))).toEqual({ kind: 'dead' })
        expect(await chainWorld.ask<object>('eth_getBlockByNumber', 'latest', false)).toMatchObject({
          timestamp: `0x${now.toString(16)}`,
        })
        await h.mineAt(now + 60)
      },
      { readAt: 'pending' },
    ))

  test('stops the sending of what ends before the next block', () =>
    withChain(async (h) => {
      const now = Math.ceil(h.now() / 1000)
      await h.mineAt(now)
      const payment = await h.sign(await h.payer(), h.offer, { validBefore: BigInt(now + 20) })
      const before = h.line.count
      const settlement = await h.chain.settle(payment, h.offer, { now: (now + 20) * 1000, signal: timeouts() })
      expect(settlement).toMatchObject({ kind: 'refused', reason: expect.stringContaining('expired') })
      expect(h.line.count - before).toBe(1)
    }))
})

test('an offer in a domain that the token has left is refused by verify()', () =>
  withChain(async (h) => {
    const offer = { ...h.offer, extra: { name: 'USD Coin', version: '2' } }
    const payment = await h.sign(await h.payer(), offer)
    expect(await h.chain.identify(payment, offer, at(h))).toMatchObject({ kind: 'known' })
    const refusal = { kind: 'refused', code: 'PAYMENT_INVALID', reason: expect.stringContaining('token_name_mismatch') }
    expect(await h.chain.verify(payment, offer, at(h))).toMatchObject(refusal)
  }))

describe('one request', () => {
  test('is what a verify costs', () =>
    withChain(async (h) => {
      const payment = await h.sign(await h.payer(), h.offer)
      const before = h.line.count
      expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject({ kind: 'valid' })
      expect(h.line.count - before).toBe(1)
    }))

  test('carries what is asked at the same moment', () =>
    withChain(async (h) => {
      const payers = await Promise.all(Array.from({ length: 20 }, () => h.payer()))
      const payments = await Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
      const before = h.line.count
      const verdicts = await Promise.all(payments.map((payment) => h.chain.verify(payment, h.offer, at(h))))
      expect(verdicts.every((verdict) => verdict.kind === 'valid')).toBe(true)
      expect(h.line.count - before).toBe(1)
    }))

  test('sends fifty settlements in one transaction', () =>
    withChain(async (h) => {
      const payers = await Promise.all(Array.from({ length: 50 }, () => h.payer()))
      const payments = await Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
      let sends = 0
      h.line.judge = (messages) => {
        sends += messages.filter(isSend).length
        return 'fine'
      }
      const all = await Promise.all(payments.map((payment) => h.chain.settle(payment, h.offer, at(h))))
      expect(all.every((each) => each.kind === 'settled')).toBe(true)
      expect(sends).toBe(1)
      expect(await h.balanceOf(h.offer.payTo)).toBe(500_000n)
    }))
})
