/** The playground of a gateway that is paid on Solana, in a real browser. */
import { afterAll, beforeAll, describe, expect } from 'bun:test'
import { gatewayProcesses } from '../gateway_process.ts'
import { type Browser, inBrowser, noBrowser, openBrowser, openPage, type Page } from './browser.ts'
import { registerWallet } from './standard_wallet.ts'

type Chain = { readonly name: string; readonly base_url: string; readonly buyer: { readonly private_key: string } }

const processes = gatewayProcesses()
let browser: Browser
let solana: Chain

beforeAll(async () => {
  if (noBrowser) return
  const url = await processes.start(processes.dir()).url
  const { gateways } = (await (await fetch(`${url}/devnet`)).json()) as { gateways: readonly Chain[] }
  solana = gateways.find(({ name }) => name === 'solana') as Chain
  browser = await openBrowser()
})
afterAll(async () => await browser?.close())

/** A signature of Solana in base58. */
const TRANSACTION = /[1-9A-HJ-NP-Za-km-z]{87,88}/

describe('the playground of a Solana gateway', () => {
  inBrowser('buys a chat with the play wallet', async () => {
    const { page, complaints } = await openPage(browser)
    await page.goto(`${solana.base_url}/play?model=farebox/echo`, { waitUntil: 'networkidle' })
    await page.getByLabel('Your message').fill('Say hello to Solana.')
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    await page.getByText('Transaction').waitFor()
    expect(await page.locator('.answer').textContent()).toContain('hello')
    expect(await page.locator('.receipt').last().textContent()).toMatch(TRANSACTION)
    expect(complaints).toEqual([])
  })

  inBrowser('buys a picture with a wallet of the Wallet Standard that refuses once', async () => {
    const { page, complaints } = await openPage(browser)
    const wallet = await registerWallet(page, solana.buyer.private_key)
    await page.goto(`${solana.base_url}/play?model=vendor-a/image-1`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Get the price' }).click()
    wallet.refuseOnce()
    await page.getByRole('button', { name: 'Pay with Test Solana Wallet' }).click()
    await page.getByText('You refused in the wallet').waitFor()
    await page.getByRole('button', { name: 'Pay with Test Solana Wallet' }).click()
    await page.getByRole('img', { name: 'The picture that was bought' }).waitFor()
    expect(await page.locator('.receipt').last().textContent()).toMatch(TRANSACTION)
    expect(wallet.chains).toEqual(['solana:devnet', 'solana:devnet'])
    expect(complaints).toEqual([])
  })

  inBrowser(
    'asks for another signature when a clip outlived the first, and not while a block may take it',
    async () => {
      const { page } = await openPage(browser)
      await page.addInitScript('const now = Date.now; Date.now = () => now() + (window.skew ?? 0)')
      await page.goto(`${solana.base_url}/play?route=/api/v1/videos/generations`, { waitUntil: 'networkidle' })
      const payments = new Set<string>()
      let stale = ''
      await page.route(/videos\/generations\/job/, async (route: Page) => {
        const payment = route.request().headers()['payment-signature'] ?? ''
        payments.add(payment)
        stale ||= payment
        if (payment !== stale) return await route.continue()
        // The gateway's answer once the blockhash of the first payment has ended.
        const { 'payment-signature': _, ...headers } = route.request().headers()
        const demand = await (await fetch(route.request().url(), { headers })).json()
        return await route.fulfill({ status: 402, json: { ...(demand as object), code: 'PAYMENT_BLOCKHASH_STALE' } })
      })
      await page.getByRole('button', { name: 'Get the price' }).click()
      await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
      await page.getByText('it can be replaced when no block takes it').waitFor()
      expect(await page.getByRole('button', { name: 'Pay with Play wallet' }).count()).toBe(0)
      await page.evaluate('window.skew = 151_000')
      await page.getByText('Sign again to collect it').waitFor()
      await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
      await page.locator('.media video').waitFor()
      expect(payments.size).toBe(2)
      expect(await page.locator('#calls ~ .table tbody tr').count()).toBe(1)
      expect(await page.locator('#calls ~ .table').textContent()).toContain('received')
    },
  )
})

describe("the buyer's page of a Solana gateway", () => {
  inBrowser('shows what a wallet of the Wallet Standard bought, after it has signed in', async () => {
    const { page, complaints } = await openPage(browser)
    await registerWallet(page, solana.buyer.private_key)
    await page.goto(`${solana.base_url}/play?model=farebox/echo`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Test Solana Wallet' }).click()
    await page.getByText('Transaction').waitFor()
    await page.goto(`${solana.base_url}/wallet`, { waitUntil: 'networkidle' })
    for (const wallet of ['Play wallet', 'Test Solana Wallet']) {
      await page.getByRole('button', { name: `Sign in with ${wallet}` }).click()
      await page.locator('table').first().waitFor()
      expect(await page.locator('main').textContent()).toContain('0.002')
      await page.reload({ waitUntil: 'networkidle' })
    }
    expect(complaints).toEqual([])
  })
})
