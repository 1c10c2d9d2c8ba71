/** A real browser for tests: Debian's Chromium, driven by playwright-core. */
import { afterAll, beforeAll, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PROGRAMS } from '../../programs/mod.ts'
import { gatewayProcesses } from '../gateway_process.ts'

/** Of playwright-core, whose types are there only where the programs of full tests are installed. */
export type Page = any
export type Browser = any

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'

/** Why there is no browser; undefined where there is one. */
export const noBrowser = existsSync(CHROMIUM)
  ? undefined
  : `there is no ${CHROMIUM}; install Debian's package chromium, or set CHROMIUM to a browser's path`

/** A test that is skipped by its name, with the reason, where there is no browser. */
export const inBrowser = (name: string, run: () => Promise<void>) =>
  test.skipIf(noBrowser !== undefined)(noBrowser ? `${name} (skipped: ${noBrowser})` : name, run)

/** Nothing but the pages of the test may be asked for: no updates, no first-run pages, no sync. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
]

export const WIDTHS = [390, 1440] as const
export const SCHEMES = ['light', 'dark'] as const

/** A browser and a devnet for the tests of a file, from its first test to its last. */
type OnDevnet = { origin: string; browser: Browser; buyerKey: `0x${string}` }

/** `isReady` gets the devnet before the first test. Its members are there once that has begun. */
export function browserOnDevnet(isReady: (devnet: OnDevnet) => unknown = () => {}): OnDevnet {
  const processes = gatewayProcesses()
  const devnet: OnDevnet = { origin: '', browser: undefined, buyerKey: '0x' }
  beforeAll(async () => {
    if (noBrowser) return
    const origin = await processes.start(processes.dir()).url
    const info = (await (await fetch(`${origin}/devnet`)).json()) as { buyer: { private_key: `0x${string}` } }
    Object.assign(devnet, { origin, buyerKey: info.buyer.private_key, browser: await openBrowser() })
    await isReady(devnet)
  }, 60_000)
  afterAll(async () => await devnet.browser?.close())
  return devnet
}

/** Close it when the tests have ended. */
export async function openBrowser(): Promise<Browser> {
  const driver = (await import(Bun.resolveSync('playwright-core', dirname(fileURLToPath(PROGRAMS))))) as {
    chromium: { launch(options: object): Promise<Browser> }
  }
  return await driver.chromium.launch({ executablePath: CHROMIUM, args: FLAGS })
}

/** A page with what it complained of: errors of scripts, of the console, and violations of its policy. */
export type Watched = { readonly page: Page; readonly complaints: readonly string[] }

/** A page of its own visitor: nothing is kept from other pages. */
export async function openPage(browser: Browser, options: object = {}): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error: Error) => complaints.push(`script: ${error.message}`))
  page.on('console', (message: { text(): string; type(): string }) => {
    // A 402 is how every purchase begins, and the browser calls it an error.
    const isDemand = /status of 402/.test(message.text())
    if (['error', 'warning'].includes(message.type()) && !isDemand) complaints.push(`console: ${message.text()}`)
  })
  return { page, complaints }
}

/** The serious problems that axe finds on a page, in a line each. */
export async function axeProblems(page: Page): Promise<readonly string[]> {
  const source = await Bun.file(Bun.resolveSync('axe-core/axe.min.js', dirname(fileURLToPath(PROGRAMS)))).text()
  await page.evaluate(source)
  const found = (await page.evaluate('axe.run()')) as {
    violations: readonly { id: string; impact: string; nodes: readonly { html: string }[] }[]
  }
  return found.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 160)}`)
}

/** How many pixels the page is wider than its window. */
export const sideways = (page: Page): Promise<number> =>
  page.evaluate('document.documentElement.scrollWidth - innerWidth')
