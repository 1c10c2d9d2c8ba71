/**
 * `farebox buy`: pays with the unmodified @x402/fetch client, with devnet's funded buyer or with the key in
 * FAREBOX_BUYER_KEY.
 */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { listenUrl } from '../config/mod.ts'
import { type Command, type Io, overridden, readOptions, UsageError } from './command.ts'
import { buyMusic, buySpeech } from './buy/audio.ts'
import { buyChat } from './buy/chat.ts'
import { buyImages } from './buy/images.ts'
import { buyVideo } from './buy/video.ts'
import { atomic, gatewayUrl } from './buy/gateway.ts'

const HELP = `Buys one call from a gateway and pays for it, with the unmodified @x402/fetch client.

Usage: farebox buy images "<prompt>" [--model ID] [--size WxH] [--n N] [--out FILE]
       farebox buy video "<prompt>" [--model ID] [--seconds N] [--resolution R] [--image URL] [--out FILE]
       farebox buy chat "<prompt>" [--model ID] [--system TEXT] [--max-tokens N]
       farebox buy speech "<text>" [--model ID] [--voice NAME] [--format F] [--out FILE]
       farebox buy music "<prompt>" [--model ID] [--seconds N] [--lyrics TEXT] [--out FILE]
       farebox buy --channel --show | --close

Options for every product:
  --url         URL of the gateway (FAREBOX_URL; default: where farebox.toml and PORT let it listen on this machine)
  --config      the configuration file of that gateway (FAREBOX_CONFIG; default: farebox.toml)
  --gateway     name of a devnet gateway: devnet, solana, nano or testnet
  --max-price   highest price to pay, in USDC (default: 1 with real money, no limit on devnet)
  --rpc         URL of an RPC node to read the wallet's balance from (devnet: its own chain)
  --channel     pay by a channel (batch-settlement): deposit once, then sign a voucher for each call, which
                is charged what it used. The channel is kept in ~/.farebox/channels and used again.
  --deposit     how much to deposit when the channel has too little, in USDC (default: the gateway's
                smallest deposit, if it is not above --max-price)
  --show        with --channel: say what was deposited and charged, and what is left
  --close       with --channel: have what is left sent back; says how to withdraw where the gateway does not
  --model       model to use, as listed at /api/v1/models (default: the cheapest that makes what is
                ordered; for chat farebox/echo where there is one)

Options of some products:
  --out         file to save to (default: farebox-<time>.<type>; further images get -1, -2, ...)
  --size        image size, such as 1024x1024
  --n           number of images
  --seconds     length of the video or the music; the price depends on it
  --resolution  video resolution: 480p, 720p, 1080p or 4K
  --image       URL of the video's first frame
  --voice       voice to speak with, as listed at /api/v1/audio/voices
  --format      audio format: mp3, opus, pcm or wav
  --lyrics      text to sing (default: instrumental music)
  --system      system prompt
  --max-tokens  maximum length of the answer in tokens; the price depends on it

Environment:
  FAREBOX_BUYER_KEY  private key of the wallet to pay from; not needed on devnet

Examples:
  farebox buy chat "Why is the sky blue?"
  farebox buy images "a red fox in the snow" --out fox.png
  farebox buy chat "Hello" --url https://ai.example.com --max-price 0.05
  farebox buy chat "Hello" --channel
  farebox buy --channel --close`

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const options = {
  url: text,
  config: text,
  gateway: text,
  rpc: text,
  'max-price': text,
  channel: flag,
  deposit: text,
  show: flag,
  close: flag,
  model: text,
  size: text,
  n: text,
  out: text,
  seconds: text,
  resolution: text,
  image: text,
  system: text,
  'max-tokens': text,
  voice: text,
  format: text,
  lyrics: text,
}
/** The options that only some products take. */
const productOptions: Readonly<Record<string, readonly string[]>> = {
  images: ['size', 'n', 'out'],
  video: ['seconds', 'resolution', 'image', 'out'],
  chat: ['system', 'max-tokens'],
  speech: ['voice', 'format', 'out'],
  music: ['seconds', 'lyrics', 'out'],
}

async function buy(args: readonly string[], io: Io): Promise<void> {
  const { values, positionals } = readOptions(args, options)
  for (const name of ['deposit', 'show', 'close'] as const)
    if (values[name] && !values.channel) throw new UsageError(`--${name} is an option of channels: add --channel`)
  const local = () => listenUrl(overridden(io.env, { FAREBOX_CONFIG: values.config }))
  const originOf = async (): Promise<string> => {
    const url = (values.url ?? io.env.FAREBOX_URL ?? local()).replace(/\/$/, '')
    return values.gateway === undefined ? url : await gatewayUrl(url, values.gateway)
  }
  const key = io.env.FAREBOX_BUYER_KEY || undefined
  const deposit = dollars('--deposit', values.deposit)
  const channel = values.channel && {
    deposit: deposit === undefined ? undefined : atomic(deposit),
    directory: join(io.env.HOME ?? homedir(), '.farebox/channels'),
  }
  const [product = '', ...rest] = positionals
  if (channel && (values.show || values.close)) {
    if (product !== '') throw new UsageError('--show and --close buy nothing: leave out what to buy')
    if (values.show && values.close) throw new UsageError('use one of --show and --close')
    const { showChannel, closeChannel } = await import('./buy/channel.ts')
    const run = values.show ? showChannel : closeChannel
    return await run({ origin: await originOf(), rpc: values.rpc, key, channel })
  }
  const prompt = rest.join(' ').trim()
  const allowed = productOptions[product]
  if (!allowed)
    throw new UsageError(
      `the first argument is what to buy: ${Object.keys(productOptions).join(', ')}${product && `; not ${product}`}`,
    )
  if (prompt === '') throw new UsageError(`say what to make: farebox buy ${product} "..."`)
  for (const [other, names] of Object.entries(productOptions)) {
    const misplaced = names.find((name) => Object.hasOwn(values, name) && !allowed.includes(name))
    if (misplaced) throw new UsageError(`--${misplaced} is an option of ${other}, not of ${product}`)
  }
  const maxPrice = dollars('--max-price', values['max-price'])
  const origin = await originOf()
  const shared = { origin, prompt, rpc: values.rpc, model: values.model, maxPrice, key, ...(channel && { channel }) }
  if (product === 'chat')
    return await buyChat({
      ...shared,
      system: values.system,
      maxTokens: wholeNumber('--max-tokens', values['max-tokens']),
    })
  if (product === 'video') {
    const { resolution, image, out } = values
    return await buyVideo({ ...shared, seconds: wholeNumber('--seconds', values.seconds), resolution, image, out })
  }
  if (product === 'speech')
    return await buySpeech({ ...shared, voice: values.voice, format: values.format, out: values.out })
  if (product === 'music')
    return await buyMusic({
      ...shared,
      seconds: wholeNumber('--seconds', values.seconds),
      lyrics: values.lyrics,
      out: values.out,
    })
  await buyImages({ ...shared, size: values.size, n: wholeNumber('--n', values.n), out: values.out })
}

function wholeNumber(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value)
  throw new UsageError(`${option} takes a whole number, not ${JSON.stringify(value)}`)
}

function dollars(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}(\.\d{1,6})?$/.test(value)) return Number(value)
  throw new UsageError(`${option} takes an amount in USDC such as 2.50, not ${JSON.stringify(value)}`)
}

export const command: Command = {
  name: 'buy',
  summary: 'buy one call from a gateway: chat, images, video, speech, music',
  help: HELP,
  async run(args, io) {
    await buy(args, io)
    return 0
  },
}
