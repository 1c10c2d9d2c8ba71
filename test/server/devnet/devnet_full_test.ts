import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  concatHex,
  decodeFunctionResult,
  encodeDeployData,
  encodeFunctionData,
  hashTypedData,
  keccak256,
  numberToHex,
  parseAbi,
  parseSignature,
  recoverTypedDataAddress,
  serializeSignature,
  toEventSelector,
  toFunctionSelector,
  toHex,
  type Hex,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { anvilBinary, holderOf, rpc, startAnvil } from '../../../server/devnet/anvil.ts'
import { compileContracts, readArtifact } from '../../../server/devnet/compile.ts'
import {
  BUYER_FUNDS,
  DEVNET_ASSET,
  DEVNET_MULTICALL,
  resetDevnet,
  startDevnet,
  type Devnet,
} from '../../../server/devnet/mod.ts'
import wallets from '../../adapters/chains/evm/contract_wallet.json' with { type: 'json' }

const TOKEN = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)',
  'function authorizationState(address authorizer, bytes32 nonce) view returns (bool)',
  'function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)',
  'function nonces(address owner) view returns (uint256)',
  'function allowance(address owner, address spender) view returns (uint256)',
  'function balanceOf(address account) view returns (uint256)',
  'function transfer(address to, uint256 value) returns (bool)',
  'function transferFrom(address from, address to, uint256 value) returns (bool)',
  'function approve(address spender, uint256 value) returns (bool)',
  'function mint(address to, uint256 value)',
  'function DOMAIN_SEPARATOR() view returns (bytes32)',
  'function name() view returns (string)',
  'function version() view returns (string)',
  'function symbol() view returns (string)',
  'function decimals() view returns (uint8)',
])
const MULTICALL = parseAbi([
  'struct Call { address target; bool allowFailure; bytes callData; }',
  'struct Result { bool success; bytes returnData; }',
  'function aggregate3(Call[] calls) payable returns (Result[] results)',
  'function getEthBalance(address account) view returns (uint256)',
])
const USED = toEventSelector('AuthorizationUsed(address,bytes32)')
const TRANSFER = toEventSelector('Transfer(address,address,uint256)')
const FAR = 4_102_444_800n
const DOMAIN = { name: 'USDC', version: '2', chainId: 84532, verifyingContract: DEVNET_ASSET } as const
const FIELDS = [
  { name: 'from', type: 'address' },
  { name: 'to', type: 'address' },
  { name: 'value', type: 'uint256' },
  { name: 'validAfter', type: 'uint256' },
  { name: 'validBefore', type: 'uint256' },
  { name: 'nonce', type: 'bytes32' },
] as const
const TYPES = {
  TransferWithAuthorization: FIELDS,
  ReceiveWithAuthorization: FIELDS,
  CancelAuthorization: [
    { name: 'authorizer', type: 'address' },
    { name: 'nonce', type: 'bytes32' },
  ],
  Permit: [
    { name: 'owner', type: 'address' },
    { name: 'spender', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

type Log = { address: Hex; topics: Hex[]; data: Hex }
type Receipt = { status: Hex; transactionHash: Hex; blockNumber: Hex; contractAddress: Hex | null; logs: Log[] }
type Authorization = { from: Hex; to: Hex; value: bigint; validAfter: bigint; validBefore: bigint; nonce: Hex }
type Signer = ReturnType<typeof privateKeyToAccount>

let chain: Devnet
let buyer: Signer
let counter = 0
const seller = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const scratch = mkdtempSync(join(tmpdir(), 'farebox-devnet-'))

beforeAll(async () => {
  chain = await startDevnet()
  buyer = privateKeyToAccount(chain.buyer.privateKey)
})
afterAll(async () => {
  await chain.stop()
  rmSync(scratch, { recursive: true, force: true })
})

function authorization(change: Partial<Authorization> = {}): Authorization {
  const nonce = keccak256(numberToHex(++counter))
  return { from: buyer.address, to: seller, value: 10_000n, validAfter: 0n, validBefore: FAR, nonce, ...change }
}

function sign(
  message: Authorization,
  signer: Signer = buyer,
  primaryType: 'TransferWithAuthorization' | 'ReceiveWithAuthorization' = 'TransferWithAuthorization',
) {
  return signer.signTypedData({ domain: DOMAIN, types: TYPES, primaryType, message })
}

/** Calldata of the overload that takes one byte string, or of the one that takes v, r, s. */
function spend(
  a: Authorization,
  signature: Hex,
  overload: 'bytes' | 'vrs' = 'bytes',
  functionName: 'transferWithAuthorization' | 'receiveWithAuthorization' = 'transferWithAuthorization',
): Hex {
  const fields = [a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce] as const
  if (overload === 'bytes') return encodeFunctionData({ abi: TOKEN, functionName, args: [...fields, signature] })
  const { r, s, v } = parseSignature(signature)
  return encodeFunctionData({ abi: TOKEN, functionName, args: [...fields, Number(v), r, s] })
}

async function send(
  data: Hex,
  { to = DEVNET_ASSET as Hex | null, key = chain.relayerKey, url = chain.rpcUrl } = {},
): Promise<Receipt> {
  const account = privateKeyToAccount(key)
  const nonce = Number(await rpc<Hex>(url, 'eth_getTransactionCount', [account.address, 'pending']))
  const fees = { gas: 1_000_000n, maxFeePerGas: 10_000_000_000n, maxPriorityFeePerGas: 0n }
  const raw = await account.signTransaction({ type: 'eip1559', chainId: 84532, nonce, to, data, ...fees })
  return rpc<Receipt>(url, 'eth_sendRawTransactionSync', [raw])
}

/** Answer of the token; `time` pretends the block's clock. */
function ask(
  data: Hex,
  { to = DEVNET_ASSET as Hex, from = seller as Hex, time = undefined as bigint | undefined } = {},
): Promise<Hex> {
  const clock = time === undefined ? [] : [{}, { time: toHex(time) }]
  return rpc<Hex>(chain.rpcUrl, 'eth_call', [{ from, to, data }, 'pending', ...clock])
}

async function balance(of: Hex, url = chain.rpcUrl): Promise<bigint> {
  const data = encodeFunctionData({ abi: TOKEN, functionName: 'balanceOf', args: [of] })
  return BigInt(await rpc<Hex>(url, 'eth_call', [{ to: DEVNET_ASSET, data }, 'latest']))
}

describe('test USDC', () => {
  test('the artifacts on disk are what the sources compile to', () => {
    for (const [file, text] of compileContracts())
      expect(readArtifact(file) === text, `${file} is stale: run bun server/devnet/compile.ts`).toBe(true)
  }, 300_000)

  test('has the domain, names, selectors and topics of Base Sepolia USDC', async () => {
    const read = async (functionName: 'name' | 'version' | 'symbol' | 'decimals' | 'DOMAIN_SEPARATOR') =>
      decodeFunctionResult({
        abi: TOKEN,
        functionName,
        data: await ask(encodeFunctionData({ abi: TOKEN, functionName })),
      })
    expect(await read('DOMAIN_SEPARATOR')).toBe('0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818')
    expect([await read('name'), await read('version'), await read('symbol'), await read('decimals')]).toEqual([
      'USDC',
      '2',
      'USDC',
      6,
    ])

    const artifact = JSON.parse(readArtifact('server/devnet/contracts.json')).TestUsdc as {
      abi: { type: string; name?: string }[]
    }
    const selectors = (name: string) =>
      artifact.abi
        .filter((item) => item.name === name)
        .map((item) => toFunctionSelector(item as never))
        .sort()
    expect(selectors('transferWithAuthorization')).toEqual(['0xcf092995', '0xe3ee160e'])
    expect(selectors('receiveWithAuthorization')).toEqual(['0x88b7ab63', '0xef55bec6'])
    expect(selectors('cancelAuthorization')).toEqual(['0x5a049a70', '0xb7b72899'])
    expect(selectors('authorizationState')).toEqual(['0xe94a0102'])
    expect(USED).toStartWith('0x98de5035')
    expect(toEventSelector('AuthorizationCanceled(address,bytes32)')).toStartWith('0x1cdd46ff')
    expect(TRANSFER).toStartWith('0xddf252ad')
  })

  test.each(['bytes', 'vrs'] as const)(
    'transferWithAuthorization (%s) moves money once, and says so in two events',
    async (overload) => {
      const a = authorization()
      const before = await balance(seller)
      const receipt = await send(spend(a, await sign(a), overload))
      expect(receipt.status).toBe('0x1')
      expect(receipt.logs.map((log) => log.topics[0]!)).toEqual([USED, TRANSFER])
      expect(receipt.logs[0]!.topics[2]).toBe(a.nonce)
      expect(BigInt(receipt.logs[1]!.data)).toBe(10_000n)
      expect((await balance(seller)) - before).toBe(10_000n)
      await expect(ask(spend(a, await sign(a), overload))).rejects.toThrow('used or canceled')
      expect((await send(spend(a, await sign(a), overload))).status).toBe('0x0')
    },
  )

  test.each(['bytes', 'vrs'] as const)(
    'receiveWithAuthorization (%s) is for the payee alone, under its own type',
    async (overload) => {
      const relayer = privateKeyToAccount(chain.relayerKey).address
      const a = authorization({ to: relayer })
      const good = spend(a, await sign(a, buyer, 'ReceiveWithAuthorization'), overload, 'receiveWithAuthorization')
      await expect(ask(good, { from: seller })).rejects.toThrow('caller must be the payee')
      await expect(
        ask(spend(a, await sign(a), overload, 'receiveWithAuthorization'), { from: relayer }),
      ).rejects.toThrow('invalid signature')
      expect((await send(good)).status).toBe('0x1')
      expect(await balance(relayer)).toBeGreaterThanOrEqual(10_000n)
    },
  )

  test('refuses another key, changed fields, a mirrored s, and v of 0 or 29', async () => {
    const a = authorization()
    const signature = await sign(a)
    const { r, s, v } = parseSignature(signature)
    const mirrored = serializeSignature({
      r,
      s: numberToHex(ORDER - BigInt(s), { size: 32 }),
      v: v === 27n ? 28n : 27n,
    })
    expect(
      await recoverTypedDataAddress({
        domain: DOMAIN,
        types: TYPES,
        primaryType: 'TransferWithAuthorization',
        message: a,
        signature: mirrored,
      }),
    ).toBe(buyer.address)
    const bodies = [
      spend(a, await sign(a, privateKeyToAccount(chain.relayerKey))),
      spend({ ...a, value: 10_001n }, signature),
      spend({ ...a, to: buyer.address }, signature),
      spend({ ...a, from: seller }, signature),
      spend(a, mirrored),
      spend(a, mirrored, 'vrs'),
      spend(a, concatHex([r, s, '0x00'])),
      spend(a, concatHex([r, s, '0x1d'])),
      spend(a, '0x'),
      spend({ ...a, from: '0x0000000000000000000000000000000000000000' }, concatHex([r, s, '0x1d'])),
    ]
    for (const body of bodies) await expect(ask(body)).rejects.toThrow('invalid signature')
    await ask(spend(a, signature))
  })

  test('both ends of the window are exclusive', async () => {
    const a = authorization({ validAfter: 1_900_000_000n, validBefore: 1_900_000_010n })
    const data = spend(a, await sign(a))
    await expect(ask(data, { time: 1_900_000_000n })).rejects.toThrow('not yet valid')
    await ask(data, { time: 1_900_000_001n })
    await ask(data, { time: 1_900_000_009n })
    await expect(ask(data, { time: 1_900_000_010n })).rejects.toThrow('expired')
    expect((await send(data)).status).toBe('0x0')
  })

  test('refuses to spend more than there is, and frees the authorization', async () => {
    const a = authorization({ value: BUYER_FUNDS * 2n })
    await expect(ask(spend(a, await sign(a)))).rejects.toThrow('exceeds the balance')
    expect((await send(spend(a, await sign(a)))).status).toBe('0x0')
    expect(
      BigInt(
        await ask(encodeFunctionData({ abi: TOKEN, functionName: 'authorizationState', args: [a.from, a.nonce] })),
      ),
    ).toBe(0n)
  })

  test.each(['bytes', 'vrs'] as const)(
    'cancelAuthorization (%s) kills a nonce, by its owner only',
    async (overload) => {
      const a = authorization()
      const message = { authorizer: a.from, nonce: a.nonce }
      const cancel = async (signer: Signer) => {
        const signature = await signer.signTypedData({
          domain: DOMAIN,
          types: TYPES,
          primaryType: 'CancelAuthorization',
          message,
        })
        const { r, s, v } = parseSignature(signature)
        if (overload === 'bytes')
          return encodeFunctionData({
            abi: TOKEN,
            functionName: 'cancelAuthorization',
            args: [a.from, a.nonce, signature],
          })
        return encodeFunctionData({
          abi: TOKEN,
          functionName: 'cancelAuthorization',
          args: [a.from, a.nonce, Number(v), r, s],
        })
      }
      await expect(ask(await cancel(privateKeyToAccount(chain.relayerKey)))).rejects.toThrow('invalid signature')
      const receipt = await send(await cancel(buyer))
      expect(receipt.logs.map((log) => log.topics)).toEqual([
        [
          toEventSelector('AuthorizationCanceled(address,bytes32)'),
          `0x${'0'.repeat(24)}${a.from.slice(2).toLowerCase()}`,
          a.nonce,
        ],
      ])
      await expect(ask(spend(a, await sign(a)))).rejects.toThrow('used or canceled')
      await expect(ask(await cancel(buyer))).rejects.toThrow('used or canceled')
    },
  )

  test('permit allows what was signed, once, until its deadline', async () => {
    const relayer = privateKeyToAccount(chain.relayerKey).address
    const message = { owner: buyer.address, spender: relayer, value: 500n, nonce: 0n, deadline: FAR }
    const { r, s, v } = parseSignature(
      await buyer.signTypedData({ domain: DOMAIN, types: TYPES, primaryType: 'Permit', message }),
    )
    const data = encodeFunctionData({
      abi: TOKEN,
      functionName: 'permit',
      args: [buyer.address, relayer, 500n, FAR, Number(v), r, s],
    })
    await expect(ask(data, { time: FAR + 1n })).rejects.toThrow('permit is expired')
    expect((await send(data)).status).toBe('0x1')
    await expect(ask(data)).rejects.toThrow('invalid signature')
    const take = (value: bigint) =>
      encodeFunctionData({ abi: TOKEN, functionName: 'transferFrom', args: [buyer.address, relayer, value] })
    await expect(ask(take(501n), { from: relayer })).rejects.toThrow('exceeds the allowance')
    expect((await send(take(500n))).status).toBe('0x1')
    expect(
      BigInt(await ask(encodeFunctionData({ abi: TOKEN, functionName: 'allowance', args: [buyer.address, relayer] }))),
    ).toBe(0n)
  })

  test('a contract wallet pays by ERC-1271 through the bytes overload, and only with its owner', async () => {
    const owner = privateKeyToAccount(`0x${'33'.repeat(32)}`)
    const { abi, creation } = wallets.ContractWallet
    const deployed = await send(encodeDeployData({ abi, bytecode: creation as Hex, args: [owner.address] }), {
      to: null,
    })
    const wallet = deployed.contractAddress!
    expect((await send(encodeFunctionData({ abi: TOKEN, functionName: 'mint', args: [wallet, 10_000n] }))).status).toBe(
      '0x1',
    )
    const a = authorization({ from: wallet })
    const wrapped = async (signer: Signer) => concatHex(['0x01', await sign(a, signer)])
    await expect(ask(spend(a, await wrapped(buyer)))).rejects.toThrow('invalid signature')
    await expect(ask(spend(a, await sign(a, owner)))).rejects.toThrow('invalid signature') // its code decides, and asks for the prefix
    expect((await send(spend(a, await wrapped(owner)))).status).toBe('0x1')
    expect(await balance(wallet)).toBe(0n)
  })

  test('an account with code answers by its code alone, though its key signed: so does a delegated EOA', async () => {
    const delegated = privateKeyToAccount(`0x${'44'.repeat(32)}`)
    await send(encodeFunctionData({ abi: TOKEN, functionName: 'mint', args: [delegated.address, 10_000n] }))
    const a = authorization({ from: delegated.address })
    const signature = await sign(a, delegated)
    await ask(spend(a, signature))
    await rpc(chain.rpcUrl, 'anvil_setCode', [delegated.address, '0x00'])
    for (const overload of ['bytes', 'vrs'] as const)
      await expect(ask(spend(a, signature, overload))).rejects.toThrow('invalid signature')
  })

  test("the golden vectors of the reference verify, and Base Sepolia's moves money here", async () => {
    const message = authorization({ from: '0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A', nonce: `0x${'ab'.repeat(32)}` })
    const base = {
      name: 'USD Coin',
      version: '2',
      chainId: 8453,
      verifyingContract: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
    } as const
    const vectors = [
      [
        base,
        '0xa9ee7fe1a8b4e46a8da0fbbded0866f3010c04dfc66b9b7281a0e0efd61d61ec',
        '0x4e0fd9e771e9771a43c84a4bddb1712d683d10cc0021e8f09a137d95bfa41db9336049ad3b4c9f90a01b85ac813c4600703a8d920a4d8ea01face3de3ee6da6d1b',
      ],
      [
        DOMAIN,
        '0xa990092936b926baf5c0309d4e66c31b45d547161355fafc16be6becf7ae4d49',
        '0x0271527cba2d0e77dcf88bf8e65211faefbc2eae4d33ae0a68532f2a8b94be3c6e21f82b5d4568308576420fa6faa92621d528f7813b31108b4e44e5d8e9ae041c',
      ],
      [
        {
          name: 'GatewayWalletBatched',
          version: '1',
          chainId: 8453,
          verifyingContract: '0x77777777Dcc4d5A8B6E418Fd04D8997ef11000eE',
        },
        '0x28cadb39fb87621f5a38007056be36aa21c43bc5a79756fb4984ae49c079c229',
        '0x2f90a629a69a10248ebee5306d8551f27f4b45b1bf8588a8c046f76764666522516f86a8804840eeb328a1267e14878ed7ad46479379cec47cb24b66a9f1519c1b',
      ],
      [
        {
          name: 'GatewayWalletBatched',
          version: '1',
          chainId: 84532,
          verifyingContract: '0x0077777d7EBA4688BDeF3E311b846F25870A19B9',
        },
        '0x185ac1e39d752477e0df1d1736bdde5e48f2077702b8dd4c44e84ae57e80af4e',
        '0xebbafd51586b4da1c10c9224184db6c13488ef682bca3092d9f892c65f04dfc458965444df72e6627ad83c2a97ad3462117a4c06ad2bfcef6d8c6998820082431c',
      ],
    ] as const
    for (const [domain, digest, signature] of vectors) {
      const typed = { domain, types: TYPES, primaryType: 'TransferWithAuthorization', message } as const
      expect(hashTypedData(typed)).toBe(digest)
      expect(await recoverTypedDataAddress({ ...typed, signature })).toBe(message.from)
    }
    await send(encodeFunctionData({ abi: TOKEN, functionName: 'mint', args: [message.from, 10_000n] }))
    await expect(ask(spend(message, vectors[0][2]))).rejects.toThrow('invalid signature')
    expect((await send(spend(message, vectors[1][2], 'vrs'))).status).toBe('0x1')
  })

  test('plain transfers and approvals work, and nothing goes to the zero address', async () => {
    const zero = '0x0000000000000000000000000000000000000000'
    expect(
      (
        await send(encodeFunctionData({ abi: TOKEN, functionName: 'transfer', args: [seller, 1n] }), {
          key: chain.buyer.privateKey,
        })
      ).status,
    ).toBe('0x1')
    expect(
      (
        await send(encodeFunctionData({ abi: TOKEN, functionName: 'approve', args: [seller, 7n] }), {
          key: chain.buyer.privateKey,
        })
      ).status,
    ).toBe('0x1')
    await expect(
      ask(encodeFunctionData({ abi: TOKEN, functionName: 'transfer', args: [zero, 1n] }), { from: buyer.address }),
    ).rejects.toThrow('zero address')
    await expect(ask(encodeFunctionData({ abi: TOKEN, functionName: 'mint', args: [zero, 1n] }))).rejects.toThrow(
      'zero address',
    )
  })
})

describe('multicall', () => {
  test('aggregate3 settles many at once; a failed one is reported if allowed, else reverts all', async () => {
    const good = await Promise.all([authorization(), authorization()].map(async (a) => spend(a, await sign(a))))
    const bad = spend(authorization(), '0x')
    const batch = (allowFailure: boolean) =>
      encodeFunctionData({
        abi: MULTICALL,
        functionName: 'aggregate3',
        args: [[...good, bad].map((callData) => ({ target: DEVNET_ASSET as Hex, allowFailure, callData }))],
      })
    await expect(ask(batch(false), { to: DEVNET_MULTICALL })).rejects.toThrow('call failed')
    const results = decodeFunctionResult({
      abi: MULTICALL,
      functionName: 'aggregate3',
      data: await ask(batch(true), { to: DEVNET_MULTICALL }),
    })
    expect(results.map((result) => result.success)).toEqual([true, true, false])
    const before = await balance(seller)
    expect((await send(batch(true), { to: DEVNET_MULTICALL })).status).toBe('0x1')
    expect((await balance(seller)) - before).toBe(20_000n)
    const ether = await ask(
      encodeFunctionData({ abi: MULTICALL, functionName: 'getEthBalance', args: [buyer.address] }),
      { to: DEVNET_MULTICALL },
    )
    expect(BigInt(ether)).toBeGreaterThan(0n)
  })
})

describe('startDevnet()', () => {
  test('gives a chain, a funded buyer and a relayer with gas', async () => {
    const fresh = await startDevnet()
    expect(fresh).toMatchObject({
      network: 'eip155:84532',
      chainId: 84532,
      asset: DEVNET_ASSET,
      domain: { name: 'USDC', version: '2' },
      isFresh: true,
    })
    expect(await rpc<Hex>(fresh.rpcUrl, 'eth_chainId', [])).toBe('0x14a34')
    expect(await balance(fresh.buyer.address, fresh.rpcUrl)).toBe(BUYER_FUNDS)
    expect(fresh.buyer.privateKey).not.toBe(chain.buyer.privateKey)
    expect(new URL(fresh.rpcUrl).hostname).toBe('127.0.0.1')
    await fresh.stop()
    await fresh.stop()
    expect(await fresh.exited).toMatchObject({ isExpected: true, code: 0 })
  })

  test('keeps keys, balances, receipts and logs over a restart, with a clock that goes on', async () => {
    const dir = join(scratch, 'kept')
    const first = await startDevnet({ dir })
    expect(statSync(join(dir, 'devnet.json')).mode & 0o777).toBe(0o600)
    const payer = privateKeyToAccount(first.buyer.privateKey)
    const a = authorization({ from: payer.address })
    const data = spend(a, await sign(a, payer))
    const paid = await send(data, { key: first.relayerKey, url: first.rpcUrl })
    expect(paid.status).toBe('0x1')
    await first.stop()
    expect(existsSync(join(dir, 'chain.json.pid'))).toBe(false)

    const second = await startDevnet({ dir })
    expect(second).toMatchObject({
      isFresh: false,
      payTo: first.payTo,
      relayerKey: first.relayerKey,
      buyer: first.buyer,
    })
    expect(await balance(payer.address, second.rpcUrl)).toBe(BUYER_FUNDS - 10_000n)
    expect(await rpc<Receipt>(second.rpcUrl, 'eth_getTransactionReceipt', [paid.transactionHash])).toEqual(paid)
    const logs = await rpc<{ transactionHash: Hex }[]>(second.rpcUrl, 'eth_getLogs', [
      { address: DEVNET_ASSET, fromBlock: '0x0', topics: [USED, null, a.nonce] },
    ])
    expect(logs.map((log) => log.transactionHash)).toEqual([paid.transactionHash])
    expect((await send(data, { key: second.relayerKey, url: second.rpcUrl })).status).toBe('0x0')

    const [old, latest] = await Promise.all(
      [paid.blockNumber, 'latest'].map((block) =>
        rpc<{ timestamp: Hex }>(second.rpcUrl, 'eth_getBlockByNumber', [block, false]),
      ),
    )
    expect(Number(latest!.timestamp)).toBeGreaterThanOrEqual(Number(old!.timestamp))
    expect(Math.abs(Number(latest!.timestamp) - Date.now() / 1000)).toBeLessThan(3)

    await expect(startDevnet({ dir })).rejects.toThrow(`in use by process ${process.pid}`)
    await expect(resetDevnet(dir)).rejects.toThrow('stop it before the reset')
    await second.stop()
    await resetDevnet(dir)
    const third = await startDevnet({ dir })
    expect(third).toMatchObject({ isFresh: true, buyer: first.buyer })
    expect(await balance(payer.address, third.rpcUrl)).toBe(BUYER_FUNDS)
    await third.stop()
  })

  test('sets a damaged chain aside, says so, and begins anew with the same keys', async () => {
    const dir = join(scratch, 'damaged')
    const first = await startDevnet({ dir })
    await first.stop()
    const state = join(dir, 'chain.json')
    writeFileSync(state, readFileSync(state).subarray(0, 1000))
    const lines: string[] = []
    const second = await startDevnet({ dir, log: (line) => lines.push(line) })
    expect(second).toMatchObject({ isFresh: true, buyer: first.buyer })
    expect(lines.join()).toContain(`renamed to ${state}.broken`)
    expect(existsSync(`${state}.broken`)).toBe(true)
    await second.stop()
  })

  test('refuses a file of keys that it cannot read, and says what to do', async () => {
    const dir = mkdtempSync(join(scratch, 'keys-'))
    writeFileSync(join(dir, 'devnet.json'), '{"relayerKey":"0x12"}')
    await expect(startDevnet({ dir })).rejects.toThrow('move it away to get new ones')
  })
})

describe('startAnvil()', () => {
  test('names the missing program, package or platform', async () => {
    await expect(startAnvil({ binary: '/nowhere/anvil' })).rejects.toThrow('/nowhere/anvil does not exist')
    expect(() => anvilBinary('file:///nowhere/x.js', 'linux-arm64')).toThrow(
      '@foundry-rs/anvil-linux-arm64, which is not installed',
    )
    expect(() => anvilBinary(import.meta.url, 'aix-ppc64')).toThrow('does not run on aix-ppc64')
  })

  test('a program that cannot start is quoted, not waited for', async () => {
    await expect(startAnvil({ binary: '/bin/false' })).rejects.toThrow('did not start (exit 1)')
  })

  test('a node that dies by itself is reported, and loses nothing that was saved', async () => {
    const statePath = join(scratch, 'killed', 'chain.json')
    const node = await startAnvil({ statePath })
    await rpc(node.url, 'anvil_mine', ['0x5'])
    await node.save()
    process.kill(node.pid, 'SIGKILL')
    expect(await node.exited).toMatchObject({ isExpected: false, code: 137 })
    await node.stop()
    const again = await startAnvil({ statePath })
    expect(Number(await rpc<Hex>(again.url, 'eth_blockNumber', []))).toBeGreaterThanOrEqual(6)
    await again.stop()
  })

  test('a killed guard takes the node with it', async () => {
    const statePath = join(scratch, 'guard', 'chain.json')
    const node = await startAnvil({ statePath })
    process.kill(holderOf(statePath)!.pid, 'SIGKILL')
    expect(await node.exited).toMatchObject({ isExpected: false })
    await expect(rpc(node.url, 'eth_chainId', [])).rejects.toThrow()
  })

  test.skipIf(process.platform !== 'linux')(
    'a Ctrl-C for the gateway does not reach the node: it has its own process group',
    async () => {
      const node = await startAnvil()
      const group = (pid: number) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[2]
      expect(group(node.pid)).not.toBe(group(process.pid))
      await node.stop()
    },
  )

  test.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)(
    'no node survives %s of the process that started it, and its chain is saved',
    async (signal) => {
      const statePath = join(scratch, signal, 'chain.json')
      const module = JSON.stringify(new URL('../../../server/devnet/anvil.ts', import.meta.url).pathname)
      // The sleeper outlives its parent: an inherited pipe would keep the node alive.
      const parent = spawn(
        process.execPath,
        [
          '-e',
          `const { startAnvil } = await import(${module})
        const { url, pid } = await startAnvil({ statePath: ${JSON.stringify(statePath)} })
        const sleeper = Bun.spawn(['sleep', '20'], { stdio: ['ignore', 'ignore', 'ignore'] })
        console.log(JSON.stringify({ url, pid, sleeper: sleeper.pid }))
        setInterval(() => {}, 1000)`,
        ],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      )
      const { url, pid, sleeper } = await firstLine(parent)
      try {
        await rpc(url, 'anvil_mine', ['0x7'])
        parent.kill(signal)
        await once(parent, 'exit')
        const again = await startAnvil({ statePath }) // at once: it waits for the dying node's dump
        expect(isAlive(pid)).toBe(false)
        expect(Number(await rpc<Hex>(again.url, 'eth_blockNumber', []))).toBeGreaterThanOrEqual(8)
        await again.stop()
      } finally {
        process.kill(sleeper, 'SIGKILL')
      }
    },
  )
})

async function firstLine(child: ChildProcess): Promise<{ url: string; pid: number; sleeper: number }> {
  let text = ''
  for await (const bytes of child.stdout!) {
    text += String(bytes)
    if (text.includes('\n')) break
  }
  return JSON.parse(text)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
