/** Buys speech or a piece of music, and saves it. */
import { checkOutput, collectJob, download } from './job.ts'
import { errorFrom, fetchGateway, paidLine, postJson, type PurchaseOptions, readQuote } from './gateway.ts'
import { createPaymentClient } from './wallet.ts'

type AudioOptions = PurchaseOptions & { readonly out: string | undefined }
type SpeechOptions = AudioOptions & { readonly voice: string | undefined; readonly format: string | undefined }
type MusicOptions = AudioOptions & { readonly seconds: number | undefined; readonly lyrics: string | undefined }
type AudioFile = { readonly url: string; readonly duration_seconds?: number; readonly note?: string }
type Result = { readonly data: readonly AudioFile[] }

/** Buys speech. It is made inline, so the receipt is in the response headers. */
export async function buySpeech(options: SpeechOptions): Promise<void> {
  const { origin, prompt, model, voice, format, out } = options
  await checkOutput(out)
  const init = postJson({
    input: prompt,
    ...(model && { model }),
    ...(voice && { voice }),
    ...(format && { response_format: format }),
  })
  const url = `${origin}/api/v1/audio/speech`
  const offer = await readQuote(await fetchGateway(url, init), options)
  const client = await createPaymentClient(options, offer)
  const response = await client.pay(url, init)
  const body = (await response.json()) as Result
  if (response.status !== 200) throw errorFrom(response.status, body)
  const [status, transaction] = ['x-payment-status', 'x-payment-receipt'].map((name) => response.headers.get(name))
  console.log(paidLine(status ?? '', { network: offer.network, tx_hash: transaction ?? '' }))
  await client.printBalance()
  await saveAll('speech', { files: body.data, out })
}

/** Buys music: instrumental, unless lyrics are given. */
export async function buyMusic(options: MusicOptions): Promise<void> {
  const { origin, prompt, model, seconds, lyrics, out } = options
  await checkOutput(out)
  const init = postJson({
    prompt,
    ...(model && { model }),
    ...(lyrics ? { lyrics } : { instrumental: true }),
    ...(seconds !== undefined && { duration_seconds: seconds }),
  })
  const url = `${origin}/api/v1/audio/generations`
  const client = await createPaymentClient(options, await readQuote(await fetchGateway(url, init), options))
  const submitted = await client.pay(url, init)
  const { data, payment } = await collectJob<Result>('music', { origin, client, submitted })
  console.log(paidLine(payment.status, payment))
  await client.printBalance()
  await saveAll('music', { files: data, out })
}

async function saveAll(
  product: string,
  { files, out }: { files: readonly AudioFile[]; out: string | undefined },
): Promise<void> {
  const pathFor = (type: string) => out ?? `farebox-${Date.now()}.${EXTENSIONS[type] ?? 'audio'}`
  for (const { url, duration_seconds: seconds, note } of files) {
    console.log(`hosted    ${url.slice(0, 200)}`)
    const path = await download(url, { product, pathFor })
    console.log(`${product.padEnd(10)}${path}${seconds === undefined ? '' : `, ${Math.round(seconds * 10) / 10} s`}`)
    if (note) console.log(`note      ${note}`)
  }
}

const EXTENSIONS: Readonly<Record<string, string>> = {
  'audio/mpeg': 'mp3',
  'audio/ogg': 'ogg',
  'audio/wav': 'wav',
  'audio/pcm': 'pcm',
}
