/** The buyer's page in a real browser, against a devnet. */
import { describe, expect } from 'bun:test'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'
import { browserOnDevnet, inBrowser, openPage } from './browser.ts'
import { injectWallet } from './injected_wallet.ts'

const devnet = browserOnDevnet(async ({ origin, buyerKey }) => {
  const client = new ExactEvmScheme(privateKeyToAccount(buyerKey))
  const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: 'eip155:*', client }] })
  await pay(`${origin}/api/v1/images/generations`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'vendor-a/image-1', prompt: 'a red fox in the snow' }),
  })
})

describe('the buyer signs in', () => {
  inBrowser('and sees what the wallet bought, its result, its sums and an export', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/wallet`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Sign in with Play wallet' }).click()
    await page.getByRole('heading', { name: 'Calls' }).waitFor()
    const row = page.locator('#calls ~ .table tbody tr')
    expect(await row.count()).toBe(1)
    expect(await row.textContent()).toMatch(/vendor-a\/image-1.*0x[0-9a-f]{64}.*paid.*0\.022 USDC/)
    expect(await page.getByRole('heading', { name: 'Spent by day' }).count()).toBe(1)
    const csv = decodeURIComponent(await page.getByRole('link', { name: 'Export as CSV' }).getAttribute('href'))
    expect(csv).toContain('created_at,id,endpoint,model')
    expect(csv).toContain('images.generations,vendor-a/image-1,completed,settled,0.022000,0.022000,eip155:84532,0x')
    await page.getByRole('button', { name: 'Show the result' }).click()
    await page.getByRole('img', { name: 'The picture that was bought' }).waitFor()
    expect(complaints).toEqual([])
  })

  inBrowser('with a wallet of the browser that refuses once, and pays nothing', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    const wallet = await injectWallet(page, devnet.buyerKey)
    await page.goto(`${devnet.origin}/wallet`, { waitUntil: 'networkidle' })
    wallet.refuseOnce()
    await page.getByRole('button', { name: 'Sign in with Test Wallet' }).click()
    await page.getByText('You refused in the wallet').waitFor()
    await page.getByRole('button', { name: 'Sign in with Test Wallet' }).click()
    await page.getByRole('heading', { name: 'Calls' }).waitFor()
    expect(wallet.calls.filter((method) => method.startsWith('eth_sign'))).toEqual([])
    expect(complaints).toEqual([])
  })

  inBrowser('and a stranger sees nothing of it', async () => {
    const { page } = await openPage(devnet.browser)
    await injectWallet(page, `0x${'7'.repeat(64)}`)
    await page.goto(`${devnet.origin}/wallet`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Sign in with Test Wallet' }).click()
    await page.getByText('This wallet has bought nothing here yet.').waitFor()
  })
})
