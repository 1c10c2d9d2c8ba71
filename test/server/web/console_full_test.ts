/** The operator's console in a real browser, against a devnet on which calls are bought. */
import { afterAll, beforeAll, describe, expect } from 'bun:test'
import { mkdirSync } from 'node:fs'
import { KEY_PATTERN } from '../../../core/x402/mod.ts'
import { pngSize } from '../clients/payer.ts'
import { gatewayProcesses } from '../gateway_process.ts'
import {
  axeProblems,
  type Browser,
  inBrowser,
  noBrowser,
  openBrowser,
  openPage,
  type Page,
  SCHEMES,
  sideways,
  WIDTHS,
} from './browser.ts'
import { CONSOLE_PICTURE, consolePictureOf } from './pictures.ts'

const TOKEN = 'console-test-token-0123456789'
const PAGES = ['overview', 'calls', 'open', 'keys', 'health', 'controls', 'configuration'] as const
/** Where screenshots go, for people. */
const PICTURES = process.env.FAREBOX_PICTURES

const processes = gatewayProcesses()
let origin: string
let browser: Browser

beforeAll(async () => {
  if (noBrowser) return
  if (PICTURES) mkdirSync(PICTURES, { recursive: true })
  const dir = processes.dir()
  origin = await processes.start(dir, { OPERATOR_TOKEN: TOKEN }).url
  browser = await openBrowser()
  const { page } = await openPage(browser)
  await buyChat(page, 'Say hello to the console.')
  await buyChat(page, 'And once more.')
  await page.context().close()
})
afterAll(async () => await browser?.close())

/** With the play wallet of the devnet. */
async function buyChat(page: Page, text: string): Promise<void> {
  await page.goto(`${origin}/play?model=farebox/echo`, { waitUntil: 'networkidle' })
  await page.getByLabel('Your message').fill(text)
  await page.getByRole('button', { name: 'Get the price' }).click()
  await page.getByRole('button', { name: 'Pay with Play wallet' }).click()
  await page.getByText('Transaction').waitFor()
}

async function signIn(page: Page, token = TOKEN): Promise<void> {
  await page.goto(`${origin}/console`, { waitUntil: 'networkidle' })
  await page.getByLabel('Operator token').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** Attempts to sign in are few in a minute, so every visitor but the first brings the same session. */
let session: object | undefined

async function signedIn(options: object = {}) {
  const opened = await openPage(browser, { ...options, ...(session && { storageState: session }) })
  if (session) await opened.page.goto(`${origin}/console`, { waitUntil: 'networkidle' })
  else await signIn(opened.page)
  await opened.page.getByRole('heading', { name: 'Overview' }).waitFor()
  session ??= await opened.page.context().storageState()
  return opened
}

inBrowser(
  'the picture of the console in the README can be made again, and has the size of the one that is there',
  async () => {
    const made = await consolePictureOf({ origin, token: TOKEN }, browser)
    expect([pngSize(made), pngSize(await Bun.file(CONSOLE_PICTURE).bytes())]).toEqual(['1600x1000', '1600x1000'])
  },
)

describe('the console', () => {
  inBrowser('asks for the token, says so when it is wrong, and ends with the session', async () => {
    const { page, complaints } = await openPage(browser)
    await signIn(page, 'wrong')
    const alert = page.getByRole('alert')
    await alert.waitFor()
    expect(await alert.textContent()).toContain('This is not the operator token of this gateway')
    expect(await page.getByRole('link', { name: 'Calls' }).count()).toBe(0)
    await signIn(page)
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    const [cookie] = await page.context().cookies(`${origin}/console`)
    expect(cookie).toMatchObject({ name: 'farebox_console', httpOnly: true, sameSite: 'Strict', path: '/console' })
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Operator token').waitFor()
    expect(await page.context().cookies(`${origin}/console`)).toEqual([])
    // The browser calls the 401 of the wrong token an error.
    expect(complaints.filter((each) => !each.includes('status of 401'))).toEqual([])
  })

  inBrowser('plots what was sold, with the same numbers in a table', async () => {
    const { page, complaints } = await signedIn()
    const revenue = page.locator('figure', { hasText: 'Revenue' }).first()
    await revenue.locator('canvas').waitFor()
    expect(await page.locator('.facts').textContent()).toMatch(/Paid calls2/)
    await revenue.getByText('As a table').click()
    const table = await revenue.locator('.numbers tbody').textContent()
    expect(Number(table.slice(-8).replace(/.*?([\d.]+)$/, '$1'))).toBeGreaterThan(0)
    const painted = await revenue.locator('canvas').evaluate((canvas: any) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
      return new Uint32Array(data.buffer).some((pixel: number) => pixel !== 0)
    })
    expect(painted).toBe(true)
    await page.getByRole('button', { name: '30 days' }).click()
    await page.getByRole('button', { name: 'chat.completions' }).click()
    await page.getByRole('button', { name: 'farebox/echo' }).waitFor()
    await page.getByRole('button', { name: /Product: chat.completions/ }).click()
    await page.getByRole('button', { name: /Product: / }).waitFor({ state: 'detached' })
    expect(complaints).toEqual([])
  })

  inBrowser('lists calls as they come in, and tells the story of one', async () => {
    const { page, complaints } = await signedIn()
    await page.getByRole('link', { name: 'Calls' }).click()
    await page.locator('tbody tr').nth(1).waitFor()
    const { page: buyer } = await openPage(browser)
    await buyChat(buyer, 'While you watch.')
    await page.locator('tbody tr').nth(2).waitFor()
    await page.locator('tbody th a').first().click()
    await page.locator('.timeline').getByText('settled', { exact: true }).waitFor()
    expect(await page.locator('.payment').textContent()).toMatch(/Yes\. 0x\w+ paid [\d.]+ USDC by transaction 0x/)
    expect(complaints).toEqual([])
  })

  inBrowser('turns maintenance on and off, each after one confirmation', async () => {
    const { page, complaints } = await signedIn()
    const isSelling = async () => (await fetch(`${origin}/api/v1/chat/completions`, ORDER)).status === 402
    await page.getByRole('link', { name: 'Controls' }).click()
    await page.getByLabel('Message for buyers').fill('Back at nine.')
    await page.getByRole('button', { name: 'Turn on' }).click()
    await page.getByRole('button', { name: 'Cancel' }).click()
    expect(await isSelling()).toBe(true)
    await page.getByRole('button', { name: 'Turn on' }).click()
    await page.getByRole('dialog').getByText('every gateway stops selling').waitFor()
    await page.getByRole('button', { name: 'Confirm' }).click()
    await page.getByText('buyers get 503').waitFor()
    expect(await isSelling()).toBe(false)
    await page.getByRole('button', { name: 'Turn off' }).click()
    await page.getByRole('button', { name: 'Confirm' }).click()
    await page.getByText('the gateways sell.', { exact: false }).first().waitFor()
    expect(await isSelling()).toBe(true)
    expect(complaints).toEqual([])
  })

  inBrowser('lists API keys, and blocks one after a confirmation', async () => {
    const { page, complaints } = await signedIn()
    await page.goto(`${origin}/keys`, { waitUntil: 'networkidle' })
    await page.getByLabel('Deposit (USDC').fill('2')
    await page.getByRole('button', { name: 'Deposit with Play wallet' }).click()
    await page.getByText('The deposit is on chain. The key pays').waitFor()
    const key = KEY_PATTERN.exec(await page.getByLabel('The key', { exact: true }).textContent())?.[0] ?? ''
    const chat = () =>
      fetch(`${origin}/api/v1/chat/completions`, {
        ...ORDER,
        headers: { ...ORDER.headers, authorization: `Bearer ${key}` },
      })
    const answer = await chat()
    expect(answer.status).toBe(200)
    // A key in view asks before its page is left.
    page.on('dialog', (dialog: { accept(): Promise<void> }) => void dialog.accept())
    await page.goto(`${origin}/console#/keys`)
    const row = page.getByRole('row').filter({ hasText: 'Base Sepolia' })
    await row.waitFor()
    expect(await row.locator('td[data-label="Charged"]').textContent()).toBe(answer.headers.get('x-payment-charged'))
    expect(await row.locator('td[data-label="Balance"]').textContent()).toBe('2.000000')
    await row.getByRole('button', { name: 'Block' }).click()
    await page.getByRole('button', { name: 'Confirm' }).click()
    await page.getByRole('button', { name: 'Unblock' }).waitFor()
    expect((await chat()).status).toBe(403)
    await page.getByRole('button', { name: 'Unblock' }).click()
    await page.getByRole('button', { name: 'Confirm' }).click()
    await row.getByRole('button', { name: /^Block/ }).waitFor()
    expect((await chat()).status).toBe(200)
    expect(complaints).toEqual([])
  })

  inBrowser('sets a budget, shows why a wrong one is refused, and removes it', async () => {
    const { page } = await signedIn()
    await page.getByRole('link', { name: 'Controls' }).click()
    const budgets = page.locator('section', { hasText: 'Budgets of gateways' })
    await budgets.getByText('Add or change').click()
    await budgets.getByLabel('Gateway').fill('*')
    await budgets.getByLabel('USDC per day').fill('a lot')
    await budgets.getByRole('button', { name: 'Set' }).click()
    await page.getByRole('button', { name: 'Confirm' }).click()
    expect(await page.getByRole('alert').textContent()).toContain('usdc_per_day')
    await page.getByRole('button', { name: 'Cancel' }).click()
    await budgets.getByLabel('USDC per day').fill('500')
    await budgets.getByRole('button', { name: 'Set' }).click()
    await page.getByRole('button', { name: 'Confirm' }).click()
    await budgets.getByText('USDC per day: 500').waitFor()
    await budgets.getByRole('button', { name: 'Remove *' }).click()
    await page.getByRole('button', { name: 'Confirm' }).click()
    await budgets.getByText('USDC per day: 500').waitFor({ state: 'detached' })
  })

  inBrowser('is whole at both widths, in both colour schemes, without a complaint', async () => {
    for (const width of WIDTHS)
      for (const colorScheme of SCHEMES) {
        const { page, complaints } = await signedIn({ viewport: { width, height: 900 }, colorScheme })
        const payment = await page.evaluate(
          `fetch('/console/api/payments?limit=1').then((reply) => reply.json()).then(({ payments }) => payments[0].id)`,
        )
        for (const name of [...PAGES, `payment/${payment}`]) {
          await page.goto(`${origin}/console#/${name}`)
          await page.locator('h1').waitFor()
          await page.getByText('Reading…').waitFor({ state: 'detached' })
          await page.waitForLoadState('networkidle').catch(() => {})
          if (PICTURES)
            await page.screenshot({
              path: `${PICTURES}/${name.split('/')[0]}-${width}-${colorScheme}.png`,
              fullPage: true,
            })
          expect({ name, width, wider: await sideways(page) }).toEqual({ name, width, wider: 0 })
          expect({ name, width, problems: await axeProblems(page) }).toEqual({ name, width, problems: [] })
        }
        expect(complaints).toEqual([])
        await page.context().close()
      }
  })
})

const ORDER = {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'farebox/echo', messages: [{ role: 'user', content: 'hello' }] }),
}
