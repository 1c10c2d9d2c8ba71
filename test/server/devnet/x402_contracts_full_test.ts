/** The payment contracts of the local chain, against what the public packages sign and what the specification says. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { computeChannelId } from '@x402/evm/batch-settlement/client'
import {
  type Address,
  createPublicClient,
  createWalletClient,
  encodeAbiParameters,
  encodeFunctionData,
  type Hex,
  keccak256,
  parseAbi,
  toHex,
} from 'viem'
import { privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import {
  BATCH_SETTLEMENT,
  batchSettlementAbi,
  ERC3009_COLLECTOR,
  PERMIT2,
  PERMIT2_COLLECTOR,
  UPTO_PROXY,
} from '../../../adapters/chains/evm/node/x402_contracts.ts'
import contracts from '../../../server/devnet/contracts.json' with { type: 'json' }
import { world, type World } from '../../adapters/chains/evm/evm_kit.ts'
import { DEVNET_ASSET } from '../../../server/devnet/mod.ts'
import { steadyHttp } from '../../fault/between_blocks.ts'
import { depositTypes, permit2Abi, uptoTypes } from '../../adapters/chains/evm/permit2.ts'

const DAY = 86_400
const FAR = 2n ** 40n
const tokenAbi = parseAbi([
  'function approve(address spender, uint256 value) returns (bool)',
  'function balanceOf(address) view returns (uint256)',
])
/** With the errors, which callers never need by name. */
const abi = contracts.BatchSettlement.abi
const settlementDomain = {
  name: 'x402 Batch Settlement',
  version: '1',
  chainId: 84532,
  verifyingContract: BATCH_SETTLEMENT,
} as const
const permit2Domain = { name: 'Permit2', chainId: 84532, verifyingContract: PERMIT2 } as const
const tokenDomain = { name: 'USDC', version: '2', chainId: 84532, verifyingContract: DEVNET_ASSET } as const

let chain: World
let relayer: PrivateKeyAccount
let seller: PrivateKeyAccount
let made = 0

const transport = () => steadyHttp(chain.url)
const reader = () => createPublicClient({ chain: baseSepolia, transport: transport() })
const walletOf = (account: PrivateKeyAccount) =>
  createWalletClient({ account, chain: baseSepolia, transport: transport() })

async function funded(): Promise<PrivateKeyAccount> {
  const account = privateKeyToAccount(keccak256(toHex(`buyer ${made++}`)))
  await chain.setBalance(account.address, 1_000_000n)
  await chain.ask('anvil_setBalance', account.address, toHex(10n ** 20n))
  return account
}

/** Sends to the settlement contract; rejects with the name of the contract's error. */
async function act(account: PrivateKeyAccount, functionName: string, args: readonly unknown[]): Promise<void> {
  const call = { address: BATCH_SETTLEMENT as Address, abi, functionName, args, account } as never
  const { request } = await reader().simulateContract(call)
  const hash = await walletOf(account).writeContract(request as never)
  await reader().waitForTransactionReceipt({ hash })
}

type Config = ReturnType<typeof configOf>
const configOf = (
  payer: Address,
  { salt = 0n, withdrawDelay = DAY }: { salt?: bigint; withdrawDelay?: number } = {},
) => ({
  payer,
  payerAuthorizer: payer,
  receiver: seller.address,
  receiverAuthorizer: seller.address,
  token: DEVNET_ASSET as Address,
  withdrawDelay,
  salt: toHex(salt, { size: 32 }),
})
const idOf = (config: Config) => computeChannelId(config as never, 'eip155:84532') as Hex

async function authorization(
  payer: PrivateKeyAccount,
  {
    config,
    amount,
    salt = 1n,
    validBefore = FAR,
  }: { config: Config; amount: bigint; salt?: bigint; validBefore?: bigint },
): Promise<Hex> {
  const nonce = keccak256(encodeAbiParameters([{ type: 'bytes32' }, { type: 'uint256' }], [idOf(config), salt]))
  const signature = await payer.signTypedData({
    domain: tokenDomain,
    types: {
      ReceiveWithAuthorization: [
        { name: 'from', type: 'address' },
        { name: 'to', type: 'address' },
        { name: 'value', type: 'uint256' },
        { name: 'validAfter', type: 'uint256' },
        { name: 'validBefore', type: 'uint256' },
        { name: 'nonce', type: 'bytes32' },
      ],
    },
    primaryType: 'ReceiveWithAuthorization',
    message: { from: payer.address, to: ERC3009_COLLECTOR, value: amount, validAfter: 0n, validBefore, nonce },
  })
  const types = [{ type: 'uint256' }, { type: 'uint256' }, { type: 'uint256' }, { type: 'bytes' }] as const
  return encodeAbiParameters(types, [0n, validBefore, salt, signature])
}

/** A channel with this deposit, by ERC-3009. */
async function opened(amount = 1_000n): Promise<{ payer: PrivateKeyAccount; config: Config; id: Hex }> {
  const payer = await funded()
  const config = configOf(payer.address)
  await act(relayer, 'deposit', [config, amount, ERC3009_COLLECTOR, await authorization(payer, { config, amount })])
  return { payer, config, id: idOf(config) }
}

const voucher = (payer: PrivateKeyAccount, channelId: Hex, maxClaimableAmount: bigint): Promise<Hex> =>
  payer.signTypedData({
    domain: settlementDomain,
    types: {
      Voucher: [
        { name: 'channelId', type: 'bytes32' },
        { name: 'maxClaimableAmount', type: 'uint128' },
      ],
    },
    primaryType: 'Voucher',
    message: { channelId, maxClaimableAmount },
  })

type Row = { voucher: { channel: Config; maxClaimableAmount: bigint }; signature: Hex; totalClaimed: bigint }
async function row(
  { payer, config, id }: { payer: PrivateKeyAccount; config: Config; id: Hex },
  { max, total }: { max: bigint; total: bigint },
): Promise<Row> {
  return {
    voucher: { channel: config, maxClaimableAmount: max },
    signature: await voucher(payer, id, max),
    totalClaimed: total,
  }
}

const batchSignature = (rows: readonly Row[], signer: PrivateKeyAccount = seller): Promise<Hex> =>
  signer.signTypedData({
    domain: settlementDomain,
    types: {
      ClaimBatch: [{ name: 'claims', type: 'ClaimEntry[]' }],
      ClaimEntry: [
        { name: 'channelId', type: 'bytes32' },
        { name: 'maxClaimableAmount', type: 'uint128' },
        { name: 'totalClaimed', type: 'uint128' },
      ],
    },
    primaryType: 'ClaimBatch',
    message: {
      claims: rows.map(({ voucher: { channel, maxClaimableAmount }, totalClaimed }) => ({
        channelId: idOf(channel),
        maxClaimableAmount,
        totalClaimed,
      })),
    },
  })

const refundSignature = (channelId: Hex, { nonce, amount }: { nonce: bigint; amount: bigint }): Promise<Hex> =>
  seller.signTypedData({
    domain: settlementDomain,
    types: {
      Refund: [
        { name: 'channelId', type: 'bytes32' },
        { name: 'nonce', type: 'uint256' },
        { name: 'amount', type: 'uint128' },
      ],
    },
    primaryType: 'Refund',
    message: { channelId, nonce, amount },
  })

const channelAt = (id: Hex) =>
  reader().readContract({ address: BATCH_SETTLEMENT, abi: batchSettlementAbi, functionName: 'channels', args: [id] })

beforeAll(async () => {
  chain = await world()
  relayer = await funded()
  seller = await funded()
})
afterAll(async () => await chain.close())

describe('the settlement contract', () => {
  test('computes the ids and digests that the public packages sign', async () => {
    const config = configOf(relayer.address, { salt: 7n })
    const id = await reader().readContract({
      address: BATCH_SETTLEMENT,
      abi: batchSettlementAbi,
      functionName: 'getChannelId',
      args: [config],
    })
    expect(id).toBe(idOf(config))
  })

  test('takes a deposit with the signature of its payer, once, and only for its channel and amount', async () => {
    const payer = await funded()
    const config = configOf(payer.address)
    const data = await authorization(payer, { config, amount: 500n })
    const other = configOf(payer.address, { salt: 1n })
    await expect(act(relayer, 'deposit', [other, 500n, ERC3009_COLLECTOR, data])).rejects.toThrow('invalid signature')
    await expect(act(relayer, 'deposit', [config, 501n, ERC3009_COLLECTOR, data])).rejects.toThrow('invalid signature')
    await act(relayer, 'deposit', [config, 500n, ERC3009_COLLECTOR, data])
    await expect(act(relayer, 'deposit', [config, 500n, ERC3009_COLLECTOR, data])).rejects.toThrow('used')
    expect(await channelAt(idOf(config))).toEqual([500n, 0n])
    expect(await chain.balanceOf(payer.address)).toBe(999_500n)
  })

  test('takes a deposit by Permit2, with its allowance signed along', async () => {
    const payer = await funded()
    const config = configOf(payer.address)
    await walletOf(payer).writeContract({
      address: DEVNET_ASSET,
      abi: tokenAbi,
      functionName: 'approve',
      args: [PERMIT2, 300n],
    })
    const signature = await payer.signTypedData({
      domain: permit2Domain,
      types: depositTypes,
      primaryType: 'PermitWitnessTransferFrom',
      message: {
        permitted: { token: DEVNET_ASSET, amount: 300n },
        spender: PERMIT2_COLLECTOR,
        nonce: 5n,
        deadline: FAR,
        witness: { channelId: idOf(config) },
      },
    })
    const types = [{ type: 'uint256' }, { type: 'uint256' }, { type: 'bytes' }, { type: 'bytes' }] as const
    const data = encodeAbiParameters(types, [5n, FAR, signature, '0x'])
    await act(relayer, 'deposit', [config, 300n, PERMIT2_COLLECTOR, data])
    expect(await channelAt(idOf(config))).toEqual([300n, 0n])
    await expect(act(relayer, 'deposit', [config, 300n, PERMIT2_COLLECTOR, data])).rejects.toThrow()
  })

  test('refuses delays out of bounds, an empty deposit and a collector without code', async () => {
    const payer = await funded()
    for (const withdrawDelay of [899, 2_592_001])
      await expect(
        act(relayer, 'deposit', [configOf(payer.address, { withdrawDelay }), 1n, ERC3009_COLLECTOR, '0x']),
      ).rejects.toThrow('WithdrawDelayOutOfRange')
    await expect(act(relayer, 'deposit', [configOf(payer.address), 0n, ERC3009_COLLECTOR, '0x'])).rejects.toThrow(
      'InvalidAmount',
    )
    await expect(act(relayer, 'deposit', [configOf(payer.address), 1n, payer.address, '0x'])).rejects.toThrow(
      'InvalidCollector',
    )
  })

  test('claims ten channels in one transaction that anyone sends, and settles them in another', async () => {
    const channels: Awaited<ReturnType<typeof opened>>[] = []
    for (let index = 0; index < 10; index++) channels.push(await opened())
    const rows = await Promise.all(channels.map((channel) => row(channel, { max: 400n, total: 100n })))
    const before = await chain.balanceOf(seller.address)
    await act(relayer, 'claimWithSignature', [rows, await batchSignature(rows)])
    await act(relayer, 'settle', [seller.address, DEVNET_ASSET])
    expect((await chain.balanceOf(seller.address)) - before).toBe(1_000n)
    await act(relayer, 'settle', [seller.address, DEVNET_ASSET])
    expect((await chain.balanceOf(seller.address)) - before).toBe(1_000n)
    expect(await channelAt(channels[0]?.id ?? '0x')).toEqual([1_000n, 100n])
  })

  test('refuses a claim over the ceiling or the balance, of a stranger, or without the voucher of the payer', async () => {
    const channel = await opened()
    const other = await opened()
    const over = [await row(channel, { max: 50n, total: 51n })]
    await expect(act(relayer, 'claimWithSignature', [over, await batchSignature(over)])).rejects.toThrow(
      'ClaimExceedsCeiling',
    )
    const beyond = [await row(channel, { max: 2_000n, total: 1_001n })]
    await expect(act(relayer, 'claimWithSignature', [beyond, await batchSignature(beyond)])).rejects.toThrow(
      'ClaimExceedsBalance',
    )
    const good = [await row(channel, { max: 50n, total: 50n })]
    await expect(act(relayer, 'claimWithSignature', [good, await batchSignature(good, relayer)])).rejects.toThrow(
      'InvalidSignature',
    )
    await expect(act(relayer, 'claim', [good])).rejects.toThrow('NotAuthorized')
    const swapped = [{ ...(good[0] as Row), signature: await voucher(other.payer, channel.id, 50n) }]
    await expect(act(seller, 'claim', [swapped])).rejects.toThrow('InvalidSignature')
    const foreign = [{ ...(good[0] as Row), signature: await voucher(channel.payer, other.id, 50n) }]
    await expect(act(seller, 'claim', [foreign])).rejects.toThrow('InvalidSignature')
    await act(seller, 'claim', [good])
    expect(await channelAt(channel.id)).toEqual([1_000n, 50n])
  })

  test('passes over a row that claims nothing new', async () => {
    const [old, fresh] = [await opened(), await opened()]
    await act(seller, 'claim', [[await row(old, { max: 90n, total: 90n })]])
    const rows = [
      { ...(await row(old, { max: 90n, total: 90n })), signature: '0x' as Hex },
      await row(fresh, { max: 10n, total: 10n }),
    ]
    await act(seller, 'claim', [rows])
    expect([await channelAt(old.id), await channelAt(fresh.id)]).toEqual([
      [1_000n, 90n],
      [1_000n, 10n],
    ])
  })

  test('refunds with the live nonce only, at most what is free, together with a claim', async () => {
    const channel = await opened()
    const rows = [await row(channel, { max: 300n, total: 300n })]
    const claim = encodeFunctionData({
      abi: batchSettlementAbi,
      functionName: 'claimWithSignature',
      args: [rows, await batchSignature(rows)],
    })
    const signature = await refundSignature(channel.id, { nonce: 0n, amount: 5_000n })
    const refund = encodeFunctionData({
      abi: batchSettlementAbi,
      functionName: 'refundWithSignature',
      args: [channel.config, 5_000n, 0n, signature],
    })
    await act(relayer, 'multicall', [[claim, refund]])
    expect(await channelAt(channel.id)).toEqual([300n, 300n])
    expect(await chain.balanceOf(channel.payer.address)).toBe(999_700n)
    await expect(act(relayer, 'refundWithSignature', [channel.config, 5_000n, 0n, signature])).rejects.toThrow(
      'InvalidRefundNonce',
    )
  })

  test('lets the payer withdraw after the delay what was not claimed by then, and nobody else', async () => {
    const channel = await opened()
    await expect(act(relayer, 'initiateWithdraw', [channel.config, 1_000n])).rejects.toThrow('NotAuthorized')
    await act(channel.payer, 'initiateWithdraw', [channel.config, 1_000n])
    await expect(act(channel.payer, 'initiateWithdraw', [channel.config, 1n])).rejects.toThrow('WithdrawalPending')
    await act(seller, 'claim', [[await row(channel, { max: 400n, total: 400n })]])
    await expect(act(channel.payer, 'finalizeWithdraw', [channel.config])).rejects.toThrow('WithdrawDelayNotOver')
    await chain.mineAt(Math.floor(chain.now() / 1000) + DAY + 60)
    await act(channel.payer, 'finalizeWithdraw', [channel.config])
    expect(await chain.balanceOf(channel.payer.address)).toBe(999_600n)
    expect(await channelAt(channel.id)).toEqual([400n, 400n])
    await expect(act(channel.payer, 'finalizeWithdraw', [channel.config])).rejects.toThrow('NoWithdrawalPending')
  })
})

describe('the proxy of upto', () => {
  const sent = async (
    account: PrivateKeyAccount,
    functionName: 'settle' | 'settleWithPermit',
    args: readonly unknown[],
  ) => {
    const call = {
      address: UPTO_PROXY,
      abi: [...contracts.UptoPermit2Proxy.abi, ...contracts.Permit2.abi],
      functionName,
      args,
      account,
    } as never
    const { request } = await reader().simulateContract(call)
    await reader().waitForTransactionReceipt({ hash: await walletOf(account).writeContract(request as never) })
  }

  /** The payer's signature: up to 500 to the seller, moved by the relayer. */
  async function signed(payer: PrivateKeyAccount, nonce: bigint, deadline = FAR) {
    const permit = { permitted: { token: DEVNET_ASSET as Address, amount: 500n }, nonce, deadline }
    const witness = { to: seller.address, facilitator: relayer.address, validAfter: 0n }
    const signature = await payer.signTypedData({
      domain: permit2Domain,
      types: uptoTypes,
      primaryType: 'PermitWitnessTransferFrom',
      message: { ...permit, spender: UPTO_PROXY, witness },
    })
    return { permit, witness, signature }
  }

  test('moves what was used, once, and never more than was signed', async () => {
    const payer = await funded()
    await walletOf(payer).writeContract({
      address: DEVNET_ASSET,
      abi: tokenAbi,
      functionName: 'approve',
      args: [PERMIT2, 10_000n],
    })
    const { permit, witness, signature } = await signed(payer, 300n)
    const args = (amount: bigint, facilitator = witness) => [permit, amount, payer.address, facilitator, signature]
    await expect(sent(relayer, 'settle', args(501n))).rejects.toThrow('AmountExceedsPermitted')
    await expect(sent(relayer, 'settle', args(0n))).rejects.toThrow('InvalidAmount')
    await expect(sent(seller, 'settle', args(1n))).rejects.toThrow('UnauthorizedFacilitator')
    await expect(sent(relayer, 'settle', args(1n, { ...witness, to: payer.address }))).rejects.toThrow('InvalidSigner')
    await sent(relayer, 'settle', args(120n))
    expect(await chain.balanceOf(payer.address)).toBe(999_880n)
    await expect(sent(relayer, 'settle', args(1n))).rejects.toThrow('InvalidNonce')
    const word = await reader().readContract({
      address: PERMIT2,
      abi: permit2Abi,
      functionName: 'nonceBitmap',
      args: [payer.address, 1n],
    })
    expect(word).toBe(1n << 44n)
  })

  test('refuses what has expired, and what the payer took back', async () => {
    const payer = await funded()
    await walletOf(payer).writeContract({
      address: DEVNET_ASSET,
      abi: tokenAbi,
      functionName: 'approve',
      args: [PERMIT2, 10_000n],
    })
    const old = await signed(payer, 1n, 1_000n)
    await expect(sent(relayer, 'settle', [old.permit, 1n, payer.address, old.witness, old.signature])).rejects.toThrow(
      'SignatureExpired',
    )
    await walletOf(payer).writeContract({
      address: PERMIT2,
      abi: permit2Abi,
      functionName: 'invalidateUnorderedNonces',
      args: [0n, 4n],
    })
    const taken = await signed(payer, 2n)
    await expect(
      sent(relayer, 'settle', [taken.permit, 1n, payer.address, taken.witness, taken.signature]),
    ).rejects.toThrow('InvalidNonce')
  })

  test('brings the allowance along where the payer has signed it', async () => {
    const payer = await funded()
    const { permit, witness, signature } = await signed(payer, 9n)
    const allowed = await payer.signTypedData({
      domain: tokenDomain,
      types: {
        Permit: [
          { name: 'owner', type: 'address' },
          { name: 'spender', type: 'address' },
          { name: 'value', type: 'uint256' },
          { name: 'nonce', type: 'uint256' },
          { name: 'deadline', type: 'uint256' },
        ],
      },
      primaryType: 'Permit',
      message: { owner: payer.address, spender: PERMIT2, value: 500n, nonce: 0n, deadline: FAR },
    })
    const parts = {
      r: allowed.slice(0, 66) as Hex,
      s: `0x${allowed.slice(66, 130)}` as Hex,
      v: Number(`0x${allowed.slice(130)}`),
    }
    const other = [{ value: 499n, deadline: FAR, ...parts }, permit, 70n, payer.address, witness, signature]
    await expect(sent(relayer, 'settleWithPermit', other)).rejects.toThrow('Permit2612AmountMismatch')
    await sent(relayer, 'settleWithPermit', [
      { value: 500n, deadline: FAR, ...parts },
      permit,
      70n,
      payer.address,
      witness,
      signature,
    ])
    expect(await chain.balanceOf(payer.address)).toBe(999_930n)
  })
})
