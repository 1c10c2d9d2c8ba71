/**
 * Signatures: who signed the typed data of an EIP-3009 transfer, by viem and by the gateway, natively where the library
 * is installed. Every payment is a new one. Prints, never asserts, but for the signer.
 */
import { keccak256, recoverTypedDataAddress, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { domainSeparator, signerRecovery, transferDigests } from '../../adapters/chains/evm/exact/eip3009.ts'
import { nativeRecovery, portableRecovery } from '../../adapters/chains/evm/node/key_recovery.ts'
import { fixed, goal, median, table, verdict } from './print.ts'

const PAYMENTS = 200
const ROUNDS = 7
const GOAL = 10

const TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const
const ASSET = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
const DOMAIN = { name: 'USDC', version: '2', chainId: 84_532, verifyingContract: ASSET } as const

export async function signatures(): Promise<void> {
  const account = privateKeyToAccount(keccak256(toHex('a buyer of the bench')))
  const signer = account.address.toLowerCase()
  const separator = domainSeparator(DOMAIN, DOMAIN.chainId, ASSET)
  const payments = await Promise.all(
    Array.from({ length: PAYMENTS }, async (_, index) => {
      const message = {
        from: account.address,
        to: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
        value: 20_000n,
        validAfter: 0n,
        validBefore: 1_900_000_000n,
        nonce: keccak256(toHex(`payment ${index}`)),
      } as const
      const typed = { domain: DOMAIN, types: TYPES, primaryType: 'TransferWithAuthorization', message } as const
      const transfer = { ...message, from: signer, to: message.to.toLowerCase() }
      return { typed, transfer, signature: await account.signTypedData(typed) }
    }),
  )
  type Payment = (typeof payments)[number]
  const native = await nativeRecovery()
  const ours = (recovery: typeof portableRecovery) => () => {
    const [digests, recover] = [transferDigests(), signerRecovery(async () => recovery)]
    return ({ transfer, signature }: Payment) => recover(digests(transfer as never, separator), signature)
  }
  const ways = [
    {
      name: 'viem recoverTypedDataAddress',
      fresh:
        () =>
        async ({ typed, signature }: Payment) =>
          (await recoverTypedDataAddress({ ...typed, signature })).toLowerCase(),
    },
    { name: 'Farebox, portable', fresh: ours(portableRecovery) },
    ...(native ? [{ name: 'Farebox, native', fresh: ours(native) }] : []),
  ]
  const micros = new Map<string, number[]>(ways.map(({ name }) => [name, []]))
  for (let round = -1; round < ROUNDS; round++) {
    for (const { name, fresh } of ways) {
      const signerOf = fresh()
      const startedAt = performance.now()
      for (const payment of payments)
        if ((await signerOf(payment)) !== signer) throw new Error(`${name} found another signer`)
      if (round >= 0) micros.get(name)?.push(((performance.now() - startedAt) / PAYMENTS) * 1_000)
    }
  }
  console.log(`\nsignatures, ${PAYMENTS} new payments, ${ROUNDS} rounds taking turns; microseconds each`)
  table(
    ['', 'median', 'least', 'most'],
    [...micros].map(([name, all]) => [
      name,
      fixed(median(all), 0),
      fixed(Math.min(...all), 0),
      fixed(Math.max(...all), 0),
    ]),
  )
  const [viem = [], , natively] = [...micros.values()]
  if (!natively) return verdict(false, 'no native library is installed (secp256k1)')
  goal(
    'times as fast as viem, native',
    natively.map((each, round) => (viem[round] ?? NaN) / each),
    GOAL,
  )
}
