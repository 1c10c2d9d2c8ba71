/** Renders the OpenAPI document as an HTML page: no scripts, no external resources, all values escaped. */
import { sha256 } from '@noble/hashes/sha256'
import { utf8ToBytes } from '@noble/hashes/utils'
import { toBase64 } from '../lib/base64.ts'
import type { Change } from './document_input.ts'

/** A part of the document with arbitrary members. */
type Node = { readonly [name: string]: unknown }
type PageOptions = {
  readonly origin: string
  readonly basePath: string
  readonly label: string
  readonly changes: readonly Change[]
}

const STYLE = `
  :root { color-scheme: light dark; --ink: #3b3350; --soft: #74698b; --paper: #f6edda; --card: #fffaf0; --line: #dccfb4; --get: #2f6f6a; --post: #8a4a24 }
  @media (prefers-color-scheme: dark) { :root { --ink: #ece4d4; --soft: #a89fb8; --paper: #1f1b29; --card: #29243a; --line: #453d5c; --get: #7fc7bf; --post: #e2a079 } }
  * { box-sizing: border-box } html { scroll-behavior: smooth; scroll-padding-top: 1rem }
  body { font: 16px/1.6 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--paper) }
  a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: .2em }
  code, pre, .path { font: 13.5px/1.55 ui-monospace, monospace }
  header, main { max-width: 54rem; margin: 0 auto; padding: 0 1.5rem } header { padding-top: 4rem }
  h1 { font-size: 2.2rem; line-height: 1.15; margin: 0 0 .5rem } h2 { margin: 4rem 0 1rem; text-transform: capitalize } h3 { margin: 0; font-size: 1.1rem }
  nav { padding: 1rem 1.5rem; font-size: .9rem } nav ul { list-style: none; margin: .2rem 0 1rem; padding: 0 } nav li { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
  nav b { text-transform: capitalize } nav a { text-decoration: none } nav a:hover { text-decoration: underline }
  @media (min-width: 75rem) { nav { position: fixed; inset: 0 auto 0 0; width: 17rem; overflow-y: auto; border-right: 1px solid var(--line) } header, main { margin-left: max(19rem, calc(50vw - 27rem)) } }
  @media (max-width: 75rem) { nav ul { columns: 14rem } }
  section { margin: 1.5rem 0; padding: 1.25rem 1.5rem; background: var(--card); border: 1px solid var(--line); border-radius: .75rem }
  .route { display: flex; flex-wrap: wrap; gap: .3rem .8rem; align-items: baseline; margin: .3rem 0 .6rem } .path { overflow-wrap: anywhere }
  .method { font-weight: 700; font-size: .78rem; letter-spacing: .04em } .get { color: var(--get) } .post { color: var(--post) }
  .price { margin-left: auto; font-size: .9rem; font-weight: 600; white-space: nowrap } .soft { color: var(--soft) } p { margin: .5rem 0 }
  pre { margin: .6rem 0; padding: .9rem 1rem; overflow-x: auto; background: var(--paper); border: 1px solid var(--line); border-radius: .5rem }
  .wide { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-size: .92rem; margin: .6rem 0 } td, th { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-top: 1px solid var(--line) } th { font-weight: 600; border: 0 }
  details { margin: .35rem 0 } summary { cursor: pointer } footer { padding: 3rem 0 }
`

/** Allows only this style and the gateway's icon. */
export const DOCS_POLICY = `default-src 'none'; style-src 'sha256-${toBase64(sha256(utf8ToBytes(STYLE)))}'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

export function docsPage(openapi: Node, { origin, basePath, label, changes: changelog }: PageOptions): string {
  const operations = operationsIn(openapi)
  const tags = listOf(openapi.tags).map(({ name }) => String(name))
  const info = nodeOf(openapi.info)
  const of = (tag: string) => operations.filter((operation) => operation.tag === tag)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escape(info.title)} API reference</title>
<link rel="icon" href="/favicon.ico">
<style>${STYLE}</style>
</head>
<body>
<header>
<h1>${escape(info.title)} API</h1>
<p>${escape(info.description)}</p>
<p class="soft">Version ${escape(info.version)} on ${escape(label)} at <code>${escape(origin)}</code>. For programs: <a href="${escape(basePath)}/openapi.json">openapi.json</a>,
<a href="${escape(basePath)}/.well-known/x402">x402</a>, <a href="${escape(basePath)}/api/pricing">prices</a>, <a href="${escape(basePath)}/changelog">changes</a>.</p>
</header>
<nav aria-label="Operations">
<p><a href="#paying"><b>Paying</b></a> · <a href="#errors"><b>Errors</b></a> · <a href="#changes"><b>Changes</b></a></p>
${tags
  .map(
    (tag) =>
      `<b>${escape(tag)}</b>\n<ul>${of(tag)
        .map(({ id, summary }) => `<li><a href="#${escape(id)}">${escape(summary)}</a></li>`)
        .join('')}</ul>`,
  )
  .join('\n')}
</nav>
<main>
${paying(origin)}
${tags
  .map(
    (tag) =>
      `<h2>${escape(tag)}</h2>\n${of(tag)
        .map((operation) => section(openapi, operation, origin))
        .join('\n')}`,
  )
  .join('\n')}
${errors(openapi)}
${changes(changelog)}
<footer class="soft">Made from the menu of this gateway: what stands here is what it serves and what it charges.</footer>
</main>
</body>
</html>
`
}

const CLIENT: readonly string[] = [
  "import { wrapFetchWithPayment, x402Client } from '@x402/fetch'",
  "import { ExactEvmScheme } from '@x402/evm/exact/client'",
  "import { privateKeyToAccount } from 'viem/accounts'",
  '',
  'const signer = privateKeyToAccount(process.env.PRIVATE_KEY)',
  "const client = new x402Client().register('eip155:*', new ExactEvmScheme(signer))",
  'const pay = wrapFetchWithPayment(fetch, client)   // asks, signs and asks again',
]

function paying(origin: string): string {
  return `<h2 id="paying">Paying</h2>
<section>
<p>Send a request. Whatever costs money is answered <code>402</code> with an exact price in USDC, for this very request. Sign that offer, and send the
same request again with the signature in <code>PAYMENT-SIGNATURE</code>. You are charged once, when the result is there, and never for a failure.
GET on a path that is paid by POST answers <code>402</code> with its default price.</p>
<pre>${escape([...CLIENT, `const reply = await pay('${origin}/api/...', { method: 'POST', headers, body })`].join('\n'))}</pre>
<p>What takes longer than its reply may last is answered <code>202</code> with a <code>poll_url</code>. GET it, as it is, with a payment header of the same wallet: the
first poll that finds the result ready charges for it, once. Its <code>key</code> is for you alone: with it the payment that you sent goes on reading the result.
Without it only a fresh signature reads, which is not spent: what was sent to the chain is public there, and proves nothing any more.</p>
</section>`
}

// ── one operation ───────────────────────────────────────────────────────────────────────────────────────────────────

type Operation = {
  readonly id: string
  readonly summary: string
  readonly tag: string
  readonly method: string
  readonly path: string
  readonly node: Node
}

function operationsIn(openapi: Node): readonly Operation[] {
  return Object.entries(nodeOf(openapi.paths)).flatMap(([path, item]) =>
    Object.entries(nodeOf(item)).flatMap(([method, operation]) => {
      const node = nodeOf(operation)
      // The page lists aliases in the text, and describes GET on paid paths once.
      if (node['x-alias-of'] !== undefined || node['x-quote-of'] !== undefined) return []
      return {
        id: String(node.operationId),
        summary: String(node.summary),
        tag: String((node.tags as readonly unknown[])[0]),
        method: method.toUpperCase(),
        path,
        node,
      }
    }),
  )
}

function section(openapi: Node, operation: Operation, origin: string): string {
  const { id, summary, method, path, node } = operation
  const parameters = listOf(node.parameters).filter((parameter) => parameter.$ref === undefined)
  const body = nodeOf(nodeOf(nodeOf(node.requestBody).content)['application/json'])
  return `<section id="${escape(id)}">
<h3>${escape(summary)}</h3>
<div class="route"><span class="method ${method.toLowerCase()}">${method}</span><span class="path">${escape(path)}</span><span class="price">${escape(priceOf(node))}</span></div>
${node.description === undefined ? '' : `<p>${prose(node.description)}</p>`}
${table(
  'Parameter',
  parameters.map((parameter) => ({
    ...nodeOf(parameter.schema),
    ...parameter,
    isRequired: parameter.required === true,
  })),
)}
${table('Field', fieldsOf(openapi, nodeOf(body.schema)))}
<details><summary>Example</summary>
<pre>${escape(curlOf(operation, { origin, body: body.example }))}</pre>
<pre>${escape(fetchOf(operation, { origin, body: body.example }))}</pre>
</details>
${responses(openapi, node)}
</section>`
}

function priceOf(node: Node): string {
  if (node['x-payment-info'] === undefined) return 'free'
  const { amount, min, max } = nodeOf(nodeOf(node['x-payment-info']).price)
  return amount === undefined ? `${short(min)} to ${short(max)} USDC` : `${short(amount)} USDC`
}

/** Removes trailing zeros. */
const short = (amount: unknown): string => String(amount).replace(/(\.\d{2}\d*?)0+$/, '$1')

type Row = Node & { readonly name?: unknown; readonly isRequired?: boolean }

function table(title: string, rows: readonly Row[]): string {
  if (rows.length === 0) return ''
  const cells = rows.map(
    (row) =>
      `<tr><td><code>${escape(row.name)}</code>${row.isRequired ? '' : ' <span class="soft">optional</span>'}</td><td class="soft">${escape(typeOf(row))}</td><td>${prose(row.description ?? '')}</td></tr>`,
  )
  return `<div class="wide"><table><tr><th>${title}</th><th>Type</th><th>Meaning</th></tr>${cells.join('')}</table></div>`
}

const DEEPEST = 3

function fieldsOf(
  openapi: Node,
  schema: Node,
  { prefix = '', depth = 0 }: { prefix?: string; depth?: number } = {},
): readonly Row[] {
  const { properties, required } = resolved(openapi, schema)
  const needed = Array.isArray(required) ? (required as readonly unknown[]) : []
  return Object.entries(nodeOf(properties)).flatMap(([name, value]): readonly Row[] => {
    const field = resolved(openapi, nodeOf(value))
    const row = { ...field, name: `${prefix}${name}`, isRequired: needed.includes(name) }
    const isList = field.type === 'array'
    const inner = isList ? nodeOf(field.items) : field
    const more =
      depth < DEEPEST
        ? fieldsOf(openapi, inner, { prefix: `${prefix}${name}${isList ? '[]' : ''}.`, depth: depth + 1 })
        : []
    return [row, ...more]
  })
}

function typeOf(schema: Node): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (Array.isArray(schema.enum)) return schema.enum.map((each) => JSON.stringify(each)).join(' | ')
  if (Array.isArray(schema.anyOf)) return schema.anyOf.map((each) => typeOf(nodeOf(each))).join(' | ')
  const type = Array.isArray(schema.type) ? schema.type.join(' | ') : String(schema.type ?? 'any')
  const bounds = [
    ...(schema.minimum === undefined ? [] : [`from ${String(schema.minimum)}`]),
    ...(schema.maximum === undefined ? [] : [`to ${String(schema.maximum)}`]),
    ...(schema.default === undefined ? [] : [`default ${JSON.stringify(schema.default)}`]),
  ]
  return [type === 'array' ? `${typeOf(nodeOf(schema.items))}[]` : type, ...bounds].join(', ')
}

// ── request ─────────────────────────────────────────────────────────────────────────────────────────────────────────

type Calling = { readonly origin: string; readonly body: unknown }

function urlOf({ path, node }: Operation, origin: string): string {
  const given = listOf(node.parameters).filter(({ example }) => example !== undefined)
  const filled = given
    .filter((each) => each.in === 'path')
    .reduce(
      (text, { name, example }) =>
        text.replace(`{${String(name)}}`, encodeURIComponent(String(example)).replaceAll('%2F', '/')),
      path,
    )
  const query = new URLSearchParams(
    given.filter((each) => each.in === 'query').map(({ name, example }) => [String(name), String(example)]),
  ).toString()
  return `${origin}${filled}${query === '' ? '' : `?${query}`}`
}

function curlOf(operation: Operation, { origin, body }: Calling): string {
  const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
  const url = quoted(urlOf(operation, origin))
  if (body === undefined) return `curl -i ${operation.method === 'GET' ? '' : `-X ${operation.method} `}${url}`
  return `curl -i ${url} \\\n  -H 'content-type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`
}

function fetchOf(operation: Operation, { origin, body }: Calling): string {
  const call = operation.node['x-payment-info'] === undefined ? 'fetch' : 'pay'
  const url = `'${urlOf(operation, origin).replaceAll("'", '%27')}'`
  if (body === undefined)
    return `const reply = await ${call}(${url}${operation.method === 'GET' ? '' : `, { method: '${operation.method}' }`})`
  const lines = JSON.stringify(body, null, 2).replaceAll('\n', '\n  ')
  return `const reply = await ${call}(${url}, {\n  method: '${operation.method}',\n  headers: { 'content-type': 'application/json' },\n  body: JSON.stringify(${lines}),\n})`
}

// ── response ────────────────────────────────────────────────────────────────────────────────────────────────────────

function responses(openapi: Node, node: Node): string {
  return Object.entries(nodeOf(node.responses))
    .map(([status, response]) => responseOf(openapi, status, nodeOf(response)))
    .join('\n')
}

function responseOf(openapi: Node, status: string, response: Node): string {
  if (typeof response.$ref === 'string') {
    const name = response.$ref.split('/').at(-1) ?? ''
    return `<details><summary><b>${status}</b> ${prose(resolved(openapi, response).description)}</summary><p><a href="#error-${escape(name)}">Examples</a></p></details>`
  }
  const content = nodeOf(nodeOf(response.content)['application/json'])
  const { required } = nodeOf(content.examples)
  const body =
    required === undefined
      ? table('Field', fieldsOf(openapi, nodeOf(content.schema)))
      : exampleOf(nodeOf(required).value)
  return `<details><summary><b>${status}</b> ${prose(response.description)}</summary>${body}</details>`
}

const exampleOf = (value: unknown): string => `<pre>${escape(JSON.stringify(value, null, 2))}</pre>`

function errors(openapi: Node): string {
  const all = Object.entries(nodeOf(nodeOf(openapi.components).responses))
  const body = all.map(([name, response]) => {
    const { description, content } = nodeOf(response)
    const examples = Object.entries(nodeOf(nodeOf(nodeOf(content)['application/json']).examples))
    const each = examples.map(
      ([code, example]) =>
        `<details><summary><code>${escape(code)}</code></summary>${exampleOf(nodeOf(example).value)}</details>`,
    )
    return `<section id="error-${escape(name)}"><h3>${escape(name.replaceAll('_', ' '))}</h3><p>${prose(description)}</p>${each.join('')}</section>`
  })
  return `<h2 id="errors">Errors</h2>\n${body.join('\n')}`
}

function changes(changelog: readonly Change[]): string {
  const rows = changelog.map(
    ({ date, title, detail }) =>
      `<tr><td><code>${escape(date)}</code></td><td><b>${escape(title)}</b><br>${escape(detail)}</td></tr>`,
  )
  return `<h2 id="changes">Changes</h2>\n<section><div class="wide"><table>${rows.join('')}</table></div></section>`
}

// ── reading and writing ─────────────────────────────────────────────────────────────────────────────────────────────

const nodeOf = (value: unknown): Node => (typeof value === 'object' && value !== null ? (value as Node) : {})
const listOf = (value: unknown): readonly Node[] => (Array.isArray(value) ? value.map(nodeOf) : [])

function resolved(openapi: Node, node: Node): Node {
  if (typeof node.$ref !== 'string') return node
  return node.$ref
    .slice(2)
    .split('/')
    .reduce((found, part) => nodeOf(found[part]), openapi)
}

/** Escapes text and renders `code`. */
const prose = (text: unknown): string => escape(text).replace(/`([^`]+)`/g, '<code>$1</code>')

/** Escapes text for HTML content and attributes. */
export function escape(text: unknown): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  return String(text).replace(/[&<>"']/g, (char) => entities[char] ?? char)
}
