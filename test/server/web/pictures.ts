/**
 * The pictures in the README and in the guides: the front page and the playground of a devnet, side by side, the page
 * of API keys before and after a deposit, and the console. `bun test/server/web/pictures.ts --write` makes them again
 * after the pages have changed.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, openBrowser, openPage, type Watched } from './browser.ts'

const PICTURES = join(import.meta.dirname, '../../../server/docs/pictures')
export const PICTURE = join(PICTURES, 'pages.png')
const KEYS_PICTURE = join(PICTURES, 'keys.png')
export const CONSOLE_PICTURE = join(PICTURES, 'console.png')

const SIZE = { width: 1200, height: 1100 }

/** A PNG of both pages. `origin` is a devnet's. */
export async function pictureOf(origin: string, browser: Browser): Promise<Uint8Array> {
  const [front, play] = [await openPage(browser, { viewport: SIZE }), await openPage(browser, { viewport: SIZE })]
  await front.page.goto(origin, { waitUntil: 'networkidle' })
  await play.page.emulateMedia({ colorScheme: 'dark' })
  await play.page.goto(`${origin}/play?model=vendor-a/image-1`, { waitUntil: 'networkidle' })
  await play.page.getByRole('button', { name: 'Get the price' }).click()
  await play.page.getByRole('button', { name: 'Pay with Play wallet' }).click()
  await play.page.getByText('Transaction').waitFor()
  await play.page.waitForFunction('document.querySelector(".media img").naturalWidth > 0')
  await play.page.evaluate('scrollTo(0, 0)')
  return await sideBySide(browser, [front, play])
}

/** A PNG of the page of API keys, in light before a deposit and in dark after it. */
async function keysPictureOf(origin: string, browser: Browser): Promise<Uint8Array> {
  const before = await openPage(browser, { viewport: SIZE })
  const after = await openPage(browser, { viewport: SIZE, colorScheme: 'dark' })
  for (const { page } of [before, after]) await page.goto(`${origin}/keys`, { waitUntil: 'networkidle' })
  await after.page.getByRole('button', { name: 'Deposit with Play wallet' }).click()
  await after.page.getByRole('heading', { name: 'Balance' }).waitFor()
  await after.page.getByRole('heading', { name: 'Use it' }).waitFor()
  await after.page.evaluate('scrollTo(0, 0)')
  return await sideBySide(browser, [before, after])
}

/** One PNG of two pages, which are closed. */
async function sideBySide(browser: Browser, pages: readonly Watched[]): Promise<Uint8Array> {
  const shots = await Promise.all(pages.map((each) => each.page.screenshot()))
  const { page } = await openPage(browser, { viewport: { width: 1600, height: 733 } })
  const images = shots.map((shot) => `<img src="data:image/png;base64,${shot.toString('base64')}">`)
  await page.setContent(
    `<style>body { margin: 0; display: flex; gap: 16px } img { width: 792px; height: 726px }</style>${images.join('')}`,
  )
  const picture = await page.screenshot({ omitBackground: true, clip: { x: 0, y: 0, width: 1600, height: 726 } })
  await Promise.all([...pages, { page }].map((each) => each.page.context().close()))
  return picture
}

/** A PNG of the console's overview. What was bought on the devnet before is in it. */
export async function consolePictureOf(
  { origin, token }: { readonly origin: string; readonly token: string },
  browser: Browser,
): Promise<Uint8Array> {
  const { page } = await openPage(browser, { viewport: { width: 1600, height: 1000 } })
  await page.goto(`${origin}/console`, { waitUntil: 'networkidle' })
  await page.getByLabel('Operator token').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.locator('canvas').first().waitFor()
  await page.waitForLoadState('networkidle')
  const picture = await page.screenshot()
  await page.context().close()
  return picture
}

if (import.meta.main && process.argv.includes('--write')) {
  const dir = await mkdtemp(join(tmpdir(), 'farebox-pictures-'))
  const browser = await openBrowser()
  const token = crypto.randomUUID()
  const gateway = Bun.spawn([process.execPath, join(import.meta.dirname, '../../../server/main.ts'), 'devnet'], {
    cwd: dir,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: dir,
      PORT: '0',
      DATABASE_URL: 'memory:',
      OBJECT_STORE: 'memory:',
      OPERATOR_TOKEN: token,
    },
    stdout: 'pipe',
  })
  try {
    const origin = await originIn(gateway.stdout)
    await writeFile(PICTURE, await pictureOf(origin, browser))
    await writeFile(KEYS_PICTURE, await keysPictureOf(origin, browser))
    await writeFile(CONSOLE_PICTURE, await consolePictureOf({ origin, token }, browser))
  } finally {
    await browser.close()
    gateway.kill()
    await gateway.exited
    await rm(dir, { recursive: true })
  }
}

/** The address in the greeting. */
async function originIn(output: ReadableStream<Uint8Array>): Promise<string> {
  let text = ''
  for await (const part of output.pipeThrough(new TextDecoderStream() as never) as unknown as AsyncIterable<string>) {
    text += part
    const origin = /^ {2}look around: +(\S+)\/ /m.exec(text)?.[1]
    if (origin) return origin
  }
  throw new Error('the gateway ended before it was ready')
}
