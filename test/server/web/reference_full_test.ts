/** The reference page in a real browser: search, code, and calls to try. */
import { describe, expect } from 'bun:test'
import { axeProblems, browserOnDevnet, inBrowser, openPage, type Page, SCHEMES, sideways, WIDTHS } from './browser.ts'

const devnet = browserOnDevnet()

/** The opened example of an operation. */
async function opened(page: Page, id: string): Promise<Page> {
  const section = page.locator(`[id="${id}"]`)
  await section.locator('details.example > summary').click()
  await section.locator('form').waitFor()
  return section
}

describe('the reference page', () => {
  for (const width of WIDTHS)
    for (const colorScheme of SCHEMES)
      inBrowser(`is whole at ${width} px, ${colorScheme}, with everything opened (contract 19.22)`, async () => {
        const { page, complaints } = await openPage(devnet.browser, { viewport: { width, height: 900 }, colorScheme })
        await page.goto(`${devnet.origin}/docs`, { waitUntil: 'networkidle' })
        expect(await page.locator('h1').count()).toBe(1)
        expect(await sideways(page)).toBeLessThanOrEqual(0)
        const section = await opened(page, 'images.generations')
        await section.getByRole('button', { name: 'Ask for the price' }).click()
        await section.getByText('nothing was charged').waitFor()
        await page.evaluate('for (const each of document.querySelectorAll("details")) each.open = true')
        expect(await sideways(page)).toBeLessThanOrEqual(0)
        expect(await axeProblems(page)).toEqual([])
        expect(complaints).toEqual([])
        await page.context().close()
      })

  inBrowser('is found through by keys: slash, words, Enter, Escape (contract 19.22)', async () => {
    const { page } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/docs`)
    await page.keyboard.press('/')
    await page.keyboard.type('images fuse')
    const visible = page.locator('main section:visible')
    expect(await visible.count()).toBe(1)
    expect(await page.getByRole('status').first().textContent()).toBe('1 found')
    await page.keyboard.press('Enter')
    expect(await page.evaluate('document.activeElement.id')).toBe('images.image2image')
    await page.getByRole('searchbox').fill('no such thing anywhere')
    expect(await page.getByRole('status').first().textContent()).toBe('Nothing found')
    await page.keyboard.press('Escape')
    expect(await visible.count()).toBeGreaterThan(50)
  })

  inBrowser(
    'runs a free call, and shows the decoded price of a paid one with the way to pay it (contract 19.22)',
    async () => {
      const { page, complaints } = await openPage(devnet.browser)
      await page.goto(`${devnet.origin}/docs`)
      const free = await opened(page, 'images.models')
      await free.getByRole('button', { name: 'Send' }).click()
      await free.locator('.out').getByText('200 OK').waitFor()
      expect(await free.locator('.out').textContent()).toContain('vendor-a/image-1')
      const sold = await opened(page, 'images.generations')
      await sold.getByRole('button', { name: 'Ask for the price' }).click()
      await sold.getByText('nothing was charged').waitFor()
      const out = await sold.locator('.out').textContent()
      expect(out).toContain('402')
      expect(out).toContain('0.022 USDC')
      expect(complaints).toEqual([])
      await sold.getByRole('link', { name: 'Open it in the browser to pay' }).click()
      await page.getByRole('button', { name: 'Get the price' }).waitFor()
    },
  )

  inBrowser('a field that is wrong comes back as the error that names it', async () => {
    const { page } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/docs`)
    const section = await opened(page, 'images.generations')
    await section.getByRole('textbox', { name: /^Body of/ }).fill('{"model": "vendor-a/image-1"}')
    await section.getByRole('button', { name: 'Ask for the price' }).click()
    await section.getByText('400 Bad Request').waitFor()
    expect(await section.locator('.out').textContent()).toContain('prompt')
  })

  inBrowser('shows each example in the language that was chosen once', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/docs`)
    const chat = await opened(page, 'chat.completions')
    const code = chat.locator('pre.curl')
    await chat.getByRole('button', { name: 'OpenAI SDK' }).click()
    expect(await code.textContent()).toContain(`baseURL: '${devnet.origin}/api/v1'`)
    await chat.getByRole('button', { name: 'fetch' }).click()
    expect(await code.textContent()).toContain(`await pay('${devnet.origin}/api/v1/chat/completions'`)
    new Bun.Transpiler({ loader: 'js' }).transformSync((await code.textContent()) as string)
    await chat.getByRole('button', { name: 'Python' }).click()
    const images = await opened(page, 'images.generations')
    expect(await images.locator('pre.curl').textContent()).toContain(
      `session.post("${devnet.origin}/api/v1/images/generations", json={"model":`,
    )
    expect(complaints).toEqual([])
  })
})
