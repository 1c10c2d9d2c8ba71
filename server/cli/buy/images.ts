/** Buys images: polls the job if the gateway starts one, and saves the images. */
import { checkOutput, download, type Payment } from './job.ts'
import { cheapestImageModel } from './models.ts'
import { errorFrom, fetchGateway, paidLine, postJson, type PurchaseOptions, readQuote } from './gateway.ts'
import { createPaymentClient, type Pay } from './wallet.ts'

const POLL_MS = 2_000
/** An authorization is valid for 600 seconds (contract 5.29); after that the job can no longer be paid for. */
const TIMEOUT_MS = 600_000

type Result = { readonly id: string; readonly data: readonly { url: string }[]; readonly payment: Payment }
type ImageOptions = PurchaseOptions & {
  readonly size: string | undefined
  readonly n: number | undefined
  readonly out: string | undefined
}

export async function buyImages(options: ImageOptions): Promise<void> {
  const { origin, prompt, size, n, out } = options
  await checkOutput(out)
  const model = options.model ?? (await cheapestImageModel(origin, size))
  const init = postJson({ model, prompt, ...(size && { size }), ...(n !== undefined && { n }) })
  const endpoint = `${origin}/api/v1/images/generations`
  const { pay, poll, printBalance } = await createPaymentClient(
    options,
    await readQuote(await fetchGateway(endpoint, init), options),
  )
  const { data, payment } = await collect(options.channel ? poll : pay, {
    origin,
    submitted: await pay(endpoint, init),
  })
  console.log(paidLine(payment.status, payment))
  await printBalance()
  for (const [index, { url }] of data.entries()) {
    console.log(`hosted    ${url.slice(0, 200)}`)
    const pathFor = (mediaType: string) => numbered(out ?? `farebox-${Date.now()}.${extensionOf(mediaType)}`, index)
    console.log(`image     ${await download(url, { product: 'image', pathFor })}`)
  }
}

/** Polls until the result is there. Each poll may sign a new payment with the same wallet; at most one is charged. */
async function collect(pay: Pay, { origin, submitted }: { origin: string; submitted: Response }): Promise<Result> {
  const deadline = Date.now() + TIMEOUT_MS
  let response = submitted
  while (response.status === 202 && Date.now() < deadline) {
    const job = (await response.json()) as { id: string; poll_url?: string; status: string }
    const { pathname, search } = new URL(response.url)
    const path: string = job.poll_url ?? pathname + search
    console.log(`waiting   ${job.id} is ${job.status}`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    response = await pay(`${origin}${path}`)
  }
  const body = (await response.json()) as Result
  if (response.status === 200 && body.payment) return body
  throw errorFrom(response.status, body)
}

/** The first file has the plain name, further ones get -1, -2, ... before the extension. */
function numbered(path: string, index: number): string {
  return index === 0 ? path : path.replace(/(\.\w+)?$/, `-${index}$1`)
}

function extensionOf(mediaType: string): string {
  return mediaType.split('/')[1] || 'png'
}
