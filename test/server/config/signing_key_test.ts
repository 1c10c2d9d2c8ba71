import { expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { offerSigner } from '../../../adapters/offer_signer.ts'
import type { Jwk } from '../../../core/mod.ts'
import { good, mistakes } from './config_kit.ts'

const ORIGIN = 'public_origin = "https://ai.example"'
const ed25519 = generateKeyPairSync('ed25519').privateKey
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const gateway =
  '[[gateways]]\nname = "base"\nnetwork = "eip155:8453"\npay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"\nrpc_url_env = "BASE_RPC_URL"\nrelayer_key_env = "RELAYER_KEY"\n'
const env = { BASE_RPC_URL: 'https://node.example/', RELAYER_KEY: `0x${'5ec2e7'.repeat(10)}5ec2` }

test('signing_key is PEM, JWK or a seed in hex, of Ed25519 or P-256', () => {
  const pem = ed25519.export({ type: 'pkcs8', format: 'pem' }) as string
  const jwk = ed25519.export({ format: 'jwk' })
  const seed = Buffer.from(jwk.d as string, 'base64url').toString('hex')
  const keyOf = (SIGNING_KEY: string) => good(ORIGIN, { SIGNING_KEY }).signingKey
  for (const text of [pem, pem.replaceAll('\n', '\\n'), JSON.stringify(jwk), seed])
    expect(keyOf(text)).toMatchObject(jwk)
  const other = keyOf(p256.export({ type: 'pkcs8', format: 'pem' }) as string)
  expect(offerSigner(other as Jwk).algorithm).toBe('ES256')
  expect(good(ORIGIN).signingKey).toBeUndefined()
})

test('a signing_key that is none is named and not shown', () => {
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey
  const bad = [p384.export({ type: 'pkcs8', format: 'pem' }) as string, 'x'.repeat(64), '{'.padEnd(70, '}')]
  for (const SIGNING_KEY of bad) {
    const [mistake = '', ...more] = mistakes(ORIGIN, { SIGNING_KEY })
    expect([mistake.includes('signing_key: must be a private Ed25519'), more]).toEqual([true, []])
    expect(mistake).not.toContain(SIGNING_KEY.slice(30, 60))
  }
})

test('a signing_key needs the host that it speaks for', () => {
  const SIGNING_KEY = '5e'.repeat(32)
  expect(mistakes(gateway, { ...env, SIGNING_KEY })).toEqual([expect.stringContaining('needs public_origin')])
  expect(good(`${ORIGIN}\n${gateway}`, { ...env, SIGNING_KEY }).signingKey).toMatchObject({ crv: 'Ed25519' })
})
