/** `farebox proxy`: lets programs that have only a base URL and an API key buy from a seller, within caps. */
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { privateKeyToAccount } from 'viem/accounts'
import { networkFacts } from '../../adapters/chains/families.ts'
import { inUsdc } from '../buyer/budget.ts'
import { journalPath, openJournal, testJournalPath } from '../buyer/journal.ts'
import { TOOL_LINES } from '../buyer/tool_lines.ts'
import type { Money } from '../buyer/wallet_file.ts'
import { LOCAL_URL } from '../config/settings.ts'
import type { Channel } from '../proxy/channels.ts'
import { listenLocally } from '../proxy/listen.ts'
import { type PaidCall, proxy, type Signer } from '../proxy/mod.ts'
import { payeeList, printable } from '../proxy/payees.ts'
import { proxyToken, tokenPath } from '../proxy/token.ts'
import type { Offer } from './buy/gateway.ts'
import { walletOf } from './buy/wallet.ts'
import { buyerKey } from './lib/buyer_key.ts'
import { type ChannelLimits, proxyChannel, usableChannels } from './lib/proxy_channel.ts'
import { takesUpto, uptoSigner } from './buy/evm_wallet.ts'
import { type Command, CommandError, type Io, readOptions, UsageError } from './command.ts'
import { isLocal, microUsdc } from './lib/buyer_options.ts'

const HELP = `Listens on this machine for programs that have a base URL and an API key field and no wallet: Claude Code,
Codex, opencode, Gemini CLI, Cursor, the SDKs. It passes their requests on to a seller, pays what the seller asks from
a local wallet, and passes answers and streams back as they arrive. What is above a cap is refused and costs nothing.

Usage: farebox proxy [--to URL] [--port N] [--max-per-call USDC] [--max-per-day USDC] [--max-per-session USDC]
                     [--models IDS] [--payees ADDRESSES] [--test] [--rpc URL] [--channel | --no-channel]
                     [--deposit USDC] [--new-token]
       farebox proxy env claude|codex|opencode|gemini|openai|anthropic [--port N] [--model ID]

Options:
  --to               base URL of the seller; /v1/... is appended (default: FAREBOX_URL, or ${LOCAL_URL})
  --port             port on 127.0.0.1 (default: 8402)
  --max-per-call     highest price of one call, in USDC (default: 0.10)
  --max-per-day      most to spend between two midnights UTC, in USDC (default: 5); every farebox proxy and farebox
                     mcp of this machine counts
  --max-per-session  most to spend until this proxy ends, in USDC (default: no limit of its own)
  --models           models that may be bought, separated by commas (default: any)
  --payees           addresses that may be paid, separated by commas (default: each is asked of you once, on a
                     terminal; without a terminal it is refused)
  --test             pay with test money, from the test wallet, on test networks only; a devnet on this machine
                     implies it
  --rpc              URL of a node of the chain (default: that of a devnet, or a public node of the network): what it
                     says was never spent, and cannot be any longer, no longer counts
  --channel          pay by a channel (batch-settlement) or not at all where the seller offers it. By default it is used
                     where it can be: one deposit, then each call is charged what it used, one after another; other
                     sellers are paid by upto, which is charged what was used, or by exact. farebox wallet close sends
                     the rest of a deposit back
  --no-channel       deposit nothing
  --deposit          how much to deposit in a channel, in USDC (default: the seller's smallest deposit, if it is not
                     above --max-per-day)
  --new-token        make a new token; programs with the former one are refused
  --model            env: the model to set

Environment:
  FAREBOX_BUYER_KEY  private key of the wallet to pay from (default: the file of farebox wallet new)

Examples:
  farebox proxy --to https://ai.example.com --max-per-day 2
  farebox proxy env claude --model vendor-g/chat-4`

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const options = {
  to: text,
  port: text,
  'max-per-call': text,
  'max-per-day': text,
  'max-per-session': text,
  models: text,
  payees: text,
  test: flag,
  rpc: text,
  channel: flag,
  'no-channel': flag,
  deposit: text,
  'new-token': flag,
  model: text,
}
type Values = ReturnType<typeof readOptions<typeof options>>['values']

export const command: Command = {
  name: 'proxy',
  summary: 'let programs with a base URL and a key field buy from a seller, within caps',
  help: HELP,
  async run(args, io) {
    const { values, positionals } = readOptions(args, options, 2)
    const [verb, tool] = positionals
    if (verb === 'env') return printLines(io, { tool, values })
    if (verb !== undefined) throw new UsageError(`proxy takes env, or nothing; not ${verb}`)
    if (values.model !== undefined) throw new UsageError('--model goes with farebox proxy env')
    await serve(io, values)
    return undefined
  },
}

const homeOf = ({ env }: Io): string => env.HOME ?? homedir()

function printLines(io: Io, { tool = '', values }: { readonly tool: string | undefined; readonly values: Values }) {
  const lines = Object.hasOwn(TOOL_LINES, tool) ? TOOL_LINES[tool] : undefined
  if (!lines) throw new UsageError(`env takes one of ${Object.keys(TOOL_LINES).join(', ')}`)
  const { model } = values
  if (model !== undefined && !/^[\w./:@-]{1,200}$/.test(model)) throw new UsageError('--model takes the id of a model')
  const base = `http://127.0.0.1:${portOf(values.port)}`
  io.out(lines({ base, variable: 'FAREBOX_PROXY_TOKEN', token: tokenOf(io, {}), model }))
  return 0
}

function tokenOf(io: Io, choice: { readonly isNew?: boolean }): string {
  try {
    return proxyToken(tokenPath(homeOf(io)), choice)
  } catch (error) {
    throw new CommandError((error as Error).message)
  }
}

async function serve(io: Io, values: Values): Promise<void> {
  const url = (values.to ?? io.env.FAREBOX_URL ?? LOCAL_URL).replace(/\/+$/, '')
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UsageError(`--to must be an http or https URL, got ${JSON.stringify(url)}`)
  if (url.startsWith('http:') && !isLocal(url))
    throw new UsageError('--to must be an https URL: over plain HTTP others could read and change what is paid')
  if (values['no-channel'] && (values.channel || values.deposit !== undefined))
    throw new UsageError('--no-channel goes with neither --channel nor --deposit')
  const caps = {
    perCall: microUsdc('--max-per-call', values['max-per-call'] ?? '0.10'),
    perDay: microUsdc('--max-per-day', values['max-per-day'] ?? '5'),
    perSession:
      values['max-per-session'] === undefined ? undefined : microUsdc('--max-per-session', values['max-per-session']),
  }
  let port = portOf(values.port)
  const to = await baseOf(url)
  const wallet = await walletFor(io, { url, isTest: values.test ?? false, rpc: values.rpc })
  const home = homeOf(io)
  const limits = !values['no-channel'] && {
    directory: join(home, '.farebox/channels'),
    deposit: values.deposit === undefined ? undefined : microUsdc('--deposit', values.deposit),
    maxDeposit: caps.perDay,
  }
  const path = wallet.money === 'test' ? testJournalPath(home) : journalPath(home)
  const journal = openJournal(path, Date.now)
  const handle = proxy({
    to,
    port: () => port,
    token: tokenOf(io, { isNew: values['new-token'] ?? false }),
    money: wallet.money,
    caps,
    journal,
    payees: payeeList({ path: join(dirname(path), 'payees.json'), only: listOf(values.payees), ask: io.ask }),
    models: listOf(values.models),
    signer: wallet.signer,
    ...(limits && {
      channel: (offer: Offer) => wallet.channel(offer, { ...limits, isForced: values.channel ?? false }),
    }),
    takesUpto: wallet.takesUpto,
    turnTimeout: () => new Promise((resolve) => void setTimeout(resolve, TURN_MS).unref()),
    now: Date.now,
    wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    report: (call) => io.err(lineOf(call, inUsdc(caps.perDay))),
  })
  port = listening(port, handle)
  io.err(`farebox proxy: http://127.0.0.1:${port} buys from ${to} with ${wallet.money} money`)
  io.err(
    `at most ${inUsdc(caps.perCall)} USDC a call and ${inUsdc(caps.perDay)} a day; farebox proxy env shows how to use it`,
  )
  if (limits)
    io.err(
      `a seller with channels gets a deposit of ${inUsdc(limits.deposit ?? limits.maxDeposit)} USDC at most, of which it is ` +
        'paid what was used; farebox wallet close returns the rest, and --no-channel deposits nothing',
    )
}

function listening(port: number, handle: (request: Request) => Promise<Response>): number {
  try {
    return listenLocally(port, handle).port
  } catch {
    throw new CommandError(
      `Port ${port} of 127.0.0.1 is taken. If another user took it, programs may have sent it the token: run this ` +
        'with another --port and with --new-token.',
    )
  }
}

/** How long a call waits for those before it in a channel, in milliseconds. Then it is paid by itself. */
const TURN_MS = 60_000

type Wallet = {
  readonly money: Money
  signer(offer: Offer): Promise<Signer>
  channel(offer: Offer, limits: ChannelLimits & { readonly isForced: boolean }): Promise<Channel | undefined>
  takesUpto(offer: Offer, extensions: Readonly<Record<string, unknown>>): Promise<boolean>
}

/** Opens the wallet of the money that this proxy pays with. The key stays in this process. */
async function walletFor(
  io: Io,
  { url, isTest, rpc }: { readonly url: string; readonly isTest: boolean; readonly rpc: string | undefined },
): Promise<Wallet> {
  const { key, money, rpcUrl } = await buyerKey(io, { url, isTest, rpc })
  const nodeOf = ({ network }: Offer) => rpcUrl ?? networkFacts(network)?.node
  const isEvm = ({ network }: Offer) => network.startsWith('eip155:') && key.startsWith('0x')
  const usable = usableChannels(key, Date.now)
  const opened = new Map<string, ReturnType<typeof walletOf>>()
  return {
    money,
    async channel(offer, { isForced, ...limits }) {
      const options = { offer, rpcUrl: nodeOf(offer), origin: new URL(url).origin, limits }
      if (isForced) return await proxyChannel(key, options)
      return isEvm(offer) ? await usable(options) : undefined
    },
    takesUpto: async (offer, extensions) =>
      isEvm(offer) && (await takesUpto(key, { offer, rpcUrl: nodeOf(offer), extensions })),
    async signer(offer) {
      // A key in hex signs for EVM networks, a key in base58 for Solana.
      if (offer.network.startsWith('eip155:') !== key.startsWith('0x'))
        throw new Error(`the wallet has no key for ${printable(offer.network)}`)
      const name = `${offer.network} ${offer.asset}`
      const wallet = opened.get(name) ?? walletOf(key, { rpcUrl: nodeOf(offer), offer, origin: url })
      opened.set(name, wallet)
      const { scheme, isUnspent, balance } = await wallet
      if (offer.scheme === 'upto') return { balance, ...(await uptoSigner(key, { rpcUrl: nodeOf(offer) })) }
      const client = scheme.client as unknown as Payer
      return {
        isUnspent,
        balance,
        ...(key.startsWith('0x') && { account: privateKeyToAccount(key as `0x${string}`) }),
        // Extensions are not handed over: one of them asks for an allowance.
        sign: async (taken) => ({ payload: (await client.createPaymentPayload(2, taken)).payload }),
      }
    },
  }
}

type Payer = {
  createPaymentPayload(version: 2, offer: Offer): Promise<{ readonly payload: Readonly<Record<string, unknown>> }>
}

/** A Farebox gateway sells below `/api`; other sellers below the URL that is given. */
async function baseOf(url: string): Promise<string> {
  if (new URL(url).pathname !== '/') return url
  const reply = await fetch(`${url}/api/v1/models`, { redirect: 'manual' }).catch(() => {
    throw new CommandError(`Nothing answers at ${url}. Is a seller running there?`)
  })
  await reply.body?.cancel()
  return reply.ok && (reply.headers.get('content-type') ?? '').includes('json') ? `${url}/api` : url
}

function lineOf(call: PaidCall, perDay: string): string {
  const { method, path, model, status, paid, today, left, balance, receipt, isReplay } = call
  const what = [method, path, model ?? '', String(status)].map(printable).filter(Boolean).join(' ')
  const price = isReplay ? `payment of an earlier request, ${paid} USDC` : `${paid} USDC`
  const inWallet = balance === undefined ? '' : `, ${balance} left in the wallet`
  const rest = left === undefined ? inWallet : `, ${left} left in the channel`
  return `${what}: ${price}, today ${today} of ${perDay}${rest}${receipt ? `, receipt ${printable(receipt)}` : ''}`
}

function listOf(given: string | undefined): readonly string[] | undefined {
  const items = given?.split(',').map((each) => each.trim())
  if (items?.some((each) => each === '')) throw new UsageError('a list is separated by commas, without empty items')
  return items
}

function portOf(given: string | undefined): number {
  if (given === undefined) return 8402
  if (/^\d{1,5}$/.test(given) && Number(given) < 65_536) return Number(given)
  throw new UsageError(`--port takes a number below 65536, not ${JSON.stringify(given)}`)
}
