/** A browser wallet of a test: it announces itself as EIP-6963 says, and signs outside of the page. */
import { privateKeyToAccount } from 'viem/accounts'
import type { Page } from './browser.ts'

type Call = { readonly method: string; readonly params?: readonly unknown[] }
type InjectedWallet = {
  readonly address: string
  /** The methods that the page has called, in order. */
  readonly calls: readonly string[]
  /** The next signature is refused, as by a person. */
  refuseOnce(): void
  /** The next change of the network is refused. */
  refuseNetworkOnce(): void
  /** The wallet thinks about who asks until the returned function is called. */
  holdAccounts(): () => void
}

/** Call it before the page is opened. The wallet is on another chain at first, and does not know that of the test. */
export async function injectWallet(page: Page, privateKey: `0x${string}`): Promise<InjectedWallet> {
  const account = privateKeyToAccount(privateKey)
  const calls: string[] = []
  let chainId = '0x1'
  const known = new Set(['0x1'])
  let isRefusing = false
  let isStaying = false
  let gate: Promise<void> | undefined

  async function answer({ method, params = [] }: Call): Promise<unknown> {
    calls.push(method)
    if (method === 'eth_requestAccounts') await gate
    const [first, second] = params as readonly [{ chainId: string }, string]
    if (method === 'eth_requestAccounts' || method === 'eth_accounts') return [account.address]
    if (method === 'eth_chainId') return chainId
    if (method === 'wallet_addEthereumChain') return known.add(first.chainId) && null
    if (method === 'wallet_switchEthereumChain') {
      if (isStaying) {
        isStaying = false
        throw problem(4001, 'User rejected the request')
      }
      if (!known.has(first.chainId)) throw problem(4902, 'Unrecognized chain')
      chainId = first.chainId
      return null
    }
    if (isRefusing) {
      isRefusing = false
      throw problem(4001, 'User rejected the request')
    }
    if (method === 'eth_signTypedData_v4') {
      const { types, ...data } = JSON.parse(second) as { types: Record<string, unknown> } & Record<string, unknown>
      // Without the type of the domain, real wallets sign an empty one.
      if (!types.EIP712Domain) throw problem(-32602, 'EIP712Domain is missing')
      return await account.signTypedData({ types, ...data } as never)
    }
    if (method === 'personal_sign')
      return await account.signMessage({ message: { raw: (params as string[])[0] as `0x${string}` } })
    throw problem(4200, `unsupported: ${method}`)
  }

  await page.exposeFunction('testWallet', async (call: Call) => {
    try {
      return { result: await answer(call) }
    } catch (error) {
      const { code, message } = error as { code: number; message: string }
      return { error: { code, message } }
    }
  })
  await page.addInitScript(`
    const provider = {
      async request(call) {
        const { result, error } = await window.testWallet(call)
        if (error) throw Object.assign(new Error(error.message), { code: error.code })
        return result
      },
    }
    const icon = 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"/>'
    const info = { uuid: 'a4dd4d2c-0000-4000-8000-000000000001', name: 'Test Wallet', icon, rdns: 'example.test' }
    const announce = () =>
      dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }))
    addEventListener('eip6963:requestProvider', announce)
    announce()
  `)
  return {
    address: account.address,
    calls,
    refuseOnce: () => (isRefusing = true),
    refuseNetworkOnce: () => (isStaying = true),
    holdAccounts() {
      const { promise, resolve } = Promise.withResolvers<void>()
      gate = promise
      return resolve
    },
  }
}

const problem = (code: number, message: string) => Object.assign(new Error(message), { code })
