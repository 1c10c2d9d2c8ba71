/**
 * Script of the reference page: search, snippets per language, and calls to try. It is plain JavaScript
 * in one string, because core is built without the types of a browser, and its hash is in the page's policy. Without
 * it the page is whole: the script reads what is there and adds to it. It never signs and never pays.
 */
export const SCRIPT = `
const make = (name, props = {}, ...children) => {
  const element = Object.assign(document.createElement(name), props)
  element.append(...children)
  return element
}
const all = (selector, root = document) => [...root.querySelectorAll(selector)]
const isSolana = document.body.dataset.network === 'solana'
const sections = all('main section[id]')

// Search: every word must be in the route, its fields or its errors.
const box = document.querySelector('#page-search')
const found = document.querySelector('#page-found')
const texts = new Map(sections.map((section) => [section, section.textContent.toLowerCase()]))
const links = new Map(all('nav li a').map((link) => [link.hash.slice(1), link.parentElement]))
function search() {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean)
  let count = 0
  for (const [section, text] of texts) {
    const isMatch = words.every((word) => text.includes(word))
    section.hidden = !isMatch
    const link = links.get(section.id)
    if (link) link.hidden = !isMatch
    if (isMatch) count++
  }
  for (const group of all('.group')) group.hidden = words.length > 0 && !group.querySelector('section:not([hidden])')
  for (const list of all('#page-lists > div')) list.hidden = words.length > 0 && !list.querySelector('li:not([hidden])')
  found.textContent = words.length === 0 ? '' : count === 0 ? 'Nothing found' : count + ' found'
}
document.querySelector('#page-finder').hidden = false
box.addEventListener('input', search)
box.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') { box.value = ''; search() }
  if (event.key !== 'Enter') return
  const first = sections.find((section) => !section.hidden)
  if (!first) return
  first.tabIndex = -1
  first.focus()
  first.scrollIntoView()
})
addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return
  if (event.target.matches('input, textarea, select')) return
  event.preventDefault()
  box.focus()
})
// A link to a section that the search has hidden shows it.
addEventListener('hashchange', () => {
  const target = document.getElementById(location.hash.slice(1))
  if (!target?.closest('[hidden]')) return
  box.value = ''
  search()
  target.scrollIntoView()
})

// The example of a section, as its curl command says it.
function exampleOf(section) {
  const curl = section.querySelector('pre.curl')?.textContent
  if (curl === undefined) return undefined
  const plain = (text) => text?.replaceAll("'\\\\''", "'")
  const url = plain(/^curl -i (?:-X \\w+ )?'((?:[^']|'\\\\'')*)'/.exec(curl)[1])
  const body = plain(/ -d '([^]*)'$/.exec(curl)?.[1])
  const method = section.querySelector('.method').textContent
  return { curl, url, body, method, isPaid: section.querySelector('.price').textContent !== 'free' }
}

const JS_EVM = [
  "// npm install @x402/fetch @x402/evm viem",
  "import { ExactEvmScheme } from '@x402/evm'",
  "import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'",
  "import { privateKeyToAccount } from 'viem/accounts'",
  "",
  "const client = new ExactEvmScheme(privateKeyToAccount(process.env.WALLET_KEY))",
  "const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: 'eip155:*', client }] })",
  "",
  "",
].join('\\n')
const JS_SOLANA = (origin) => [
  "// npm install @x402/fetch @x402/svm @solana/kit",
  "import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit'",
  "import { ExactSvmScheme } from '@x402/svm'",
  "import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'",
  "",
  "const signer = await createKeyPairSignerFromBytes(getBase58Encoder().encode(process.env.WALLET_KEY))",
  "const client = new ExactSvmScheme(signer, { rpcUrl: '" + origin + "/api/v1/solana/rpc' })",
  "const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: 'solana:*', client }] })",
  "",
  "",
].join('\\n')
const PY_EVM = [
  "# pip install \\"x402[evm,requests]\\"",
  "import os",
  "from eth_account import Account",
  "from x402 import x402ClientSync",
  "from x402.http.clients import x402_requests",
  "from x402.mechanisms.evm import EthAccountSigner",
  "from x402.mechanisms.evm.exact.register import register_exact_evm_client",
  "",
  "client = x402ClientSync()",
  "register_exact_evm_client(client, EthAccountSigner(Account.from_key(os.environ[\\"WALLET_KEY\\"])))",
  "session = x402_requests(client)",
  "",
].join('\\n')
const PY_SOLANA = [
  "# pip install \\"x402[svm,requests]\\"",
  "import os",
  "from x402 import x402ClientSync",
  "from x402.http.clients import x402_requests",
  "from x402.mechanisms.svm import KeypairSigner",
  "from x402.mechanisms.svm.exact.register import register_exact_svm_client",
  "",
  "client = x402ClientSync()",
  "register_exact_svm_client(client, KeypairSigner.from_base58(os.environ[\\"WALLET_KEY\\"]))",
  "session = x402_requests(client)",
  "",
].join('\\n')
const indent = (value) => JSON.stringify(value, null, 2).replaceAll('\\n', '\\n  ')
const python = (value) =>
  JSON.stringify(value).replace(/("(?:\\\\.|[^"\\\\])*")|\\b(true|false|null)\\b/g, (_, text, word) =>
    text ?? { true: 'True', false: 'False', null: 'None' }[word])

const WRITE = {
  curl: ({ curl }) => curl,
  fetch({ url, body, method, isPaid }) {
    const paying = isPaid ? (isSolana ? JS_SOLANA(new URL(url).origin) : JS_EVM) : ''
    const sent = body === undefined ? (method === 'GET' ? '' : \`, { method: '\${method}' }\`) : \`, {
  method: '\${method}',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(\${indent(JSON.parse(body))}),
}\`
    return \`\${paying}const reply = await \${isPaid ? 'pay' : 'fetch'}('\${url.replaceAll("'", '%27')}'\${sent})\n\` +
      "console.log(await reply.json())"
  },
  Python({ url, body, method, isPaid }) {
    const start = isPaid ? (isSolana ? PY_SOLANA : PY_EVM) : '# pip install requests\\nimport requests as session\\n'
    const sent = body === undefined ? '' : ', json=' + python(JSON.parse(body))
    return \`\${start}\\nreply = session.\${method.toLowerCase()}("\${url}"\${sent})\\nprint(reply.json())\`
  },
  'OpenAI SDK'({ url, body }) {
    const { stream, ...ordered } = JSON.parse(body)
    const paying = isSolana ? JS_SOLANA(new URL(url).origin) : JS_EVM
    const base = url.slice(0, url.lastIndexOf('/chat/completions'))
    return [
      "// npm install openai",
      "import OpenAI from \\"openai\\"",
      paying + "const openai = new OpenAI({ baseURL: '" + base + "', apiKey: 'none', fetch: pay })",
      "const answer = await openai.chat.completions.create(" + JSON.stringify(ordered, null, 2) + ")",
      "console.log(answer.choices[0].message.content)",
    ].join('\\n')
  },
}

// Base units of USDC, which has six digits.
const usdc = (units) => (/^\\d+$/.test(units) ? Number(units) / 1e6 + ' USDC' : units)
const decoded = (header) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(header), (c) => c.charCodeAt(0))))
const row = (name, value) => make('tr', {}, make('th', { scope: 'row', textContent: name }), make('td', {}, value))
const code = (text) => make('code', { textContent: text })
const MAX_SHOWN = 20000

function quote(header, path) {
  const { accepts = [] } = decoded(header)
  const offers = accepts.map(({ scheme, network, amount, asset, payTo }) =>
    make('table', {}, make('tbody', {}, row('Price', (scheme === 'exact' ? '' : 'at most ') + usdc(amount)), row('Scheme', scheme + ' on ' + network),
      row('Asset', code(asset)), row('Paid to', code(payTo)))))
  const link = make('a', { href: path, textContent: 'Open it in the browser to pay' })
  const asked = accepts.length ? 'This call costs money. The gateway asks, and nothing was charged:' : 'A wallet has to sign.'
  return [make('p', { textContent: asked }), ...offers, ...(accepts.length ? [make('p', {}, link)] : [])]
}

async function send({ method, path, body }) {
  const reply = await window.fetch(path, {
    method,
    headers: body === undefined ? {} : { 'content-type': 'application/json' },
    body,
  })
  const text = await reply.text()
  let shown = text
  try { shown = JSON.stringify(JSON.parse(text), null, 2) } catch {}
  const cut = shown.length > MAX_SHOWN ? shown.slice(0, MAX_SHOWN) + '\\n…' : shown
  const demand = reply.headers.get('payment-required')
  return [
    make('p', {}, make('b', { textContent: reply.status + ' ' + reply.statusText })),
    ...(reply.status === 402 && demand ? quote(demand, path) : []),
    make('pre', { textContent: cut, tabIndex: 0, role: 'group', ariaLabel: 'Reply' }),
  ]
}

function tryOf(section, example) {
  const { pathname, search } = new URL(example.url)
  const name = section.querySelector('h3').textContent
  const path = make('input', { value: pathname + search, spellcheck: false, ariaLabel: 'Path of ' + name })
  const body = make('textarea', { spellcheck: false, ariaLabel: 'Body of ' + name })
  if (example.body !== undefined) body.value = JSON.stringify(JSON.parse(example.body), null, 2)
  body.rows = Math.min(body.value.split('\\n').length, 16)
  const button = make('button', { type: 'submit', textContent: example.isPaid ? 'Ask for the price' : 'Send' })
  const out = make('div', { className: 'out', role: 'status' })
  const form = make('form', { className: 'try' }, make('b', { textContent: 'Try it' }), path,
    ...(example.body === undefined ? [] : [body]), button, out)
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    button.disabled = true
    try {
      // The page calls this gateway alone; its policy allows no other.
      if (!/^\\/(?!\\/)/.test(path.value)) throw new Error('The path must begin with one slash.')
      const sent = example.body === undefined ? undefined : body.value
      out.replaceChildren(...(await send({ method: example.method, path: path.value, body: sent })))
    } catch (error) {
      out.replaceChildren(make('p', { textContent: 'It was not sent, or not answered: ' + error.message }))
    }
    button.disabled = false
  })
  return form
}

// Tabs and the form are made when an example is opened. The chosen language is that of every section.
let language = 'curl'
const shown = new Set()
function enrich(section, details) {
  const example = exampleOf(section)
  if (!example) return
  const pre = details.querySelector('pre.curl')
  const isChat = /\\/chat\\/completions$/.test(example.url)
  const names = Object.keys(WRITE).filter((name) => name !== 'OpenAI SDK' || isChat)
  const buttons = names.map((name) => make('button', { type: 'button', textContent: name, onclick: () => choose(name) }))
  const copy = make('button', { type: 'button', textContent: 'Copy', className: 'copy' })
  copy.onclick = async () => {
    await navigator.clipboard.writeText(pre.textContent)
    copy.textContent = 'Copied'
  }
  const group = make('div', { className: 'tabs', role: 'group', ariaLabel: 'Language' }, ...buttons, copy)
  pre.before(group)
  pre.after(tryOf(section, example))
  shown.add(() => {
    const name = names.includes(language) ? language : 'curl'
    for (const button of buttons) button.ariaPressed = String(button.textContent === name)
    pre.textContent = WRITE[name](example)
    copy.textContent = 'Copy'
  })
}
function choose(name) {
  language = name
  for (const show of shown) show()
}
for (const section of sections) {
  const details = section.querySelector('details.example')
  details?.addEventListener('toggle', () => { enrich(section, details); choose(language) }, { once: true })
}
`
