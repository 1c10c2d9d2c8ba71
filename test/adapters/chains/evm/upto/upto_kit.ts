/** A seller by `upto` on a real node, and payers who sign for it. */
import { createWalletClient, type Hex, parseAbi, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { type EvmChain, type EvmConfig, evmChain } from '../../../../../adapters/chains/evm/mod.ts'
import { PERMIT2, UPTO_PROXY } from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Offer, Payment } from '../../../../../core/x402/protocol.ts'
import type { UptoHarness as Laws, UptoSigning } from '../../../../conformance/upto.ts'
import { ASSET, DOMAIN, NETWORK, type World } from '../evm_kit.ts'
import { permit2Abi, uptoTypes } from '../permit2.ts'
import { steadyHttp } from '../../../../fault/between_blocks.ts'

const TOKEN = parseAbi(['function approve(address spender, uint256 value) returns (bool)'])

export type UptoHarness = Omit<Laws, 'payer'> & {
  readonly chain: EvmChain
  readonly config: EvmConfig
  payer(balance?: bigint, allowance?: bigint): Promise<string>
}

export async function uptoHarness(chainWorld: World, change: Partial<EvmConfig> = {}): Promise<UptoHarness> {
  const relayerKey = chainWorld.key()
  const facilitator = privateKeyToAccount(relayerKey).address
  await chainWorld.ask('anvil_setBalance', facilitator, toHex(10n ** 20n))
  const payTo = privateKeyToAccount(chainWorld.key()).address
  const config: EvmConfig = {
    network: NETWORK,
    rpcUrl: chainWorld.url,
    asset: ASSET,
    payTo,
    domain: DOMAIN,
    relayerKey,
    schemes: ['exact', 'upto'],
    resendMs: 64,
    pollMs: 4,
    ...change,
  }
  const chain = evmChain(config)
  const checked = await chain.check()
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  const [terms] = chain.terms(chainWorld.now()).filter(({ scheme }) => scheme === 'upto')
  if (!terms) throw new Error('it does not sell by upto')
  const offer: Offer = { ...terms, amount: '10000', maxTimeoutSeconds: 300 }
  const accounts = new Map<string, PrivateKeyAccount>()
  let nonces = BigInt(chainWorld.key())
  const send = (account: PrivateKeyAccount, to: string, data: { abi: any; functionName: string; args: any }) =>
    createWalletClient({ account, chain: baseSepolia, transport: steadyHttp(chainWorld.url) }).writeContract({
      address: to as Hex,
      ...data,
    } as never)

  return {
    chain,
    config,
    offer,
    now: chainWorld.now,
    async payer(balance = 1_000_000n, allowance = 2n ** 255n) {
      const account = privateKeyToAccount(chainWorld.key())
      accounts.set(account.address, account)
      await chainWorld.setBalance(account.address, balance)
      await chainWorld.ask('anvil_setBalance', account.address, toHex(10n ** 18n))
      await send(account, ASSET, { abi: TOKEN, functionName: 'approve', args: [PERMIT2, allowance] })
      return account.address
    },
    async sign(from, signing: UptoSigning = {}) {
      const { to = payTo, value = 10_000n, validAfter = 0n, isForged = false } = signing
      const deadline = signing.validBefore ?? BigInt(Math.floor(chainWorld.now() / 1000) + offer.maxTimeoutSeconds)
      const nonce = signing.nonce === undefined ? nonces++ : BigInt(signing.nonce)
      const account = isForged ? privateKeyToAccount(chainWorld.key()) : (accounts.get(from) as PrivateKeyAccount)
      const witness = { to: to as Hex, facilitator, validAfter }
      const permitted = { token: ASSET, amount: value }
      const signature = await account.signTypedData({
        domain: { name: 'Permit2', chainId: 84_532, verifyingContract: PERMIT2 },
        types: uptoTypes,
        primaryType: 'PermitWitnessTransferFrom',
        message: { permitted, spender: UPTO_PROXY, nonce, deadline, witness },
      })
      const permit2Authorization = {
        from,
        permitted: { token: ASSET, amount: String(value) },
        spender: UPTO_PROXY,
        nonce: String(nonce),
        deadline: String(deadline),
        witness: { to, facilitator, validAfter: String(validAfter) },
      }
      return { x402Version: 2, accepted: offer, payload: { signature, permit2Authorization } }
    },
    balanceOf: chainWorld.balanceOf,
    async cancel(payment: Payment) {
      const { from, nonce } = payment.payload.permit2Authorization as { from: string; nonce: string }
      const args = [BigInt(nonce) >> 8n, 1n << (BigInt(nonce) & 0xffn)]
      await send(accounts.get(from) as PrivateKeyAccount, PERMIT2, {
        abi: permit2Abi,
        functionName: 'invalidateUnorderedNonces',
        args,
      })
    },
    mineAt: chainWorld.mineAt,
  }
}
