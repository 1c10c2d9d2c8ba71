/** Buys pictures: waits for the job where there is one, and saves what was made. */
import { access, constants, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { ask, type Asked, BuyError, openPurse, type Pay, postJson, quoted, refusal } from './buy_wallet.ts'

const POLL_MS = 2_000
/** An authorization lives 600 seconds (contract 5.29); past that there is nothing to wait for. */
const GIVE_UP_MS = 600_000

type Result = {
  readonly id: string
  readonly data: readonly { url: string }[]
  readonly payment: { status: string; tx_hash: string; network: string }
}
type Images = Asked & {
  readonly size: string | undefined
  readonly n: number | undefined
  readonly out: string | undefined
}

export async function buyImages(asked: Images): Promise<void> {
  const { origin, prompt, model = 'vendor-a/image-1', size, n, out } = asked
  if (out !== undefined) await access(dirname(resolve(out)), constants.W_OK).catch(refuseOut)
  const order = postJson({ model, prompt, ...(size && { size }), ...(n !== undefined && { n }) })
  const target = `${origin}/api/v1/images/generations`
  const { pay, spent } = await openPurse(asked, await quoted(await ask(target, order)))
  const result = await collect(pay, origin, await pay(target, order))
  console.log(`paid      ${result.payment.status} on ${result.payment.network}, transaction ${result.payment.tx_hash}`)
  await spent()
  for (const [index, { url }] of result.data.entries()) {
    console.log(`hosted    ${url.slice(0, 200)}`)
    console.log(`image     ${await save(url, out, index)}`)
  }
}

function refuseOut(): never {
  throw new BuyError('--out names a folder that cannot be written to')
}

/** Follows a job to its result. Each poll is paid for by the same wallet, and charges at most once. */
async function collect(pay: Pay, origin: string, first: Response): Promise<Result> {
  const giveUpAt = Date.now() + GIVE_UP_MS
  let response = first
  while (response.status === 202 && Date.now() < giveUpAt) {
    const job = (await response.json()) as { id: string; poll_url?: string; status: string }
    const { pathname, search } = new URL(response.url)
    const path: string = job.poll_url ?? pathname + search
    console.log(`waiting   ${job.id} is ${job.status}`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    response = await pay(`${origin}${path}`)
  }
  const body = (await response.json()) as Result
  if (response.status === 200 && body.payment) return body
  throw refusal(response.status, body)
}

async function save(url: string, out: string | undefined, index: number): Promise<string> {
  const response = await fetch(url)
  if (!response.ok) throw new BuyError(`${response.status}: the image could not be fetched; it stays at its URL`)
  const type = response.headers.get('content-type')?.split('/')[1] ?? 'png'
  const base = out ?? `farebox-${Date.now()}.${type}`
  const path = index === 0 ? base : base.replace(/(\.\w+)?$/, `-${index}$1`)
  await writeFile(path, new Uint8Array(await response.arrayBuffer()))
  return path
}
