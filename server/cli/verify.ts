/** `farebox verify`: checks signed offers and receipts without a network, and the money of an API key on chain. */
import { readFileSync } from 'node:fs'
import type { Jwk, SignedContent } from '../../core/mod.ts'
import { readPublicKey } from '../config/keys/signing_key.ts'
import { openSigned } from '../wiring/signatures.ts'
import { type Command, CommandError, type Io, readOptions, UsageError } from './command.ts'
import { isLocal } from './lib/buyer_options.ts'

const text = { type: 'string' } as const
const options = { key: text, json: { type: 'boolean' }, url: text, rpc: text, 'from-block': text } as const

export const command: Command = {
  name: 'verify',
  summary: 'check a signed offer or receipt, or what an API key was charged',
  help: `Checks signed offers and receipts (the extension offer-receipt) without a network. The key is the gateway's
/.well-known/did.json, saved while you trusted it, or its public key as PEM or JWK. A document also shows which host
the key speaks for; a bare key shows only who signed.

Usage: farebox verify FILE|- --key FILE [--json]
       farebox verify --url URL [--rpc URL] [--from-block NUMBER]

FILE is the body of a 402, a PAYMENT-RESPONSE or PAYMENT-REQUIRED header, an offer or a receipt, or its signature alone;
- reads standard input.

Options:
  --key FILE  the did.json of the gateway, or its public key
  --json      print one JSON array: kind, valid, problem, key, fields
  --url URL   compare deposits, charges, claims and refunds of the API key in FAREBOX_KEY, as the chain has them and as
              the gateway at URL says
  --rpc URL   with --url: a node of the chain (devnet: its own)
  --from-block NUMBER
              with --url: a block before the first deposit (default: 0)

Exit codes: 0 every signature is valid and every sum is equal, 1 one is not or there is none, 2 wrong usage.

Examples:
  farebox verify receipt.json --key did.json
  FAREBOX_KEY=sk-fbx-... farebox verify --url https://ai.example --rpc https://node.example
  curl -s https://ai.example/.well-known/did.json > did.json`,
  async run(args, io) {
    const { values, positionals } = readOptions(args, options, 1)
    const [file] = positionals
    if (values.url !== undefined) return await verifyKeyAt(io, { ...values, url: values.url, file })
    for (const name of ['rpc', 'from-block'] as const)
      if (values[name] !== undefined) throw new UsageError(`--${name} goes with --url`)
    if (file === undefined) throw new UsageError('name the FILE to check, or - for standard input')
    if (values.key === undefined) throw new UsageError('--key FILE is missing: the did.json of the gateway, or its key')
    if (file === '-' && values.key === '-') throw new UsageError('only one of FILE and --key can be standard input')
    const trusted = trustedIn(contentsOf(values.key))
    if (!trusted) throw new CommandError(`${values.key} is neither a DID document nor an Ed25519 or P-256 public key`)
    const signatures = signaturesIn(contentsOf(file))
    if (signatures.length === 0) throw new CommandError(`${file} has no signed offer or receipt`)
    const verdicts = await Promise.all(signatures.map((signature) => judged(signature, trusted)))
    if (values.json) io.out(JSON.stringify(verdicts, null, 2))
    else for (const verdict of verdicts) io.out(lineOf(verdict))
    return verdicts.every(({ valid }) => valid) ? 0 : 1
  },
}

type KeyValues = {
  readonly url: string
  readonly file: string | undefined
  readonly key?: string | undefined
  readonly json?: boolean | undefined
  readonly rpc?: string | undefined
  readonly 'from-block'?: string | undefined
}

async function verifyKeyAt(io: Io, { url, file, key, json, rpc, ...values }: KeyValues): Promise<number> {
  if (file !== undefined || key !== undefined || json) throw new UsageError('--url takes no FILE, --key or --json')
  const from = values['from-block'] ?? '0'
  if (!/^\d{1,15}$/.test(from)) throw new UsageError(`--from-block must be a number, got ${JSON.stringify(from)}`)
  const origin = url.replace(/\/+$/, '')
  if (!URL.canParse(origin) || !(origin.startsWith('https://') || isLocal(origin)))
    throw new UsageError('--url must be an https URL: over plain HTTP others could read the key')
  const { findWallet } = await import('./buy/gateway.ts')
  const devnet = async () => (await findWallet({ origin, rpc, key: undefined }).catch(() => undefined))?.rpcUrl
  const rpcUrl = rpc ?? (isLocal(origin) ? await devnet() : undefined)
  if (rpcUrl === undefined) throw new UsageError('--rpc is missing: the URL of a node of the chain')
  const { verifyKey } = await import('./key/verify.ts')
  return (await verifyKey({ io, origin, rpcUrl, fromBlock: BigInt(from) })) ? 0 : 1
}

/** The keys to check against, by name; a key without a document has none. */
type Trusted = { readonly id?: string; readonly keys: ReadonlyMap<string | undefined, Jwk> }

type Verdict = {
  readonly kind: SignedContent['kind'] | 'unknown'
  readonly valid: boolean
  readonly problem?: string
  readonly note?: string
  readonly key?: string
  readonly fields?: SignedContent['fields']
}

async function judged({ format, signature }: Artifact, trusted: Trusted): Promise<Verdict> {
  if (format !== 'jws')
    return { kind: 'unknown', valid: false, problem: `it is signed as ${format}, which is not checked here` }
  const opened = openSigned(signature)
  if (!opened) return { kind: 'unknown', valid: false, problem: 'it is no JWS of an offer or a receipt' }
  const { kind, keyId, fields } = opened.content
  const problem = await problemOf(opened, trusted)
  const { validUntil } = fields
  const isOver = typeof validUntil === 'number' && validUntil * 1000 < Date.now()
  return {
    kind,
    valid: problem === undefined,
    ...(problem !== undefined && { problem }),
    ...(isOver &&
      problem === undefined && { note: 'the offer has ended; what it promised until then is proven all the same' }),
    key: keyId,
    fields,
  }
}

async function problemOf(
  { content: { keyId, fields }, isOf }: NonNullable<ReturnType<typeof openSigned>>,
  { id, keys }: Trusted,
): Promise<string | undefined> {
  const key = keys.get(id === undefined ? undefined : keyId)
  if (!key) return `the document has no key ${keyId}`
  if (!(await isOf(key))) return 'the signature is not of this key, or what it signs was changed'
  if (id === undefined) return undefined
  const host = hostOf(fields.resourceUrl)
  if (host === undefined || !isFor(id, host)) return `${id} may not speak for ${String(fields.resourceUrl)}`
  return undefined
}

/** `did:web` names the host, with its port, before any path. */
const isFor = (id: string, host: string): boolean => id.split(':')[2] === encodeURIComponent(host)
const hostOf = (url: unknown): string | undefined => (typeof url === 'string' ? URL.parse(url)?.host : undefined)

function lineOf({ kind, valid, problem, note, key, fields = {} }: Verdict): string {
  const text = Object.entries(fields)
    .filter(([name]) => name !== 'version')
    .map(([name, value]) => `${name} ${typeof value === 'number' ? dated(value) : String(value)}`)
  return [`${valid ? 'valid' : 'NOT VALID'} ${kind}`, problem, note, ...text, key && `key ${key}`]
    .filter((part) => part !== undefined)
    .map(onOneLine)
    .join('\n  ')
}

/** Escapes control characters: signed text comes from others and must not forge a line or move the cursor. */
const onOneLine = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (mark) => `\\u${mark.codePointAt(0)?.toString(16).padStart(4, '0')}`)

const dated = (seconds: number): string =>
  Math.abs(seconds) < 8e12 ? new Date(seconds * 1000).toISOString() : String(seconds)

function contentsOf(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8').trim()
  } catch (error) {
    throw new CommandError(`${file} cannot be read (${(error as { code?: string }).code})`)
  }
}

function trustedIn(text: string): Trusted | undefined {
  const document = parsed(text) as DidDocument | undefined
  if (!Array.isArray(document?.verificationMethod)) {
    const key = readPublicKey(text)
    return key && { keys: new Map([[undefined, key]]) }
  }
  if (typeof document.id !== 'string' || !document.id.startsWith('did:web:')) return undefined
  const asserting = Array.isArray(document.assertionMethod) ? document.assertionMethod : []
  const keys = document.verificationMethod.flatMap((method) => {
    const { id, publicKeyJwk } = method ?? {}
    return typeof id === 'string' && publicKeyJwk && asserting.includes(id) ? [[id, publicKeyJwk] as const] : []
  })
  return { id: document.id, keys: new Map(keys) }
}

type DidDocument = {
  readonly id?: unknown
  readonly assertionMethod?: unknown
  readonly verificationMethod?: readonly ({ readonly id?: unknown; readonly publicKeyJwk?: Jwk } | null)[]
}

type Artifact = { readonly format: string; readonly signature: string }

/** Signatures wherever they are in a body, a header or an artifact. */
function signaturesIn(text: string): readonly Artifact[] {
  if (/^[\w-]+\.[\w-]+\.[\w-]*$/.test(text)) return [{ format: 'jws', signature: text }]
  const value = parsed(text) ?? parsed(Buffer.from(text, 'base64').toString())
  return [...signaturesOf(value, 0)]
}

/** Bodies and headers nest a few levels deep. */
const MAX_DEPTH = 100

function* signaturesOf(value: unknown, depth: number): Generator<Artifact> {
  if (typeof value !== 'object' || value === null) return
  if (depth > MAX_DEPTH) throw new CommandError(`it nests deeper than ${MAX_DEPTH} levels, as no offer or receipt does`)
  const { format, signature } = value as { format?: unknown; signature?: unknown }
  if (format !== undefined && signature !== undefined)
    yield { format: String(format), signature: typeof signature === 'string' ? signature : '' }
  for (const member of Object.values(value)) yield* signaturesOf(member, depth + 1)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
