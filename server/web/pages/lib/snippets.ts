/** Code that buys one request here, in the languages that buyers use. Nothing in it has to be filled in but a key. */

/** A request that costs money, as a program sends it: a POST, unless it says otherwise. */
export type Example = { readonly method?: 'GET' | 'POST'; readonly path: string; readonly body?: unknown }

export type Snippet = readonly [name: string, code: string]

const indent = (text: string, spaces: number): string => text.replaceAll('\n', `\n${' '.repeat(spaces)}`)

/** The paying `fetch` that every JavaScript snippet begins with. */
const payingFetch = `import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'

const client = new ExactEvmScheme(privateKeyToAccount(process.env.WALLET_KEY))
const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: 'eip155:*', client }] })
`

/** The gateway answers what a client must ask Solana before it pays, without a payment. */
const payingSolanaFetch = (
  origin: string,
) => `import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit'
import { ExactSvmScheme } from '@x402/svm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'

const signer = await createKeyPairSignerFromBytes(getBase58Encoder().encode(process.env.WALLET_KEY))
const client = new ExactSvmScheme(signer, { rpcUrl: '${origin}/api/v1/solana/rpc' })
const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: 'solana:*', client }] })
`

const payingPython = `# pip install "x402[evm,requests]"
import os
from eth_account import Account
from x402 import x402ClientSync
from x402.http.clients import x402_requests
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact.register import register_exact_evm_client

client = x402ClientSync()
register_exact_evm_client(client, EthAccountSigner(Account.from_key(os.environ["WALLET_KEY"])))
`

const payingSolanaPython = `# pip install "x402[svm,requests]"
import os
from x402 import x402ClientSync
from x402.http.clients import x402_requests
from x402.mechanisms.svm import KeypairSigner
from x402.mechanisms.svm.exact.register import register_exact_svm_client

client = x402ClientSync()
register_exact_svm_client(client, KeypairSigner.from_base58(os.environ["WALLET_KEY"]))
`

const CURL_NOTE = '# The answer is 402 with the exact price; a wallet signs it, and the same request is sent again.'

/** Work that takes long is a job, which the poll that finds it done pays for. It is charged once. */
const collect = (origin: string) => `while (reply.status === 202) {
  const { poll_url } = await reply.json()
  await new Promise((done) => setTimeout(done, 3000))
  reply = await pay(new URL(poll_url, '${origin}'))
}
`

/** The snippets for a request. Those of the SDKs come only with a chat, which is what they speak. */
export function snippetsOf(
  { method = 'POST', path, body: ordered = {} }: Example,
  { origin, network, command }: { readonly origin: string; readonly network: string; readonly command: string },
): readonly Snippet[] {
  const isSolana = network.startsWith('solana')
  const packages = isSolana ? '@solana/kit @x402/fetch @x402/svm' : '@x402/evm @x402/fetch viem'
  const installed = (sdk: string, imported: string) => `// npm install ${sdk} ${packages}\n${imported}`
  const paying = isSolana ? payingSolanaFetch(origin) : payingFetch
  const python = isSolana ? payingSolanaPython : payingPython
  // A client of MCP starts it in a folder of its own.
  const [program = '', ...words] = command.replace(/ run farebox$/, ' run --cwd /path/to/checkout farebox').split(' ')
  if (method === 'GET')
    return [
      [
        'fetch',
        `// npm install ${packages}\n${paying}\nconst reply = await pay('${origin}${path}')\nconsole.log(await reply.json())`,
      ],
      ['curl', `${CURL_NOTE}\ncurl -i '${origin}${path}'`],
      ['Python', `${python}\nreply = x402_requests(client).get("${origin}${path}")\nprint(reply.json())`],
    ]
  // The snippets print whole answers.
  const { stream: _, ...body } = ordered as Readonly<Record<string, unknown>>
  const json = JSON.stringify(body, null, 2)
  const { model, messages } = body as { model?: string; messages?: unknown }
  const isChat = messages !== undefined && model !== undefined
  return [
    [
      'fetch',
      `// npm install ${packages}
${paying}
${isChat ? 'const' : 'let'} reply = await pay('${origin}${path}', {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(${indent(json, 2)}),
})
${isChat ? 'const { choices } = await reply.json()\nconsole.log(choices[0].message.content)' : `${collect(origin)}console.log(await reply.json())`}`,
    ],
    ...(isChat
      ? ([
          [
            'OpenAI SDK',
            `${installed('openai', "import OpenAI from 'openai'")}
${paying}
const openai = new OpenAI({ baseURL: '${origin}/api/v1', apiKey: 'none', fetch: pay })
const answer = await openai.chat.completions.create(${json})
console.log(answer.choices[0].message.content)`,
          ],
          [
            'Anthropic SDK',
            `${installed('@anthropic-ai/sdk', "import Anthropic from '@anthropic-ai/sdk'")}
${paying}
const anthropic = new Anthropic({ baseURL: '${origin}/api', apiKey: 'none', fetch: pay })
const answer = await anthropic.messages.create({
  model: '${model}',
  max_tokens: 256,
  messages: ${indent(JSON.stringify(messages), 2)},
})
console.log(answer.content)`,
          ],
        ] as const)
      : []),
    [
      'curl',
      `${CURL_NOTE}
curl -i ${origin}${path} \\
  -H 'content-type: application/json' \\
  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
    ],
    [
      'Python',
      `${python}
reply = x402_requests(client).post("${origin}${path}", json=${pythonOf(body)})
print(reply.json())`,
    ],
    [
      'MCP',
      `{
  "mcpServers": {
    "farebox": {
      "command": "${program}",
      "args": ${JSON.stringify([...words, 'mcp', '--url', origin])},
      "env": { "FAREBOX_BUYER_KEY": "0x…" }
    }
  }
}`,
    ],
    ...boughtByCommand({ path, body }, { origin, command }),
  ]
}

/** Names that `farebox buy` has for products, and the field that has the text. */
const COMMANDS: Readonly<Record<string, readonly [product: string, textOf: (body: Fields) => unknown]>> = {
  '/api/v1/chat/completions': ['chat', ({ messages }) => messages?.[0]?.content],
  '/api/v1/images/generations': ['images', ({ prompt }) => prompt],
  '/api/v1/videos/generations': ['video', ({ prompt }) => prompt],
  '/api/v1/audio/speech': ['speech', ({ input }) => input],
  '/api/v1/audio/generations': ['music', ({ prompt }) => prompt],
}
type Fields = {
  readonly model?: string
  readonly prompt?: string
  readonly input?: string
  readonly messages?: readonly { readonly content?: unknown }[]
}

function boughtByCommand(
  { path, body }: Example,
  { origin, command }: { readonly origin: string; readonly command: string },
): readonly Snippet[] {
  const [product, textOf] = COMMANDS[path] ?? []
  const text = textOf?.(body as Fields)
  if (product === undefined || typeof text !== 'string') return []
  const { model } = body as Fields
  const quoted = `'${text.replaceAll("'", "'\\''")}'`
  return [['farebox buy', `${command} buy ${product} ${quoted} --model ${model} --url ${origin}`]]
}

/** JSON as a Python literal. */
const pythonOf = (value: unknown): string =>
  JSON.stringify(value).replace(
    /("(?:\\.|[^"\\])*")|\b(true|false|null)\b/g,
    (_, text?: string, word?: string) =>
      text ?? ({ true: 'True', false: 'False', null: 'None' } as Record<string, string>)[word ?? ''] ?? '',
  )
