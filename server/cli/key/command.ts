/** The input of the verbs of `farebox key`, and their requests to the gateway. */
import { fieldsOf } from '../../../core/lib/mod.ts'
import { keyText, privateKeyOf, readKey, SEED_BYTES } from '../../../core/x402/mod.ts'
import { bytesToHex, type LocalAccount } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { printable } from '../../proxy/payees.ts'
import { CommandError, type Io } from '../command.ts'

export type KeyCommand = {
  readonly io: Io
  /** Of the files about keys. */
  readonly directory: string
  readonly origin: string
  /** The text in FAREBOX_KEY. */
  readonly key: string | undefined
  readonly values: {
    readonly deposit?: string | undefined
    readonly tool?: string | undefined
    readonly model?: string | undefined
    readonly address?: string | undefined
    readonly rpc?: string | undefined
    readonly test?: boolean | undefined
  }
}

type Answer = {
  readonly status: number
  readonly headers: Headers
  readonly body: Readonly<Record<string, unknown>>
}

/** Asks the gateway. A redirect is not followed: it could carry the key to another host. */
export async function ask(url: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url, { ...init, redirect: 'manual' }).catch(() => {
    throw new CommandError(`Nothing answers at ${new URL(url).origin}. Is a gateway running there?`)
  })
  const body = fieldsOf(await response.json().catch(() => ({})))
  return { status: response.status, headers: response.headers, body }
}

export const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

/** The reason in an answer, in whichever format it came. */
export function reasonOf({ status, body }: Answer): string {
  const { error, message, details } = body
  const inner = fieldsOf(error).message
  const text = [inner, message, error, details].find((each) => typeof each === 'string' && each !== '')
  return `${status}: ${typeof text === 'string' ? printable(text) : 'no reason given'}`
}

/** A new key: its text, and the account that signs as its address. */
export function randomKey(mode: 'test' | 'live'): { readonly text: string; readonly account: LocalAccount } {
  const seed = crypto.getRandomValues(new Uint8Array(SEED_BYTES))
  try {
    return { text: keyText(seed, mode), account: accountOf(seed) }
  } finally {
    seed.fill(0)
  }
}

/** The account of a key's text. Throws CommandError for any other text, and never shows it. */
export function keyAccount(text: string | undefined): LocalAccount {
  if (text === undefined) throw new CommandError('Set FAREBOX_KEY to the key.')
  const key = readKey(text)
  if (key.kind !== 'key') throw new CommandError('FAREBOX_KEY is no key that can deposit: it is mistyped, or cut off.')
  try {
    return accountOf(key.seed)
  } finally {
    key.seed.fill(0)
  }
}

const accountOf = (seed: Uint8Array): LocalAccount => privateKeyToAccount(bytesToHex(privateKeyOf(seed)))
