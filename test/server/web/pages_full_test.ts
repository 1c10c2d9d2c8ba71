/** The pages in a real browser, against a devnet: what a person sees and buys. */
import { describe, expect } from 'bun:test'
import { PAGES } from '../../../server/web/bundle.ts'
import { pngSize } from '../clients/payer.ts'
import { axeProblems, browserOnDevnet, inBrowser, openPage, type Page, SCHEMES, sideways, WIDTHS } from './browser.ts'
import { injectWallet } from './injected_wallet.ts'
import { PICTURE, pictureOf } from './pictures.ts'

const devnet = browserOnDevnet()

describe('every page', () => {
  for (const { path } of PAGES.filter(({ isForOperator }) => !isForOperator))
    inBrowser(`${path} is whole at both widths, in both colour schemes, without a complaint`, async () => {
      for (const width of WIDTHS)
        for (const colorScheme of SCHEMES) {
          const { page, complaints } = await openPage(devnet.browser, { viewport: { width, height: 900 }, colorScheme })
          await page.goto(devnet.origin + path, { waitUntil: 'networkidle' })
          expect(await page.locator('h1').count()).toBe(1)
          expect(await sideways(page)).toBeLessThanOrEqual(0)
          expect(await axeProblems(page)).toEqual([])
          expect(complaints).toEqual([])
          await page.context().close()
        }
    })
})

describe('the front page', () => {
  inBrowser('finds models by words and kind, the cheapest first, and shows code for the chosen one', async () => {
    const { page } = await openPage(devnet.browser)
    await page.goto(devnet.origin)
    await page.getByRole('button', { name: 'Images', exact: true }).click()
    const prices = await page.locator('#models ~ .table tbody td:nth-child(3)').allTextContents()
    const numbers = prices.map((text: string) => Number(/\$([\d.]+)/.exec(text)?.[1]))
    expect(numbers.length).toBeGreaterThan(3)
    expect(numbers).toEqual(numbers.toSorted((a: number, b: number) => a - b))
    await page.getByRole('searchbox').fill('image-flash-2')
    expect(await page.locator('#models ~ .table tbody tr').count()).toBe(1)
    await page.getByRole('button', { name: 'Code for' }).click()
    await page.getByRole('tab', { name: 'Python' }).click()
    expect(await page.getByRole('tabpanel').textContent()).toContain(
      `post("${devnet.origin}/api/v1/images/generations"`,
    )
  })

  inBrowser(
    'shows the price of a call as it is now, and leads to the models of a kind and into the playground',
    async () => {
      const { page, complaints } = await openPage(devnet.browser)
      await page.goto(devnet.origin, { waitUntil: 'networkidle' })
      const question = { model: 'farebox/echo', messages: [{ role: 'user', content: 'Why is the sky blue?' }] }
      const estimate = await fetch(`${devnet.origin}/api/v1/chat/estimate`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ...question, max_tokens: 256 }),
      })
      const { price } = (await estimate.json()) as { price: { amount: string } }
      expect(await page.locator('.exchange').textContent()).toContain(`${Number(price.amount)} USDC`)
      await page.getByRole('link', { name: /^Video from/ }).click()
      expect(await page.getByRole('button', { name: 'Video', exact: true }).getAttribute('aria-pressed')).toBe('true')
      await page.getByRole('link', { name: 'Try Video 1 of' }).click()
      await page.getByLabel('What should happen in the clip?').waitFor()
      expect(await page.getByLabel('Model or service').inputValue()).toBe('vendor-c/video-1')
      expect(complaints).toEqual([])
    },
  )
})

inBrowser('the picture in the README can be made again, and has the size of the one that is there', async () => {
  const made = await pictureOf(devnet.origin, devnet.browser)
  expect(pngSize(made)).toBe('1600x726')
  expect(pngSize(await Bun.file(PICTURE).bytes())).toBe('1600x726')
})

describe('the playground', () => {
  inBrowser('buys a chat with the play wallet and shows the answer, the receipt and the code', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/play?model=farebox/echo`, { waitUntil: 'networkidle' })
    await page.getByLabel('Your message').fill('Say hello to the browser.')
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    await page.getByText('Transaction').waitFor()
    expect(await page.locator('.answer').textContent()).toContain('hello')
    expect(await axeProblems(page)).toEqual([])
    expect(await page.locator('.receipt').last().textContent()).toMatch(/0x[0-9a-f]{64}/)
    expect(await page.getByRole('tabpanel').textContent()).toContain('Say hello to the browser.')
    expect(complaints).toEqual([])
    await page.reload({ waitUntil: 'networkidle' })
    expect(await page.locator('#calls ~ .table').textContent()).toContain('received')
  })

  inBrowser('buys a picture with a browser wallet that refuses once', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    const wallet = await injectWallet(page, devnet.buyerKey)
    await page.goto(`${devnet.origin}/play?model=vendor-a/image-1`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Get the price' }).click()
    expect(await page.locator('.price').textContent()).toContain('0.022 USDC')
    expect(await axeProblems(page)).toEqual([])
    wallet.refuseOnce()
    await page.getByRole('button', { name: 'Pay with Test Wallet' }).click()
    await page.getByText('You refused in the wallet').waitFor()
    await page.getByRole('button', { name: 'Pay with Test Wallet' }).click()
    const picture = page.getByRole('img', { name: 'The picture that was bought' })
    await picture.waitFor()
    await page.waitForFunction('document.querySelector(".media img").naturalWidth > 0')
    expect(wallet.calls).toContain('wallet_addEthereumChain')
    expect(complaints).toEqual([])
  })

  inBrowser('pays once for a double click on a wallet that thinks about it', async () => {
    const { page } = await openPage(devnet.browser)
    const wallet = await injectWallet(page, devnet.buyerKey)
    const answer = wallet.holdAccounts()
    await page.goto(`${devnet.origin}/play?model=vendor-a/image-1`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Test Wallet' }).dblclick()
    answer()
    await page.getByText('Transaction').waitFor()
    const signatures = wallet.calls.filter((method) => method === 'eth_signTypedData_v4')
    expect([signatures.length, wallet.calls.filter((method) => method === 'eth_requestAccounts').length]).toEqual([
      1, 1,
    ])
  })

  inBrowser(
    'keeps a payment where something on the way answers in place of the gateway, and goes on with it',
    async () => {
      const { page } = await openPage(devnet.browser)
      let isFirst = true
      await page.route('**/api/v1/images/generations', async (route: Page) => {
        if (!route.request().headers()['payment-signature'] || !isFirst) return await route.continue()
        isFirst = false
        await route.fetch()
        await route.fulfill({ status: 404, contentType: 'text/plain', body: 'no backend' })
      })
      await page.goto(`${devnet.origin}/play?model=vendor-a/image-1`, { waitUntil: 'networkidle' })
      await page.getByRole('button', { name: 'Get the price' }).click()
      await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
      await page.getByText('The gateway answered 404').first().waitFor()
      await page.getByRole('button', { name: 'Continue' }).click()
      await page.getByRole('img', { name: 'The picture that was bought' }).waitFor()
      const payments = new Set(
        await page.evaluate(`JSON.parse(localStorage['farebox.calls']).map(({ status }) => status)`),
      )
      expect([...payments]).toEqual(['done'])
    },
  )

  inBrowser('buys a clip, which takes a while', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/play?route=/api/v1/videos/generations`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    await page.locator('.media video').waitFor({ timeout: 60_000 })
    expect(await page.locator('.receipt').last().textContent()).toMatch(/0x[0-9a-f]{64}/)
    expect(complaints).toEqual([])
  })

  inBrowser('is what a browser gets for a route that costs money, at its address, and it buys there', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    const reply = await page.goto(`${devnet.origin}/api/v1/stocks/us/price/AAPL`, { waitUntil: 'networkidle' })
    expect(reply?.status()).toBe(402)
    expect(reply?.headers()['payment-required']).toBeDefined()
    expect(await page.getByRole('textbox', { name: 'Path' }).inputValue()).toBe('/api/v1/stocks/us/price/AAPL')
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    await page.getByText('Transaction').waitFor()
    expect(await page.locator('.outcome').textContent()).toContain('AAPL')
    expect(await axeProblems(page)).toEqual([])
    expect(complaints).toEqual([])
  })

  inBrowser('finds a model by the name of its maker, and a service by its words', async () => {
    const { page } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/play?model=farebox/echo`, { waitUntil: 'networkidle' })
    const choice = page.getByLabel('Model or service')
    expect(await choice.inputValue()).toBe('farebox/echo')
    const all = await choice.locator('option').count()
    await page.getByRole('searchbox').fill('grok imagine')
    const found = await choice.locator('option:checked').textContent()
    expect(found).toContain('xai/grok-imagine-video')
    expect(await choice.locator('option').count()).toBeLessThan(all)
    await page.getByRole('searchbox').fill('prices of stocks, and nothing of that name')
    expect(await choice.locator('option:checked').textContent()).toBe(found)
    await page.getByRole('searchbox').fill('')
    expect(await choice.locator('option').count()).toBe(all)
    expect(await axeProblems(page)).toEqual([])
  })

  inBrowser('tells an empty wallet first what helps, and the codes last', async () => {
    const { page } = await openPage(devnet.browser)
    await injectWallet(page, `0x${'7a'.repeat(32)}`)
    await page.goto(`${devnet.origin}/play?model=farebox/echo`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Test Wallet' }).click()
    const text = await page.getByRole('alert').textContent()
    expect(text?.slice(0, 150)).toMatch(/The wallet has 0\.000000 USDC, and this costs 0\.\d{6} USDC\. Add USDC/)
    expect(text?.indexOf('insufficient_balance')).toBeGreaterThan(100)
  })

  inBrowser('never signs more than the limit of the visit', async () => {
    const { page } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/play?model=vendor-a/image-1`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByLabel('Spend at most').fill('0.01')
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    expect(await page.getByRole('alert').textContent()).toContain('Raise the limit, on the playground')
    expect(await page.locator('#calls').count()).toBe(0)
    await page.getByLabel('Spend at most').fill('0.5')
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    await page.getByRole('img', { name: 'The picture that was bought' }).waitFor()
  })

  inBrowser('an answer whose stream was cut is got again, whole, with the same payment', async () => {
    const { page } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/play?model=farebox/echo`, { waitUntil: 'networkidle' })
    const payments: string[] = []
    await page.route('**/api/v1/chat/completions', async (route: Page) => {
      const payment = route.request().headers()['payment-signature']
      if (payment === undefined) return await route.continue()
      payments.push(payment)
      if (payments.length > 1) return await route.continue()
      const response = await route.fetch()
      const text = await response.text()
      return await route.fulfill({ response, body: text.slice(0, text.length / 2) })
    })
    await page.getByLabel('Your message').fill('One two three four five.')
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    await page.getByText('The answer is not whole').waitFor()
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('Transaction').waitFor()
    expect(await page.locator('.answer').textContent()).toContain('five')
    expect([payments.length, new Set(payments).size]).toEqual([2, 1])
  })

  inBrowser('a job that failed is not called bought, and is not charged', async () => {
    const { page } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/play?route=/api/v1/videos/generations`, { waitUntil: 'networkidle' })
    await page.route(/videos\/generations\/job/, (route: Page) =>
      route.fulfill({
        json: { id: 'job_1', status: 'failed', error: 'the vendor refused', payment_status: 'not_charged' },
      }),
    )
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    await page.getByText('It could not be made: the vendor refused. Nothing was charged.').waitFor()
    expect(await page.locator('#calls ~ .table').textContent()).toContain('failed, not charged')
  })

  inBrowser('a page that was closed before the answer continues with the same payment', async () => {
    const { page } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/play?model=vendor-a/image-1`, { waitUntil: 'networkidle' })
    const payments: string[] = []
    let isCut = true
    await page.route('**/api/v1/images/generations', async (route: Page) => {
      const payment = route.request().headers()['payment-signature']
      if (payment !== undefined) payments.push(payment)
      if (payment === undefined || !isCut) return await route.continue()
      await route.fetch()
      return await route.abort()
    })
    await page.getByRole('button', { name: 'Get the price' }).click()
    await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
    await page.getByText('The gateway did not answer').waitFor()
    isCut = false
    await page.reload({ waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('img', { name: 'The picture that was bought' }).waitFor()
    expect(new Set(payments).size).toBe(1)
    expect(payments.length).toBe(2)
  })
})
