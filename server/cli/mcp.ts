/** `farebox mcp`: the tools of a gateway over standard input and output, paid by a local wallet within caps. */
import { homedir } from 'node:os'
import manifest from '../../package.json' with { type: 'json' }
import { optional } from '../../core/lib/mod.ts'
import { mcpServer } from '../mcp/mod.ts'
import { journalPath, openJournal } from '../buyer/journal.ts'
import { payingApi, type Wallet } from '../mcp/paying_api.ts'
import { type Operations, operationsOf, selectedTools, unknownTool } from '../mcp/tools.ts'
import { LOCAL_URL } from '../config/settings.ts'
import { BuyError, type Offer } from './buy/gateway.ts'
import { openWallet } from './buy/wallet.ts'
import { type Command, CommandError, readOptions, UsageError } from './command.ts'
import { microUsdc } from './lib/buyer_options.ts'

const HELP = `Serves what a gateway sells as MCP tools on standard input and output, for a client such as an editor or an
agent. It pays from a local wallet, within a cap for each call and for each day. What is above a cap is asked of
you where the client can ask, and refused otherwise.

Usage: farebox mcp [--url URL] [--tools WORDS] [--max-per-call USDC] [--max-per-day USDC]
                   [--spending FILE] [--rpc URL]

Options:
  --url           URL of the gateway (default: FAREBOX_URL, or ${LOCAL_URL})
  --tools         only these, such as chat,images: names of tools, or their first words (default: all)
  --max-per-call  highest price of one call, in USDC (default: 0.10)
  --max-per-day   most to spend between two midnights UTC, in USDC (default: 1)
  --spending      file that has what was spent today (default: ~/.farebox/spending.db,
                  which farebox proxy shares)
  --rpc           URL of a node of the chain: what it says was never spent, and cannot be any longer, no longer counts

Environment:
  FAREBOX_BUYER_KEY  private key of the wallet to pay from; not needed on devnet

Examples:
  farebox mcp --url https://ai.example.com --max-per-call 0.05 --max-per-day 2

In the configuration of a client:
  { "mcpServers": { "farebox": { "command": "farebox", "args": ["mcp", "--url", "https://ai.example.com"] } } }`

const text = { type: 'string' } as const

export const command: Command = {
  name: 'mcp',
  summary: 'serve a gateway as MCP tools, paid by a local wallet within caps',
  help: HELP,
  async run(args, io) {
    const options = { url: text, tools: text, 'max-per-call': text, 'max-per-day': text, spending: text, rpc: text }
    const { values } = readOptions(args, options, 0)
    const url = (values.url ?? io.env.FAREBOX_URL ?? LOCAL_URL).replace(/\/+$/, '')
    if (!/^https?:\/\//.test(url) || !URL.canParse(url))
      throw new UsageError(`--url must be an http or https URL, got ${JSON.stringify(url)}`)
    const caps = {
      perCall: microUsdc('--max-per-call', values['max-per-call'] ?? '0.10'),
      perDay: microUsdc('--max-per-day', values['max-per-day'] ?? '1'),
    }
    const path = values.spending ?? journalPath(io.env.HOME ?? homedir())
    const words = values.tools?.split(',').map((word) => word.trim())
    const document = async (): Promise<Operations> => {
      const reply = await fetch(`${url}/openapi.json`).catch(() => undefined)
      if (!reply?.ok) throw new CommandError(`Cannot read ${url}/openapi.json. Is a gateway running there?`)
      return await operationsOf(await reply.json())
    }
    const selected = (all: Operations) => (words === undefined ? all : selectedTools(all, words))
    const first = await document()
    const unknown = words && unknownTool(first, words)
    if (unknown)
      throw new UsageError(
        `--tools: no tool is called ${JSON.stringify(unknown.word)}; there are ${unknown.known.join(', ')}`,
      )
    let known = selected(first)
    const wallets = new Map<string, Promise<Wallet>>()
    const send = payingApi({
      caps,
      journal: openJournal(path, Date.now),
      wallet(offer: Offer) {
        const wallet =
          wallets.get(offer.network) ??
          openWallet({ origin: url, key: io.env.FAREBOX_BUYER_KEY, rpc: values.rpc }, offer)
        wallets.set(offer.network, wallet)
        return wallet
      },
    })
    const need = 'farebox mcp'
    const sdk = await optional('@modelcontextprotocol/server', need, () => import('@modelcontextprotocol/server'))
    const { serveStdio } = await import('@modelcontextprotocol/server/stdio')
    const operations = async (isFresh: boolean) => {
      if (isFresh) known = selected(await document())
      return known
    }
    serveStdio(() => mcpServer(sdk, { version: manifest.version, origin: url, operations, send: explained(send) }))
    io.err(`farebox mcp: ${known.size} tools of ${url}; at most ${values['max-per-call'] ?? '0.10'} USDC a call`)
    return undefined
  },
}

/** A wallet that cannot be opened is told to the client, in the words for a person. */
function explained(send: ReturnType<typeof payingApi>): ReturnType<typeof payingApi> {
  return async (request, context) => {
    try {
      return await send(request, context)
    } catch (error) {
      if (!(error instanceof BuyError)) throw error
      return Response.json({ error: 'Cannot pay', message: error.message }, { status: 403 })
    }
  }
}
