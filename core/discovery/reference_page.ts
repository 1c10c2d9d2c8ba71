/**
 * Renders the OpenAPI document as an HTML page: whole without its script, no external resources, all values escaped.
 */
import { sha256 } from '@noble/hashes/sha256'
import { utf8ToBytes } from '@noble/hashes/utils'
import { toBase64 } from '../lib/base64.ts'
import type { Change } from './document_input.ts'
import { adviceOf, PAYMENT_ADVICE } from './error_advice.ts'
import { SCRIPT } from './reference_script.ts'

/** A part of the document with arbitrary members. */
type Node = { readonly [name: string]: unknown }
type PageOptions = {
  readonly origin: string
  readonly basePath: string
  readonly label: string
  readonly changes: readonly Change[]
  /** Whether payments are made on Solana alone: the snippets sign there. */
  /** CAIP-2 namespace of the networks that its examples pay on. */
  readonly namespace: string
}

const STYLE = `
  :root { color-scheme: light dark; --ink: #221d2c; --soft: #625a70; --paper: #fbfaf7; --card: #fff; --line: #e2dce8; --code: #f3f0f7; --accent: #5b3fa8; --on: #fff; --get: #1b6b45; --post: #8a4a24 }
  @media (prefers-color-scheme: dark) { :root { --ink: #ece8f2; --soft: #aaa1b8; --paper: #16131c; --card: #1f1b27; --line: #3a3347; --code: #272231; --accent: #b9a3f5; --on: #1a1326; --get: #7fd6a8; --post: #f0b48e } }
  * { box-sizing: border-box } [hidden] { display: none !important } html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100% }
  body { font: 16px/1.6 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--paper); overflow-wrap: anywhere }
  a { color: var(--accent); text-underline-offset: .2em } :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
  code, pre, .path, textarea, .try input { font: 13.5px/1.55 ui-monospace, monospace }
  header, main { max-width: 54rem; margin: 0 auto; padding: 0 1.5rem } header { padding-top: 3.5rem }
  h1 { font-size: clamp(1.8rem, 5vw, 2.4rem); line-height: 1.15; margin: 0 0 .5rem } h2 { margin: 3.5rem 0 1rem } h3 { margin: 0; font-size: 1.1rem }
  .tag, nav b { text-transform: capitalize } nav { padding: 1rem 1.5rem; font-size: .9rem } nav ul { list-style: none; margin: .2rem 0 1rem; padding: 0 }
  nav li { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding: .1rem 0 } nav li a { color: inherit; text-decoration: none } nav a:hover { text-decoration: underline }
  #page-finder { margin-bottom: 1rem } #page-finder label { display: block; font-weight: 600 } #page-found { color: var(--soft); min-height: 1.5em }
  input, textarea { width: 100%; padding: .5rem .7rem; color: inherit; background: var(--paper); border: 1px solid var(--soft); border-radius: .4rem } #page-search { font: inherit }
  @media (min-width: 75rem) { nav { position: fixed; inset: 0 auto 0 0; width: 17.5rem; overflow-y: auto; border-right: 1px solid var(--line) } header, main { margin-left: max(19rem, calc(50vw - 27rem)) } }
  @media (max-width: 75rem) { nav { max-width: 54rem; margin: 0 auto } nav ul { columns: 14rem } #page-lists { max-height: 20rem; overflow-y: auto; padding: .8rem 1rem; border: 1px solid var(--line); border-radius: .6rem } }
  @media (min-width: 40rem) { [id^=error] td:first-child { min-width: 16rem } [id^=error] td:last-child { min-width: 14rem } }
  section { margin: 1.25rem 0; padding: 1.25rem 1.5rem; background: var(--card); border: 1px solid var(--line); border-radius: .6rem }
  .route { display: flex; flex-wrap: wrap; gap: .3rem .8rem; align-items: baseline; margin: .3rem 0 .6rem }
  .method { font-weight: 700; font-size: .78rem; letter-spacing: .04em } .get { color: var(--get) } .post { color: var(--post) }
  .price { margin-left: auto; font-size: .9rem; font-weight: 600 } .soft, small { color: var(--soft) } small { font-size: .88rem } p { margin: .5rem 0 }
  pre { margin: .6rem 0; padding: .9rem 1rem; white-space: pre-wrap; background: var(--code); border-radius: .4rem } .out pre { max-height: 24rem; overflow-y: auto }
  table { border-collapse: collapse; width: 100%; font-size: .92rem; margin: .6rem 0 } td, th { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-top: 1px solid var(--line) } th { font-weight: 600 } thead th { border: 0 }
  td:first-child { min-width: 8rem; font: 13.5px/1.7 ui-monospace, monospace } small { font-family: system-ui, sans-serif } .fields td:nth-child(2) { color: var(--soft) } details { margin: .35rem 0 } summary { cursor: pointer; padding: .15rem 0 } footer { padding: 3rem 0 }
  .tabs { display: flex; flex-wrap: wrap; gap: .4rem; margin: .6rem 0 } button { font: inherit; font-size: .9rem; min-height: 2rem; padding: .2rem .8rem; color: var(--ink); background: none; border: 1px solid var(--soft); border-radius: .4rem; cursor: pointer }
  button[aria-pressed=true], .try button { color: var(--on); background: var(--accent); border-color: var(--accent) } .copy { margin-left: auto } button:disabled { opacity: .6 }
  .try { display: grid; gap: .6rem; margin: 1rem 0 .5rem; padding-top: .8rem; border-top: 1px solid var(--line) } .try button { justify-self: start }
  @media (max-width: 40rem) { header, main, nav { padding-inline: 1rem } header { padding-top: 2rem } section { padding: 1rem } thead { display: none } tr { display: block; border-top: 1px solid var(--line); padding: .4rem 0 } td, th { display: block; border: 0; padding: 0 } td:first-child { font-weight: 600 } }
`

const hashOf = (text: string): string => `'sha256-${toBase64(sha256(utf8ToBytes(text)))}'`

/** Allows only this style, this script and calls of the gateway itself. */
export const DOCS_POLICY = `default-src 'none'; style-src ${hashOf(STYLE)}; script-src ${hashOf(SCRIPT)}; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

export function docsPage(
  openapi: Node,
  { origin, basePath, label, changes: changelog, namespace }: PageOptions,
): string {
  const operations = operationsIn(openapi)
  const tags = listOf(openapi.tags).map(({ name }) => String(name))
  const info = nodeOf(openapi.info)
  const printed = new Map<string, string>()
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
<body data-network="${namespace}">
<header>
<h1>${escape(info.title)} API</h1>
<p>${escape(info.description)}</p>
<p class="soft">Version ${escape(info.version)} on ${escape(label)} at <code>${escape(origin)}</code>. For programs: <a href="${escape(basePath)}/openapi.json">openapi.json</a>,
<a href="${escape(basePath)}/.well-known/x402">x402</a>, <a href="${escape(basePath)}/api/pricing">prices</a>, <a href="${escape(basePath)}/changelog">changes</a>, <a href="${escape(basePath)}/llms.txt">llms.txt</a>.</p>
</header>
<nav aria-label="Operations">
<div id="page-finder" role="search" hidden><label for="page-search">Search routes, fields and errors</label>
<input id="page-search" type="search" autocomplete="off" spellcheck="false" aria-keyshortcuts="/"><span id="page-found" role="status"></span></div>
<p><a href="#page-paying"><b>Paying</b></a> · <a href="#page-errors"><b>Errors</b></a> · <a href="#page-changes"><b>Changes</b></a></p>
<div id="page-lists">
${tags
  .map(
    (tag) =>
      `<div><b>${escape(tag)}</b>\n<ul>${of(tag)
        .map(({ id, summary }) => `<li><a href="#${escape(id)}">${escape(summary)}</a></li>`)
        .join('')}</ul></div>`,
  )
  .join('\n')}
</div>
</nav>
<main>
${paying(origin)}
${tags
  .map(
    (tag) =>
      `<div class="group"><h2 class="tag">${escape(tag)}</h2>\n${of(tag)
        .map((operation) => section(openapi, operation, { origin, printed }))
        .join('\n')}</div>`,
  )
  .join('\n')}
${errors(openapi)}
${changes(changelog)}
<footer class="soft">Made from the menu of this gateway: what stands here is what it serves and what it charges.</footer>
</main>
<script>${SCRIPT}</script>
</body>
</html>
`
}

function paying(origin: string): string {
  return `<h2 id="page-paying">Paying</h2>
<section id="page-how-to-pay">
<p>Send a request. Whatever costs money is answered <code>402</code> with an exact price in USDC, for this very request. Sign that offer, and send the
same request again with the signature in <code>PAYMENT-SIGNATURE</code>. You are charged once, when the result is there, and never for a failure.
GET on a path that is paid by POST answers <code>402</code> with its default price.</p>
<p>Every example below opens into code for <code>curl</code>, JavaScript (<code>@x402/fetch</code>) and Python that signs and pays by itself, and into a form that calls
<code>${escape(origin)}</code>. The form signs nothing: what costs money answers with its price.</p>
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

/** The address in examples, and the fields that are on the page already: their text, and a link to them. */
type Printing = { readonly origin: string; readonly printed: Map<string, string> }

function section(openapi: Node, operation: Operation, { origin, printed }: Printing): string {
  const { id, summary, method, path, node } = operation
  const parameters = listOf(node.parameters).filter((parameter) => parameter.$ref === undefined)
  const body = nodeOf(nodeOf(nodeOf(node.requestBody).content)['application/json'])
  // GET and POST of one thing answer alike.
  const isTwin = printed.has(`${path} ${summary}`)
  printed.set(`${path} ${summary}`, id)
  const named = parameters.map((parameter) => ({
    ...nodeOf(parameter.schema),
    ...parameter,
    isRequired: parameter.required === true,
  }))
  const fields = table('Parameter', named) + table('Field', fieldsOf(openapi, nodeOf(body.schema)))
  return `<section id="${escape(id)}">
<h3>${escape(summary)}</h3>
<div class="route"><span class="method ${method.toLowerCase()}">${method}</span><span class="path">${escape(path)}</span><span class="price">${escape(priceOf(node))}</span></div>
${node.description === undefined ? '' : `<p>${prose(node.description)}</p>`}
${once(fields, { link: `<a href="#${escape(id)}">${escape(summary)}</a>`, printed })}
<details class="example"><summary>Example</summary>
<pre class="curl">${escapeText(curlOf(operation, { origin, body: body.example }))}</pre>
</details>
${isTwin ? '' : responses(openapi, operation, printed)}
</section>`
}

/** Fields that the page has already are a link to where they are: twins by GET and POST, and replies of a kind. */
function once(fields: string, { link, printed }: { link: string; printed: Map<string, string> }): string {
  const earlier = printed.get(fields)
  if (fields.length > 200 && earlier === undefined) printed.set(fields, link)
  return earlier === undefined ? fields : `<p>The same fields as ${earlier}.</p>`
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
      `<tr><td>${escape(row.name)}${row.isRequired ? '' : ' <small>optional</small>'}<td>${escapeText(typeOf(row))}<td>${prose(row.description ?? '')}`,
  )
  return `<table class=fields><thead><tr><th>${title}<th>Type<th>Meaning</thead><tbody>${cells.join('')}</tbody></table>`
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

// ── response ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Errors of nearly every route are in the table of their status alone. */
const COMMON: ReadonlySet<string> = new Set([
  'INVALID_JSON',
  'INVALID_CONTENT_TYPE',
  'INVALID_BODY',
  'INVALID_PAYMENT_IDENTIFIER',
  'PAYMENT_IDENTIFIER_CONFLICT',
  'CALL_IN_PROGRESS',
  'TOO_LARGE',
  'TOO_MANY_REQUESTS',
  'INTERNAL',
  'NOT_CONFIGURED',
  'NOT_READY',
  'PAYMENT_VERIFICATION_UNAVAILABLE',
])

/** Renders the responses of a call: the fields of each success, and the errors. */
function responses(openapi: Node, { id, summary, node }: Operation, printed: Map<string, string>): string {
  const all = Object.entries(nodeOf(node.responses)).map(([status, value]) => [status, nodeOf(value)] as const)
  const successes = all
    .filter(([status]) => status < '300')
    .map(([status, response]) => {
      const rows = fieldsOf(openapi, nodeOf(nodeOf(nodeOf(response.content)['application/json']).schema))
      const fields = rows.map(lineOf).join('\n')
      const link = `<a href="#${escape(id)}">${escape(summary)}</a>`
      const body = once(`<pre>${escapeText(fields)}</pre>`, { link, printed })
      const title = `<b>${status}</b> ${prose(response.description)}`
      return fields === '' ? `<p>${title}</p>` : `<details><summary>${title}</summary>${body}</details>`
    })
  const failures = all
    .filter(([status]) => status >= '300')
    .map(([status, response]) => {
      const names =
        status === '402' ? [] : Object.keys(examplesOf(resolved(openapi, response))).filter((name) => !COMMON.has(name))
      return names.length === 0 ? status : `${status} ${escape(names.join(', '))}`
    })
  const listed =
    failures.length === 0 ? '' : `\n<p><small><a href="#page-errors">Errors</a>: ${failures.join(' · ')}</small>`
  return successes.join('\n') + listed
}

const examplesOf = (response: Node): Node => nodeOf(nodeOf(nodeOf(response.content)['application/json']).examples)

/** A field of a reply in one line of text, which is a tenth of a table's size. */
const lineOf = (row: Row): string =>
  `${String(row.name)}${row.isRequired ? '' : '?'}: ${typeOf(row)}${row.description === undefined ? '' : `  // ${String(row.description)}`}`

/** Every error once, by status: its name, what it says, and what to do. */
function errors(openapi: Node): string {
  const known = new Map<string, Map<string, Node>>([['402', new Map()]])
  for (const [name, response] of Object.entries(nodeOf(nodeOf(openapi.components).responses))) {
    const status = /_(\d{3})(_\d+)?$/.exec(name)?.[1] ?? ''
    const ofStatus = known.get(status) ?? new Map<string, Node>()
    for (const [code, example] of Object.entries(examplesOf(nodeOf(response))))
      if (!ofStatus.has(code)) ofStatus.set(code, nodeOf(example))
    known.set(status, ofStatus)
  }
  const body = [...known]
    .toSorted(([left], [right]) => left.localeCompare(right))
    .map(([status, ofStatus]) => {
      const rows =
        status === '402'
          ? PAYMENT_ADVICE
          : [...ofStatus].map(([code, example]) => [code, meaningOf(example), adviceOf(code, Number(status))] as const)
      return `<section id="error-${status}"><h3>${status}</h3>
<table><thead><tr><th>Error<th>Meaning<th>What to do</thead><tbody>${rows
        .map(([code, meaning, advice]) => `<tr><td>${escape(code)}<td>${prose(meaning)}<td>${prose(advice)}`)
        .join('')}</tbody></table></section>`
    })
  return `<div class="group"><h2 id="page-errors">Errors</h2>\n${body.join('\n')}</div>`
}

/** Returns the message of an example error, in any of the error formats. */
function meaningOf({ summary, value }: Node): string {
  const { message, details, error } = nodeOf(value)
  const inner = typeof error === 'object' ? nodeOf(error).message : undefined
  return String([message, inner, details].find((text) => typeof text === 'string') ?? summary ?? error)
}

function changes(changelog: readonly Change[]): string {
  const rows = changelog.map(
    ({ date, title, detail }) =>
      `<tr><td><code>${escape(date)}</code></td><td><b>${escape(title)}</b><br>${escape(detail)}</td></tr>`,
  )
  return `<h2 id="page-changes-title">Changes</h2>\n<section id="page-changes"><table><tbody>${rows.join('')}</tbody></table></section>`
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

/** Escapes text between tags, where quotes are what they are. Most of the page is such text. */
const escapeText = (text: unknown): string =>
  String(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** Escapes text and renders `code`. */
const prose = (text: unknown): string => escapeText(text).replace(/`([^`]+)`/g, '<code>$1</code>')

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
