/**
 * Makes the files of the web pages from their sources: once per process from source, or once when a release is built.
 */
import { join } from 'node:path'

/** A page: the path it is served at, its title, and one sentence for search engines and link previews. */
type Page = {
  readonly name: string
  readonly path: string
  readonly title: string
  readonly about: string
  /** Whether it has a `styles.css` of its own. */
  readonly hasStyles?: true
  /** Served only where there is an operator's token. */
  readonly isForOperator?: true
}

/** Every page is a folder of `pages` with a `page.tsx`. */
export const PAGES: readonly Page[] = [
  {
    name: 'front',
    path: '/',
    title: 'Farebox: AI by the call',
    about: 'AI by the call, paid in USDC: what is sold here, what it costs, and how to buy it.',
  },
  {
    name: 'play',
    path: '/play',
    title: 'Playground · Farebox',
    about: 'Try any model: see the exact price, pay with a wallet, and watch the result arrive.',
  },
  {
    name: 'wallet',
    path: '/wallet',
    title: 'Your purchases · Farebox',
    about: 'Sign in with your wallet, see what it bought here, and collect what lies uncollected.',
  },
  {
    name: 'keys',
    path: '/keys',
    title: 'API keys · Farebox',
    about: 'Deposit USDC once, and get an API key for any tool. What is left goes back to your wallet when you ask.',
  },
  {
    name: 'console',
    path: '/console',
    title: 'Console · Farebox',
    about: 'For the operator of this gateway: revenue, calls, accounts and controls.',
    hasStyles: true,
    isForOperator: true,
  },
]

/** A finished file. `path` is what it is served at; `body` is text. */
export type WebFile = { readonly path: string; readonly type: string; readonly body: string }

/** Stands in a document for the setting `buyer_command`, which a build does not know. */
export const COMMAND_MARK = '{{buyer_command}}'

/** Where scripts and styles are served. Their names contain a hash of what is in them. */
export const ASSETS = '/web/'

/**
 * Nothing foreign, nothing inline. Pictures, clips and sounds may be made in the page from what was bought. Each page
 * says so itself, because the headers of a 402 have no room for it.
 */
export const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' data: blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const SOURCES = join(import.meta.dirname, 'pages')

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
}

/** The files, and what the bundler says of what went into them. */
type Bundle = { readonly files: readonly WebFile[]; readonly metafile: Bun.BuildOutput['metafile'] }

/** Bundles every page. Throws with the compiler's output when a source does not compile. */
export async function bundle(): Promise<Bundle> {
  const { success, outputs, logs, metafile } = await Bun.build({
    entrypoints: [
      join(SOURCES, 'lib/styles.css'),
      ...PAGES.flatMap(({ name, hasStyles }) => [
        join(SOURCES, name, 'page.tsx'),
        ...(hasStyles ? [join(SOURCES, name, 'styles.css')] : []),
      ]),
    ],
    root: SOURCES,
    target: 'browser',
    format: 'esm',
    splitting: true,
    minify: true,
    publicPath: ASSETS,
    define: { 'process.env.NODE_ENV': '"production"' },
    naming: { entry: '[dir]-[hash].[ext]', chunk: 'part-[hash].[ext]', asset: '[name]-[hash].[ext]' },
    metafile: true,
    throw: false,
  })
  if (!success) throw new Error(`bundling the web pages failed:\n${logs.map(String).join('\n')}`)
  const assets = await Promise.all(
    outputs.map(async (output) => ({
      path: ASSETS + output.path.replace(/^\.?\//, ''),
      type: TYPES[output.path.split('.').at(-1) ?? ''] ?? 'application/octet-stream',
      body: await output.text(),
    })),
  )
  const assetOf = (name: string, type: 'js' | 'css') =>
    assets.find(({ path }) => path.startsWith(`${ASSETS}${name}-`) && path.endsWith(`.${type}`))?.path ?? ''
  const pages = PAGES.map((page) => ({
    path: page.path,
    type: 'text/html; charset=utf-8',
    body: shell(page, {
      script: assetOf(page.name, 'js'),
      styles: [assetOf('lib', 'css'), ...(page.hasStyles ? [assetOf(page.name, 'css')] : [])],
    }),
  }))
  return { files: [...pages, ...assets], metafile }
}

/** The document around a page, which its script fills. */
function shell(
  { title, about }: Page,
  { script, styles }: { readonly script: string; readonly styles: readonly string[] },
) {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<meta name="description" content="${about}">
<meta name="farebox-command" content="${COMMAND_MARK}">
<link rel="icon" href="/favicon.ico">
${styles.map((path) => `<link rel="stylesheet" href="${path}">`).join('\n')}
<script type="module" src="${script}"></script>
</head>
<body>
<noscript><p>${about} This page needs JavaScript. Without it: <a href="/docs">the reference</a>,
<a href="/docs/guide/">the guides</a>, <a href="/openapi.json">openapi.json</a>.</p></noscript>
</body>
</html>
`
}
