/** The page of API keys in a real browser, against a devnet: from a deposit to the refund. */
import { describe, expect } from 'bun:test'
import { KEY_PATTERN } from '../../../core/x402/mod.ts'
import { payerAt } from '../clients/payer.ts'
import { axeProblems, browserOnDevnet, inBrowser, openPage, type Page, SCHEMES, sideways, WIDTHS } from './browser.ts'
import { injectWallet } from './injected_wallet.ts'

const devnet = browserOnDevnet()

const micro = (text: string | null | undefined): number => Math.round(Number(text) * 1e6)

/** Deposits with a wallet of the page, and returns the key that it shows. */
async function deposited(page: Page, { amount, wallet }: { amount: string; wallet: string }): Promise<string> {
  await page.getByLabel('Deposit (USDC').fill(amount)
  await page.getByRole('button', { name: `Deposit with ${wallet}` }).click()
  await page.getByText('The deposit is on chain. The key pays').waitFor()
  return KEY_PATTERN.exec(await page.getByLabel('The key', { exact: true }).textContent())?.[0] ?? ''
}

const chat = async (key: string): Promise<Response> =>
  await fetch(`${devnet.origin}/api/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'farebox/echo', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50 }),
  })

/** Text of the page under a name of its balance, in dollars. */
const figure = async (page: Page, name: string): Promise<string> =>
  String(
    await page
      .locator('.figures div', { has: page.getByText(name, { exact: true }) })
      .locator('dd')
      .textContent(),
  )

/** Everything that the page asked for: addresses, headers and bodies. */
function watchRequests(page: Page): { url: string; authorization: string | undefined; rest: string }[] {
  const sent: { url: string; authorization: string | undefined; rest: string }[] = []
  page.on('request', (request: Page) => {
    const { authorization, ...rest } = request.headers() as Record<string, string>
    sent.push({ url: request.url(), authorization, rest: JSON.stringify([rest, request.postData()]) })
  })
  return sent
}

describe('a key on the page', () => {
  inBrowser('is deposited for, pays a chat, shows its balance, and sends the rest back to the unit', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    const payer = await payerAt(devnet.origin)
    const sent = watchRequests(page)
    await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
    const before = await payer.balance()
    const key = await deposited(page, { amount: '5', wallet: 'Play wallet' })
    expect(key).toMatch(/^sk-fbx-t1/)
    expect(before - (await payer.balance())).toBe(5_000_000n)
    expect(await axeProblems(page)).toEqual([])

    const answer = await chat(key)
    expect(answer.status).toBe(200)
    const charged = micro(answer.headers.get('x-payment-charged'))
    expect(charged).toBeGreaterThan(0)
    await page.getByRole('button', { name: 'Refresh' }).click()
    await page.waitForFunction(`document.querySelector('.figures').textContent.includes('${5 - charged / 1e6}')`)
    expect(micro((await figure(page, 'Charged')).slice(1))).toBe(charged)
    expect(micro((await figure(page, 'Left')).slice(1))).toBe(5_000_000 - charged)

    await page.getByRole('button', { name: 'Show the charges' }).click()
    await page.getByRole('heading', { name: 'By model' }).waitFor()
    expect(await page.locator('.sums').textContent()).toContain('farebox/echo')

    await page.getByRole('button', { name: 'Send the rest back' }).click()
    await page.getByRole('button', { name: 'End it' }).click()
    await page.getByText('USDC went back to').waitFor()
    expect(before - (await payer.balance())).toBe(BigInt(charged))
    expect((await chat(key)).status).toBe(402)

    const text = await page.content()
    const stored = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])')
    expect([text.includes(key), String(stored).includes(key.slice(9))]).toEqual([false, false])
    for (const { url, authorization, rest } of sent) {
      expect([url.startsWith(devnet.origin) || url.startsWith('blob:'), `${url}${rest}`.includes(key)]).toEqual([
        true,
        false,
      ])
      expect([undefined, `Bearer ${key}`]).toContain(authorization)
    }
    expect(complaints).toEqual([])
  })

  inBrowser('that was pasted is topped up, lends to a child, ends it, and is replaced', async () => {
    const { page, complaints } = await openPage(devnet.browser)
    await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
    const key = await deposited(page, { amount: '2', wallet: 'Play wallet' })
    await page.getByRole('button', { name: 'I have stored it: hide it' }).click()
    expect(await page.content()).not.toContain(key)
    await page.reload({ waitUntil: 'networkidle' })
    expect(await page.getByRole('heading', { name: 'Make a key' }).count()).toBe(1)

    await page.getByPlaceholder('sk-fbx-…').fill(`${key.slice(0, -1)}!`)
    await page.getByRole('button', { name: 'Show its balance' }).click()
    await page.getByText('This key is mistyped').waitFor()
    await page.getByPlaceholder('sk-fbx-…').fill(key)
    await page.getByRole('button', { name: 'Show its balance' }).click()
    await page.getByRole('heading', { name: 'Balance' }).waitFor()
    expect(await figure(page, 'Left')).toBe('$2.00')

    await page.getByRole('button', { name: 'Deposit with Play wallet' }).click()
    await page.getByText('The deposit is on chain.').waitFor()
    expect(await figure(page, 'Deposited')).toBe('$4.00')

    await page.getByText('Child keys, for people').click()
    await page.getByLabel('Whose, or what for').fill('Ada')
    await page.getByLabel('Days').fill('soon')
    await page.getByRole('button', { name: 'Make a child key' }).click()
    await page.getByText('Days takes a whole number.').waitFor()
    await page.getByLabel('Days').fill('2')
    await page.getByLabel('Calls a minute').fill('30')
    await page.getByLabel('Models').fill('farebox/echo, vendor-g/chat-4')
    await page.getByRole('button', { name: 'Make a child key' }).click()
    await page.getByRole('cell', { name: 'active' }).waitFor()
    expect(await page.locator('.children tbody').textContent()).toContain(
      'farebox/echo, vendor-g/chat-4, 30 calls a minute',
    )
    const child = KEY_PATTERN.exec(await page.getByLabel('The key for Ada', { exact: true }).textContent())?.[0] ?? ''
    expect(child).toMatch(/^sk-fbx-c1/)
    expect((await chat(child)).status).toBe(200)
    expect(await figure(page, 'Left')).toBe('$3.00')
    const other = await openPage(devnet.browser)
    await other.page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
    await other.page.getByPlaceholder('sk-fbx-…').fill(child)
    await other.page.getByRole('button', { name: 'Show its balance' }).click()
    await other.page.getByRole('heading', { name: 'Balance' }).waitFor()
    expect(await figure(other.page, 'Deposited')).toBe('$1.00')
    expect(await other.page.getByRole('button', { name: /Send the rest back|Deposit/ }).count()).toBe(0)
    await page.getByRole('button', { name: 'End the key of Ada' }).click()
    await page.getByRole('cell', { name: 'revoked' }).waitFor()
    expect((await chat(child)).status).toBe(401)

    await page.getByRole('button', { name: 'Replace the key' }).click()
    await page.getByRole('button', { name: 'Replace it' }).click()
    await page.getByText('Make the new key below.').waitFor()
    expect(Number(await page.getByLabel('Deposit (USDC').inputValue())).toBeGreaterThan(3.9)
    expect(complaints).toEqual([])
  })

  inBrowser('that is lost is ended by its wallet, and by no other one', async () => {
    const { page } = await openPage(devnet.browser)
    await injectWallet(page, `0x${'7'.repeat(64)}`)
    await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
    await deposited(page, { amount: '2', wallet: 'Play wallet' })
    const address = await page.locator('.new-key .mono').textContent()
    await page.getByRole('button', { name: 'I have stored it: hide it' }).click()
    await page.getByRole('button', { name: 'Forget the key' }).click()
    await page.getByText('A key is lost').click()
    await page.getByLabel('Address of the key').fill(address)
    await page.getByRole('button', { name: 'Send the rest back to Test Wallet' }).click()
    await page.getByText('This wallet has no key of this address here.').waitFor()
    await page.getByRole('button', { name: 'Send the rest back to Play wallet' }).click()
    await page.getByText('2 USDC went back to').waitFor()
  })

  inBrowser('is asked about before the page is left, until it is stored', async () => {
    const { page } = await openPage(devnet.browser)
    const dialogs: string[] = []
    page.on('dialog', (dialog: Page) => {
      dialogs.push(dialog.type())
      void dialog.dismiss()
    })
    await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
    await deposited(page, { amount: '2', wallet: 'Play wallet' })
    await page.close({ runBeforeUnload: true })
    await page.getByRole('button', { name: 'I have stored it: hide it' }).click()
    expect(dialogs).toEqual(['beforeunload'])
  })
})

describe('a deposit', () => {
  inBrowser(
    'by a wallet of the browser is signed once, after refusals of the network and of the signature',
    async () => {
      const { page, complaints } = await openPage(devnet.browser)
      const wallet = await injectWallet(page, devnet.buyerKey)
      await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
      await page.getByLabel('Deposit (USDC').fill('1.5')
      await page.getByRole('button', { name: 'Deposit with Test Wallet' }).click()
      await page.getByText('Write an amount of 2 USDC or more').waitFor()
      expect(wallet.calls).toEqual([])
      await page.getByLabel('Deposit (USDC').fill('2')
      wallet.refuseNetworkOnce()
      await page.getByRole('button', { name: 'Deposit with Test Wallet' }).click()
      await page.getByText('You refused in the wallet').waitFor()
      expect(wallet.calls).not.toContain('eth_signTypedData_v4')
      wallet.refuseOnce()
      await page.getByRole('button', { name: 'Deposit with Test Wallet' }).click()
      await page.getByText('You refused in the wallet').waitFor()
      expect(await page.getByRole('heading', { name: 'Your key' }).count()).toBe(0)
      const before = wallet.calls.length
      await deposited(page, { amount: '2', wallet: 'Test Wallet' })
      const signatures = wallet.calls.slice(before).filter((method) => method.startsWith('eth_sign'))
      expect(signatures).toEqual(['eth_signTypedData_v4'])
      expect(complaints).toEqual([])
    },
  )

  inBrowser('of a wallet without funds moves nothing, and says so', async () => {
    const { page } = await openPage(devnet.browser)
    await injectWallet(page, `0x${'7'.repeat(64)}`)
    await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
    await page.getByRole('button', { name: 'Deposit with Test Wallet' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toContain('Nothing moved')
    expect(await page.getByRole('heading', { name: 'Your key' }).count()).toBe(0)
  })

  inBrowser('whose answer is lost keeps the key in view, and is made once', async () => {
    const { page } = await openPage(devnet.browser)
    const payer = await payerAt(devnet.origin)
    await page.clock.install()
    let isLost = true
    let isFirst = true
    await page.route('**/api/v1/keys/deposit', async (route: Page) => {
      if (!isLost) return await route.continue()
      if (isFirst) await route.fetch()
      isFirst = false
      await route.fulfill({ status: 404, contentType: 'text/plain', body: 'no backend' })
      await page.clock.fastForward(10_000)
    })
    await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
    const before = await payer.balance()
    await page.getByLabel('Deposit (USDC').fill('2')
    await page.getByRole('button', { name: 'Deposit with Play wallet' }).click()
    await page.getByText('The deposit may be under way').waitFor()
    const key = KEY_PATTERN.exec(await page.getByLabel('The key', { exact: true }).textContent())?.[0] ?? ''
    isLost = false
    await page.getByRole('button', { name: 'Ask again' }).click()
    await page.getByText('The deposit is on chain. The key pays').waitFor()
    expect(before - (await payer.balance())).toBe(2_000_000n)
    expect((await chat(key)).status).toBe(200)

    await page.getByRole('button', { name: 'I have stored it: hide it' }).click()
    isLost = isFirst = true
    await page.getByRole('button', { name: 'Deposit with Play wallet' }).click()
    await page.getByText('The deposit may be under way').waitFor()
    expect(await page.getByRole('button', { name: 'Deposit with Play wallet' }).count()).toBe(0)
    isLost = false
    await page.getByRole('button', { name: 'Ask again' }).click()
    await page.getByRole('button', { name: 'Deposit with Play wallet' }).waitFor()
    expect(await figure(page, 'Deposited')).toBe('$4.00')
    expect(before - (await payer.balance())).toBe(4_000_000n)
  })
})

inBrowser('a gateway that takes no keys says so on the page, and its front page does not lead there', async () => {
  const { page, complaints } = await openPage(devnet.browser)
  await page.route('**/api/pricing', async (route: Page) => {
    const reply = await route.fetch()
    await route.fulfill({ response: reply, json: { ...(await reply.json()), api_keys: false } })
  })
  await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
  expect(await page.getByText('This gateway takes no API keys.').count()).toBe(1)
  expect(await page.getByRole('button', { name: /Deposit/ }).count()).toBe(0)
  await page.goto(devnet.origin, { waitUntil: 'networkidle' })
  expect(await page.getByRole('link', { name: 'Get an API key' }).count()).toBe(0)
  await page.unroute('**/api/pricing')
  await page.reload({ waitUntil: 'networkidle' })
  await page.getByRole('link', { name: 'Get an API key' }).click()
  await page.getByRole('heading', { name: 'Make a key' }).waitFor()
  expect(complaints).toEqual([])
})

inBrowser('the page of a key is whole at both widths, in both colour schemes', async () => {
  const { page, complaints } = await openPage(devnet.browser)
  await page.goto(`${devnet.origin}/keys`, { waitUntil: 'networkidle' })
  await deposited(page, { amount: '2', wallet: 'Play wallet' })
  await page.getByText('Child keys, for people').click()
  await page.getByLabel('Whose, or what for').fill('Ada')
  await page.getByRole('button', { name: 'Make a child key' }).click()
  await page.getByText('active', { exact: true }).waitFor()
  for (const width of WIDTHS)
    for (const colorScheme of SCHEMES) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      expect([width, await sideways(page)]).toEqual([width, 0])
      expect(await axeProblems(page)).toEqual([])
    }
  expect(complaints).toEqual([])
})
