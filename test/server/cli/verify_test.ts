/** `farebox verify` in process: offers and receipts of a gateway, whole, changed, and of others. */
import { afterAll, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { offerSigner } from '../../../adapters/offer_signer.ts'
import type { Jwk } from '../../../core/mod.ts'
import { FOX, kit, ORIGIN } from '../../kit.ts'
import { runCommand } from './command_kit.ts'

const dir = mkdtempSync(join(tmpdir(), 'farebox-verify-'))
afterAll(() => rmSync(dir, { recursive: true }))
let files = 0
function file(content: unknown): string {
  const path = join(dir, `${(files += 1)}`)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const subject = kit({ signer: offerSigner(privateKey.export({ format: 'jwk' }) as unknown as Jwk) })
const alice = subject.buyer()
const challenge = await alice.ask(FOX)
const header = (await alice.buy(FOX)).headers.get('payment-response') as string
const documentOf = async (origin = ORIGIN) =>
  (await (await subject.gateway.fetch(new Request(`${origin}/.well-known/did.json`))).json()) as any
const document = await documentOf()
const receipt = JSON.parse(atob(header)).extensions['offer-receipt'].info.receipt as {
  format: string
  signature: string
}

test('signatures of a gateway are valid by its did.json, in each form (contract 1.79, 1.80)', async () => {
  const key = file(document)
  const pem = file(publicKey.export({ type: 'spki', format: 'pem' }))
  const jwk = file(publicKey.export({ format: 'jwk' }))
  for (const [what, kind] of [
    [challenge.body, 'offer'],
    [header, 'receipt'],
    [receipt, 'receipt'],
    [`${receipt.signature}\n`, 'receipt'],
  ] as const)
    for (const trusted of [key, pem, jwk]) {
      const { code, out, err } = await runCommand(['verify', file(what), '--key', trusted])
      expect({ code, err }).toEqual({ code: 0, err: '' })
      expect(out).toStartWith(`valid ${kind}\n`)
    }
  const { out } = await runCommand(['verify', file(receipt), '--key', key, '--json'])
  expect(JSON.parse(out)).toMatchObject([{ kind: 'receipt', valid: true, fields: { payer: alice.wallet } }])
})

test('one changed letter, another key, or a document of another host is not valid, and the exit code is 1 (contract 1.79)', async () => {
  const [head, payload = '', signature] = receipt.signature.split('.')
  const fields = JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/')))
  const richer = Buffer.from(JSON.stringify({ ...fields, payer: '0x0' })).toString('base64url')
  const stranger = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })
  const [method] = document.verificationMethod
  const moved = { ...document, id: 'did:web:other.test' }
  const keyless = { ...document, assertionMethod: [] }
  for (const [what, key, problem] of [
    [[head, richer, signature].join('.'), document, 'was changed'],
    [receipt, stranger, 'not of this key'],
    [receipt, { ...document, verificationMethod: [{ ...method, publicKeyJwk: stranger }] }, 'not of this key'],
    [receipt, await documentOf('http://other.test'), 'has no key'],
    [receipt, moved, 'may not speak for'],
    [receipt, keyless, 'has no key'],
  ] as const) {
    const { code, out } = await runCommand(['verify', file(what), '--key', file(key)])
    expect({ code, out }).toEqual({ code: 1, out: expect.stringContaining(problem) })
    expect(out).toStartWith('NOT VALID receipt')
  }
})

test('unverifiable input is invalid, and signed text cannot imitate a verdict', async () => {
  const key = file(document)
  const other = { format: 'eip712', signature: '0xab', payload: {} }
  const mixed = await runCommand(['verify', file({ offers: [receipt, other] }), '--key', key])
  expect([mixed.code, mixed.out]).toEqual([1, expect.stringContaining('it is signed as eip712, which is not checked')])
  for (const odd of [
    { format: null, signature: 'ab' },
    { format: 'jws', signature: 5 },
    { ...receipt, more: other },
  ])
    expect((await runCommand(['verify', file({ offers: [receipt, odd] }), '--key', key])).code).toBe(1)
  const [head] = receipt.signature.split('.')
  const forged = Buffer.from(JSON.stringify({ version: 1, network: 'a', payer: 'b\nvalid receipt\u001b[2K' }))
  const injected = await runCommand(['verify', file(`${head}.${forged.toString('base64url')}.AAAA`), '--key', key])
  expect([injected.code, injected.out.split('\n').filter((line) => line.startsWith('valid'))]).toEqual([1, []])
  expect(injected.out).not.toContain('\u001b')
})

test('an offer that has ended is proven, and said to have ended', async () => {
  const { out } = await runCommand(['verify', file(challenge.body), '--key', file(document)])
  // The gateway's clock stands at an earlier day.
  expect(out).toContain('the offer has ended')
})

test('odd documents and nesting are refused in a sentence', async () => {
  const odd = { ...document, verificationMethod: [null] }
  const keyless = await runCommand(['verify', file(receipt), '--key', file(odd)])
  expect([keyless.code, keyless.out]).toEqual([1, expect.stringContaining('the document has no key')])
  const deep = await runCommand(['verify', file(`${'['.repeat(50_000)}${']'.repeat(50_000)}`), '--key', file(document)])
  expect([deep.code, deep.err]).toEqual([1, expect.stringMatching(/nests deeper|no signed offer or receipt/)])
})

test('files without a signature or a key are named, and a command line without them is wrong usage', async () => {
  const key = file(document)
  const empty = file('{}')
  expect(await runCommand(['verify', empty, '--key', key])).toMatchObject({
    code: 1,
    err: expect.stringContaining(empty),
  })
  expect(await runCommand(['verify', key, '--key', empty])).toMatchObject({
    code: 1,
    err: expect.stringContaining(empty),
  })
  expect(await runCommand(['verify', join(dir, 'none'), '--key', key])).toMatchObject({
    code: 1,
    err: expect.stringContaining('ENOENT'),
  })
  expect((await runCommand(['verify', key])).code).toBe(2)
  expect((await runCommand(['verify', '--key', key])).code).toBe(2)
})
