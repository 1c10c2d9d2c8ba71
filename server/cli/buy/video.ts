/** Buys a video: submits the job, prints its progress, and saves the file once it is paid for. */
import { checkOutput, collectJob, download } from './job.ts'
import { cheapestVideoModel } from './models.ts'
import { fetchGateway, paidLine, postJson, type PurchaseOptions, readQuote } from './gateway.ts'
import { createPaymentClient } from './wallet.ts'

type VideoOptions = PurchaseOptions & {
  readonly seconds: number | undefined
  readonly resolution: string | undefined
  readonly image: string | undefined
  readonly out: string | undefined
}
type VideoFile = { readonly url: string; readonly duration_seconds: number; readonly backed_up: boolean }
type Result = { readonly data: readonly VideoFile[] }

export async function buyVideo(options: VideoOptions): Promise<void> {
  const { origin, prompt, seconds, resolution, image, out } = options
  const model = options.model ?? (await cheapestVideoModel(origin, { seconds, resolution }))
  await checkOutput(out)
  const init = postJson({
    model,
    prompt,
    ...(seconds !== undefined && { duration_seconds: seconds }),
    ...(resolution && { resolution }),
    ...(image && { image_url: image }),
  })
  const url = `${origin}/api/v1/videos/generations`
  const client = await createPaymentClient(options, await readQuote(await fetchGateway(url, init), options))
  const submitted = await client.pay(url, init)
  const { data, payment } = await collectJob<Result>('video', { origin, client, submitted })
  console.log(paidLine(payment.status, payment))
  await client.printBalance()
  const pathFor = (type: string) => out ?? `farebox-${Date.now()}.${extensionOf(type)}`
  for (const file of data) {
    console.log(`${file.backed_up ? 'hosted' : 'linked'}    ${file.url.slice(0, 200)}`)
    console.log(`video     ${await download(file.url, { product: 'video', pathFor })}, ${file.duration_seconds} s`)
  }
}

function extensionOf(mediaType: string): string {
  return mediaType === 'video/quicktime' ? 'mov' : mediaType.split('/')[1] || 'mp4'
}
