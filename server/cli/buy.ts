/**
 * The buyer's command: `bun run buy -- images "a red fox in the snow"`, `bun run buy -- video "a red fox runs through the snow"`,
 * `bun run buy -- chat "Why is the sky blue?"`, `bun run buy -- speech "Hello"`, `bun run buy -- music "calm piano"`.
 * Pays with the official @x402/fetch client, unchanged; on devnet with the funded buyer, elsewhere with the key in FAREBOX_BUYER_KEY.
 */
import { parseArgs } from 'node:util'
import { buyMusic, buySpeech } from './buy_audio.ts'
import { buyChat } from './buy_chat.ts'
import { buyImages } from './buy_images.ts'
import { buyVideo } from './buy_video.ts'
import { BuyError, gatewayAt } from './buy_wallet.ts'

const USAGE = `usage: bun run buy -- images "<prompt>" [--model ID] [--size WxH] [--n N] [--out FILE]
       bun run buy -- video "<prompt>" [--model ID] [--seconds N] [--resolution R] [--image URL] [--out FILE]
       bun run buy -- chat "<words>" [--model ID] [--system TEXT] [--max-tokens N]
       bun run buy -- speech "<words>" [--model ID] [--voice NAME] [--format F] [--out FILE]
       bun run buy -- music "<prompt>" [--model ID] [--seconds N] [--lyrics TEXT] [--out FILE]

  --url         the gateway (default FAREBOX_URL, or http://127.0.0.1:4020)
  --gateway     on devnet, the one of this name: devnet, solana, nano or testnet
  --most        the dearest purchase to pay for, in USDC (default 1; play money has no limit)
  --rpc         the chain to read the balance from, where it is not devnet
  --model       the gateway lists them at /api/v1/models; images default to vendor-a/image-1, video to vendor-c/video-1 or
                the first that is made, chat to the echo model or the first paid model
  --out         where the video, sound or first image goes (default farebox-<time>.<type>; further images get -1, -2, ...)
  --seconds     how long the video is, which the quote depends on; --resolution is 480p, 720p, 1080p or 4K, --image its first frame
  --voice       who speaks, as /api/v1/audio/voices lists them; --format is mp3, opus, pcm or wav; --lyrics is what is sung
  --system      what the model is told before the words
  --max-tokens  the longest answer, which the quote depends on
  FAREBOX_BUYER_KEY  the wallet that pays, where it is not devnet`

const text = { type: 'string' } as const
const options = {
  url: text,
  gateway: text,
  rpc: text,
  most: text,
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
/** Options that not every product knows. */
const own: Readonly<Record<string, readonly string[]>> = {
  images: ['size', 'n', 'out'],
  video: ['seconds', 'resolution', 'image', 'out'],
  chat: ['system', 'max-tokens'],
  speech: ['voice', 'format', 'out'],
  music: ['seconds', 'lyrics', 'out'],
}

async function buy(args: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options })
  const [product = '', ...words] = positionals
  const prompt = words.join(' ').trim()
  const known = own[product]
  if (!known || prompt === '') throw new BuyError(USAGE)
  for (const [other, names] of Object.entries(own)) {
    const stray = names.find((name) => Object.hasOwn(values, name) && !known.includes(name))
    if (stray) throw new BuyError(`--${stray} is an option of ${other}\n\n${USAGE}`)
  }
  const url = (values.url ?? process.env.FAREBOX_URL ?? 'http://127.0.0.1:4020').replace(/\/$/, '')
  const most = dollars('--most', values.most)
  const origin = values.gateway === undefined ? url : await gatewayAt(url, values.gateway)
  const shared = { origin, prompt, rpc: values.rpc, model: values.model, most }
  if (product === 'chat')
    return await buyChat({ ...shared, system: values.system, maxTokens: count('--max-tokens', values['max-tokens']) })
  if (product === 'video') {
    const { resolution, image, out } = values
    return await buyVideo({ ...shared, seconds: count('--seconds', values.seconds), resolution, image, out })
  }
  if (product === 'speech')
    return await buySpeech({ ...shared, voice: values.voice, format: values.format, out: values.out })
  if (product === 'music')
    return await buyMusic({
      ...shared,
      seconds: count('--seconds', values.seconds),
      lyrics: values.lyrics,
      out: values.out,
    })
  await buyImages({ ...shared, size: values.size, n: count('--n', values.n), out: values.out })
}

function count(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value)
  throw new BuyError(`${option} takes a whole number, not ${JSON.stringify(value)}\n\n${USAGE}`)
}

function dollars(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}(\.\d{1,6})?$/.test(value)) return Number(value)
  throw new BuyError(`${option} takes an amount such as 2.50, not ${JSON.stringify(value)}\n\n${USAGE}`)
}

try {
  await buy(process.argv.slice(2))
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
}
