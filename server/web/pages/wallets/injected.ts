/** Wallets of the browser that announce themselves (EIP-6963), and the older `window.ethereum`. */
import type { Offer } from '../lib/x402.ts'
import { devnet } from './devnet.ts'
import { chainIdOf, transferOf } from './eip3009.ts'
import { NotSigned, type Wallet } from './wallet.ts'

type Provider = { request(call: { method: string; params?: unknown }): Promise<unknown> }
type Announced = {
  readonly info: { readonly uuid: string; readonly name: string; readonly icon?: string }
  readonly provider: Provider
}

/** Calls back for each wallet, now and when one is announced later. Returns what stops it. */
export function watchInjected(found: (wallet: Wallet) => void): () => void {
  const seen = new Set<string>()
  const hear = (event: Event) => {
    const { info, provider } = (event as CustomEvent<Partial<Announced> | null>).detail ?? {}
    if (typeof info?.uuid !== 'string' || typeof provider?.request !== 'function' || seen.has(info.uuid)) return
    seen.add(info.uuid)
    const { uuid: id, icon } = info
    const isPicture = typeof icon === 'string' && icon.startsWith('data:image/')
    found({ ...injected(provider), id, name: nameIn(info.name), ...(isPicture && { icon }) })
  }
  addEventListener('eip6963:announceProvider', hear)
  dispatchEvent(new Event('eip6963:requestProvider'))
  const { ethereum } = globalThis as { ethereum?: Provider }
  if (ethereum && seen.size === 0) found({ ...injected(ethereum), id: 'ethereum', name: 'Browser wallet' })
  return () => removeEventListener('eip6963:announceProvider', hear)
}

const MAX_NAME = 40

/** Without marks that turn the text around it, and not longer than a button. */
function nameIn(name: unknown): string {
  const plain = typeof name === 'string' ? name.replace(/[\p{Cc}\p{Cf}]/gu, '').trim() : ''
  return plain === '' ? 'Browser wallet' : plain.slice(0, MAX_NAME)
}

function injected(provider: Provider): Omit<Wallet, 'id' | 'name'> {
  const ask = async (method: string, params?: unknown) => {
    try {
      return await provider.request(params === undefined ? { method } : { method, params })
    } catch (error) {
      throw problemOf(error as { code?: number; message?: string })
    }
  }
  const signTyped = async (typedData: string, { network, address }: { network: string; address: string }) => {
    await switchTo({ network }, provider)
    return String(await ask('eth_signTypedData_v4', [address, typedData]))
  }
  return {
    family: 'evm',
    signTyped,
    async connect() {
      const [address] = (await ask('eth_requestAccounts')) as readonly string[]
      if (!address) throw new NotSigned('The wallet gave no account.')
      return address
    },
    async sign(offer, address) {
      const { authorization, typedData } = transferOf(offer, address)
      const signature = await signTyped(JSON.stringify(typedData), { network: offer.network, address })
      return { signature, authorization }
    },
    async signText(text, address) {
      return String(await ask('personal_sign', [textAsHex(text), address]))
    },
  }
}

const UNKNOWN_CHAIN = 4902

/** Switches the wallet to the chain of the offer, and adds it where the wallet does not know it. */
async function switchTo(offer: Pick<Offer, 'network'>, provider: Provider): Promise<void> {
  const chainId = `0x${chainIdOf(offer).toString(16)}`
  const current = await provider.request({ method: 'eth_chainId' })
  if (current === chainId) return
  const change = () => provider.request({ method: 'wallet_switchEthereumChain', params: [{ chainId }] })
  try {
    await change()
  } catch (error) {
    const { code } = error as { code?: number }
    const chain = await chainOf(offer)
    if (code !== UNKNOWN_CHAIN || !chain) throw problemOf(error as { code?: number; message?: string })
    try {
      await provider.request({ method: 'wallet_addEthereumChain', params: [{ chainId, ...chain }] })
      await change()
    } catch (later) {
      throw problemOf(later as { code?: number; message?: string })
    }
  }
}

const ETHER = { name: 'Ether', symbol: 'ETH', decimals: 18 }

async function chainOf({ network }: Pick<Offer, 'network'>): Promise<object | undefined> {
  const local = (await devnet())?.gateways.find((gateway) => gateway.network === network)
  if (local) return { chainName: 'Farebox devnet', nativeCurrency: ETHER, rpcUrls: [local.rpc_url] }
  const known: Readonly<Record<string, object>> = {
    'eip155:8453': { chainName: 'Base', nativeCurrency: ETHER, rpcUrls: ['https://mainnet.base.org'] },
    'eip155:84532': { chainName: 'Base Sepolia', nativeCurrency: ETHER, rpcUrls: ['https://sepolia.base.org'] },
  }
  return known[network]
}

/** The codes of EIP-1193, in words. */
function problemOf({ code, message }: { code?: number; message?: string }): NotSigned {
  if (code === 4001) return new NotSigned('You refused in the wallet. Nothing was signed and nothing was charged.')
  if (code === -32002) return new NotSigned('The wallet already asks you something: open it and answer.')
  if (code === 4100) return new NotSigned('The wallet does not let this page use the account. Connect it again.')
  if (code === UNKNOWN_CHAIN)
    return new NotSigned('The wallet does not know this network. Add it there, then try again.')
  return new NotSigned(`The wallet answered: ${message ?? 'no reason given'}`)
}

const textAsHex = (text: string): string =>
  `0x${[...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
