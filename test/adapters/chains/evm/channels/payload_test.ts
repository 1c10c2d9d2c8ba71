/** Ids, digests and shapes of channels, against what the public client computes and signs. */
import { describe, expect, test } from 'bun:test'
import { computeChannelId, signVoucher } from '@x402/evm/batch-settlement/client'
import { encodeAbiParameters, hashTypedData, type Hex, keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { type ChannelConfig, channelDigests } from '../../../../../adapters/chains/evm/channels/digests.ts'
import { parseChanneled } from '../../../../../adapters/chains/evm/channels/payload.ts'
import { recoverSigner } from '../../../../../adapters/chains/evm/exact/eip3009.ts'
import { lower } from '../../../../../adapters/chains/lib/hex.ts'
import { BATCH_SETTLEMENT } from '../../../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Offer, Payment } from '../../../../../core/x402/protocol.ts'

const NETWORK = 'eip155:84532'
const buyer = privateKeyToAccount(keccak256(toHex('buyer')))
const seller = privateKeyToAccount(keccak256(toHex('seller')))
const digests = channelDigests(84532)
const domain = {
  name: 'x402 Batch Settlement',
  version: '1',
  chainId: 84532,
  verifyingContract: BATCH_SETTLEMENT,
} as const
const config: ChannelConfig = {
  payer: lower(buyer.address),
  payerAuthorizer: lower(buyer.address),
  receiver: lower(seller.address),
  receiverAuthorizer: lower(seller.address),
  token: '0x036cbd53842c5426634e7929541ec2318f3dcf7e',
  withdrawDelay: 3600,
  salt: toHex(7n, { size: 32 }),
}
const id = digests.channelId(config)
const offer: Offer = {
  scheme: 'batch-settlement',
  network: NETWORK,
  amount: '1000',
  asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  payTo: seller.address,
  maxTimeoutSeconds: 60,
  extra: { receiverAuthorizer: seller.address, withdrawDelay: 3600, name: 'USDC', version: '2' },
}
const paymentOf = (payload: Record<string, unknown>, accepted = offer): Payment => ({
  x402Version: 2,
  accepted,
  payload,
})
const voucher = { channelId: id, maxClaimableAmount: '1500', signature: `0x${'11'.repeat(65)}` }
const payload = { type: 'voucher', channelConfig: config, voucher }

describe('what is signed', () => {
  test('a channel has the id that the public client computes', () => {
    expect(id).toBe(lower(computeChannelId(config, NETWORK)))
    expect(channelDigests(8453).channelId(config)).toBe(lower(computeChannelId(config, 'eip155:8453')))
    expect(channelDigests(8453).channelId(config)).not.toBe(id)
  })

  test('a voucher of the public client is signed by the key of its digest', async () => {
    const signed = await signVoucher(buyer, id, '1500', NETWORK)
    expect(await recoverSigner(digests.voucher(id, 1500n), lower(signed.signature))).toBe(config.payer)
    expect(await recoverSigner(digests.voucher(id, 1501n), lower(signed.signature))).not.toBe(config.payer)
  })

  test('a refund and a batch of claims have the digests of typed data', () => {
    const uint128 = <Name extends string>(name: Name) => ({ name, type: 'uint128' }) as const
    const channelId = { name: 'channelId', type: 'bytes32' } as const
    const refund = hashTypedData({
      domain,
      types: { Refund: [channelId, { name: 'nonce', type: 'uint256' }, uint128('amount')] } as const,
      primaryType: 'Refund',
      message: { channelId: id, nonce: 3n, amount: 40n },
    })
    expect(digests.refund(id, { nonce: 3n, amount: 40n })).toBe(refund)
    const rows = [1n, 2n].map((charged) => ({ channelId: id, ceiling: 9n, charged }))
    const claims = hashTypedData({
      domain,
      types: {
        ClaimBatch: [{ name: 'claims', type: 'ClaimEntry[]' }],
        ClaimEntry: [channelId, uint128('maxClaimableAmount'), uint128('totalClaimed')],
      } as const,
      primaryType: 'ClaimBatch',
      message: {
        claims: rows.map((row) => ({ channelId: id, maxClaimableAmount: row.ceiling, totalClaimed: row.charged })),
      },
    })
    expect(digests.claims(rows)).toBe(claims)
  })
})

describe('payloads', () => {
  test('a voucher is identified by its channel and what was charged before, and a deposit may carry one (contract 1.82)', () => {
    expect(parseChanneled(paymentOf(payload), offer, digests)).toMatchObject({
      kind: 'channeled',
      channelId: id,
      ceiling: 1500n,
      base: 500n,
      key: `${NETWORK}/${lower(BATCH_SETTLEMENT)}/${id}/500`,
      deposit: undefined,
    })
    const erc3009Authorization = {
      validAfter: '0',
      validBefore: '99',
      salt: config.salt,
      signature: `0x${'11'.repeat(65)}`,
    }
    const deposit = { amount: '5000', authorization: { erc3009Authorization } }
    const nonce = keccak256(encodeAbiParameters([{ type: 'bytes32' }, { type: 'uint256' }], [id, 7n]))
    expect(parseChanneled(paymentOf({ ...payload, type: 'deposit', deposit }), offer, digests)).toMatchObject({
      base: 500n,
      deposit: { amount: 5000n, validBefore: 99n, nonce },
    })
  })

  test('what is wrong is refused with the code of the scheme, the field, the value and what is allowed', () => {
    const reasonOf = (wrong: object) => {
      const parsed = parseChanneled(paymentOf({ ...payload, ...wrong }), offer, digests)
      return parsed.kind === 'refused' ? parsed.reason : parsed.kind
    }
    const withConfig = (wrong: Partial<ChannelConfig>) => {
      const channelConfig = { ...config, ...wrong }
      return reasonOf({ channelConfig, voucher: { ...voucher, channelId: digests.channelId(channelConfig) } })
    }
    const other: Hex = `0x${'22'.repeat(20)}`
    const code = 'invalid_batch_settlement_evm_'
    expect(reasonOf({ voucher: { ...voucher, channelId: `0x${'00'.repeat(32)}` } })).toContain(
      `${code}channel_id_mismatch: voucher.channelId is "0x000`,
    )
    expect(reasonOf({ channelConfig: { ...config, salt: '0x1' } })).toStartWith(`${code}payload: payload/channelConfig`)
    expect(withConfig({ receiver: other })).toStartWith(`${code}receiver_mismatch: channelConfig.receiver is "${other}`)
    expect(withConfig({ receiverAuthorizer: other })).toStartWith(`${code}receiver_authorizer_mismatch: `)
    expect(withConfig({ token: other })).toStartWith(`${code}token_mismatch: `)
    expect(withConfig({ withdrawDelay: 900 })).toContain(
      'withdraw_delay_mismatch: channelConfig.withdrawDelay is "900"',
    )
    expect(withConfig({ withdrawDelay: 60 })).toStartWith(`${code}withdraw_delay_out_of_range: `)
    expect(withConfig({ payerAuthorizer: `0x${'00'.repeat(20)}` })).toContain('channelConfig.payerAuthorizer is zero')
    expect(reasonOf({ voucher: { ...voucher, maxClaimableAmount: '999' } })).toStartWith(
      `${code}cumulative_amount_mismatch: voucher.maxClaimableAmount is 999`,
    )
    expect(reasonOf({ voucher: { ...voucher, maxClaimableAmount: '-1' } })).toStartWith(`${code}payload: `)
    expect(reasonOf({ type: 'deposit' })).toStartWith(`${code}payload: payload/deposit`)
  })
})
