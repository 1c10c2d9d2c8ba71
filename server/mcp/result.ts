/** The result of a tool from a reply of the HTTP API: payment demands, receipts, media and links, as x402 has them. */
import { fieldsOf, isFields, objectsOf } from '../../core/lib/mod.ts'
import { demandIn, receiptMeta, REQUIRED } from './mpp.ts'
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/server'

/** Media up to this size in bytes, all together, are in the result; every file is linked. */
const MAX_EMBEDDED = 1 << 20
/** Members of a refusal's body by which its buyer finds a call that was paid, or knows when to come back. */
const RECOVERY = ['code', 'job_id', 'poll_url', 'recoverable', 'retryAfterSeconds'] as const

type Media = { readonly type: string; readonly bytes: Uint8Array }
/** Reads a file that the gateway hosts; undefined for one that is elsewhere, gone, or larger than `maxBytes`. */
export type ReadMedia = (url: string, maxBytes: number) => Promise<Media | undefined>

/**
 * A reply as the result of a tool. A payment demand is an error whose text and structured content are the demand, as
 * the MCP transport of x402 says; `x402/error` repeats it for clients that look there alone.
 */
export async function resultOf(reply: Response, readMedia: ReadMedia): Promise<CallToolResult> {
  const demand = reply.status === 402 ? decoded(reply.headers.get('payment-required')) : undefined
  const receipt = decoded(reply.headers.get('payment-response'))
  const receipts = { ...(receipt && { 'x402/payment-response': receipt }), ...receiptMeta(reply) }
  const meta = Object.keys(receipts).length > 0 ? receipts : undefined
  const type = reply.headers.get('content-type')?.split(';', 1)[0] ?? ''
  if (!type.includes('json') && reply.ok) {
    const block = mediaBlock({ type, bytes: await reply.bytes() })
    return { content: [block], ...(meta && { _meta: meta }) }
  }
  const text = await reply.text()
  const body = parsed(text)
  if (demand) {
    const fields = fieldsOf(body)
    const charges = demandIn(reply, body)
    const recovery = Object.fromEntries(RECOVERY.filter((name) => name in fields).map((name) => [name, fields[name]]))
    const details = typeof fields.details === 'string' ? fields.details : demandText(demand)
    const member = isCode(demand.error) ? 'details' : 'error'
    const whole = { ...demand, ...(details !== undefined && { [member]: details }), ...recovery }
    return {
      isError: true,
      structuredContent: whole,
      content: [{ type: 'text', text: JSON.stringify(whole) }],
      _meta: { 'x402/error': whole, ...(charges && { [REQUIRED]: charges }), ...meta },
    }
  }
  const visible = withoutData(body)
  const content: ContentBlock[] = [{ type: 'text', text: isFields(visible) ? JSON.stringify(visible) : text }]
  if (reply.ok) content.push(...(await media(body, readMedia)))
  return {
    content,
    ...(!reply.ok && { isError: true }),
    ...(isFields(visible) && { structuredContent: visible }),
    ...(meta && { _meta: meta }),
  }
}

/** A scheme's code, by which its clients correct what they signed (contract 1.78). */
const isCode = (error: unknown): boolean => typeof error === 'string' && /^[a-z0-9_]+$/.test(error)

/** Says a demand in words: a model that sees nothing else can tell a person what to do. */
function demandText({ accepts }: Readonly<Record<string, unknown>>): string | undefined {
  const [offer] = objectsOf(accepts)
  if (!offer) return undefined
  return (
    `Payment required: ${offer.amount} base units of ${offer.asset} on ${offer.network} to ${offer.payTo}. ` +
    'Nothing was charged. Sign one of accepts and call this tool again, with the same arguments and the payment in ' +
    '_meta["x402/payment"]. Without a wallet, ask your user to connect one; farebox mcp pays from it within caps.'
  )
}

/** Links to every file that the body names, and the files themselves while they are small. */
async function media(body: unknown, readMedia: ReadMedia): Promise<readonly ContentBlock[]> {
  const blocks: ContentBlock[] = []
  let left = MAX_EMBEDDED
  for (const url of new Set(urlsIn(body))) {
    const file = url.startsWith('data:') ? dataOf(url) : await readMedia(url, left)
    if (file && file.bytes.length <= left && /^(image|audio)\//.test(file.type)) {
      blocks.push(mediaBlock(file))
      left -= file.bytes.length
    }
    if (url.startsWith('data:')) continue
    const name = new URL(url).pathname.split('/').at(-1) || 'result'
    blocks.push({ type: 'resource_link', uri: url, name, ...(file && { mimeType: file.type }) })
  }
  return blocks
}

function mediaBlock({ type, bytes }: Media): ContentBlock {
  const data = Buffer.from(bytes).toString('base64')
  if (type.startsWith('image/')) return { type: 'image', data, mimeType: type }
  if (type.startsWith('audio/')) return { type: 'audio', data, mimeType: type }
  return { type: 'text', text: new TextDecoder().decode(bytes) }
}

/** Values of fields called `url`, or ending so. Poll and source URLs are not results. */
function urlsIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(urlsIn)
  if (!isFields(value)) return []
  return Object.entries(value).flatMap(([name, each]) => {
    if (typeof each !== 'string') return urlsIn(each)
    const isResult = /(^|_)url$/.test(name) && name !== 'poll_url' && name !== 'source_url'
    return isResult && (URL.canParse(each) ? /^(https?|data):/.test(each) : false) ? [each] : []
  })
}

/** The body without the bytes of `data:` URLs, which are content of their own. */
function withoutData(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutData)
  if (typeof value === 'string' && value.startsWith('data:') && value.length > 200)
    return `${value.slice(0, value.indexOf(',') + 1)}…`
  if (!isFields(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withoutData(each)]))
}

function dataOf(url: string): Media | undefined {
  const [, type = '', base64 = ''] = /^data:([\w/+.-]+);base64,(.*)$/.exec(url) ?? []
  return type === '' ? undefined : { type, bytes: Buffer.from(base64, 'base64') }
}

function decoded(header: string | null): Readonly<Record<string, unknown>> | undefined {
  if (header === null) return undefined
  const value = parsed(Buffer.from(header, 'base64').toString())
  return isFields(value) ? value : undefined
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
