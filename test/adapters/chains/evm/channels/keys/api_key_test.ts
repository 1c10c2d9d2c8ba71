/** The key pair that an API key stands for. */
import { privateKeyOf } from '../../../../../../core/x402/api_key.ts'
import { expect, test } from 'bun:test'
import { recoverAddress } from 'viem'
import { privateKeyToAddress } from 'viem/accounts'
import { lower } from '../../../../../../adapters/chains/lib/hex.ts'
import { keySigner, nativeCurve, portableCurve } from '../../../../../../adapters/chains/evm/channels/keys/api_key.ts'

const SEED = new Uint8Array(32).fill(0x22)
const ADDRESS = '0x8c554bff75f09dbce04172ba998db432c049ee22'
const DIGEST = `0x${'ab'.repeat(32)}` as const

test('a seed gives the private key and the address of the vector (contract 23.1)', async () => {
  const key = Buffer.from(privateKeyOf(SEED)).toString('hex')
  expect(key).toBe('5d5f88dd120a6cf3db6a34fd0f10f09817cbd405c562dcbea1379de3b3f11c72')
  expect((await keySigner(SEED)).address).toBe(ADDRESS)
  expect(privateKeyToAddress(`0x${key}`).toLowerCase()).toBe(ADDRESS)
})

test('a private key of a wallet, used as a seed, is not the key of that wallet (contract 23.1)', async () => {
  const wallet = privateKeyToAddress(`0x${'22'.repeat(32)}`)
  expect((await keySigner(SEED)).address).not.toBe(wallet.toLowerCase())
})

test('each seed has its own address, the first time and every other one', async () => {
  for (let turn = 0; turn < 40; turn++) {
    const seed = new Uint8Array(32).fill(turn % 20)
    const key = Buffer.from(privateKeyOf(seed)).toString('hex')
    const signer = await keySigner(seed)
    expect(signer.address).toBe(lower(privateKeyToAddress(`0x${key}`)))
    expect((await recoverAddress({ hash: DIGEST, signature: await signer.sign(DIGEST) })).toLowerCase()).toBe(
      signer.address,
    )
  }
})

test('both libraries sign alike, and nothing is signed after the end', async () => {
  const curves = [await nativeCurve(), portableCurve].filter((curve) => curve !== undefined)
  for (const curve of curves) {
    const signer = await keySigner(SEED, curve)
    expect(signer.address).toBe(ADDRESS)
    const signature = await signer.sign(DIGEST)
    expect((await recoverAddress({ hash: DIGEST, signature })).toLowerCase()).toBe(ADDRESS)
    signer.close()
    await expect(signer.sign(DIGEST)).rejects.toThrow('closed')
  }
})
