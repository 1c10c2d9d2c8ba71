/** Buys a spoken text, or a piece of music, and saves it. */
import { access, constants, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { ask, type Asked, BuyError, openPurse, postJson, type Purse, quoted, refusal } from './buy_wallet.ts'

const POLL_MS = 3_000
/** A job that runs over one hour fails, uncharged. */
const GIVE_UP_MS = 65 * 60_000
/** The job goes on: the next poll may find it ready. */
const PASSING = [202, 429, 503, 504]

type Ordered = Asked & { readonly out: string | undefined }
type Speech = Ordered & { readonly voice: string | undefined; readonly format: string | undefined }
type Music = Ordered & { readonly seconds: number | undefined; readonly lyrics: string | undefined }
type Sound = { readonly url: string; readonly duration_seconds?: number; readonly note?: string }
type Result = {
  readonly data: readonly Sound[]
  readonly payment?: { readonly status: string; readonly tx_hash: string; readonly network: string }
}
type Job = { readonly id: string; readonly status: string; readonly poll_url: string; readonly error?: string }

/** One shot: the receipt is in the headers. */
export async function buySpeech(asked: Speech): Promise<void> {
  const { origin, prompt, model, voice, format, out } = asked
  await checkOut(out)
  const order = postJson({
    input: prompt,
    ...(model && { model }),
    ...(voice && { voice }),
    ...(format && { response_format: format }),
  })
  const target = `${origin}/api/v1/audio/speech`
  const offer = await quoted(await ask(target, order))
  const purse = await openPurse(asked, offer)
  const response = await purse.pay(target, order)
  const body = (await response.json()) as Result
  if (response.status !== 200) throw refusal(response.status, body)
  console.log(
    `paid      ${response.headers.get('x-payment-status')} on ${offer.network}, transaction ${response.headers.get('x-payment-receipt')}`,
  )
  await purse.spent()
  await deliver('speech', body, out)
}

/** Instrumental, unless lyrics are given to sing. */
export async function buyMusic(asked: Music): Promise<void> {
  const { origin, prompt, model, seconds, lyrics, out } = asked
  await checkOut(out)
  const order = postJson({
    prompt,
    ...(model && { model }),
    ...(lyrics ? { lyrics } : { instrumental: true }),
    ...(seconds !== undefined && { duration_seconds: seconds }),
  })
  const target = `${origin}/api/v1/audio/generations`
  const purse = await openPurse(asked, await quoted(await ask(target, order)))
  const result = await collect(purse, origin, await purse.pay(target, order))
  const { status, network, tx_hash } = result.payment ?? {}
  console.log(`paid      ${status} on ${network}, transaction ${tx_hash}`)
  await purse.spent()
  await deliver('music', result, out)
}

async function checkOut(out: string | undefined): Promise<void> {
  if (out === undefined) return
  await access(dirname(resolve(out)), constants.W_OK).catch(() => {
    throw new BuyError('--out names a folder that cannot be written to')
  })
}

/** Follows a job to its result, with the payment that submitted it. The poll that finds it ready is charged, once. */
async function collect({ again }: Purse, origin: string, first: Response): Promise<Result> {
  const answer = (await first.json()) as Result & Job
  if (first.status === 200 && answer.payment) return answer
  if (first.status !== 202) throw refusal(first.status, answer)
  console.log(`waiting   ${answer.id} is ${answer.status}`)
  const giveUpAt = Date.now() + GIVE_UP_MS
  while (Date.now() < giveUpAt) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    const response = await again(origin + answer.poll_url)
    const body = (await response.json()) as Result & Job
    if (response.status === 200 && body.payment) return body
    if (response.status === 200)
      throw new BuyError(`The music ${body.status}: ${body.error ?? 'no reason was given'} Nothing was charged.`)
    if (!PASSING.includes(response.status)) throw refusal(response.status, body)
    if (response.status === 202) console.log(`waiting   ${answer.id} is ${body.status}`)
  }
  throw new BuyError(`The music is not ready yet. Nothing was charged; it stays at ${origin}${answer.poll_url}`)
}

async function deliver(product: string, { data }: Result, out: string | undefined): Promise<void> {
  for (const { url, duration_seconds: seconds, note } of data) {
    console.log(`hosted    ${url.slice(0, 200)}`)
    console.log(
      `${product.padEnd(10)}${await save(url, out)}${seconds === undefined ? '' : `, ${Math.round(seconds * 10) / 10} s`}`,
    )
    if (note) console.log(`note      ${note}`)
  }
}

const EXTENSIONS: Readonly<Record<string, string>> = {
  'audio/mpeg': 'mp3',
  'audio/ogg': 'ogg',
  'audio/wav': 'wav',
  'audio/pcm': 'pcm',
}

async function save(url: string, out: string | undefined): Promise<string> {
  const response = await fetch(url)
  if (!response.ok || !response.body)
    throw new BuyError(`${response.status}: the sound could not be fetched; it stays at its URL`)
  const type = response.headers.get('content-type')?.split(';', 1)[0] ?? ''
  const path = out ?? `farebox-${Date.now()}.${EXTENSIONS[type] ?? 'audio'}`
  await writeFile(path, response.body)
  return path
}
