import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { hashTypedData, type Hex, keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { domainSeparator, signerRecovery, transferDigests } from '../../../../../adapters/chains/evm/exact/eip3009.ts'
import {
  type KeyRecovery,
  nativeRecovery,
  portableRecovery,
} from '../../../../../adapters/chains/evm/node/key_recovery.ts'

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const HALF = ORDER >> 1n
const ASSET: Hex = '0x036cbd53842c5426634e7929541ec2318f3dcf7e'
const account = privateKeyToAccount(keccak256(toHex('a buyer')))
const payer = account.address.toLowerCase() as Hex
const digest = keccak256(toHex('what was signed'))

const hex64 = (number: bigint) => number.toString(16).padStart(64, '0')
const signed = ({ r, s, v }: { r: bigint; s: bigint; v: number }): Hex =>
  `0x${hex64(r)}${hex64(s)}${v.toString(16).padStart(2, '0')}`
const partsOf = (signature: Hex) => ({
  r: BigInt(`0x${signature.slice(2, 66)}`),
  s: BigInt(`0x${signature.slice(66, 130)}`),
  v: Number.parseInt(signature.slice(130), 16),
})

const native = await nativeRecovery()
const kinds: readonly [string, KeyRecovery][] = [
  ['portable', portableRecovery],
  ...(native ? [['native', native] as [string, KeyRecovery]] : []),
]

test('the native library is loaded where it has a build for this platform', () => {
  const platforms = ['linux-x64', 'darwin-arm64', 'win32-x64']
  expect(native?.kind).toBe(platforms.includes(`${process.platform}-${process.arch}`) ? 'native' : undefined)
})

describe.each(kinds)('the %s recovery', (_, recovery) => {
  const recover = signerRecovery(async () => recovery)

  test('recovers the address that signed, in lower case', async () => {
    const signature = await account.sign({ hash: digest })
    expect(await recover(digest, signature)).toBe(payer)
    expect(await recover(digest, signature)).toBe(payer)
  })

  test('recovers another address for another digest', async () => {
    const signature = await account.sign({ hash: digest })
    expect(await recover(keccak256(toHex('another')), signature)).not.toBe(payer)
  })

  test('knows no signer for the high-s twin of a signature', async () => {
    const { r, s, v } = partsOf(await account.sign({ hash: digest }))
    expect(await recover(digest, signed({ r, s: ORDER - s, v: 55 - v }))).toBeUndefined()
    expect(await recover(digest, signed({ r, s: ORDER - s, v }))).toBeUndefined()
  })

  test('accepts an s of half the order, and nothing above it', async () => {
    const { r, v } = partsOf(await account.sign({ hash: digest }))
    expect(await recover(digest, signed({ r, s: HALF, v }))).toMatch(/^0x[0-9a-f]{40}$/)
    expect(await recover(digest, signed({ r, s: HALF + 1n, v }))).toBeUndefined()
  })

  test.each([0, 1, 2, 26, 29, 30, 255])('knows no signer for a v of %i: FiatToken takes 27 and 28 alone', async (v) => {
    expect(await recover(digest, signed({ ...partsOf(await account.sign({ hash: digest })), v }))).toBeUndefined()
  })

  test.each([
    ['r of zero', { r: 0n, s: 1n, v: 27 }],
    ['s of zero', { r: 1n, s: 0n, v: 27 }],
    ['both zero', { r: 0n, s: 0n, v: 28 }],
    ['r of the order', { r: ORDER, s: 1n, v: 27 }],
    ['r above the order', { r: 2n ** 256n - 1n, s: 1n, v: 28 }],
    ['r of no point', { r: 5n, s: 1n, v: 27 }],
  ])('knows no signer for garbage: %s', async (_name, garbage) => {
    expect(await recover(digest, signed(garbage))).toBeUndefined()
  })

  test('knows no signer for a compact signature of 64 bytes, nor for 66 bytes', async () => {
    const signature = await account.sign({ hash: digest })
    expect(await recover(digest, signature.slice(0, 130) as Hex)).toBeUndefined()
    expect(await recover(digest, `${signature}00`)).toBeUndefined()
  })
})

test('the native and the portable recovery say the same of any r, s, v and digest', async () => {
  if (!native) return
  const number = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
  const near = fc.oneof(fc.constantFrom(0n, 1n, HALF, HALF + 1n, ORDER - 1n, ORDER, ORDER + 1n), number)
  const [one, other] = [signerRecovery(async () => native), signerRecovery(async () => portableRecovery)]
  await fc.assert(
    fc.asyncProperty(number, near, near, fc.constantFrom(27, 28), async (message, r, s, v) => {
      const [hash, signature] = [`0x${hex64(message)}` as Hex, signed({ r, s, v })]
      expect(await one(hash, signature)).toBe(await other(hash, signature))
    }),
    { numRuns: 100 },
  )
})

const message = {
  from: payer,
  to: '0x209693bc6afc0c5328ba36faf03c514ef312287c',
  value: 20_000n,
  validAfter: 0n,
  validBefore: 1_900_000_000n,
  nonce: keccak256(toHex('nonce')),
} as const
const separator = domainSeparator({ name: 'USDC', version: '2' }, 84532, ASSET)

test('a digest is the EIP-712 hash of the transfer', () => {
  const types = {
    TransferWithAuthorization: [
      { name: 'from', type: 'address' },
      { name: 'to', type: 'address' },
      { name: 'value', type: 'uint256' },
      { name: 'validAfter', type: 'uint256' },
      { name: 'validBefore', type: 'uint256' },
      { name: 'nonce', type: 'bytes32' },
    ],
  } as const
  const domain = { name: 'USDC', version: '2', chainId: 84532, verifyingContract: ASSET }
  expect(transferDigests()(message, separator)).toBe(
    hashTypedData({ domain, types, primaryType: 'TransferWithAuthorization', message }),
  )
})

test('a payment is hashed once, however often it is looked at', () => {
  let hashes = 0
  const digestOf = transferDigests(() => `${'0'.repeat(63)}${(hashes += 1)}`)
  const first = digestOf({ ...message }, separator)
  expect(digestOf({ ...message }, separator)).toBe(first)
  expect(hashes).toBe(2)
})

test('a transfer that differs in any field, or in its domain, has a digest of its own', () => {
  const digestOf = transferDigests()
  const others = [
    { ...message, from: message.to },
    { ...message, to: message.from },
    { ...message, value: 20_001n },
    { ...message, validAfter: 1n },
    { ...message, validBefore: 1_900_000_001n },
    { ...message, nonce: keccak256(toHex('another nonce')) },
  ]
  const elsewhere = domainSeparator({ name: 'USDC', version: '1' }, 84532, ASSET)
  const digests = [...[message, ...others].map((each) => digestOf(each, separator)), digestOf(message, elsewhere)]
  expect(new Set(digests).size).toBe(8)
})

test('a signer is recovered once, and a signature without a signer is not recovered again', async () => {
  let recoveries = 0
  const recover = signerRecovery(async () => ({
    ...portableRecovery,
    recover: (hash, signature) => ((recoveries += 1), portableRecovery.recover(hash, signature)),
  }))
  const good = await account.sign({ hash: digest })
  const bad = signed({ r: 0n, s: 1n, v: 27 })
  for (const signature of [good, good, bad, bad]) await recover(digest, signature)
  expect(recoveries).toBe(2)
  expect(await recover(digest, good)).toBe(payer)
  expect(await recover(digest, bad)).toBeUndefined()
})
