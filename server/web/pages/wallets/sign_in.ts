/** Asks as a wallet, without paying: the 402 has a challenge, the wallet signs it, and the request is sent again. */
import { refusal } from '../lib/refusal.ts'
import type { Wallet } from './wallet.ts'

/** The extension `sign-in-with-x` of a 402. */
type Challenge = {
  readonly info: {
    readonly domain: string
    readonly uri: string
    readonly statement: string
    readonly version: string
    readonly nonce: string
    readonly issuedAt: string
    readonly requestId: string
  }
  readonly supportedChains: readonly { readonly chainId: string; readonly type: string }[]
}

export type SignedIn = { readonly wallet: Wallet; readonly address: string }

/** The networks on which this gateway knows wallets, as a list of calls says them. Rejects with why it knows none. */
export async function networksOf(path: string): Promise<readonly string[]> {
  const reply = await fetch(path).catch(() => {
    throw new Error('The gateway did not answer. Reload the page to try again.')
  })
  const challenge = await challengeIn(reply.clone()).catch(() => undefined)
  if (challenge) return challenge.supportedChains.map(({ chainId }) => chainId)
  throw await refusal(reply)
}

/** A GET as this wallet. Rejects with a sentence for people when nothing was signed. */
export const getAs = (signedIn: SignedIn, path: string): Promise<Response> => askAs(signedIn, { method: 'GET', path })

/** A request without a body as this wallet. Rejects with a sentence for people when nothing was signed. */
export async function askAs(
  { wallet, address }: SignedIn,
  { method, path }: { readonly method: 'GET' | 'POST'; readonly path: string },
): Promise<Response> {
  const first = await fetch(path, { method })
  const challenge = first.status === 402 ? await challengeIn(first.clone()) : undefined
  if (!challenge) return first
  const type = wallet.family === 'solana' ? 'ed25519' : 'eip191'
  const chain = challenge.supportedChains.find((each) => each.type === type)
  if (!chain) throw new Error('This gateway is not paid on a network of this wallet.')
  const { info } = challenge
  if (info.domain !== location.host)
    throw new Error(`The gateway asks for a signature for ${info.domain}, and this page is ${location.host}.`)
  const signature = await wallet.signText(textOf(info, { address, chainId: chain.chainId }), address)
  const signed = { ...info, address, chainId: chain.chainId, type, signature }
  return await fetch(path, { method, headers: { 'sign-in-with-x': btoa(JSON.stringify(signed)) } })
}

async function challengeIn(reply: Response): Promise<Challenge | undefined> {
  const { extensions } = (await reply.json()) as { extensions?: { readonly 'sign-in-with-x'?: Challenge } }
  return extensions?.['sign-in-with-x']
}

/** EIP-4361, and the same layout for Solana. */
function textOf(info: Challenge['info'], { address, chainId }: { address: string; chainId: string }): string {
  const [namespace, reference] = chainId.split(':')
  return [
    `${info.domain} wants you to sign in with your ${namespace === 'solana' ? 'Solana' : 'Ethereum'} account:`,
    address,
    '',
    info.statement,
    '',
    `URI: ${info.uri}`,
    `Version: ${info.version}`,
    `Chain ID: ${reference}`,
    `Nonce: ${info.nonce}`,
    `Issued At: ${info.issuedAt}`,
    `Request ID: ${info.requestId}`,
  ].join('\n')
}
