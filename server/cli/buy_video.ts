/** Buys a video: submits the job, tells how it goes, and saves the clip once it is paid for. */
import { access, constants, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { ask, type Asked, BuyError, openPurse, postJson, type Purse, quoted, refusal } from './buy_wallet.ts'

const USUAL = 'vendor-c/video-1'
const POLL_MS = 3_000
/** A job that runs over one hour fails, uncharged (contract 12.51). */
const GIVE_UP_MS = 65 * 60_000
/** The job goes on: the next poll may find it ready. */
const PASSING = [202, 429, 503, 504]

type Video = Asked & {
  readonly seconds: number | undefined
  readonly resolution: string | undefined
  readonly image: string | undefined
  readonly out: string | undefined
}
type Job = {
  readonly id: string
  readonly status: string
  readonly poll_url: string
  readonly progress?: number
  readonly error?: string
}
type Clip = { readonly url: string; readonly duration_seconds: number; readonly backed_up: boolean }
type Result = { readonly data: readonly Clip[]; readonly payment: { status: string; tx_hash: string; network: string } }

export async function buyVideo(asked: Video): Promise<void> {
  const { origin, prompt, model = await usual(origin), seconds, resolution, image, out } = asked
  if (out !== undefined) await access(dirname(resolve(out)), constants.W_OK).catch(refuseOut)
  const order = postJson({
    model,
    prompt,
    ...(seconds !== undefined && { duration_seconds: seconds }),
    ...(resolution && { resolution }),
    ...(image && { image_url: image }),
  })
  const target = `${origin}/api/v1/videos/generations`
  const purse = await openPurse(asked, await quoted(await ask(target, order)))
  const { data, payment } = await collect(purse, origin, await purse.pay(target, order))
  console.log(`paid      ${payment.status} on ${payment.network}, transaction ${payment.tx_hash}`)
  await purse.spent()
  for (const clip of data) {
    console.log(`${clip.backed_up ? 'hosted' : 'linked'}    ${clip.url.slice(0, 200)}`)
    console.log(`video     ${await save(clip.url, out)}, ${clip.duration_seconds} s`)
  }
}

function refuseOut(): never {
  throw new BuyError('--out names a folder that cannot be written to')
}

async function usual(origin: string): Promise<string> {
  const { data = [] } = (await (await ask(`${origin}/api/v1/video/models`)).json()) as {
    data?: readonly { id: string }[]
  }
  const model = data.find(({ id }) => id === USUAL) ?? data[0]
  if (!model) throw new BuyError('This gateway makes no videos.')
  return model.id
}

/** Follows a job to its result, with the payment that submitted it. The poll that finds it ready is charged, once. */
async function collect({ again }: Purse, origin: string, submitted: Response): Promise<Result> {
  const job = (await submitted.json()) as Job
  if (submitted.status !== 202) throw refusal(submitted.status, job)
  console.log(`waiting   ${job.id} is ${job.status}`)
  const giveUpAt = Date.now() + GIVE_UP_MS
  while (Date.now() < giveUpAt) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    const response = await again(origin + job.poll_url)
    const body = (await response.json()) as Job & Result
    if (response.status === 200 && body.payment) return body
    if (response.status === 200)
      throw new BuyError(`The video ${body.status}: ${body.error ?? 'no reason was given'} Nothing was charged.`)
    if (!PASSING.includes(response.status)) throw refusal(response.status, body)
    if (response.status === 202)
      console.log(`waiting   ${job.id} is ${body.status}${body.progress === undefined ? '' : `, ${body.progress}%`}`)
  }
  throw new BuyError(`The video is not ready yet. Nothing was charged; it stays at ${origin}${job.poll_url}`)
}

async function save(url: string, out: string | undefined): Promise<string> {
  const response = await fetch(url)
  if (!response.ok || !response.body)
    throw new BuyError(`${response.status}: the video could not be fetched; it stays at its URL`)
  const type = response.headers.get('content-type')?.split(';', 1)[0]
  const path = out ?? `farebox-${Date.now()}.${type === 'video/quicktime' ? 'mov' : (type?.split('/')[1] ?? 'mp4')}`
  await writeFile(path, response.body)
  return path
}
