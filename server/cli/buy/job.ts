/** Polls a job until its result is paid for, and saves downloaded results. */
import { access, constants, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { BuyError, errorFrom } from './gateway.ts'
import type { PaymentClient } from './wallet.ts'

const POLL_MS = 3_000
/** The gateway fails a job after one hour and does not charge for it (contract 12.51). */
const TIMEOUT_MS = 65 * 60_000
/** The job is still running, or the gateway is temporarily unavailable: poll again. */
const RETRYABLE_STATUSES = [202, 429, 503, 504]

export type Payment = { readonly status: string; readonly tx_hash: string; readonly network: string }
type Job = {
  readonly id: string
  readonly status: string
  readonly poll_url: string
  readonly progress?: number
  readonly error?: string
}

/**
 * Waits for the result of a submitted job, polling with the payment that submitted it. The poll that returns the
 * result is charged, once. Throws BuyError when the job fails or is not done in time. `product` names it in messages.
 */
export async function collectJob<Result>(
  product: string,
  { origin, client, submitted }: { origin: string; client: PaymentClient; submitted: Response },
): Promise<Result & { readonly payment: Payment }> {
  const job = (await submitted.json()) as Job & Result & { readonly payment?: Payment }
  if (submitted.status === 200 && job.payment) return { ...job, payment: job.payment }
  if (submitted.status !== 202) throw errorFrom(submitted.status, job)
  console.log(`waiting   ${job.id} is ${job.status}`)
  const deadline = Date.now() + TIMEOUT_MS
  while (Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    const response = await client.poll(origin + job.poll_url).catch(() => undefined)
    if (!response) {
      console.log('waiting   the gateway does not answer; asking again')
      continue
    }
    const body = (await response.json()) as Job & Result & { readonly payment?: Payment }
    if (response.status === 200 && body.payment) return { ...body, payment: body.payment }
    if (response.status === 200)
      throw new BuyError(
        `The ${product} job ${job.id} is ${body.status}: ${body.error ?? 'no reason given.'} Nothing was charged.`,
      )
    if (!RETRYABLE_STATUSES.includes(response.status)) throw errorFrom(response.status, body)
    const progress = body.progress === undefined ? '' : `, ${body.progress}%`
    console.log(
      response.status === 202
        ? `waiting   ${job.id} is ${body.status}${progress}`
        : `waiting   the gateway answers ${response.status}${body.error ? ` (${body.error})` : ''}; asking again`,
    )
  }
  throw new BuyError(`The ${product} is not ready yet. Nothing was charged. Poll it at ${origin}${job.poll_url}`)
}

/** Throws BuyError, before anything is paid, when the folder of the output file cannot be written to. */
export async function checkOutput(out: string | undefined): Promise<void> {
  if (out === undefined) return
  const folder = dirname(resolve(out))
  await access(folder, constants.W_OK).catch(() => {
    throw new BuyError(`--out: the folder ${folder} does not exist or is not writable. Choose another file.`)
  })
}

/** Downloads `url` to the file that `pathFor` returns for its media type, and returns that path. */
export async function download(
  url: string,
  { product, pathFor }: { product: string; pathFor: (mediaType: string) => string },
): Promise<string> {
  const response = await fetch(url)
  if (!response.ok || !response.body)
    throw new BuyError(`Downloading the ${product} failed with status ${response.status}. It is still at ${url}`)
  const path = pathFor(response.headers.get('content-type')?.split(';', 1)[0] ?? '')
  await writeFile(path, response.body)
  return path
}
