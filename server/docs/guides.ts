/**
 * The guides at `/docs/guide/`: each Markdown file of this folder as a page, and as its source at `<page>.md` (decision
 * 105). The files are imported as text, so that a compiled binary has them too. A page runs no script and loads
 * nothing.
 */
import { readFileSync } from 'node:fs'
import type { Reply } from '../../core/mod.ts'
import addingAProduct from './adding_a_product.md' with { type: 'text' }
import addingAProvider from './adding_a_provider.md' with { type: 'text' }
import changelog from './changelog.md' with { type: 'text' }
import configuration from './configuration.md' with { type: 'text' }
import embedding from './embedding.md' with { type: 'text' }
import gatewaysAndChains from './gateways_and_chains.md' with { type: 'text' }
import keys from './keys.md' with { type: 'text' }
import mcp from './mcp.md' with { type: 'text' }
import paying from './paying.md' with { type: 'text' }
import operations from './operations.md' with { type: 'text' }
import providers from './providers.md' with { type: 'text' }
import proxy from './proxy.md' with { type: 'text' }
import quickstart from './quickstart.md' with { type: 'text' }
import scale from './scale.md' with { type: 'text' }
import security from './security.md' with { type: 'text' }
import sellYourApi from './sell_your_api.md' with { type: 'text' }
import workers from './workers.md' with { type: 'text' }

import keysPicture from './pictures/keys.png' with { type: 'file' }

const ROOT = '/docs/guide'

/** Files of the pictures that pages show, by name. */
const PICTURES: Readonly<Record<string, string>> = { 'pictures/keys.png': keysPicture }

/** Sources by page, in reading order. */
export const guides: Readonly<Record<string, string>> = {
  quickstart,
  configuration,
  providers,
  gateways_and_chains: gatewaysAndChains,
  keys,
  mcp,
  proxy,
  paying,
  operations,
  scale,
  security,
  sell_your_api: sellYourApi,
  embedding,
  workers,
  adding_a_product: addingAProduct,
  adding_a_provider: addingAProvider,
  changelog,
}

const STYLE = `
  :root {
    color-scheme: light dark;
    --ink: #24202e; --soft: #6a6376; --paper: #fff; --line: #dfdbe6; --code: #f5f3f8; --link: #2c5f8a
  }
  @media (prefers-color-scheme: dark) {
    :root { --ink: #e9e5ef; --soft: #a59db3; --paper: #1b1822; --line: #3d374a; --code: #262230; --link: #8fc1ea }
  }
  * { box-sizing: border-box }
  html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100% }
  body {
    font: 16px/1.6 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--paper);
    overflow-wrap: break-word
  }
  a { color: var(--link); text-underline-offset: .2em }
  nav, main, footer { max-width: 52rem; margin: 0 auto; padding: 1rem 1.25rem }
  main { padding-top: 0; padding-bottom: 3rem }
  nav { border-bottom: 1px solid var(--line); font-size: .9rem }
  nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1rem; list-style: none; margin: 0; padding: 0 }
  nav a[aria-current] { color: var(--ink); font-weight: 600; text-decoration: none }
  h1 { font-size: 2rem; line-height: 1.2; margin: 2.5rem 0 1rem }
  h2 { margin: 2.75rem 0 .75rem; line-height: 1.25 }
  h3 { margin: 2rem 0 .5rem }
  li { margin: .25rem 0 }
  code, pre { font: 13.5px/1.55 ui-monospace, monospace }
  code { padding: .1em .3em; background: var(--code); border-radius: .25rem }
  pre {
    padding: .9rem 1rem; overflow-x: auto; background: var(--code); border: 1px solid var(--line);
    border-radius: .5rem
  }
  pre code { padding: 0; background: none; overflow-wrap: normal }
  .wide { overflow-x: auto }
  table { border-collapse: collapse; width: 100%; min-width: 34rem; font-size: .92rem }
  td, th { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-top: 1px solid var(--line) }
  th { border: 0 }
  td:first-child { overflow-wrap: normal }
  img { display: block; max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: .5rem }
  footer { border-top: 1px solid var(--line); color: var(--soft); font-size: .9rem }
`

const HASH = new Bun.CryptoHasher('sha256').update(STYLE).digest('base64')
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${HASH}'`,
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')
const HEADERS = {
  'cache-control': 'public, max-age=300',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

const pages = new Map<string, Reply>()

/** The reply to a GET under `/docs/guide`; undefined if there is no such page. A page is made on its first request. */
export function guide(path: string): Reply | undefined {
  if (path === ROOT) return { status: 308, headers: { ...HEADERS, location: `${ROOT}/` }, body: null }
  if (!path.startsWith(`${ROOT}/`)) return undefined
  const known = pages.get(path)
  if (known) return known
  const reply = made(path.slice(ROOT.length + 1))
  if (reply) pages.set(path, reply)
  return reply
}

function made(name: string): Reply | undefined {
  if (name === '') return html('Guides', index())
  const picture = Object.hasOwn(PICTURES, name) ? PICTURES[name] : undefined
  if (picture !== undefined)
    return { status: 200, headers: { ...HEADERS, 'content-type': 'image/png' }, body: readFileSync(picture) }
  if (name.endsWith('.md')) return sourceOf(name.slice(0, -'.md'.length))
  const source = textOf(name)
  return source === undefined ? undefined : html(titleOf(source), source, name)
}

function sourceOf(name: string): Reply | undefined {
  const source = textOf(name)
  return source === undefined
    ? undefined
    : { status: 200, headers: { ...HEADERS, 'content-type': 'text/markdown; charset=utf-8' }, body: source }
}

const textOf = (name: string): string | undefined => (Object.hasOwn(guides, name) ? guides[name] : undefined)
const titleOf = (source: string): string => /^# (.+)$/m.exec(source)?.[1] ?? ''
const introductionOf = (source: string): string => /^# .+\n\n(.+)$/m.exec(source)?.[1] ?? ''

/** The first paragraph of each guide says what is in it. */
function index(): string {
  const entries = Object.entries(guides).map(
    ([name, source]) => `- [${titleOf(source)}](${name}.md): ${introductionOf(source)}`,
  )
  const reference =
    'The [API reference](/docs) describes every endpoint; [openapi.json](/openapi.json) is the same for programs.'
  return `# Guides\n\nHow to run Farebox, buy from it and extend it. ${reference}\n\n${entries.join('\n')}\n`
}

function html(title: string, source: string, current?: string): Reply {
  const links = Object.entries(guides).map(([name, text]) => {
    const mark = name === current ? ' aria-current="page"' : ''
    return `<li><a href="${ROOT}/${name}"${mark}>${Bun.escapeHTML(titleOf(text))}</a></li>`
  })
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${Bun.escapeHTML(title)} · Farebox</title>
<link rel="icon" href="/favicon.ico">
<style>${STYLE}</style>
</head>
<body>
<nav aria-label="Guides"><ul>
<li><a href="${ROOT}/">Guides</a></li>
${links.join('\n')}
<li><a href="/docs">API reference</a></li>
</ul></nav>
<main>
${rendered(source)}</main>
<footer>${current === undefined ? 'Farebox' : `<a href="${ROOT}/${current}.md">Markdown source</a>`}</footer>
</body>
</html>
`
  return {
    status: 200,
    headers: { ...HEADERS, 'content-type': 'text/html; charset=utf-8', 'content-security-policy': POLICY },
    body,
  }
}

/**
 * Links between the files lead to their pages; wide tables scroll by themselves. Pictures that are not in `PICTURES`
 * are for readers of the files.
 */
function rendered(source: string): string {
  const visible = source
    .replace(/^<!--.*?-->\n/gm, '')
    .replace(/^!\[.*?\]\((.*?)\)\n/gm, (line, name: string) => (Object.hasOwn(PICTURES, name) ? line : ''))
  return Bun.markdown
    .html(visible, { headings: { ids: true }, noHtmlBlocks: true, noHtmlSpans: true })
    .replace(/href="(\w+)\.md(?=["#])/g, `href="${ROOT}/$1`)
    .replaceAll('<img src="pictures/', `<img src="${ROOT}/pictures/`)
    .replaceAll('<table>', '<div class="wide"><table>')
    .replaceAll('</table>', '</table></div>')
}
